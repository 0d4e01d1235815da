package seal

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"strings"
)

// macPrefix is the prefix of every proof. A proof is an HMAC-SHA256 with a key derived
// from one of the box's keys. The id of that key and the base64 of the sum follow.
const macPrefix = "mac1."

// macInfo separates the derived key from all others.
const macInfo = "hookladder record mac"

// Sign returns a proof for a public text, made with the first key. The proof is valid for
// that text at that place only.
func (b *Box) Sign(text []byte, at Place) string { return b.keys[0].sign(text, at) }

// Verify checks a proof for a text and a place. It returns ErrLocked if the box does not
// have the key, and ErrBroken if the proof is wrong. It accepts an earlier text if its
// proof is restored with it.
func (b *Box) Verify(proof string, text []byte, at Place) error {
	id, _, ok := strings.Cut(strings.TrimPrefix(proof, macPrefix), ".")
	if !ok || !strings.HasPrefix(proof, macPrefix) {
		return ErrBroken
	}
	err := ErrLocked
	for _, k := range b.all() {
		if k.id != id {
			continue
		}
		if hmac.Equal([]byte(k.sign(text, at)), []byte(proof)) {
			return nil
		}
		err = ErrBroken
	}
	return err
}

// Current reports whether a proof is made with the first key, so that no other key is
// needed for it.
func (b *Box) Current(proof string) bool { return strings.HasPrefix(proof, macPrefix+b.keys[0].id+".") }

func (k key) sign(text []byte, at Place) string {
	place := at.data()
	sum := hmac.New(sha256.New, k.mac)
	sum.Write(append(place, 0)) // no place contains a zero byte
	sum.Write(text)
	return macPrefix + k.id + "." + base64.RawURLEncoding.EncodeToString(sum.Sum(nil))
}

// macKey derives the key of proofs from a key of the box.
func macKey(raw []byte) ([]byte, error) { return hkdf.Key(sha256.New, raw, nil, macInfo, sha256.Size) }

// ProofKey returns the id of the key that made a proof, or "" if the text is not a proof.
func ProofKey(proof string) string {
	text, ok := strings.CutPrefix(proof, macPrefix)
	id, _, found := strings.Cut(text, ".")
	if !ok || !found {
		return ""
	}
	return id
}

// Has reports whether one of the box's keys has that id.
func (b *Box) Has(id string) bool {
	return slices.ContainsFunc(b.all(), func(k key) bool { return k.id == id })
}
