package inspect

import (
	"cmp"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/hookladder/hookladder/signer"
)

// A signedForm describes the text that a scheme signs before the body, and the form of its
// signature.
type signedForm struct {
	signsID, signsTime bool
	separator          string // behind the time
	signs              string // in words
	prefix             string // before each signature
	form               string // in words
	encoding           string
	hash               signer.Hash
}

var signedForms = map[signer.Scheme]signedForm{
	signer.Standard:        {true, true, ".", "id.timestamp.body", "v1,", "v1,<base64 of 32 bytes>", formBase64, signer.SHA256},
	signer.StandardEd25519: {true, true, ".", "id.timestamp.body", "v1a,", "v1a,<base64 of 64 bytes>", formBase64, signer.SHA256},
	signer.Stripe:          {false, true, ".", "timestamp.body", "v1=", "t=<Unix seconds>,v1=<hex of 32 bytes>", formHex, signer.SHA256},
	signer.GitHub:          {false, false, "", "the body alone", "sha256=", "sha256=<hex of 32 bytes>", formHex, signer.SHA256},
}

// formOf describes a form of hmac.
func formOf(f signer.Form) signedForm {
	s := signedForm{signs: "the body alone", prefix: f.Prefix, form: f.String(), encoding: formHex, hash: cmp.Or(f.Hash, signer.SHA256)}
	if f.Encoding == signer.Base64 {
		s.encoding = formBase64
	}
	switch f.Content {
	case signer.TimeDotBody:
		s.signsTime, s.separator, s.signs, s.prefix = true, ".", "timestamp.body", "v1="
	case signer.TimeCommaBody:
		s.signsTime, s.separator, s.signs, s.prefix = true, ",", "timestamp,body", "v1="
	}
	return s
}

// likelyForm returns the form of a header's value. Only Convoy signs a comma behind the time.
func likelyForm(name, text string) signer.Form {
	f := signer.Form{Header: name}
	if first := stripeTime(text); first != "" {
		f.Content = signer.TimeDotBody
		if strings.EqualFold(name, convoyHeader) {
			f.Content = signer.TimeCommaBody
		}
		_, text, _ = strings.Cut(text, "v1=")
		text, _, _ = strings.Cut(text, ",")
	} else {
		f.Prefix = versions.FindString(text)
		text = text[len(f.Prefix):]
	}
	sum, err := hex.DecodeString(text)
	if err != nil {
		if sum, err = base64.StdEncoding.DecodeString(text); err != nil {
			return signer.Form{Header: name} // its form is a mistake too
		}
		f.Encoding = signer.Base64
	}
	if len(sum) == sha512.Size {
		f.Hash = signer.SHA512
	}
	return f
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
	{signer.HeaderHMAC, signer.HMACHex, "hmac-hex"},
	{convoyHeader, signer.HMAC, "hmac"},
	{"x-outpost-signature", signer.HMAC, "hmac"},
	{"svix-signature", signer.Standard, "standard, if the headers are renamed to webhook-id, webhook-timestamp and webhook-signature"},
}

// convoyHeader is the header of Convoy, unless its project sets another one.
const convoyHeader = "x-convoy-signature"

// callback is a question that was parsed by a scheme.
type callback struct {
	*Question
	signedForm
	scheme    signer.Scheme
	hmac      signer.Form     // of HMAC and HMACHex
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
	switch c.scheme {
	case signer.HMACHex:
		c.hmac = signer.Form{Header: q.Form.Header}
	case signer.HMAC:
		c.hmac = q.Form
		if name := cmp.Or(q.Form.Header, q.likelyHeader()); q.Form == (signer.Form{Header: q.Form.Header}) {
			c.hmac = likelyForm(name, q.Header.Get(name))
		}
	}
	if c.scheme == signer.HMAC || c.scheme == signer.HMACHex {
		c.signedForm, c.name = formOf(c.hmac), strings.ToLower(cmp.Or(c.hmac.Header, c.name))
	}
	if !c.signsID { // Standard Webhooks has a list, which may be split over lines
		c.single = c.name
	}
	c.signature = strings.Join(q.Header.Values(c.name), " ")
	if c.signsTime && !c.signsID {
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
	case first.name == "" && q.Form == signer.Form{Header: q.Form.Header} && q.Form.Header != "":
		if likely := likelyForm(q.Form.Header, q.Header.Get(q.Form.Header)); likely == q.Form {
			return signer.HMACHex
		}
		return signer.HMAC
	case q.Form != signer.Form{Header: q.Form.Header}:
		return signer.HMAC
	case first.name == signer.HeaderSignature && (strings.Contains(text, "v1a,") && !strings.Contains(text, "v1,") || slices.ContainsFunc(q.Secrets, isEd25519)):
		return signer.StandardEd25519
	}
	return cmp.Or(first.scheme, signer.Standard)
}

// likelyHeader returns the first header that has a signature of hmac.
func (q *Question) likelyHeader() string {
	for _, h := range signatureHeaders {
		if (h.scheme == signer.HMAC || h.scheme == signer.HMACHex) && q.Header.Get(h.name) != "" {
			return h.name
		}
	}
	return signer.HeaderHMAC
}

// isEd25519 reports whether a text is a private or public key of ed25519.
func isEd25519(text string) bool {
	return strings.HasPrefix(text, signer.PublicPrefix) || strings.HasPrefix(text, signer.PrivatePrefix)
}

// stripeTime returns the first t in a header t=...,v1=..., as Stripe and Convoy write it.
func stripeTime(header string) string {
	for part := range strings.SplitSeq(header, ",") {
		if value, ok := strings.CutPrefix(strings.TrimSpace(part), "t="); ok {
			return value
		}
	}
	return ""
}
