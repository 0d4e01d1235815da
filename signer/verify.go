package signer

import (
	"crypto/hmac"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// DefaultTolerance is how far a timestamp may be from the receiver's clock when a
// Verifier does not say: five minutes, the standard's advice. It forgives a clock
// that is wrong and still makes a recorded request useless soon.
const DefaultTolerance = 5 * time.Minute

// maxCandidates is the most signatures looked at in one header. It leaves room
// for every secret of a sender in two versions.
const maxCandidates = 2 * MaxSecrets

// What may be wrong with a request. Verify's errors wrap one of these each.
var (
	ErrNoID         = errors.New("no " + HeaderID)
	ErrID           = errors.New("malformed " + HeaderID)
	ErrNoTimestamp  = errors.New("no " + HeaderTimestamp)
	ErrTimestamp    = errors.New("malformed " + HeaderTimestamp)
	ErrTooOld       = errors.New(HeaderTimestamp + " too old")
	ErrTooNew       = errors.New(HeaderTimestamp + " too far in the future")
	ErrNoSignature  = errors.New("no " + HeaderSignature)
	ErrNoVersion    = errors.New("no v1 signature in " + HeaderSignature) // only versions that are not known here
	ErrSignature    = errors.New("malformed " + HeaderSignature)
	ErrMismatch     = errors.New(HeaderSignature + " does not match: another secret, or the body was changed")
	ErrRepeated     = errors.New("header given more than once")
	ErrBody         = errors.New("body could not be read")
	ErrBodyTooLarge = errors.New("body too large")
)

// Verifier tells whether a request comes from who knows a secret, and is fresh.
// Its fields are not to be changed once it is in use; then any number of
// goroutines may share it.
//
// It does not remember: within the tolerance a repeated request verifies again.
// Repeats have the same webhook-id, by which a receiver knows them.
type Verifier struct {
	Secrets   []Secret         // any of them may have signed; needed
	Tolerance time.Duration    // between the timestamp and now, either way; 0: DefaultTolerance
	Now       func() time.Time // the receiver's clock; nil: time.Now
	MaxBody   int64            // most bytes of a body that VerifyRequest reads; 0: DefaultMaxBody
}

// Verify checks the three headers of a request, as they were sent, against its
// body, byte for byte as it came. It is nil only when one of the secrets made one
// of the signatures, and the timestamp is within the tolerance.
func (v *Verifier) Verify(id, timestamp, signature string, body []byte) error {
	c, err := v.check(id, timestamp, signature)
	if err != nil {
		return err
	}
	return v.match(c, body)
}

// claim is what a request says of itself, well formed and fresh but unproven.
type claim struct {
	id, timestamp string
	signatures    [][macSize]byte
}

// check does all that can be done without the body.
func (v *Verifier) check(id, timestamp, signature string) (claim, error) {
	if err := v.usable(); err != nil {
		return claim{}, err
	}
	if err := checkID(id); err != nil {
		return claim{}, err
	}
	if err := v.checkTime(timestamp); err != nil {
		return claim{}, err
	}
	signatures, err := parseSignatures(signature)
	if err != nil {
		return claim{}, err
	}
	return claim{id, timestamp, signatures}, nil
}

// usable refuses to verify with nothing: an empty key would accept what anybody signs.
func (v *Verifier) usable() error {
	if len(v.Secrets) == 0 {
		return ErrNoSecret
	}
	for i, s := range v.Secrets {
		if s.IsZero() {
			return fmt.Errorf("secret %d: %w", i+1, ErrNoSecret)
		}
	}
	return nil
}

// maxTimestamp is the most digits of a timestamp: enough until the year 33658,
// and few enough never to overflow.
const maxTimestamp = 12

func (v *Verifier) checkTime(timestamp string) error {
	if timestamp == "" {
		return ErrNoTimestamp
	}
	for _, c := range []byte(timestamp) {
		if c < '0' || c > '9' {
			return fmt.Errorf("%w: want whole Unix seconds", ErrTimestamp)
		}
	}
	if len(timestamp) > maxTimestamp {
		return fmt.Errorf("%w: want Unix seconds, not milliseconds", ErrTimestamp)
	}
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil {
		return ErrTimestamp
	}
	now, tolerance := time.Now, v.Tolerance
	if v.Now != nil {
		now = v.Now
	}
	if tolerance <= 0 {
		tolerance = DefaultTolerance
	}
	switch age := now().Sub(time.Unix(seconds, 0)); {
	case age > tolerance:
		return fmt.Errorf("%w: more than %s ago", ErrTooOld, tolerance)
	case age < -tolerance:
		return fmt.Errorf("%w: by more than %s", ErrTooNew, tolerance)
	default:
		return nil
	}
}

// parseSignatures reads the v1 signatures of a header. What is malformed or of
// another version is passed over as long as there is one to try.
func parseSignatures(header string) ([][macSize]byte, error) {
	var found [][macSize]byte
	seen, malformed := 0, false
	for word := range strings.FieldsSeq(header) {
		if seen++; seen > maxCandidates {
			return nil, fmt.Errorf("%w: more than %d signatures", ErrSignature, maxCandidates)
		}
		name, text, ok := strings.Cut(word, ",")
		switch sum, decoded := decodeSum(text); {
		case !ok:
			malformed = true
		case name != "v1": // a version to come, or one for another kind of key
		case !decoded:
			malformed = true
		default:
			found = append(found, sum)
		}
	}
	switch {
	case len(found) > 0:
		return found, nil
	case malformed:
		return nil, fmt.Errorf("%w: want v1, and the base64 of %d bytes", ErrSignature, macSize)
	case seen > 0:
		return nil, ErrNoVersion
	default:
		return nil, ErrNoSignature
	}
}

// decodeSum reads the one text that stands for a sum; being strict, it leaves no
// second text that would mean the same.
func decodeSum(text string) (sum [macSize]byte, ok bool) {
	var buf [macSize + 1]byte // base64 of this length may decode to one byte more
	if len(text) != macText {
		return sum, false
	}
	n, err := base64.StdEncoding.Strict().Decode(buf[:], []byte(text))
	if err != nil || n != macSize {
		return sum, false
	}
	copy(sum[:], buf[:])
	return sum, true
}

// match tries every secret on every signature. It does not stop at the first that
// fits, so that the time it takes tells nothing of which did.
func (v *Verifier) match(c claim, body []byte) error {
	ok := false
	for _, s := range v.Secrets {
		want := s.sum(c.id, c.timestamp, body)
		for i := range c.signatures {
			if hmac.Equal(want[:], c.signatures[i][:]) {
				ok = true
			}
		}
	}
	if !ok {
		return ErrMismatch
	}
	return nil
}
