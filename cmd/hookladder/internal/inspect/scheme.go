package inspect

import (
	"cmp"
	"slices"
	"strings"

	"github.com/hookladder/hookladder/signer"
)

// A signedForm describes the text that a scheme signs before the body, and the form of its
// signature.
type signedForm struct {
	signsID, signsTime bool
	signs              string // in words
	prefix             string // before each signature
	form               string // in words
	encoding           string
}

var signedForms = map[signer.Scheme]signedForm{
	signer.Standard:        {true, true, "id.timestamp.body", "v1,", "v1,<base64 of 32 bytes>", formBase64},
	signer.StandardEd25519: {true, true, "id.timestamp.body", "v1a,", "v1a,<base64 of 64 bytes>", formBase64},
	signer.Stripe:          {false, true, "timestamp.body", "v1=", "t=<Unix seconds>,v1=<hex of 32 bytes>", formHex},
	signer.GitHub:          {false, false, "the body alone", "sha256=", "sha256=<hex of 32 bytes>", formHex},
	signer.HMACHex:         {false, false, "the body alone", "", "<hex of 32 bytes>", formHex},
}

// A signatureHeader is a header with signatures of a scheme.
type signatureHeader struct {
	name   string
	scheme signer.Scheme
	says   string
}

var signatureHeaders = []signatureHeader{
	{signer.HeaderSignature, signer.Standard, "standard"},
	{signer.HeaderStripe, signer.Stripe, "stripe"},
	{signer.HeaderGitHub, signer.GitHub, "github"},
	{signer.HeaderHMACHex, signer.HMACHex, "hmac-hex"},
	{"svix-signature", signer.Standard, "standard, if the headers are renamed to webhook-id, webhook-timestamp and webhook-signature"},
}

// callback is a question that was parsed by a scheme.
type callback struct {
	*Question
	signedForm
	scheme    signer.Scheme
	name      string          // of the header with the signature
	single    string          // the same, if that header has no list; else empty
	other     signatureHeader // of another scheme that was found instead
	id        string
	timestamp string // as its header has it
	signature string
}

func newCallback(q *Question) *callback {
	c := &callback{Question: q, scheme: cmp.Or(q.Scheme, q.likelyScheme()), id: q.Header.Get(signer.HeaderID), timestamp: q.Header.Get(signer.HeaderTimestamp)}
	c.signedForm = signedForms[c.scheme]
	c.name = strings.ToLower(c.scheme.Header())
	if c.scheme == signer.HMACHex {
		c.name = strings.ToLower(cmp.Or(q.Name, c.name))
	}
	if c.encoding == formHex { // the other schemes have a list, which may be split over lines
		c.single = c.name
	}
	c.signature = strings.Join(q.Header.Values(c.name), " ")
	if c.scheme == signer.Stripe {
		c.timestamp = stripeTime(c.signature)
	}
	if c.signature == "" {
		c.other = q.firstSignature()
	}
	return c
}

// firstSignature returns the first header that has a signature.
func (q *Question) firstSignature() signatureHeader {
	if i := slices.IndexFunc(signatureHeaders, func(h signatureHeader) bool { return q.Header.Get(h.name) != "" }); i >= 0 {
		return signatureHeaders[i]
	}
	return signatureHeader{}
}

// likelyScheme returns the scheme of the first header that has a signature.
func (q *Question) likelyScheme() signer.Scheme {
	first := q.firstSignature()
	text := q.Header.Get(first.name)
	switch {
	case first.name == "" && q.Name != "":
		return signer.HMACHex
	case first.name == signer.HeaderSignature && (strings.Contains(text, "v1a,") && !strings.Contains(text, "v1,") || slices.ContainsFunc(q.Secrets, isEd25519)):
		return signer.StandardEd25519
	}
	return cmp.Or(first.scheme, signer.Standard)
}

// isEd25519 reports whether a text is a private or public key of ed25519.
func isEd25519(text string) bool {
	return strings.HasPrefix(text, signer.PublicPrefix) || strings.HasPrefix(text, signer.PrivatePrefix)
}

// stripeTime returns the first t in a header of Stripe's scheme.
func stripeTime(header string) string {
	for part := range strings.SplitSeq(header, ",") {
		if value, ok := strings.CutPrefix(strings.TrimSpace(part), "t="); ok {
			return value
		}
	}
	return ""
}
