package signer

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
)

// SecretPrefix begins the text of every secret, so that people and leak scanners
// know one when they see it.
const SecretPrefix = "whsec_"

// Sizes of a secret's key in bytes, as Standard Webhooks asks for. Below 24 it
// could be guessed in time; above 64, the block of SHA-256, HMAC would hash it down.
const (
	minKey = 24
	maxKey = 64
	newKey = 32 // as long as what SHA-256 yields
)

// MaxSecrets is the most secrets that sign or verify at a time. A rotation needs
// two; each further one costs every call another hash.
const MaxSecrets = 16

// redacted is all that a Secret shows of itself.
const redacted = SecretPrefix + "[redacted]"

var (
	// ErrNoSecret says that there is nothing to sign or verify with.
	ErrNoSecret = errors.New("no signing secret")
	// ErrSecret says that a text is not a secret; it never tells the text.
	ErrSecret = errors.New("not a secret: want " + SecretPrefix + " and the base64 of 24 to 64 bytes")
)

// Secret is a key that sender and receiver share. However it is printed, logged
// or encoded, it comes out redacted; only Reveal tells it. The zero Secret is no
// key and can't sign.
type Secret struct {
	// The bytes of the key. It is a pointer to a string, since fmt calls no method
	// on what it finds in an unexported field of somebody's struct. There it would
	// print bytes or a string as they are, and with the wrong verb what a pointer
	// to a struct or a slice points to; of this one it prints the address.
	key *string
}

// newSecret keeps a copy of key.
func newSecret(key []byte) Secret {
	text := string(key)
	return Secret{&text}
}

// NewSecret makes a secret of 32 random bytes.
func NewSecret() Secret {
	key := make([]byte, newKey)
	rand.Read(key) // never fails; without randomness the program ends
	return newSecret(key)
}

// ParseSecret reads a secret: whsec_ and the base64 of 24 to 64 bytes, in the
// standard alphabet and padded. Every error wraps ErrSecret, and none repeats any
// of the text.
func ParseSecret(text string) (Secret, error) {
	encoded, ok := strings.CutPrefix(text, SecretPrefix)
	if !ok {
		return Secret{}, fmt.Errorf("%w, it does not begin with %s", ErrSecret, SecretPrefix)
	}
	// The decoder skips line breaks, and would take one secret broken in two.
	if strings.ContainsAny(encoded, "\r\n") {
		return Secret{}, fmt.Errorf("%w, it has a line break inside", ErrSecret)
	}
	key, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if err != nil {
		return Secret{}, fmt.Errorf("%w, it is not in standard base64 with padding", ErrSecret)
	}
	if len(key) < minKey || len(key) > maxKey {
		return Secret{}, fmt.Errorf("%w, it has %d", ErrSecret, len(key))
	}
	return newSecret(key), nil
}

// ParseSecrets reads at least one secret, and at most MaxSecrets, with white
// space between two. A text with nothing in it is ErrNoSecret.
func ParseSecrets(text string) ([]Secret, error) {
	var secrets []Secret
	for word := range strings.FieldsSeq(text) {
		if len(secrets) == MaxSecrets {
			return nil, fmt.Errorf("more than %d secrets", MaxSecrets)
		}
		s, err := ParseSecret(word)
		if err != nil {
			return nil, fmt.Errorf("secret %d: %w", len(secrets)+1, err)
		}
		secrets = append(secrets, s)
	}
	if len(secrets) == 0 {
		return nil, ErrNoSecret
	}
	return secrets, nil
}

// IsZero reports whether s is no key at all.
func (s Secret) IsZero() bool { return s.key == nil }

// Reveal is the secret as a text that ParseSecret reads, empty for the zero
// Secret. It is for the one answer that hands a secret out; nothing else needs it.
func (s Secret) Reveal() string {
	if s.IsZero() {
		return ""
	}
	return SecretPrefix + base64.StdEncoding.EncodeToString([]byte(*s.key))
}

// String is redacted.
func (s Secret) String() string { return redacted }

// GoString is redacted.
func (s Secret) GoString() string { return redacted }

// Format is redacted, whatever the verb: %x would show the bytes of a String too.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// LogValue is redacted.
func (s Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText is redacted: what was encoded by accident can't be read back.
func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// MarshalJSON is redacted.
func (s Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }
