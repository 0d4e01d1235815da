// Package seal encrypts values before they are stored, so that readers of the store can't
// read them.
//
// A Box has one or more keys. Seal encrypts with the first key, and Open decrypts with
// any of them. So a new key is added in front of the old ones, and the old ones can be
// removed once all values are sealed again. A sealed value is bound to its Place, so a
// writer to the store can't copy it to another place. Sign and Verify do the same for
// public texts, with an HMAC.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// prefix is the prefix of every sealed text. It means AES-256-GCM with a random nonce.
// The key's id and the base64 of nonce, ciphertext and tag follow.
const prefix = "seal1."

// keySize is the size of an AES-256 key in bytes.
const keySize = 32

// maxKeys bounds the keys of a box. A rotation needs two, so more are old keys that were
// not removed.
const maxKeys = 16

// idSize is the number of bytes of a hash in the id of a key. A few keys never have the
// same id; if two do, both are tried.
const idSize = 4

// The errors contain no part of a key or a value.
var (
	// ErrNoKey means that a text contains no key.
	ErrNoKey = errors.New("no key")
	// ErrKey means that a text is not a key.
	ErrKey = errors.New("not a key: want the base64 of 32 bytes, as openssl rand -base64 32 prints it")
	// ErrLocked means that a value was sealed with a key that is not in the box.
	ErrLocked = errors.New("sealed with a key that this process does not have")
	// ErrBroken means that a value is not a sealed one, or not one of this place.
	ErrBroken = errors.New("not a value that was sealed for this place")
)

// Box seals and opens values. It is safe for concurrent use. The nil Box has no keys:
// Open returns an error, and Seal panics.
type Box struct {
	keys []key // at least one; the first seals
}

type key struct {
	id string
	// A random nonce is safe for 2^32 values of one key: a million endpoints, each
	// changed a hundred times, with forty values each.
	aead cipher.AEAD
	mac  []byte // the derived key of proofs
}

// Covers reports whether a box has all keys of another one.
func (b *Box) Covers(other *Box) bool {
	for _, k := range other.all() {
		if !slices.ContainsFunc(b.all(), func(own key) bool { return hmac.Equal(own.mac, k.mac) }) {
			return false
		}
	}
	return true
}

// Place is where a value is stored. It can't be opened at another place.
type Place struct {
	Owner string // the record that has the value
	Field string // the name of the value in the record
}

// ParseKeys parses keys, each the standard base64 of 32 bytes, separated by white space.
// Its errors contain no part of the text.
func ParseKeys(text string) (*Box, error) {
	b := &Box{}
	seen := map[string]int{}
	for word := range strings.FieldsSeq(text) {
		n := len(b.keys) + 1
		if n > maxKeys {
			return nil, fmt.Errorf("more than %d keys", maxKeys)
		}
		raw, err := base64.StdEncoding.Strict().DecodeString(word)
		if err != nil {
			return nil, fmt.Errorf("key %d: %w, it is not in standard base64 with padding", n, ErrKey)
		}
		if len(raw) != keySize {
			return nil, fmt.Errorf("key %d: %w, it has %d", n, ErrKey, len(raw))
		}
		if first := seen[word]; first > 0 {
			return nil, fmt.Errorf("key %d is key %d again", n, first)
		}
		seen[word] = n
		k, err := newKey(raw)
		if err != nil {
			return nil, fmt.Errorf("key %d: %w", n, err)
		}
		b.keys = append(b.keys, k)
	}
	if len(b.keys) == 0 {
		return nil, ErrNoKey
	}
	return b, nil
}

func newKey(raw []byte) (key, error) {
	block, err := aes.NewCipher(raw)
	if err != nil {
		return key{}, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return key{}, err
	}
	sum := sha256.Sum256(append([]byte("hookladder key id\x00"), raw...))
	mac, err := macKey(raw)
	if err != nil {
		return key{}, err
	}
	return key{id: hex.EncodeToString(sum[:idSize]), aead: aead, mac: mac}, nil
}

// Seal encrypts a value with the first key. The sealed text differs each time.
func (b *Box) Seal(value string, at Place) string {
	k := b.keys[0]
	sealed := k.aead.Seal(nil, nil, []byte(value), at.data())
	return prefix + k.id + "." + base64.RawURLEncoding.EncodeToString(sealed)
}

// Seals reports whether a text is sealed with the first key, so that no other key is
// needed for it.
func (b *Box) Seals(text string) bool { return strings.HasPrefix(text, prefix+b.keys[0].id+".") }

// First returns the id of the key that seals; empty without a key.
func (b *Box) First() string {
	if b == nil {
		return ""
	}
	return b.keys[0].id
}

// IDs returns the ids of the keys.
func (b *Box) IDs() (ids []string) {
	for _, k := range b.all() {
		ids = append(ids, k.id)
	}
	return ids
}

// Open decrypts a sealed value. It returns ErrLocked if the box does not have the key,
// and ErrBroken if the text is not valid at this place.
func (b *Box) Open(text string, at Place) (string, error) {
	rest, ok := strings.CutPrefix(text, prefix)
	id, encoded, found := strings.Cut(rest, ".")
	if !ok || !found || strings.ContainsAny(encoded, "\r\n") { // the decoder would skip line breaks
		return "", ErrBroken
	}
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
	if err != nil {
		return "", ErrBroken // its error only has a position, which does not help
	}
	err = ErrLocked
	for _, k := range b.all() {
		if k.id != id {
			continue
		}
		value, wrong := k.aead.Open(nil, nil, sealed, at.data())
		if wrong == nil {
			return string(value), nil
		}
		err = ErrBroken
	}
	return "", err
}

func (b *Box) all() []key {
	if b == nil {
		return nil
	}
	return b.keys
}

// data returns a text that differs for each place.
func (p Place) data() []byte {
	out := binary.AppendUvarint(nil, uint64(len(p.Owner)))
	return append(append(out, p.Owner...), p.Field...)
}

// Format prints the number of keys for every verb, and no part of a key.
func (b Box) Format(f fmt.State, _ rune) { _, _ = fmt.Fprintf(f, "box of %d keys", len(b.keys)) }
