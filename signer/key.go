package signer

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
)

// PrivatePrefix is the prefix of an Ed25519 private key, as in Standard Webhooks.
const PrivatePrefix = "whsk_"

// Limits of a key that is a plain text, in characters. A shorter one could be guessed in
// time; 256 is more than any dashboard generates.
const (
	minText = 16
	maxText = 256
)

// kind says how a key is made from its text.
type kind uint8

const (
	kindNone    kind = iota // the zero Secret
	kindShared              // whsec_, and the base64 of the key
	kindPrivate             // whsk_, and the base64 of an Ed25519 key
	kindText                // the text itself is the key
)

// String describes the texts of the kind.
func (k kind) String() string {
	switch k {
	case kindShared:
		return SecretPrefix + " and the base64 of 24 to 75 bytes"
	case kindPrivate:
		return PrivatePrefix + " and the base64 of an Ed25519 private key"
	case kindText:
		return "a text of 16 to 256 printable ASCII characters without spaces"
	default:
		return "nothing"
	}
}

// NewSecret returns a secret for the scheme, made of 32 random bytes. For an unknown
// scheme it returns the zero Secret.
func (s Scheme) NewSecret() Secret {
	switch s.orStandard() {
	case Standard:
		return NewSecret()
	case StandardEd25519:
		_, private, _ := ed25519.GenerateKey(nil) // never fails with its default source of randomness
		return newSecret(kindPrivate, private)
	case Stripe:
		// As Stripe's dashboard shows them, but without padding. So it can't be used as a
		// standard secret, whose key would be other bytes.
		return newSecret(kindText, []byte(SecretPrefix+base64.RawURLEncoding.EncodeToString(newKey())))
	case GitHub, HMACHex, HMAC:
		return newSecret(kindText, []byte(hex.EncodeToString(newKey())))
	default:
		return Secret{}
	}
}

// newKey returns 32 random bytes, the output size of SHA-256.
func newKey() []byte {
	key := make([]byte, sizeNew)
	rand.Read(key) // never fails; without randomness the program ends
	return key
}

// ParseSecret parses a secret of the scheme's kind:
//
//   - Standard: whsec_ and the base64 of 24 to 75 bytes.
//   - StandardEd25519: whsk_ and the base64 of a seed of 32 bytes, or of the 64 bytes of
//     seed and public key.
//   - The others: the key itself, 16 to 256 printable ASCII characters without spaces.
//
// Every error wraps ErrSecret or ErrScheme, and contains no part of the text.
func (s Scheme) ParseSecret(text string) (Secret, error) {
	switch s.layout().kind {
	case kindShared:
		return ParseSecret(text)
	case kindPrivate:
		return parsePrivate(text)
	case kindText:
		return parseText(text)
	default:
		return Secret{}, ErrScheme
	}
}

// ParseSecrets parses 1 to MaxSecrets secrets of the scheme's kind, separated by white
// space. For an empty text it returns ErrNoSecret.
func (s Scheme) ParseSecrets(text string) ([]Secret, error) {
	return parseList(text, "secret", s.ParseSecret)
}

func parseList[T any](text, what string, parse func(string) (T, error)) ([]T, error) {
	var list []T
	for word := range strings.FieldsSeq(text) {
		if len(list) == MaxSecrets {
			return nil, fmt.Errorf("more than %d %ss", MaxSecrets, what)
		}
		one, err := parse(word)
		if err != nil {
			return nil, fmt.Errorf("%s %d: %w", what, len(list)+1, err)
		}
		list = append(list, one)
	}
	if len(list) == 0 {
		return nil, ErrNoSecret
	}
	return list, nil
}

// decodeKey decodes a prefix and base64. wrong is the error that describes a valid text.
func decodeKey(text, prefix string, wrong error) ([]byte, error) {
	encoded, ok := strings.CutPrefix(text, prefix)
	if !ok {
		return nil, fmt.Errorf("%w, it does not begin with %s", wrong, prefix)
	}
	// The decoder skips line breaks, and would accept one key broken in two.
	if strings.ContainsAny(encoded, "\r\n") {
		return nil, fmt.Errorf("%w, it has a line break inside", wrong)
	}
	key, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if err != nil {
		return nil, fmt.Errorf("%w, it is not in standard base64 with padding", wrong)
	}
	return key, nil
}

func parsePrivate(text string) (Secret, error) {
	wrong := wanted(kindPrivate)
	key, err := decodeKey(text, PrivatePrefix, wrong)
	if err != nil {
		return Secret{}, err
	}
	switch len(key) {
	case ed25519.SeedSize:
	case ed25519.PrivateKeySize:
		// Signatures with another public half would reveal the private key.
		if !bytes.Equal(ed25519.NewKeyFromSeed(key[:ed25519.SeedSize]), key) {
			return Secret{}, fmt.Errorf("%w, its public half belongs to another key", wrong)
		}
	default:
		return Secret{}, fmt.Errorf("%w of 32 or 64 bytes, it has %d", wrong, len(key))
	}
	return newSecret(kindPrivate, key), nil
}

func parseText(text string) (Secret, error) {
	wrong := wanted(kindText)
	for _, c := range []byte(text) {
		if c <= ' ' || c > '~' {
			return Secret{}, fmt.Errorf("%w, it has another", wrong)
		}
	}
	if len(text) < minText || len(text) > maxText {
		return Secret{}, fmt.Errorf("%w, it has %d", wrong, len(text))
	}
	return newSecret(kindText, []byte(text)), nil
}

// wanted returns ErrSecret with a description of a secret of the kind.
func wanted(k kind) error { return fmt.Errorf("%w: want %s", ErrSecret, k) }

// private returns the key that an Ed25519 secret signs with.
func (s Secret) private() ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed([]byte(*s.key)[:ed25519.SeedSize])
}
