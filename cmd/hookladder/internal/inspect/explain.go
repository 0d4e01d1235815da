package inspect

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"hash"
	"regexp"
	"slices"
	"strings"

	"github.com/hookladder/hookladder/signer"
)

// A deviation is one step away from the right signature. The zero value is no mistake.
type deviation struct {
	cause      Cause
	says, cure string
}

// mistakes returns 1, or 0 if it is no deviation.
func (d *deviation) mistakes() int {
	if d.cause == "" {
		return 0
	}
	return 1
}

// A hashing is a hash function for HMAC.
type hashing struct {
	deviation
	make func() hash.Hash
}

// hashes returns the function of the scheme first.
func (c *callback) hashes() []hashing {
	all := []hashing{
		{deviation{OtherHash, "was made with SHA-256", "use HMAC with SHA-512"}, sha256.New},
		{deviation{OtherHash, "was made with SHA-512", "use HMAC with SHA-256"}, sha512.New},
	}
	if c.hash == signer.SHA512 {
		slices.Reverse(all)
	}
	all[0].deviation = deviation{}
	return append(all, hashing{deviation{OtherHash, "was made with SHA-1", all[1].cure}, sha1.New})
}

// Limits of the search.
const (
	mostMistakes   = 2       // three mistakes could explain any signature
	mostHashed     = 2 << 30 // bytes: seconds on any machine
	mostSignatures = 32      // of a header, as in signer
)

// explain finds the fewest mistakes that lead to a signature, and adds them to the report. It
// returns 0 for a right signature.
func (c *callback) explain(r *Report, keys []candidate, what, text string) (mistakes int, found bool) {
	s := signatureSearch{callback: c, sums: c.readings(text, what == ofHeader), keys: keys, contents: c.contents(), bodies: bodies(c.Body), hashes: c.hashes()}
	if len(s.sums) == 0 {
		r.add(BadSignature, what, c.scheme, c.form)
		return 1, true
	}
	for most := range mostMistakes + 1 {
		if list, ok := s.find(most); ok {
			for _, m := range list {
				r.Findings = append(r.Findings, Finding{m.cause, what + " " + m.says, m.cure})
			}
			return len(list), true
		}
	}
	if what == ofHeader && c.signsTime && !strings.Contains(c.signature, c.prefix) {
		r.add(OtherKind, c.name+" has signatures only of another version, and none", c.scheme)
		return 1, true
	}
	return 0, false
}

// signatureSearch combines all keys, hashes, contents and bodies.
type signatureSearch struct {
	*callback
	sums     []reading
	keys     []candidate
	contents []content
	bodies   []body
	hashes   []hashing
	hashed   int
}

// find returns the first combination that has exactly n mistakes and makes the signature.
func (s *signatureSearch) find(n int) ([]deviation, bool) {
	for _, k := range s.keys {
		for _, h := range s.hashes {
			if k.public != nil && h.cause != "" {
				continue
			}
			for _, of := range s.contents {
				for _, b := range s.bodies {
					left := n - k.mistakes() - h.mistakes() - of.mistakes() - b.mistakes()
					if left < 0 || s.hashed > mostHashed {
						continue
					}
					if more, ok := s.fits(k, h, of, b, left); ok {
						made := []deviation{k.deviation, h.deviation, of.deviation, b.deviation}
						made = slices.DeleteFunc(made, func(m deviation) bool { return m.mistakes() == 0 })
						return append(made, more...), true
					}
				}
			}
		}
	}
	return nil, false
}

// fits reports whether the key makes one of the signatures whose form has n mistakes.
func (s *signatureSearch) fits(k candidate, h hashing, of content, b body, n int) ([]deviation, bool) {
	s.hashed += len(b.bytes)
	signed := slices.Concat([]byte(of.head), b.bytes, []byte(of.tail))
	makes := func(signature []byte) bool {
		return len(signature) == ed25519.SignatureSize && ed25519.Verify(k.public, signed, signature)
	}
	if k.public == nil {
		mac := hmac.New(h.make, k.mac)
		mac.Write(signed)
		sum := mac.Sum(nil)
		makes = func(signature []byte) bool { return hmac.Equal(sum, signature) }
	}
	for _, one := range s.sums {
		if len(one.mistakes) == n && makes(one.sum) {
			return one.mistakes, true
		}
	}
	return nil, false
}

// A reading is one way to decode a signature.
type reading struct {
	sum      []byte
	mistakes []deviation
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
		var wrong []deviation
		if versioned && prefix != c.prefix {
			says := fmt.Sprintf("has no %s before it", c.prefix)
			if prefix != "" {
				says = fmt.Sprintf("has %s before it", prefix)
			}
			wrong = []deviation{{OtherEncoding, says, "write " + c.form}}
		}
		for _, e := range encodings {
			sum, err := e.decode(word[len(prefix):])
			if err != nil || len(sum) != 20 && len(sum) != 32 && len(sum) != 64 {
				continue
			}
			one := reading{sum, slices.Clip(wrong)}
			if e.name == formHex && word != strings.ToLower(word) {
				e.name = "hex in upper case"
			}
			if e.name != c.encoding {
				one.mistakes = append(one.mistakes, deviation{OtherEncoding, fmt.Sprintf("is in %s, not in %s", e.name, c.encoding), "write " + c.form})
			}
			all = append(all, one)
		}
	}
	return all
}
