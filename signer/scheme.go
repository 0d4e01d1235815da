package signer

import (
	"errors"
	"fmt"
	"net/textproto"
	"slices"
)

// Scheme defines how a request is signed: the header, the signed bytes and the kind of
// key. The zero Scheme works as Standard.
type Scheme string

// The schemes, by their names in settings and in the API.
const (
	Standard        Scheme = "standard"         // Standard Webhooks: webhook-signature: v1,<base64 HMAC-SHA256 of id.timestamp.body>
	StandardEd25519 Scheme = "standard-ed25519" // Standard Webhooks: webhook-signature: v1a,<base64 Ed25519 of id.timestamp.body>
	Stripe          Scheme = "stripe"           // stripe-signature: t=<unix>,v1=<hex HMAC-SHA256 of t.body>
	GitHub          Scheme = "github"           // x-hub-signature-256: sha256=<hex HMAC-SHA256 of body>
	HMACHex         Scheme = "hmac-hex"         // x-signature: <hex HMAC-SHA256 of body>
	HMAC            Scheme = "hmac"             // as its Form says; by default as HMACHex
)

// Schemes returns all schemes, the default first.
func Schemes() []Scheme { return slices.Clone(schemes) }

var schemes = []Scheme{Standard, StandardEd25519, Stripe, GitHub, HMACHex, HMAC}

// ErrScheme means that a text is not the name of a scheme.
var ErrScheme = errors.New("not a signature scheme")

// ParseScheme parses the name of a scheme. The name is case-sensitive.
func ParseScheme(text string) (Scheme, error) {
	s := Scheme(text)
	if slices.Contains(schemes, s) {
		return s, nil
	}
	return "", fmt.Errorf("%w: want one of %s", ErrScheme, joined(schemes))
}

// layout has the properties of a scheme, for Signer and Verifier.
type layout struct {
	header    string // as errors print it
	canonical string // as http.Header stores it
	kind      kind   // of the keys
	rotates   bool   // the header has a signature by each secret
	id, time  bool   // signed before the body
	form      Form   // of a scheme that is a form of HMAC
}

// standardLayout returns the properties of a scheme of Standard Webhooks.
func standardLayout(k kind) layout {
	return layout{header: HeaderSignature, canonical: textproto.CanonicalMIMEHeaderKey(HeaderSignature), kind: k, rotates: true, id: true, time: true}
}

var layouts = map[Scheme]layout{
	Standard:        standardLayout(kindShared),
	StandardEd25519: standardLayout(kindPrivate),
	Stripe:          stripeForm.layout(),
	GitHub:          githubForm.layout(),
	HMACHex:         Form{}.layout(),
	HMAC:            Form{}.layout(),
}

// layout returns the zero layout for an unknown scheme.
func (s Scheme) layout() layout { return layouts[s.orStandard()] }

func (s Scheme) orStandard() Scheme {
	if s == "" {
		return Standard
	}
	return s
}

// formed returns the properties of the scheme in a form.
func (s Scheme) formed(f Form) (layout, error) {
	switch {
	case f == Form{}:
		return s.layout(), nil
	case s != HMAC && (s != HMACHex || f != Form{Header: f.Header}):
		return layout{}, fmt.Errorf("%w: %s has a form of its own", ErrForm, s)
	}
	return f.layout(), f.Check()
}

// String returns the name that ParseScheme reads.
func (s Scheme) String() string { return string(s.orStandard()) }

// Header returns the header of the signature, in the canonical form of http.Header. It is
// empty for an unknown scheme. A Form may set another header.
func (s Scheme) Header() string { return s.layout().canonical }

// Rotates reports whether the header can have a signature by each secret. If not, only
// the first secret signs, so the receiver must have the new secret before the sender uses
// it.
func (s Scheme) Rotates() bool { return s.RotatesIn(Form{}) }

// RotatesIn is Rotates for a form of HMAC.
func (s Scheme) RotatesIn(f Form) bool {
	l, err := s.formed(f)
	return err == nil && l.rotates
}

// check returns an error for a secret of another kind than the scheme signs with, because
// the receiver would make another key from its text, or must not have it.
func (s Scheme) check(secrets []Secret) error {
	want := s.layout().kind
	if want == kindNone {
		return ErrScheme
	}
	for i, secret := range secrets {
		switch {
		case secret.IsZero():
			return fmt.Errorf("secret %d: %w", i+1, ErrNoSecret)
		case secret.kind != want:
			return fmt.Errorf("secret %d: %w: %s signs with %s", i+1, ErrMisfit, s, want)
		}
	}
	return nil
}
