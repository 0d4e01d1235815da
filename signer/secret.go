package signer

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
)

// SecretPrefix begins the text of every standard secret, so that people and leak
// scanners know one when they see it.
const SecretPrefix = "whsec_"

// Sizes of a standard secret's key in bytes, as Standard Webhooks asks for. Below
// 24 it could be guessed in time; above 64, the block of SHA-256, HMAC would hash it down.
const (
	minKey  = 24
	maxKey  = 64
	sizeNew = 32 // as long as what SHA-256 yields
)

// MaxSecrets is the most secrets that sign or verify at a time. A rotation needs
// two; each further one costs every call another hash.
const MaxSecrets = 16

// derived begins what a tenant's secret is derived from. No id of a message has a
// colon, so that a tenant's secret is never a signature that a receiver got.
const derived = "hookladder:"

// hidden stands for all of a secret but its prefix.
const hidden = "[redacted]"

var (
	// ErrNoSecret says that there is nothing to sign or verify with.
	ErrNoSecret = errors.New("no signing secret")
	// ErrSecret says that a text is not a secret; it never tells the text.
	ErrSecret = errors.New("not a secret")
	// ErrMisfit says that a secret is of another kind than the scheme signs with.
	ErrMisfit = errors.New("secret of another scheme")
)

// Secret is a key to sign with, of one of the kinds that the schemes use. It is
// redacted wherever it is printed, logged or encoded; only Reveal shows it. The zero
// Secret is no key and can't sign.
type Secret struct {
	// The bytes of the key. fmt calls no method of a Secret in an unexported field of
	// another struct. There it would print bytes or a string, and with the wrong verb
	// the struct or slice that a pointer points to. Of a pointer to a string it prints
	// the address.
	key  *string
	kind kind
}

// newSecret keeps a copy of key.
func newSecret(k kind, key []byte) Secret {
	text := string(key)
	return Secret{&text, k}
}

// NewSecret makes a standard secret of 32 random bytes.
func NewSecret() Secret { return newSecret(kindShared, newKey()) }

// ParseSecret reads a standard secret: whsec_ and the base64 of 24 to 64 bytes,
// in the standard alphabet and padded. Every error wraps ErrSecret, and none
// repeats any of the text.
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

// ParseSecrets reads at least one standard secret, and at most MaxSecrets, with
// white space between two. A text with nothing in it is ErrNoSecret.
func ParseSecrets(text string) ([]Secret, error) { return Standard.ParseSecrets(text) }

// IsZero reports whether s is no key at all.
func (s Secret) IsZero() bool { return s.key == nil }

// Equal reports whether two secrets sign alike, in a time that tells nothing of
// their keys but how long they are. Two zero Secrets are equal.
func (s Secret) Equal(other Secret) bool {
	if s.IsZero() || other.IsZero() {
		return s.IsZero() && other.IsZero()
	}
	return s.kind == other.kind && subtle.ConstantTimeCompare(s.signs(), other.signs()) == 1
}

// signs is the part of the key that decides the signatures: the seed of an
// Ed25519 key, whose public half follows from it.
func (s Secret) signs() []byte {
	if s.kind == kindPrivate {
		return []byte(*s.key)[:ed25519.SeedSize]
	}
	return []byte(*s.key)
}

// Derive is a tenant's own standard secret: its 32 bytes are the HMAC-SHA256,
// with the key of s, of hookladder: and the tenant's name. Neither s nor another
// tenant's secret can be found from it.
//
// Messages without a tenant are signed with the secret of the empty name. Give their
// receiver that secret and not s, which would derive all secrets. Only a standard
// secret derives others; for another kind the answer is the zero Secret.
func (s Secret) Derive(tenant string) Secret {
	if s.kind != kindShared {
		return Secret{}
	}
	mac := hmac.New(sha256.New, []byte(*s.key))
	mac.Write([]byte(derived + tenant))
	return newSecret(kindShared, mac.Sum(nil))
}

// Reveal is exactly the text that was parsed, or that ParseSecret of its scheme
// reads; empty for the zero Secret. It is for the one answer that hands a secret
// out; nothing else needs it.
func (s Secret) Reveal() string {
	if s.kind == kindText {
		return *s.key
	}
	if s.IsZero() {
		return ""
	}
	return s.prefix() + base64.StdEncoding.EncodeToString([]byte(*s.key))
}

// prefix is what people may see of a secret. A text's own beginning is a part of
// its key.
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

// String is redacted.
func (s Secret) String() string { return s.prefix() + hidden }

// GoString is redacted.
func (s Secret) GoString() string { return s.String() }

// Format is redacted, whatever the verb: %x would show the bytes of a String too.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// LogValue is redacted.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText is redacted: what was encoded by accident can't be read back.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// MarshalJSON is redacted.
func (s Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + s.String() + `"`), nil }
