package signer

import (
	"errors"
	"fmt"
	"net/textproto"
	"slices"
	"strings"
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
)

// Schemes lists all schemes, the default first.
var Schemes = []Scheme{Standard, StandardEd25519, Stripe, GitHub, HMACHex}

// ErrScheme means that a text is not the name of a scheme.
var ErrScheme = errors.New("not a signature scheme")

// ParseScheme parses the name of a scheme. The name is case-sensitive.
func ParseScheme(text string) (Scheme, error) {
	s := Scheme(text)
	if slices.Contains(Schemes, s) {
		return s, nil
	}
	names := make([]string, len(Schemes))
	for i, known := range Schemes {
		names[i] = string(known)
	}
	return "", fmt.Errorf("%w: want one of %s", ErrScheme, strings.Join(names, ", "))
}

// layout has the properties of a scheme, for Signer and Verifier.
type layout struct {
	header    string // as errors print it
	canonical string // as http.Header stores it
	kind      kind   // of the keys
	rotates   bool   // the header has a signature by each secret
	id, time  bool   // signed before the body
}

func newLayout(header string, l layout) layout {
	l.header, l.canonical = header, textproto.CanonicalMIMEHeaderKey(header)
	return l
}

var layouts = map[Scheme]layout{
	Standard:        newLayout(HeaderSignature, layout{kind: kindShared, rotates: true, id: true, time: true}),
	StandardEd25519: newLayout(HeaderSignature, layout{kind: kindPrivate, rotates: true, id: true, time: true}),
	Stripe:          newLayout(HeaderStripe, layout{kind: kindText, rotates: true, time: true}),
	GitHub:          newLayout(HeaderGitHub, layout{kind: kindText}),
	HMACHex:         newLayout(HeaderHMACHex, layout{kind: kindText}),
}

// layout returns the zero layout for an unknown scheme.
func (s Scheme) layout() layout { return layouts[s.orStandard()] }

func (s Scheme) orStandard() Scheme {
	if s == "" {
		return Standard
	}
	return s
}

// String returns the name that ParseScheme reads.
func (s Scheme) String() string { return string(s.orStandard()) }

// Header returns the header of the signature, in the canonical form of http.Header. It is
// empty for an unknown scheme.
func (s Scheme) Header() string { return s.layout().canonical }

// Rotates reports whether the header can have a signature by each secret. If not, only
// the first secret signs, so the receiver must have the new secret before the sender uses
// it.
func (s Scheme) Rotates() bool { return s.layout().rotates }

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
