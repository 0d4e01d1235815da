package diagnose

import (
	"cmp"
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

// An assumption is one value that the sender may have used, and its mistake.
type assumption struct {
	Finding
	value string
}

// assumptions has the right value first, and then each different value that a mistake makes of it.
type assumptions []assumption

// right appends a value without a mistake.
func (t *assumptions) right(value string) { t.add("", value, "", "") }

// add appends a value of a mistake that is not there yet.
func (t *assumptions) add(cause Cause, value, says, cure string) {
	if !slices.ContainsFunc(*t, func(other assumption) bool { return other.value == value }) {
		*t = append(*t, assumption{Finding{cause, says, cure}, value})
	}
}

// Limits of the search.
const (
	mostMistakes   = 2       // three mistakes could explain any signature
	mostHashed     = 2 << 30 // bytes, unless the question says less
	mostSignatures = 32      // of a header, as in signer
)

// explain finds the fewest mistakes that lead to a signature. A right one has none. Without an
// explanation it returns a finding that says so.
func (c *callback) explain(keys assumptions, what, text string) (found []Finding, explained bool) {
	if text == "" {
		return nil, false
	}
	s := signatureSearch{c, c.sums(text), keys, c.hashes(), c.contents(), bodies(c.Body)}
	if len(s.sums) == 0 {
		return []Finding{{BadSignature, fmt.Sprintf("%s is not what %s has: want %s", what, c.scheme, c.shape), "pass it on as it came"}}, true
	}
	for n := range mostMistakes + 1 {
		if found, ok := s.find(n); ok {
			for i := range found {
				found[i].Says = what + " " + found[i].Says
			}
			return found, n > 0
		}
	}
	return []Finding{{OtherSecret, what + " was made with another secret, or of another body: it fits none of the usual mistakes",
		"compare both secrets" + c.fingerprints() + ", and the length of each part that is signed"}}, false
}

// fingerprints returns those of the secrets, as the sender shows its own; empty: they are plain texts.
func (c *callback) fingerprints() string {
	var all []string
	for _, text := range c.Secrets {
		if s, err := c.scheme.ParseSecret(text); err == nil && s.Fingerprint() != "" {
			all = append(all, s.Fingerprint())
		}
	}
	if len(all) == 0 {
		return ""
	}
	return " (the fingerprint of the one here is " + strings.Join(all, ", ") + ")"
}

// signatureSearch combines all keys, hashes, contents and bodies.
type signatureSearch struct {
	*callback
	sums, keys, hashes, contents, bodies assumptions
}

// find returns the first combination that has exactly n mistakes and makes the signature.
func (s *signatureSearch) find(n int) ([]Finding, bool) {
	hashed, most := 0, cmp.Or(s.Hashed, mostHashed)
	for _, k := range s.keys {
		for _, h := range s.hashes {
			for _, of := range s.contents {
				for _, b := range s.bodies {
					made := mistakes(k.Finding, h.Finding, of.Finding, b.Finding)
					if len(made) > n || hashed > most {
						continue
					}
					hashed += len(b.value)
					fits := s.makes(k.value, h.value, of.value+b.value)
					for _, sum := range s.sums {
						if all := append(made, mistakes(sum.Finding)...); len(all) == n && fits(sum.value) {
							return all, true
						}
					}
				}
			}
		}
	}
	return nil, false
}

// mistakes returns the findings that are one.
func mistakes(all ...Finding) []Finding {
	return slices.DeleteFunc(all, func(f Finding) bool { return f.Cause == "" })
}

// makes returns a function that reports whether a key makes a signature of the text.
func (c *callback) makes(key, hashName, text string) func(signature string) bool {
	if c.scheme == signer.StandardEd25519 {
		return func(signature string) bool {
			return len(signature) == ed25519.SignatureSize && ed25519.Verify([]byte(key), []byte(text), []byte(signature))
		}
	}
	mac := hmac.New(hashFuncs[hashName], []byte(key))
	mac.Write([]byte(text))
	sum := mac.Sum(nil)
	return func(signature string) bool { return hmac.Equal(sum, []byte(signature)) }
}

// hashes returns the name of the scheme's hash function, and then of the others.
func (c *callback) hashes() (all assumptions) {
	right := "SHA-256"
	if c.form.Hash == signer.SHA512 {
		right = "SHA-512"
	}
	all.right(right)
	for _, name := range []string{"SHA-256", "SHA-512", "SHA-1"} {
		all.add(OtherHash, name, "was made with "+name, "use HMAC with "+right)
	}
	return all
}

var hashFuncs = map[string]func() hash.Hash{"SHA-256": sha256.New, "SHA-512": sha512.New, "SHA-1": sha1.New}

// encodings decode signatures. They return an empty text instead of an error.
var encodings = []struct {
	name   string
	decode func(string) string
}{
	{string(signer.Hex), func(text string) string { return valid(hex.DecodeString(text)) }},
	{string(signer.Base64), func(text string) string { return valid(base64.StdEncoding.DecodeString(text)) }},
	{"the base64 of URLs, or without padding", decoded},
	{"base64 of hex", func(text string) string { return valid(hex.DecodeString(decoded(text))) }},
}

// versions matches the version before a signature in some headers.
var versions = regexp.MustCompile(`^(v[0-9]{1,3}[a-z]?[,=:]|sha(?:1|256|512)[=:])`)

// sums returns all ways to decode the signatures in a text, and the mistakes in their form. A
// signature from the receiver's own code needs no version before it.
func (c *callback) sums(text string) (all assumptions) {
	words := strings.Fields(text)
	switch {
	case strings.Contains(text, "t="): // a list of Stripe or Convoy
		words = strings.Split(text, ",")
	case strings.Contains(c.prefix, " "):
		words = []string{text}
	}
	for _, word := range words[:min(len(words), mostSignatures)] {
		prefix := versions.FindString(word)
		if c.prefix != "" && strings.HasPrefix(word, c.prefix) {
			prefix = c.prefix
		}
		for _, e := range encodings {
			sum := e.decode(word[len(prefix):])
			if !slices.Contains([]int{20, 32, 64}, len(sum)) { // of SHA-1, SHA-256, and SHA-512 or ed25519
				continue
			}
			if e.name == string(signer.Hex) && word != strings.ToLower(word) {
				e.name = "hex in upper case"
			}
			var says []string
			if prefix != c.prefix && text != c.Computed {
				says = append(says, fmt.Sprintf("has %s before it", cmp.Or(prefix, "no "+c.prefix)))
			}
			if e.name != string(c.encoding) {
				says = append(says, fmt.Sprintf("is in %s, not in %s", e.name, c.encoding))
			}
			if len(says) == 0 {
				all.right(sum)
			}
			all.add(OtherEncoding, sum, strings.Join(says, ", and "), "write "+c.shape)
		}
	}
	return all
}
