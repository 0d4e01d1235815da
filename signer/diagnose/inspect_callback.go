package diagnose

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hookladder/hookladder/ladder"
	"github.com/hookladder/hookladder/signer"
)

// signatureHeaders are the headers with signatures, and their schemes.
var signatureHeaders = []struct {
	name   string
	scheme signer.Scheme
}{
	{signer.HeaderSignature, signer.Standard},
	{signer.HeaderStripe, signer.Stripe},
	{signer.HeaderGitHub, signer.GitHub},
	{signer.HeaderHMAC, signer.HMACHex},
	{"x-convoy-signature", signer.HMAC},
	{"x-outpost-signature", signer.HMAC},
	{"svix-signature", signer.Standard},
}

// firstSignature returns the first header that has a signature.
func (q *Question) firstSignature() (name string, scheme signer.Scheme) {
	for _, h := range signatureHeaders {
		if q.Header.Get(h.name) != "" {
			return h.name, h.scheme
		}
	}
	return "", ""
}

// likelyForm returns the first form of hmac that fits a header's value. If none does, its form is
// a mistake too. Only Convoy signs a comma behind the time.
func likelyForm(name, text string) signer.Form {
	f := signer.Form{Header: name}
	switch {
	case timeOf(text) == "":
		f.Prefix = versions.FindString(text)
	case strings.EqualFold(name, "x-convoy-signature"):
		f.Content = signer.TimeCommaBody
	default:
		f.Content = signer.TimeDotBody
	}
	for _, f.Hash = range signer.Hashes() {
		for _, f.Encoding = range signer.Encodings() {
			v := signer.Verifier{Scheme: signer.HMAC, Form: f, Secrets: []signer.Secret{signer.HMAC.NewSecret()}}
			if !errors.Is(v.Verify(signer.Signed{Signature: text}, nil), signer.ErrSignature) {
				return f
			}
		}
	}
	return signer.Form{Header: name}
}

// timeOf returns the t of a header t=...,v1=..., as Stripe and Convoy write it.
func timeOf(header string) string {
	_, text, _ := strings.Cut(","+header, ",t=")
	text, _, _ = strings.Cut(text, ",")
	return text
}

// callback is a question that was parsed by a scheme.
type callback struct {
	*Question
	scheme   signer.Scheme
	standard bool        // a scheme of Standard Webhooks
	form     signer.Form // of the other schemes, which are all hmac

	name                     string    // of the header with the signature
	id, timestamp, signature string    // as their headers have them
	signedAt                 time.Time // zero: it is not signed, or no number

	head, signs   string // the text that is signed before the body, and all signed parts in words
	prefix, shape string // before each signature, and of a whole one in words
	encoding      signer.Encoding
}

func newCallback(q *Question) *callback {
	first, found := q.firstSignature()
	scheme := cmp.Or(q.Scheme, found, signer.Standard)
	switch {
	case q.Scheme != "":
	case q.Form != signer.Form{}:
		scheme = signer.HMAC
	case first == signer.HeaderSignature && slices.ContainsFunc(q.Secrets, isEd25519):
		scheme = signer.StandardEd25519
	}
	c := &callback{Question: q, scheme: scheme, form: q.Form}
	c.standard = scheme == signer.Standard || scheme == signer.StandardEd25519
	switch {
	case scheme == signer.Stripe:
		c.form = signer.Form{Header: signer.HeaderStripe, Content: signer.TimeDotBody}
	case scheme == signer.GitHub:
		c.form = signer.Form{Header: signer.HeaderGitHub, Prefix: "sha256="}
	case scheme == signer.HMAC && q.Form == signer.Form{Header: q.Form.Header}:
		if found != signer.HMAC {
			first = signer.HeaderHMAC
		}
		name := cmp.Or(q.Form.Header, first)
		c.form = likelyForm(name, q.Header.Get(name))
	}
	c.name = strings.ToLower(cmp.Or(c.form.Header, scheme.Header()))
	c.id, c.signature = q.Header.Get(signer.HeaderID), strings.Join(q.Header.Values(c.name), " ")
	c.timestamp = cmp.Or(timeOf(c.signature), q.Header.Get(signer.HeaderTimestamp))
	c.describe()
	if n, err := strconv.ParseInt(c.timestamp, 10, 64); err == nil && c.head != "" {
		c.signedAt = time.Unix(n, 0)
		if n >= 100_000_000_000 { // milliseconds, because as seconds it is after the year 5138
			c.signedAt = time.UnixMilli(n)
		}
	}
	return c
}

// describe sets the signed text, and the form of the signature.
func (c *callback) describe() {
	c.signs, c.prefix, c.shape, c.encoding = "the body alone", c.form.Prefix, c.form.String(), cmp.Or(c.form.Encoding, signer.Hex)
	switch {
	case c.standard:
		c.head, c.signs, c.encoding = c.id+"."+c.timestamp+".", "id.timestamp.body", signer.Base64
		c.prefix, c.shape = "v1,", "v1,<base64 of 32 bytes>"
		if c.scheme == signer.StandardEd25519 {
			c.prefix, c.shape = "v1a,", "v1a,<base64 of 64 bytes>"
		}
	case c.form.Content == signer.TimeDotBody:
		c.head, c.signs, c.prefix = c.timestamp+".", "timestamp.body", "v1="
	case c.form.Content == signer.TimeCommaBody:
		c.head, c.signs, c.prefix = c.timestamp+",", "timestamp,body", "v1="
	}
}

// received reports the causes that apply to valid signatures too.
func (c *callback) received(r *Inspection) {
	for _, name := range []string{c.name, signer.HeaderID, signer.HeaderTimestamp} {
		// Standard Webhooks has a list of signatures, which may be split over lines.
		if len(c.Header.Values(name)) > 1 && (name != c.name || !c.standard) {
			r.add(Repeated, "refuse it: two readers could take two values", "%s is there more than once", name)
		}
	}
	if length, err := strconv.Atoi(c.Header.Get("content-length")); err == nil && length != len(c.Body) {
		r.add(BodyLength, "keep the bytes as they came: editors add an end of line, and frameworks parse and write anew",
			"content-length is %d, but the body has %d bytes", length, len(c.Body))
	}
}

// verify checks everything except the age, because its clock shows the signed time.
func (c *callback) verify(v *signer.Verifier) error {
	v.Now = func() time.Time { return c.signedAt }
	if !c.standard {
		v.Scheme, v.Form = signer.HMAC, c.form
	}
	return v.Verify(signer.Signed{ID: c.id, Timestamp: c.timestamp, Signature: c.signature}, c.Body)
}

// refusals are the errors of a verifier that need no search.
var refusals = []struct {
	err   error
	cause Cause
	cure  string
}{
	{signer.ErrNoID, NoID, "keep all headers as they came: the id is signed too"},
	{signer.ErrID, BadID, ""},
	{signer.ErrNoTimestamp, NoTimestamp, "keep all headers as they came: the time is signed too"},
	{signer.ErrTimestamp, BadTimestamp, "pass on the header's text as it came"},
	{signer.ErrNoVersion, OtherKind, cureKind},
	{signer.ErrSignature, BadSignature, "pass it on as it came"},
}

// refused reports why a verifier refuses the headers. A mistake that explains the signature is more
// exact than a refusal of its text.
func (c *callback) refused(r *Inspection, explained bool) {
	switch other, scheme := c.firstSignature(); {
	case c.signature == "" && other != "":
		r.add(OtherScheme, "verify it in that scheme and with its headers, or change the signature scheme of the endpoint",
			"there is no %s, but there is %s: it is signed as %s", c.name, other, scheme)
	case c.signature == "":
		r.add(NoSignature, "keep all headers as they came: a proxy or a framework may drop them, or it was never signed", "there is no %s", c.name)
	}
	err := c.verify(&signer.Verifier{Scheme: c.scheme, Secrets: []signer.Secret{c.scheme.NewSecret()}})
	for _, row := range refusals {
		ofSignature := row.cause == OtherKind || row.cause == BadSignature
		if errors.Is(err, row.err) && !(explained && ofSignature) {
			r.add(row.cause, row.cure, "%s", err)
		}
	}
}

// age reports the age of the webhook, and whether it is too high or too low.
func (c *callback) age(r *Inspection) {
	if c.signedAt.IsZero() {
		return
	}
	const cure = "set the receiver's clock by NTP; of a recording, say when it came"
	age, tolerance := c.At.Sub(c.signedAt), cmp.Or(max(c.Tolerance, 0), signer.DefaultTolerance)
	shown := age.Round(time.Second)
	r.Age = new(shown.Seconds())
	switch {
	case age > tolerance:
		r.add(TooOld, cure, "it was signed %s before it came, and a receiver takes at most %s", ladder.FormatDuration(shown), ladder.FormatDuration(tolerance))
	case age < -tolerance:
		r.add(TooNew, cure, "it was signed %s after it came: one of the two clocks is wrong", ladder.FormatDuration(-shown))
	}
}
