package inspect

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/hookladder/hookladder/signer"
)

// callback is a question as a scheme reads it.
type callback struct {
	*Question
	scheme    signer.Scheme
	name      string // of the header that holds the signature
	other     string // of another scheme's header, where that is there instead
	id        string
	timestamp string // as its header has it
	signature string
}

// signedParts is which parts a scheme signs before the body.
type signedParts struct{ id, time bool }

func (c *callback) parts() signedParts {
	switch c.scheme {
	case signer.GitHub, signer.HMACHex:
		return signedParts{}
	case signer.Stripe:
		return signedParts{time: true}
	default:
		return signedParts{id: true, time: true}
	}
}

// signatureHeaders are the names under which signatures come, and their schemes.
var signatureHeaders = []struct {
	name   string
	scheme signer.Scheme
}{
	{signer.HeaderSignature, signer.Standard},
	{signer.HeaderStripe, signer.Stripe},
	{signer.HeaderGitHub, signer.GitHub},
	{signer.HeaderHMACHex, signer.HMACHex},
	{"svix-signature", signer.Standard},
}

func newCallback(q *Question) *callback {
	c := &callback{Question: q, scheme: q.Scheme}
	if c.scheme == "" {
		c.scheme = c.looksLike()
	}
	c.name = strings.ToLower(c.scheme.Header())
	if c.scheme == signer.HMACHex {
		c.name = strings.ToLower(cmp.Or(q.Name, c.name))
	}
	c.id, c.timestamp = q.Header.Get(signer.HeaderID), q.Header.Get(signer.HeaderTimestamp)
	c.signature = strings.Join(q.Header.Values(c.name), " ")
	if c.scheme == signer.Stripe {
		c.timestamp = stripePart(c.signature, "t")
	}
	if c.signature != "" {
		return c
	}
	for _, h := range signatureHeaders {
		if q.Header.Get(h.name) != "" {
			c.other = h.name
			break
		}
	}
	return c
}

// looksLike is the scheme of the first header that holds a signature.
func (q *Question) looksLike() signer.Scheme {
	for _, h := range signatureHeaders {
		text := q.Header.Get(h.name)
		switch {
		case text == "":
			continue
		case h.name != signer.HeaderSignature:
			return h.scheme
		case strings.Contains(text, "v1a,") && !strings.Contains(text, "v1,"), q.hasPublicKeys():
			return signer.StandardEd25519
		}
		return h.scheme
	}
	if q.Name != "" {
		return signer.HMACHex
	}
	return signer.Standard
}

func (q *Question) hasPublicKeys() bool {
	for _, s := range q.Secrets {
		if strings.HasPrefix(s, signer.PublicPrefix) || strings.HasPrefix(s, signer.PrivatePrefix) {
			return true
		}
	}
	return false
}

// otherScheme names the scheme of the header that is there instead.
func (c *callback) otherScheme() string {
	for _, h := range signatureHeaders {
		if h.name == c.other {
			if c.other == "svix-signature" {
				return "standard, with the names of its headers changed to webhook-id, webhook-timestamp and webhook-signature"
			}
			return h.scheme.String()
		}
	}
	return ""
}

// clockName is where the timestamp stands.
func (c *callback) clockName() string {
	if c.scheme == signer.Stripe {
		return "t in " + signer.HeaderStripe
	}
	return signer.HeaderTimestamp
}

// signedAt is the time that is signed, so that a verifier judges all but the age.
func (c *callback) signedAt() time.Time {
	seconds, err := unixSeconds(c.timestamp)
	if err != nil {
		return c.At
	}
	return time.Unix(seconds, 0)
}

// stripePart is the first value of a name in a header of Stripe's scheme.
func stripePart(header, name string) string {
	for part := range strings.SplitSeq(header, ",") {
		if value, ok := strings.CutPrefix(strings.TrimSpace(part), name+"="); ok {
			return value
		}
	}
	return ""
}

// The forms in which a timestamp comes by mistake.
var (
	errMillis = errors.New("in milliseconds")
	errDate   = errors.New("a date")
	errNotInt = errors.New("no number")
)

// mostSeconds is a time in the year 5138. Milliseconds of today are far above it.
const mostSeconds = 100_000_000_000

// unixSeconds reads a timestamp. The number is right also where the form is not.
func unixSeconds(text string) (int64, error) {
	text = strings.TrimSpace(text)
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		if n >= mostSeconds {
			return n / 1000, errMillis
		}
		return n, nil
	}
	for _, form := range []string{time.RFC3339Nano, time.RFC1123, time.RFC1123Z, "2006-01-02 15:04:05"} {
		if at, err := time.Parse(form, text); err == nil {
			return at.Unix(), fmt.Errorf("%w, %s", errDate, form)
		}
	}
	return 0, errNotInt
}
