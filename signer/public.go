package signer

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
)

// PublicPrefix begins the text of an Ed25519 public key, as in Standard Webhooks.
const PublicPrefix = "whpk_"

// ErrPublicKey says that a text is not a public key.
var ErrPublicKey = errors.New("not a public key: want " + PublicPrefix + " and the base64 of 32 bytes")

// PublicKey verifies signatures of StandardEd25519. It can't sign, so it is no
// secret. The zero PublicKey is no key.
type PublicKey struct {
	key string // 32 bytes; empty: none
}

// ParsePublicKey reads a public key: whpk_ and the base64 of its 32 bytes. Every
// error wraps ErrPublicKey, and none repeats the text, which may be a private
// key in the wrong place.
func ParsePublicKey(text string) (PublicKey, error) {
	key, err := decodeKey(text, PublicPrefix, ErrPublicKey)
	if err != nil {
		return PublicKey{}, err
	}
	if len(key) != ed25519.PublicKeySize {
		return PublicKey{}, fmt.Errorf("%w, it has %d", ErrPublicKey, len(key))
	}
	// A key that was never filled in. It is a point of the curve with an order so
	// small that signatures for it can be made without a secret.
	if string(key) == string(make([]byte, ed25519.PublicKeySize)) {
		return PublicKey{}, fmt.Errorf("%w, all of them are zero", ErrPublicKey)
	}
	return PublicKey{string(key)}, nil
}

// ParsePublicKeys reads at least one public key, and at most MaxSecrets, with
// white space between two. A text with nothing in it is ErrNoSecret.
func ParsePublicKeys(text string) ([]PublicKey, error) {
	return parseList(text, "public key", ParsePublicKey)
}

// PublicKey is the text of the key that receivers of StandardEd25519 verify
// with. ok is false for a secret of another kind, of which nothing is public.
func (s Secret) PublicKey() (text string, ok bool) {
	if s.kind != kindPrivate {
		return "", false
	}
	return s.public().String(), true
}

func (s Secret) public() PublicKey {
	return PublicKey{string(s.private().Public().(ed25519.PublicKey))}
}

// IsZero reports whether k is no key at all.
func (k PublicKey) IsZero() bool { return k.key == "" }

// String is the text that ParsePublicKey reads, empty for the zero PublicKey.
func (k PublicKey) String() string {
	if k.IsZero() {
		return ""
	}
	return PublicPrefix + base64.StdEncoding.EncodeToString([]byte(k.key))
}

// MarshalText is String.
func (k PublicKey) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText is ParsePublicKey.
func (k *PublicKey) UnmarshalText(text []byte) (err error) {
	*k, err = ParsePublicKey(string(text))
	return err
}
