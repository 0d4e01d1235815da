package signer

import (
	"crypto/ed25519"
	"crypto/hmac"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// DefaultTolerance is how far a timestamp may be from the receiver's clock if a Verifier
// sets no tolerance: five minutes, as the standard recommends. It accepts a wrong clock,
// but makes a recorded request useless soon.
const DefaultTolerance = 5 * time.Minute

// The errors of verification. Each error of Verify wraps one of these, and names the
// header of the scheme.
var (
	ErrNoID         = errors.New("no " + HeaderID)
	ErrID           = errors.New("malformed " + HeaderID)
	ErrNoTimestamp  = errors.New("no timestamp")
	ErrTimestamp    = errors.New("malformed timestamp")
	ErrTooOld       = errors.New("timestamp too old")
	ErrTooNew       = errors.New("timestamp too far in the future")
	ErrNoSignature  = errors.New("no signature")
	ErrNoVersion    = errors.New("no signature of the version that is verified") // there are only other versions
	ErrSignature    = errors.New("malformed signature")
	ErrMismatch     = errors.New("signature does not match")
	ErrRepeated     = errors.New("header given more than once")
	ErrBody         = errors.New("body could not be read")
	ErrBodyTooLarge = errors.New("body too large")
)

// refusal is one of the errors above with the words of a scheme.
type refusal struct {
	reason error
	text   string
}

func (r *refusal) Error() string { return r.text }
func (r *refusal) Unwrap() error { return r.reason }

func refuse(reason error, format string, a ...any) error {
	return &refusal{reason, fmt.Sprintf(format, a...)}
}

// Verifier checks that a request was signed with a secret, and that it is fresh. Do not
// change its fields after the first use. Then it is safe for concurrent use.
//
// It has no state, so a repeated request verifies again within the tolerance. A receiver
// recognizes repeats by their webhook-id. GitHub, HMACHex and most forms of HMAC sign no
// time, so there is no tolerance, and a recorded request verifies while its secret is
// valid. They and Stripe do not sign the webhook-id either, so a replayed request may
// have another one.
type Verifier struct {
	Scheme     Scheme           // zero: Standard
	Form       Form             // of HMAC; for HMACHex only its header
	Secrets    []Secret         // any of them may have signed; required, except for StandardEd25519
	PublicKeys []PublicKey      // for StandardEd25519 only, whose receivers need no secret
	Tolerance  time.Duration    // between the timestamp and now, in both directions; 0: DefaultTolerance
	Now        func() time.Time // the receiver's clock; nil: time.Now
	MaxBody    int64            // most bytes of a body that VerifyRequest reads; 0: DefaultMaxBody
}

// NewVerifier returns a Verifier for a text with keys, separated by white space: secrets
// of the scheme's kind, or public keys for StandardEd25519. A private key counts as
// its public half.
func (s Scheme) NewVerifier(keys string) (*Verifier, error) {
	if s != StandardEd25519 {
		secrets, err := s.ParseSecrets(keys)
		if err != nil {
			return nil, err
		}
		return &Verifier{Scheme: s, Secrets: secrets}, nil
	}
	public, err := parseList(keys, "key", func(text string) (PublicKey, error) {
		if !strings.HasPrefix(text, PrivatePrefix) {
			return ParsePublicKey(text)
		}
		secret, err := parsePrivate(text)
		if err != nil {
			return PublicKey{}, err
		}
		return secret.public(), nil
	})
	if err != nil {
		return nil, err
	}
	return &Verifier{Scheme: s, PublicKeys: public}, nil
}

// Signed are the headers of a signed request, as they were sent. Schemes that do not sign
// the first two ignore them.
type Signed struct {
	ID        string // webhook-id
	Timestamp string // webhook-timestamp
	Signature string // of Scheme.Header, or the header of the Form
}

// Verify checks the headers of a request against its body, byte for byte. It returns nil
// only if one of the keys made one of the signatures, and the timestamp is within the
// tolerance if it is signed.
func (v *Verifier) Verify(s Signed, body []byte) error {
	if v == nil {
		return ErrNoSecret
	}
	l, err := v.Scheme.formed(v.Form)
	if err != nil {
		return err
	}
	c, err := v.check(&l, s.ID, s.Timestamp, s.Signature)
	if err != nil {
		return err
	}
	return v.match(&l, c, body)
}

// claim is the valid form of a request's headers before its signature is verified.
type claim struct {
	head       string   // the bytes signed before the body
	signatures [][]byte // each of the scheme's length
}

// check does everything that is possible without the body.
func (v *Verifier) check(l *layout, id, timestamp, signature string) (claim, error) {
	if err := v.usable(); err != nil {
		return claim{}, err
	}
	switch {
	case l.id:
	case l.time:
		return v.checkTimed(l, signature)
	default:
		sum, err := parseOne(l, signature)
		return claim{signatures: [][]byte{sum}}, err
	}
	if err := checkID(id); err != nil {
		return claim{}, err
	}
	if err := v.checkTime(HeaderTimestamp, timestamp); err != nil {
		return claim{}, err
	}
	signatures, err := parseSignatures(v.Scheme, signature)
	return claim{id + "." + timestamp + ".", signatures}, err
}

func (v *Verifier) checkTimed(l *layout, signature string) (claim, error) {
	timestamp, sums, err := parseTimed(l, signature)
	if err != nil {
		return claim{}, err
	}
	if err := v.checkTime(l.header+" t", timestamp); err != nil {
		return claim{}, err
	}
	if len(sums) == 0 {
		return claim{}, refuse(ErrNoVersion, "no v1 signature in %s", l.header)
	}
	return claim{timestamp + string(l.form.separator()), sums}, nil
}

// usable returns an error if there is no key, or one of another scheme. An empty key
// would accept signatures of anyone, and a key of another scheme would accept none.
func (v *Verifier) usable() error {
	if err := v.Scheme.check(v.Secrets); err != nil {
		return err
	}
	if len(v.Secrets)+len(v.PublicKeys) == 0 {
		return ErrNoSecret
	}
	for i, k := range v.PublicKeys {
		switch {
		case v.Scheme != StandardEd25519:
			return fmt.Errorf("public key %d: %w: only %s has public keys", i+1, ErrMisfit, StandardEd25519)
		case k.IsZero():
			return fmt.Errorf("public key %d: %w", i+1, ErrNoSecret)
		}
	}
	return nil
}

// maxTimestamp is the most digits of a timestamp. It is enough until the year 33658, and
// never overflows.
const maxTimestamp = 12

// checkTime checks a timestamp. where is its header.
func (v *Verifier) checkTime(where, timestamp string) error {
	if timestamp == "" {
		return refuse(ErrNoTimestamp, "no %s", where)
	}
	for _, c := range []byte(timestamp) {
		if c < '0' || c > '9' {
			return refuse(ErrTimestamp, "malformed %s: want whole Unix seconds", where)
		}
	}
	if len(timestamp) > maxTimestamp {
		return refuse(ErrTimestamp, "malformed %s: want Unix seconds, not milliseconds", where)
	}
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil {
		return refuse(ErrTimestamp, "malformed %s", where)
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
		return refuse(ErrTooOld, "%s too old: more than %s ago", where, brief(tolerance))
	case age < -tolerance:
		return refuse(ErrTooNew, "%s too far in the future: by more than %s", where, brief(tolerance))
	default:
		return nil
	}
}

// brief formats a duration without the zeros of Go's own form: 5m, not 5m0s.
func brief(d time.Duration) string {
	text, minutes := strings.CutSuffix(d.String(), "m0s")
	if !minutes {
		return text
	}
	if hours, whole := strings.CutSuffix(text, "h0"); whole {
		return hours + "h"
	}
	return text + "m"
}

// match checks every key against every signature. It compares in constant time and does
// not stop at the first match, so its time does not reveal which one matched.
func (v *Verifier) match(l *layout, c claim, body []byte) error {
	ok := false
	if v.Scheme == StandardEd25519 {
		ok = v.matchPublic(c, body)
	} else {
		for _, s := range v.Secrets {
			want := s.sum(l.form.hash(), c.head, body)
			for _, signature := range c.signatures {
				if hmac.Equal(want, signature) {
					ok = true
				}
			}
		}
	}
	if !ok {
		return refuse(ErrMismatch, "%s does not match: another secret, or the body was changed", l.header)
	}
	return nil
}

// matchPublic may stop early, because it compares nothing secret.
func (v *Verifier) matchPublic(c claim, body []byte) bool {
	signed := append([]byte(c.head), body...)
	keys := v.PublicKeys
	for _, s := range v.Secrets {
		keys = append(keys[:len(keys):len(keys)], s.public())
	}
	for _, k := range keys {
		for _, signature := range c.signatures {
			if ed25519.Verify([]byte(k.key), signed, signature) {
				return true
			}
		}
	}
	return false
}
