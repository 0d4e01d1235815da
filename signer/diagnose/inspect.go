package diagnose

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/hookladder/hookladder/signer"
)

// Question is a webhook, and the values that its receiver verifies it with.
type Question struct {
	Header http.Header
	Body   []byte

	Scheme   signer.Scheme // zero: the scheme is read from the headers
	Form     signer.Form   // of signer.HMAC; zero, or only with a header: the rest is read from the header
	Secrets  []string      // as the receiver has them, malformed ones too; also public keys
	Computed string        // the signature that the receiver's own code computed; may be empty
	At       time.Time     // when the webhook arrived
	// Tolerance is the largest difference between its timestamp and At; zero:
	// signer.DefaultTolerance.
	Tolerance time.Duration
	// Hashed bounds the search for mistakes, in bytes that are hashed; zero: 2 GiB, seconds on any
	// machine.
	Hashed int
}

// Cause is a reason in a form for scripts.
type Cause string

// The causes. The second group are mistakes in the signature.
const (
	NoSignature   Cause = "signature_missing"
	OtherScheme   Cause = "header_of_another_scheme"
	Repeated      Cause = "header_repeated"
	BadSignature  Cause = "signature_malformed"
	NoID          Cause = "id_missing"
	BadID         Cause = "id_malformed"
	NoTimestamp   Cause = "timestamp_missing"
	BadTimestamp  Cause = "timestamp_malformed"
	TooOld        Cause = "too_old"
	TooNew        Cause = "too_new"
	BadSecret     Cause = "secret_malformed"
	OtherKind     Cause = "key_of_another_scheme"
	BodyLength    Cause = "body_length"
	OtherSecret   Cause = "other_secret" // or the body was changed in a way that no row has
	ComputedRight Cause = "comparison"   // the receiver's value is right, so its comparison is wrong

	OtherEncoding Cause = "encoding"
	OtherHash     Cause = "hash"
	OtherKey      Cause = "key"     // the same secret, decoded in another way
	OtherContent  Cause = "content" // other parts, or in another order
	OtherBody     Cause = "body"    // other bytes of the same body
)

// Finding is one reported mistake. The zero value is no mistake.
type Finding struct {
	Cause Cause  `json:"cause"`
	Says  string `json:"says"`           // a sentence without its full stop
	Cure  string `json:"cure,omitempty"` // empty: Says is enough
}

// Inspection is the result of Inspect.
type Inspection struct {
	Valid    bool          `json:"valid"` // a receiver should accept the webhook
	Scheme   signer.Scheme `json:"scheme"`
	Matches  bool          `json:"matches"`       // the secret made the signature, at any time
	Age      *float64      `json:"age,omitempty"` // in seconds, from the signed time to At
	Findings []Finding     `json:"findings"`
}

func (r *Inspection) add(cause Cause, cure, says string, values ...any) {
	r.Findings = append(r.Findings, Finding{cause, fmt.Sprintf(says, values...), cure})
}

// Inspect verifies a webhook as a receiver should, and reports why it is not valid.
func Inspect(q Question) Inspection {
	c := newCallback(&q)
	r := Inspection{Scheme: c.scheme, Findings: []Finding{}}
	c.received(&r)
	before := len(r.Findings)
	keys, verifiers := c.keys(&r)
	r.Matches = slices.ContainsFunc(verifiers, func(v *signer.Verifier) bool { return c.verify(v) == nil })
	if !r.Matches {
		mistakes, explained := c.explain(keys, "the signature", c.signature)
		c.refused(&r, explained)
		if explained || len(r.Findings) == before {
			r.Findings = append(r.Findings, mistakes...)
		}
	}
	c.age(&r)
	r.Valid = r.Matches && !slices.ContainsFunc(r.Findings, func(f Finding) bool {
		return f.Cause == TooOld || f.Cause == TooNew || f.Cause == Repeated
	})
	if c.Computed != "" {
		mistakes, _ := c.explain(keys, "your code's value", c.Computed)
		if len(mistakes) == 0 {
			r.add(ComputedRight, "compare it with each signature of the header, behind its version, in constant time", "your code's value is right")
		}
		r.Findings = append(r.Findings, mistakes...)
	}
	return r
}
