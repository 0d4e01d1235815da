// Package inspect finds out what is wrong with the signature of a callback.
//
// A signature that does not match tells nothing by itself. So the package makes the
// usual mistakes itself: the body written anew, the secret not decoded, another
// encoding, another order of what is signed. It makes one or two at a time, until they
// give exactly the signature that came.
package inspect

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/hookladder/hookladder/ladder"
	"github.com/hookladder/hookladder/signer"
)

// Question is a callback, and what its receiver knows.
type Question struct {
	Header http.Header
	Body   []byte

	Scheme   signer.Scheme // zero: as the headers look
	Name     string        // of the header of signer.HMACHex; empty: signer.HeaderHMACHex
	Secrets  []string      // as the receiver has them, good or not; public keys too
	Computed string        // the signature that the receiver's own code came to; may be empty
	At       time.Time     // when the callback came
	// Tolerance is how far its timestamp may be from At; zero: signer.DefaultTolerance.
	Tolerance time.Duration
}

// Cause is what may be wrong, as scripts read it.
type Cause string

// The causes. Those of the second group tell what a signature was made of instead.
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
	OtherSecret   Cause = "other_secret" // or a body that was changed beyond what can be found
	ComputedRight Cause = "comparison"   // the receiver's value is right, so its comparison is wrong

	OtherEncoding Cause = "encoding"
	OtherHash     Cause = "hash"
	OtherKey      Cause = "key"     // of the same secret, read in another way
	OtherContent  Cause = "content" // other parts, or in another order
	OtherBody     Cause = "body"    // other bytes of the same body
)

// Finding is one thing that is wrong.
type Finding struct {
	Cause Cause  `json:"cause"`
	Says  string `json:"says"`           // a sentence without its full stop
	Cure  string `json:"cure,omitempty"` // what helps; empty: Says tells it
}

// Report is what was found.
type Report struct {
	Valid    bool          `json:"valid"` // a receiver should take it
	Scheme   signer.Scheme `json:"scheme"`
	Matches  bool          `json:"matches"`       // the signature fits the secret, whatever its age
	Age      *float64      `json:"age,omitempty"` // in seconds, from the signed time to At
	Findings []Finding     `json:"findings"`
}

func (r *Report) add(cause Cause, cure, says string, args ...any) {
	r.Findings = append(r.Findings, Finding{cause, fmt.Sprintf(says, args...), cure})
}

// Inspect judges a callback as a receiver should, and says why.
func Inspect(q Question) Report {
	c := newCallback(&q)
	r := Report{Scheme: c.scheme, Findings: []Finding{}}
	c.length(&r)
	found := len(r.Findings)
	keys := c.keys(&r)
	if c.signature != "" {
		r.Matches = c.matches(keys)
	}
	if !r.Matches {
		c.headers(&r)
		if c.signature != "" {
			c.explain(&r, keys, ofHeader, c.signature)
		}
		if len(r.Findings) == found {
			r.add(OtherSecret, "compare the first characters of both secrets, and verify the bytes of the body before anything parses them",
				"the signature was made with another secret, or of another body: it fits none of the usual mistakes")
		}
	}
	c.age(&r)
	r.Valid = r.Matches && !r.has(TooOld) && !r.has(TooNew) && !r.has(Repeated)
	c.computed(&r, keys)
	return r
}

func (r *Report) has(cause Cause) bool {
	for _, f := range r.Findings {
		if f.Cause == cause {
			return true
		}
	}
	return false
}

// matches reports whether one of the secrets made the signature, whenever that was.
func (c *callback) matches(keys []candidate) bool {
	for _, k := range keys {
		if k.verifier == nil {
			continue
		}
		v := *k.verifier
		v.Now = func() time.Time { return c.signedAt() }
		if v.Verify(c.id, c.timestamp, c.signature, c.Body) == nil {
			return true
		}
	}
	return false
}

// headers tells what is wrong with the headers as they are.
func (c *callback) headers(r *Report) {
	switch {
	case c.signature == "" && c.other != "":
		r.add(OtherScheme, "verify it as "+c.otherScheme()+", or change the signature scheme of the endpoint",
			"there is no %s, but there is %s: it is signed in another way", c.name, c.other)
	case c.signature == "":
		r.add(NoSignature, "keep all headers as they came: a proxy or a framework may drop them, or it was never signed",
			"there is no %s", c.name)
	}
	if c.parts().id {
		switch err := c.problem(); {
		case errors.Is(err, signer.ErrNoID):
			r.add(NoID, "keep all headers as they came", "there is no %s, which is signed too", signer.HeaderID)
		case errors.Is(err, signer.ErrID):
			r.add(BadID, "", "%s", err)
		}
	}
	if c.parts().time {
		switch _, err := unixSeconds(c.timestamp); {
		case c.timestamp == "" && c.signature != "":
			r.add(NoTimestamp, "keep all headers as they came", "there is no %s, which is signed too", c.clockName())
		case c.timestamp != "" && err != nil:
			r.add(BadTimestamp, "pass on the header's text as it came: it is whole Unix seconds", "%s is %s", c.clockName(), err)
		}
	}
}

// problem is what a verifier says of the headers.
func (c *callback) problem() error {
	secret := signer.Standard.NewSecret()
	v := signer.Verifier{Secrets: []signer.Secret{secret}, Now: c.signedAt}
	return v.Verify(c.id, c.timestamp, c.signature, nil)
}

// length compares the body with what the sender said of it.
func (c *callback) length(r *Report) {
	for _, name := range []string{c.name, signer.HeaderID, signer.HeaderTimestamp} {
		if name == c.name && c.scheme != signer.Stripe && c.scheme != signer.GitHub && c.scheme != signer.HMACHex {
			continue // a list, which may be spread over lines
		}
		if len(c.Header.Values(name)) > 1 {
			r.add(Repeated, "refuse it: two readers could take two values", "%s is there more than once", strings.ToLower(name))
		}
	}
	var said int
	if _, err := fmt.Sscan(c.Header.Get("content-length"), &said); err != nil || said == len(c.Body) || said < 0 {
		return
	}
	r.add(BodyLength, "keep the bytes as they came: editors add an end of line, and frameworks parse and write anew",
		"content-length is %d, but the body has %d bytes", said, len(c.Body))
}

// age tells whether the callback came in time.
func (c *callback) age(r *Report) {
	seconds, err := unixSeconds(c.timestamp)
	if !c.parts().time || err != nil {
		return
	}
	signed := time.Unix(seconds, 0)
	age, tolerance := c.At.Sub(signed), c.Tolerance
	if tolerance <= 0 {
		tolerance = signer.DefaultTolerance
	}
	told := age.Round(time.Second).Seconds()
	r.Age = &told
	const cure = "set the receiver's clock by NTP; of a recording, say when it came"
	switch {
	case age > tolerance:
		r.add(TooOld, cure, "it was signed %s before it came, and a receiver takes at most %s", ladder.FormatDuration(age.Round(time.Second)), ladder.FormatDuration(tolerance))
	case age < -tolerance:
		r.add(TooNew, cure, "it was signed %s after it came: one of the two clocks is wrong", ladder.FormatDuration(-age.Round(time.Second)))
	}
}

// computed tells what the receiver's own code does instead.
func (c *callback) computed(r *Report, keys []candidate) {
	if c.Computed == "" {
		return
	}
	switch mistakes, found := c.explain(r, keys, ofReceiver, c.Computed); {
	case !found:
		r.add(OtherSecret, "print the length of each part that is signed, and compare", ofReceiver+" fits none of the usual mistakes")
	case mistakes == 0:
		r.add(ComputedRight, "compare it with each signature of the header, behind its version, in constant time", ofReceiver+" is right")
	}
}
