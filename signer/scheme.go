package signer

import (
	"errors"
	"fmt"
	"net/textproto"
	"slices"
	"strings"
)

// Scheme is a way to sign: which header, over what, with which kind of key. The
// zero Scheme works as Standard.
type Scheme string

// The schemes, as settings and answers spell them.
const (
	Standard        Scheme = "standard"         // Standard Webhooks: webhook-signature: v1,<base64 HMAC-SHA256 of id.timestamp.body>
	StandardEd25519 Scheme = "standard-ed25519" // Standard Webhooks: webhook-signature: v1a,<base64 Ed25519 of id.timestamp.body>
	Stripe          Scheme = "stripe"           // stripe-signature: t=<unix>,v1=<hex HMAC-SHA256 of t.body>
	GitHub          Scheme = "github"           // x-hub-signature-256: sha256=<hex HMAC-SHA256 of body>
	HMACHex         Scheme = "hmac-hex"         // x-signature: <hex HMAC-SHA256 of body>
)

// Schemes are all there are, the default first.
var Schemes = []Scheme{Standard, StandardEd25519, Stripe, GitHub, HMACHex}

// ErrScheme says that a text names no scheme.
var ErrScheme = errors.New("not a signature scheme")

// ParseScheme reads the name of a scheme, as it is written.
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

// layout is what a scheme is made of, for Signer and Verifier alike.
type layout struct {
	header    string // as errors spell it
	canonical string // as http.Header keeps it
	kind      kind   // of the keys
	rotates   bool   // room for a signature by each secret
	id, time  bool   // what is signed before the body
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

// layout is zero for what is no scheme.
func (s Scheme) layout() layout { return layouts[s.orStandard()] }

func (s Scheme) orStandard() Scheme {
	if s == "" {
		return Standard
	}
	return s
}

// String is the name as ParseScheme reads it.
func (s Scheme) String() string { return string(s.orStandard()) }

// Header is the header that holds the signature, in the spelling under which
// http.Header keeps it; empty for what is no scheme.
func (s Scheme) Header() string { return s.layout().canonical }

// Rotates reports whether the header has room for a signature by each secret.
// Else only the first secret signs: the receiver must have the new secret before the
// sender uses it.
func (s Scheme) Rotates() bool { return s.layout().rotates }

// check refuses a secret of another kind than the scheme signs with: the receiver
// would read another key from its text, or must not have it.
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
