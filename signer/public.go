package signer

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
)

// PublicPrefix is the prefix of an Ed25519 public key, as in Standard Webhooks.
const PublicPrefix = "whpk_"

// ErrPublicKey means that a text is not a public key.
var ErrPublicKey = errors.New("not a public key: want " + PublicPrefix + " and the base64 of 32 bytes")

// PublicKey verifies signatures of StandardEd25519. It can't sign, so it is not secret.
// The zero PublicKey is no key.
type PublicKey struct {
	key string // 32 bytes; empty: none
}

// ParsePublicKey parses a public key: whpk_ and the base64 of its 32 bytes. Every error
// wraps ErrPublicKey. It contains no part of the text, because that may be a private key
// in the wrong place.
func ParsePublicKey(text string) (PublicKey, error) {
	key, err := decodeKey(text, PublicPrefix, ErrPublicKey)
	if err != nil {
		return PublicKey{}, err
	}
	if len(key) != ed25519.PublicKeySize {
		return PublicKey{}, fmt.Errorf("%w, it has %d", ErrPublicKey, len(key))
	}
	// A key of zeros was never set. It is a point of the curve with such a small order
	// that signatures for it can be made without a secret.
	if string(key) == string(make([]byte, ed25519.PublicKeySize)) {
		return PublicKey{}, fmt.Errorf("%w, all of them are zero", ErrPublicKey)
	}
	return PublicKey{string(key)}, nil
}

// ParsePublicKeys parses 1 to MaxSecrets public keys, separated by white space. For an
// empty text it returns ErrNoSecret.
func ParsePublicKeys(text string) ([]PublicKey, error) {
	return parseList(text, "public key", ParsePublicKey)
}

// PublicKey returns the text of the key that receivers of StandardEd25519 verify with. ok
// is false for a secret of another kind, which has no public key.
func (s Secret) PublicKey() (text string, ok bool) {
	if s.kind != kindPrivate {
		return "", false
	}
	return s.public().String(), true
}

func (s Secret) public() PublicKey {
	return PublicKey{string(s.private().Public().(ed25519.PublicKey))}
}

// IsZero reports whether k is the zero PublicKey.
func (k PublicKey) IsZero() bool { return k.key == "" }

// String returns the text that ParsePublicKey reads, or "" for the zero PublicKey.
func (k PublicKey) String() string {
	if k.IsZero() {
		return ""
	}
	return PublicPrefix + base64.StdEncoding.EncodeToString([]byte(k.key))
}

// MarshalText returns the text of String.
func (k PublicKey) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText parses the text like ParsePublicKey.
func (k *PublicKey) UnmarshalText(text []byte) (err error) {
	*k, err = ParsePublicKey(string(text))
	return err
}
