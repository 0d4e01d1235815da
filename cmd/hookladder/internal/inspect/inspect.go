// Package inspect reports why the signature of a callback is not valid.
//
// A signature that does not match does not show the reason. So the package makes the usual
// mistakes itself: it formats the body again, does not decode the secret, or signs the parts in
// another order. It combines one or two mistakes, until the result is the signature of the
// callback. The tables in headers.go, keys.go, contents.go and bodies.go have one row for each
// mistake.
package inspect

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/hookladder/hookladder/signer"
)

// Question is a callback, and the values that its receiver verifies it with.
type Question struct {
	Header http.Header
	Body   []byte

	Scheme   signer.Scheme // zero: the scheme is read from the headers
	Form     signer.Form   // of signer.HMAC; zero, or only with a header: the rest is read from the header
	Secrets  []string      // as the receiver has them, malformed ones too; also public keys
	Computed string        // the signature that the receiver's own code computed; may be empty
	At       time.Time     // when the callback arrived
	// Tolerance is the largest difference between its timestamp and At; zero:
	// signer.DefaultTolerance.
	Tolerance time.Duration
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

// causes maps each cause of the first group to its sentence and cure. The mistakes of the second
// group have their own.
var causes = map[Cause]struct{ says, cure string }{
	NoSignature:   {"there is no %s", "keep all headers as they came: a proxy or a framework may drop them, or it was never signed"},
	OtherScheme:   {"there is no %s, but there is %s: it is signed as %s", "verify it in that scheme, or change the signature scheme of the endpoint"},
	Repeated:      {"%s is there more than once", "refuse it: two readers could take two values"},
	BadSignature:  {"%s is not what %s has: want %s", "pass it on as it came"},
	NoID:          {"there is no %s, which is signed too", "keep all headers as they came"},
	BadID:         {"%s", ""},
	NoTimestamp:   {"there is no %s, which is signed too", "keep all headers as they came"},
	BadTimestamp:  {"%s is %s", "pass on the header's text as it came: it is whole Unix seconds"},
	TooOld:        {"it was signed %s before it came, and a receiver takes at most %s", "set the receiver's clock by NTP; of a recording, say when it came"},
	TooNew:        {"it was signed %s after it came: one of the two clocks is wrong", "set the receiver's clock by NTP; of a recording, say when it came"},
	BadSecret:     {"the secret given is %s", "copy it whole, as hookladder endpoints secret or hookladder secret prints it"},
	OtherKind:     {"%s of %s", "give the key of the endpoint's scheme, or name the scheme"},
	BodyLength:    {"content-length is %d, but the body has %d bytes", "keep the bytes as they came: editors add an end of line, and frameworks parse and write anew"},
	OtherSecret:   {"%s was made with another secret, or of another body: it fits none of the usual mistakes", "compare the first characters of both secrets, and the length of each part that is signed"},
	ComputedRight: {"%s is right", "compare it with each signature of the header, behind its version, in constant time"},
}

// Finding is one reported mistake.
type Finding struct {
	Cause Cause  `json:"cause"`
	Says  string `json:"says"`           // a sentence without its full stop
	Cure  string `json:"cure,omitempty"` // empty: Says is enough
}

// Report is the result of Inspect.
type Report struct {
	Valid    bool          `json:"valid"` // a receiver should accept the callback
	Scheme   signer.Scheme `json:"scheme"`
	Matches  bool          `json:"matches"`       // the secret made the signature, at any time
	Age      *float64      `json:"age,omitempty"` // in seconds, from the signed time to At
	Findings []Finding     `json:"findings"`
}

func (r *Report) add(cause Cause, values ...any) {
	row := causes[cause]
	r.Findings = append(r.Findings, Finding{cause, fmt.Sprintf(row.says, values...), row.cure})
}

func (r *Report) has(causes ...Cause) bool {
	return slices.ContainsFunc(r.Findings, func(f Finding) bool { return slices.Contains(causes, f.Cause) })
}

// The names of the explained values, at the start of a sentence.
const (
	ofHeader   = "the signature"
	ofReceiver = "your code's value"
)

// Inspect verifies a callback as a receiver should, and reports why it is not valid.
func Inspect(q Question) Report {
	c := newCallback(&q)
	r := Report{Scheme: c.scheme, Findings: []Finding{}}
	c.received(&r)
	before := len(r.Findings)
	keys := c.keys(&r)
	if r.Matches = c.signature != "" && c.matches(keys); !r.Matches {
		c.headers(&r)
		if c.signature != "" {
			c.explain(&r, keys, ofHeader, c.signature)
		}
		if len(r.Findings) == before {
			r.add(OtherSecret, ofHeader)
		}
	}
	c.age(&r)
	r.Valid = r.Matches && !r.has(TooOld, TooNew, Repeated)
	if c.Computed != "" {
		switch mistakes, found := c.explain(&r, keys, ofReceiver, c.Computed); {
		case !found:
			r.add(OtherSecret, ofReceiver)
		case mistakes == 0:
			r.add(ComputedRight, ofReceiver)
		}
	}
	return r
}

// matches reports whether one of the secrets made the signature, at any time.
func (c *callback) matches(keys []candidate) bool {
	return slices.ContainsFunc(keys, func(k candidate) bool {
		if k.verifier == nil {
			return false
		}
		v := *k.verifier
		v.Now = c.signedAt
		return v.Verify(c.id, c.timestamp, c.signature, c.Body) == nil
	})
}
