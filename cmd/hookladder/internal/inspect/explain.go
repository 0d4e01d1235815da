package inspect

import (
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"fmt"
	"hash"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/hookladder/hookladder/signer"
)

// A hashing is a function that HMAC may be made with.
type hashing struct {
	make func() hash.Hash
	says string
}

// hashes begins with the one that every scheme has.
var hashes = []hashing{
	{sha256.New, ""},
	{sha1.New, "was made with SHA-1"},
	{sha512.New, "was made with SHA-512"},
}

// content is what is signed around the body.
type content struct {
	head, tail string
	says       string // how it is wrong; empty: it is not
	cure       string
}

// mostMistakes is how many are looked for at a time: three could explain anything.
const mostMistakes = 2

// mostHashed is how much is hashed in the search, in bytes: seconds on any machine.
const mostHashed = 2 << 30

// explain finds the fewest mistakes that lead to a signature, and adds them to the
// report. It reports whether it found an explanation, which has no mistakes where the
// signature is right.
func (c *callback) explain(r *Report, keys []candidate, what, text string) (mistakes int, found bool) {
	sums := c.rated(decodings(text), what == ofHeader)
	if len(sums) == 0 {
		r.add(BadSignature, "pass it on as it came", "%s is not what %s has: want %s", what, c.scheme, c.form())
		return 1, true
	}
	s := quest{callback: c, sums: sums, keys: keys, contents: c.contents(), bodies: bodies(c.Body)}
	for most := range mostMistakes + 1 {
		if found, ok := s.find(most); ok {
			for _, m := range found {
				r.add(m.cause, m.cure, "%s %s", what, m.says)
			}
			return len(found), true
		}
	}
	if what == ofHeader && c.onlyOther() {
		r.add(OtherKind, "verify it with the key of that scheme", "%s has no signature of %s, only of another version", c.name, c.scheme)
		return 1, true
	}
	return 0, false
}

// The values that are explained, as a sentence begins.
const (
	ofHeader   = "the signature"
	ofReceiver = "your code's value"
)

// slip is one step away from what is right.
type slip struct {
	cause      Cause
	says, cure string
}

// quest goes through all that may have been signed.
type quest struct {
	*callback
	sums     []reading
	keys     []candidate
	contents []content
	bodies   []body
	hashed   int
}

// find looks for a signature that is explained by exactly so many mistakes.
func (s *quest) find(mistakes int) ([]slip, bool) {
	for _, k := range s.keys {
		for _, h := range hashes {
			if k.public != nil && h.says != "" {
				continue
			}
			for _, of := range s.contents {
				for _, b := range s.bodies {
					made := made(k, h, of, b)
					if len(made) > mistakes || s.hashed > mostHashed {
						continue
					}
					if more, ok := s.fits(k, h, of, b, mistakes-len(made)); ok {
						return append(made, more...), true
					}
				}
			}
		}
	}
	return nil, false
}

// fits reports whether one of the sums is what the key makes of a body, and has just
// so many mistakes of its own.
func (s *quest) fits(k candidate, h hashing, of content, b body, mistakes int) ([]slip, bool) {
	s.hashed += len(b.bytes)
	var sum []byte
	if k.public == nil {
		sum = k.sum(of, h, b.bytes)
	}
	for _, one := range s.sums {
		if len(one.mistakes) != mistakes {
			continue
		}
		if k.public == nil && hmac.Equal(sum, one.sum) || k.public != nil && k.makes(of, h, b.bytes, one.sum) {
			return one.mistakes, true
		}
	}
	return nil, false
}

// made are the mistakes in what is signed.
func made(k candidate, h hashing, of content, b body) (all []slip) {
	if k.says != "" {
		all = append(all, slip{OtherKey, k.says, k.cure})
	}
	if h.says != "" {
		all = append(all, slip{OtherHash, h.says, "use HMAC with SHA-256"})
	}
	if of.says != "" {
		all = append(all, slip{OtherContent, "is of " + of.says, of.cure})
	}
	if b.says != "" {
		all = append(all, slip{OtherBody, "is of " + b.says, b.cure})
	}
	return all
}

// content is what the scheme signs around the body.
func (c *callback) content() content {
	switch l := c.parts(); {
	case l.id:
		return content{head: c.id + "." + c.timestamp + "."}
	case l.time:
		return content{head: c.timestamp + "."}
	default:
		return content{}
	}
}

// contents begins with the right one.
func (c *callback) contents() []content {
	all := []content{c.content()}
	add := func(head, tail, says string) {
		for _, one := range all {
			if one.head == head && one.tail == tail {
				return
			}
		}
		all = append(all, content{head, tail, says, "sign " + c.signs() + ", with the headers' own text"})
	}
	seconds := c.timestamp
	if n, err := unixSeconds(c.timestamp); err != nil && n > 0 {
		seconds = strconv.FormatInt(n, 10)
		add(strings.Replace(all[0].head, c.timestamp, seconds, 1), "", "the timestamp in whole seconds, which is not what its header has")
	}
	for _, id := range otherIDs(c.Header) {
		if c.parts().id {
			add(id.value+"."+c.timestamp+".", "", "the id in "+id.name)
		}
	}
	add("", "", "the body alone")
	add(seconds+".", "", "timestamp.body, without the id")
	add(c.id+"."+seconds+".", "", "id.timestamp.body")
	add(c.id+".", "", "id.body, without the timestamp")
	add(seconds+"."+c.id+".", "", "timestamp.id.body, in another order")
	add(c.id+seconds, "", "the parts without dots between")
	add(seconds, "", "timestamp and body without a dot between")
	add("", "."+seconds, "body.timestamp, in another order")
	add("", "."+seconds+"."+c.id, "body.timestamp.id, in another order")
	add(c.id+"."+seconds+"000.", "", "the timestamp in milliseconds")
	add(seconds+"000.", "", "the timestamp in milliseconds")
	if n, err := strconv.ParseInt(seconds, 10, 64); err == nil {
		add(c.id+"."+time.Unix(n, 0).UTC().Format(time.RFC3339)+".", "", "the timestamp as a date")
	}
	return all
}

// signs is what the scheme signs, in words.
func (c *callback) signs() string {
	switch l := c.parts(); {
	case l.id:
		return "id.timestamp.body"
	case l.time:
		return "timestamp.body"
	default:
		return "the body alone"
	}
}

// headerValue is a header that could be taken for the id.
type headerValue struct{ name, value string }

// mostIDs is how many headers are tried as the id.
const mostIDs = 8

func otherIDs(h http.Header) (all []headerValue) {
	for _, name := range []string{"svix-id", "x-request-id", "idempotency-key", "x-correlation-id", "hookladder-id", "x-message-id"} {
		if value := h.Get(name); value != "" && len(all) < mostIDs {
			all = append(all, headerValue{name, value})
		}
	}
	return all
}

// form is how a signature looks, in words.
func (c *callback) form() string {
	switch c.scheme {
	case signer.Stripe:
		return "t=<Unix seconds>,v1=<hex of 32 bytes>"
	case signer.GitHub:
		return "sha256=<hex of 32 bytes>"
	case signer.HMACHex:
		return "<hex of 32 bytes>"
	case signer.StandardEd25519:
		return "v1a,<base64 of 64 bytes>"
	default:
		return "v1,<base64 of 32 bytes>"
	}
}

// onlyOther reports whether the header has signatures of another version only.
func (c *callback) onlyOther() bool {
	prefix := c.prefix()
	return prefix != "" && !strings.Contains(c.signature, prefix) && c.scheme != signer.GitHub
}

// prefix stands before each signature.
func (c *callback) prefix() string {
	text, _, _ := strings.Cut(c.form(), "<")
	if c.scheme == signer.Stripe {
		return "v1="
	}
	return text
}

// rated adds the mistakes of form that a scheme sees in the readings of a signature.
// A value that the receiver's code came to needs no version before it.
func (c *callback) rated(all []reading, versioned bool) []reading {
	want := formHex
	if c.scheme == signer.Standard || c.scheme == signer.StandardEd25519 {
		want = formBase64
	}
	for i, one := range all {
		if versioned && one.prefix != c.prefix() {
			says := fmt.Sprintf("has no %s before it", c.prefix())
			if one.prefix != "" {
				says = fmt.Sprintf("has %s before it", one.prefix)
			}
			all[i].mistakes = append(all[i].mistakes, slip{OtherEncoding, says, "write " + c.form()})
		}
		if one.form != want {
			all[i].mistakes = append(all[i].mistakes, slip{OtherEncoding, fmt.Sprintf("is in %s, not in %s", one.form, want), "write " + c.form()})
		}
	}
	return all
}
