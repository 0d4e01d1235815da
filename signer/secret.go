package signer

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
)

// SecretPrefix is the prefix of every standard secret, so that people and leak scanners
// recognize it.
const SecretPrefix = "whsec_"

// Limits of a standard secret's key in bytes. A key below 24 bytes could be guessed in
// time, as Standard Webhooks says. It recommends at most 64 bytes, but Svix accepts 75.
const (
	minKey  = 24
	maxKey  = 75
	sizeNew = 32 // the output size of SHA-256
)

// MaxSecrets is the most secrets that sign or verify at once. A rotation needs two, and
// each further one costs every call another hash.
const MaxSecrets = 16

// derived is the prefix of the text that a tenant's secret is derived from. No message id
// contains a colon, so no signature that a receiver got is also a tenant's secret.
const derived = "hookladder:"

// hidden replaces all of a secret but its prefix.
const hidden = "[redacted]"

var (
	// ErrNoSecret means that there is no secret to sign or verify with.
	ErrNoSecret = errors.New("no signing secret")
	// ErrSecret means that a text is not a secret. It never contains the text.
	ErrSecret = errors.New("not a secret")
	// ErrMisfit means that a secret is of another kind than the scheme signs with.
	ErrMisfit = errors.New("secret of another scheme")
)

// Secret is a signing key of one of the kinds that the schemes use. It is redacted
// wherever it is printed, logged or encoded, and only Reveal returns its text. The zero
// Secret is no key and can't sign.
type Secret struct {
	// The bytes of the key. fmt calls no method of a Secret in an unexported field of
	// another struct. So it would print bytes or a string, and with the wrong verb the
	// struct or slice behind a pointer. Of a pointer to a string it prints only the
	// address.
	key  *string
	kind kind
}

// newSecret stores a copy of key.
func newSecret(k kind, key []byte) Secret {
	text := string(key)
	return Secret{&text, k}
}

// NewSecret returns a standard secret of 32 random bytes.
func NewSecret() Secret { return newSecret(kindShared, newKey()) }

// ParseSecret parses a standard secret: whsec_ and the standard base64 of 24 to 75 bytes,
// with padding. Every error wraps ErrSecret, and contains no part of the text.
func ParseSecret(text string) (Secret, error) {
	wrong := wanted(kindShared)
	key, err := decodeKey(text, SecretPrefix, wrong)
	if err != nil {
		return Secret{}, err
	}
	if len(key) < minKey || len(key) > maxKey {
		return Secret{}, fmt.Errorf("%w, it has %d", wrong, len(key))
	}
	return newSecret(kindShared, key), nil
}

// ParseSecrets parses 1 to MaxSecrets standard secrets, separated by white space. For an
// empty text it returns ErrNoSecret.
func ParseSecrets(text string) ([]Secret, error) { return Standard.ParseSecrets(text) }

// IsZero reports whether s is the zero Secret.
func (s Secret) IsZero() bool { return s.key == nil }

// Equal reports whether two secrets make the same signatures. It takes constant time for
// keys of equal length. Two zero Secrets are equal.
func (s Secret) Equal(other Secret) bool {
	if s.IsZero() || other.IsZero() {
		return s.IsZero() && other.IsZero()
	}
	return s.kind == other.kind && subtle.ConstantTimeCompare(s.signs(), other.signs()) == 1
}

// signs returns the part of the key that decides the signatures: the seed of an Ed25519
// key, because its public half follows from it.
func (s Secret) signs() []byte {
	if s.kind == kindPrivate {
		return []byte(*s.key)[:ed25519.SeedSize]
	}
	return []byte(*s.key)
}

// Derive returns a tenant's own standard secret. Its 32 bytes are the HMAC-SHA256, with
// the key of s, of hookladder: and the tenant's name. Neither s nor another tenant's
// secret can be computed from it.
//
// Messages without a tenant are signed with the secret of the empty name. Give their
// receiver that secret and not s, because s derives all secrets. Only a standard secret
// derives others. For another kind it returns the zero Secret.
func (s Secret) Derive(tenant string) Secret {
	if s.kind != kindShared {
		return Secret{}
	}
	mac := hmac.New(sha256.New, []byte(*s.key))
	mac.Write([]byte(derived + tenant))
	return newSecret(kindShared, mac.Sum(nil))
}

// Reveal returns the text of the secret, as ParseSecret of its scheme reads it, or "" for
// the zero Secret. Use it only in the one response that gives the secret to its owner.
func (s Secret) Reveal() string {
	if s.kind == kindText {
		return *s.key
	}
	if s.IsZero() {
		return ""
	}
	return s.prefix() + base64.StdEncoding.EncodeToString([]byte(*s.key))
}

// Fingerprint returns the first 8 hex digits of the SHA-256 of the secret's text, so that two
// people can compare their secrets without showing them. In a shell,
// printf %s "$WEBHOOK_SECRET" | sha256sum begins with it. It is "" for a plain text, because a
// person may have chosen that, and could be guessed by its fingerprint.
func (s Secret) Fingerprint() string {
	if s.IsZero() || s.kind == kindText {
		return ""
	}
	sum := sha256.Sum256([]byte(s.Reveal()))
	return hex.EncodeToString(sum[:4])
}

// prefix returns the part of a secret that people may see. For a plain text it is empty,
// because its beginning is part of the key.
func (s Secret) prefix() string {
	switch s.kind {
	case kindPrivate:
		return PrivatePrefix
	case kindText:
		return ""
	default:
		return SecretPrefix
	}
}

// String returns a redacted text.
func (s Secret) String() string { return s.prefix() + hidden }

// GoString returns a redacted text.
func (s Secret) GoString() string { return s.String() }

// Format prints a redacted text for every verb, because %x would print the bytes of a
// String too.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// LogValue returns a redacted text.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText returns a redacted text, so a secret that was encoded by accident can't be
// read.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// MarshalJSON returns a redacted text.
func (s Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + s.String() + `"`), nil }
