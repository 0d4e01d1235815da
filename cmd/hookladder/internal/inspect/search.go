package inspect

import (
	"cmp"
	"crypto"
	"crypto/ed25519"
	"crypto/hmac"
	_ "crypto/sha1"
	_ "crypto/sha256"
	_ "crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/hookladder/hookladder/signer"
)

// An assumption is one value that the sender may have used, and its mistake.
type assumption[T comparable] struct {
	Finding
	value T
}

// assumptions has the right value first, and then each different value that a mistake makes of it.
type assumptions[T comparable] []assumption[T]

// add appends a value of a mistake that is not there yet.
func (t *assumptions[T]) add(cause Cause, value T, cure, says string) {
	if !slices.ContainsFunc(*t, func(other assumption[T]) bool { return other.value == value }) {
		*t = append(*t, assumption[T]{Finding{cause, says, cure}, value})
	}
}

// hashes returns the function of the scheme first.
func (c *callback) hashes() assumptions[crypto.Hash] {
	right, cure := crypto.SHA256, "use HMAC with SHA-256"
	if c.hash == signer.SHA512 {
		right, cure = crypto.SHA512, "use HMAC with SHA-512"
	}
	all := assumptions[crypto.Hash]{{value: right}}
	for _, h := range []crypto.Hash{crypto.SHA256, crypto.SHA512, crypto.SHA1} {
		all.add(OtherHash, h, cure, "was made with "+h.String())
	}
	return all
}

// Limits of the search.
const (
	mostMistakes   = 2       // three mistakes could explain any signature
	mostHashed     = 2 << 30 // bytes: seconds on any machine
	mostSignatures = 32      // of a header, as in signer
)

// explain finds the fewest mistakes that lead to a signature, and adds them to the report. It
// returns 0 for a right signature.
func (c *callback) explain(r *Report, keys assumptions[secretKey], what, text string) (mistakes int, found bool) {
	s := signatureSearch{sums: c.readings(text, what == ofHeader), keys: keys, contents: c.contents(), bodies: bodies(c.Body), hashes: c.hashes()}
	if len(s.sums) == 0 {
		r.add(BadSignature, "pass it on as it came", "%s is not what %s has: want %s", what, c.scheme, c.form)
		return 1, true
	}
	for most := range mostMistakes + 1 {
		if list, ok := s.find(most); ok {
			for _, m := range list {
				r.add(m.Cause, m.Cure, "%s %s", what, m.Says)
			}
			return len(list), true
		}
	}
	if what == ofHeader && c.signsTime && !strings.Contains(c.signature, c.prefix) {
		r.add(OtherKind, cureKind, "%s has signatures only of another version, and none of %s", c.name, c.scheme)
		return 1, true
	}
	return 0, false
}

// signatureSearch combines all keys, hashes, contents and bodies.
type signatureSearch struct {
	sums     []reading
	keys     assumptions[secretKey]
	contents assumptions[content]
	bodies   assumptions[string]
	hashes   assumptions[crypto.Hash]
	hashed   int
}

// find returns the first combination that has exactly n mistakes and makes the signature.
func (s *signatureSearch) find(n int) ([]Finding, bool) {
	for _, k := range s.keys {
		for _, h := range s.hashes {
			if k.value.public != "" && h.Cause != "" {
				continue
			}
			for _, of := range s.contents {
				for _, b := range s.bodies {
					made := mistakes(k.Finding, h.Finding, of.Finding, b.Finding)
					if len(made) > n || s.hashed > mostHashed {
						continue
					}
					s.hashed += len(b.value)
					makes := k.value.signs(h.value, of.value.head+b.value+of.value.tail)
					for _, one := range s.sums {
						if len(made)+len(one.mistakes) == n && makes(one.sum) {
							return append(made, one.mistakes...), true
						}
					}
				}
			}
		}
	}
	return nil, false
}

// mistakes returns the findings that are one.
func mistakes(all ...Finding) (some []Finding) {
	for _, f := range all {
		if f.Cause != "" {
			some = append(some, f)
		}
	}
	return some
}

// signs returns a function that reports whether the key makes a signature of the text.
func (k secretKey) signs(h crypto.Hash, text string) func(signature []byte) bool {
	if k.public != "" {
		return func(signature []byte) bool {
			return len(signature) == ed25519.SignatureSize && ed25519.Verify([]byte(k.public), []byte(text), signature)
		}
	}
	mac := hmac.New(h.New, []byte(k.mac))
	mac.Write([]byte(text))
	sum := mac.Sum(nil)
	return func(signature []byte) bool { return hmac.Equal(sum, signature) }
}

// A reading is one way to decode a signature.
type reading struct {
	sum      []byte
	mistakes []Finding
}

// The encodings of the schemes.
const (
	formHex    = "hex"
	formBase64 = "base64"
)

var encodings = []struct {
	name   string
	decode func(string) ([]byte, error)
}{
	{formHex, hex.DecodeString},
	{formBase64, base64.StdEncoding.DecodeString},
	{"base64 without padding", base64.RawStdEncoding.DecodeString},
	{"the base64 of URLs", base64.URLEncoding.DecodeString},
	{"the base64 of URLs without padding", base64.RawURLEncoding.DecodeString},
	{"base64 of hex", func(text string) ([]byte, error) {
		inner, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return nil, err
		}
		return hex.DecodeString(string(inner))
	}},
}

// versions matches the version before a signature in some headers.
var versions = regexp.MustCompile(`^(v[0-9]+[a-z]?[,=:]|sha(?:1|256|512)[=:])`)

// readings returns all ways to decode the signatures in a text. A signature has 20, 32 or 64
// bytes. A signature from the receiver's own code needs no version before it.
func (c *callback) readings(text string, versioned bool) (all []reading) {
	words := strings.Fields(text)
	switch {
	case strings.Contains(text, "t="): // a list of Stripe or Convoy
		words = strings.Split(text, ",")
	case strings.Contains(c.prefix, " "):
		words = []string{text}
	}
	for _, word := range words[:min(len(words), mostSignatures)] {
		word = strings.Trim(strings.TrimSpace(word), `"'`)
		prefix := versions.FindString(word)
		if c.prefix != "" && strings.HasPrefix(word, c.prefix) {
			prefix = c.prefix
		}
		var version Finding
		if versioned && prefix != c.prefix {
			version = Finding{OtherEncoding, fmt.Sprintf("has %s before it", cmp.Or(prefix, "no "+c.prefix)), "write " + c.form}
		}
		for _, e := range encodings {
			sum, err := e.decode(word[len(prefix):])
			if err != nil || len(sum) != 20 && len(sum) != 32 && len(sum) != 64 {
				continue
			}
			if e.name == formHex && word != strings.ToLower(word) {
				e.name = "hex in upper case"
			}
			var encoding Finding
			if e.name != c.encoding {
				encoding = Finding{OtherEncoding, fmt.Sprintf("is in %s, not in %s", e.name, c.encoding), "write " + c.form}
			}
			all = append(all, reading{sum, mistakes(version, encoding)})
		}
	}
	return all
}
