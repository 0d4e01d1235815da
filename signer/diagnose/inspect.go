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
	"errors"
	"fmt"
	"hash"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/hookladder/hookladder/ladder"
	"github.com/hookladder/hookladder/signer"
)

// Question is a webhook, and the values that its receiver verifies it with.
type Question struct {
	Header http.Header
	Body   []byte

	Scheme   signer.Scheme // zero: the scheme is read from the headers
	Form     signer.Form   // of signer.HMAC; zero, or only with a header: the rest is read from the header
	Secrets  []string      // as the receiver has them, malformed ones too; also public keys
	Computed string        // the signature that the receiver's own code computed; may be empty
	At       time.Time     // when the webhook arrived
	// Tolerance is the largest difference between its timestamp and At; zero:
	// signer.DefaultTolerance.
	Tolerance time.Duration
	// Hashed bounds the search for mistakes, in bytes that are hashed; zero: 2 GiB, seconds on any
	// machine.
	Hashed int
}

// Cause is a reason in a form for scripts.
type Cause string

// The causes. The second group are mistakes in the signature.
const (
	NoSignature   Cause = "signature_missing"
	OtherScheme   Cause = "header_of_another_scheme"
	Repeated      Cause = "header_repeated"
	BadSignature  Cause = "signature_malformed"
	NoID          Cause = "id_missing"
	BadID         Cause = "id_malformed"
	NoTimestamp   Cause = "timestamp_missing"
	BadTimestamp  Cause = "timestamp_malformed"
	TooOld        Cause = "too_old"
	TooNew        Cause = "too_new"
	BadSecret     Cause = "secret_malformed"
	OtherKind     Cause = "key_of_another_scheme"
	BodyLength    Cause = "body_length"
	OtherSecret   Cause = "other_secret" // or the body was changed in a way that no row has
	ComputedRight Cause = "comparison"   // the receiver's value is right, so its comparison is wrong

	OtherEncoding Cause = "encoding"
	OtherHash     Cause = "hash"
	OtherKey      Cause = "key"     // the same secret, decoded in another way
	OtherContent  Cause = "content" // other parts, or in another order
	OtherBody     Cause = "body"    // other bytes of the same body
)

// Finding is one reported mistake. The zero value is no mistake.
type Finding struct {
	Cause Cause  `json:"cause"`
	Says  string `json:"says"`           // a sentence without its full stop
	Cure  string `json:"cure,omitempty"` // empty: Says is enough
}

// Inspection is the result of Inspect.
type Inspection struct {
	Valid    bool          `json:"valid"` // a receiver should accept the webhook
	Scheme   signer.Scheme `json:"scheme"`
	Matches  bool          `json:"matches"`       // the secret made the signature, at any time
	Age      *float64      `json:"age,omitempty"` // in seconds, from the signed time to At
	Findings []Finding     `json:"findings"`
}

func (r *Inspection) add(cause Cause, cure, says string, values ...any) {
	r.Findings = append(r.Findings, Finding{cause, fmt.Sprintf(says, values...), cure})
}

// Inspect verifies a webhook as a receiver should, and reports why it is not valid.
func Inspect(q Question) Inspection {
	c := newCallback(&q)
	r := Inspection{Scheme: c.scheme, Findings: []Finding{}}
	c.received(&r)
	before := len(r.Findings)
	keys, verifiers := c.keys(&r)
	r.Matches = slices.ContainsFunc(verifiers, func(v *signer.Verifier) bool { return c.verify(v) == nil })
	if !r.Matches {
		mistakes, explained := c.explain(keys, "the signature", c.signature)
		c.refused(&r, explained)
		if explained || len(r.Findings) == before {
			r.Findings = append(r.Findings, mistakes...)
		}
	}
	c.age(&r)
	r.Valid = r.Matches && !slices.ContainsFunc(r.Findings, func(f Finding) bool {
		return f.Cause == TooOld || f.Cause == TooNew || f.Cause == Repeated
	})
	if c.Computed != "" {
		mistakes, _ := c.explain(keys, "your code's value", c.Computed)
		if len(mistakes) == 0 {
			r.add(ComputedRight, "compare it with each signature of the header, behind its version, in constant time", "your code's value is right")
		}
		r.Findings = append(r.Findings, mistakes...)
	}
	return r
}

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

const cureKind = "give the key of the endpoint's scheme, or name the scheme"

// keys returns the secrets, decoded correctly and with each mistake, or the public keys of
// ed25519. It also returns the verifiers of the correct ones, and reports the malformed ones.
func (c *callback) keys(r *Inspection) (all assumptions, verifiers []*signer.Verifier) {
	for _, text := range c.Secrets {
		ed25519 := c.scheme == signer.StandardEd25519
		v, err := c.scheme.NewVerifier(text)
		switch {
		case err == nil:
			verifiers = append(verifiers, v)
		case !ed25519 && isEd25519(text), ed25519 && strings.HasPrefix(text, signer.SecretPrefix):
			r.add(OtherKind, cureKind, "the key given is none of %s", c.scheme)
		default:
			r.add(BadSecret, "copy it whole, as hookladder endpoints secret or hookladder secret prints it", "%s", err)
		}
		switch {
		case !ed25519:
			c.addSecret(&all, text)
		case err == nil:
			all.right(decoded(strings.TrimPrefix(v.PublicKeys[0].String(), signer.PublicPrefix)))
		}
	}
	return all, verifiers
}

// addSecret adds the ways to decode a shared secret, the right one first.
func (c *callback) addSecret(all *assumptions, text string) {
	bare := strings.TrimPrefix(text, signer.SecretPrefix)
	right, cure := text, "use the text of the secret as it is, not decoded"
	if c.scheme == signer.Standard {
		right, cure = decoded(bare), "decode the base64 behind whsec_, and use those bytes as the key"
	}
	if right != "" {
		all.right(right)
	}
	for _, row := range []struct{ key, says, cure string }{
		{text, "the secret's text, not decoded", cure},
		{bare, "the text behind whsec_, not decoded", cure},
		{decoded(bare), "the decoded secret", cure},
		{valid(hex.DecodeString(bare)), "the secret decoded as hex", cure},
		{text + "\n", "the secret and an end of line behind it", "drop the end of line that a file or echo leaves"},
		{strings.Trim(text, `"'`), "the secret without the quotes around it", "take the quotes away"},
		{c.derived(text), "the secret that is derived for the tenant (SIGNING_DERIVE=tenant)", "give the receiver what hookladder secret --tenant prints, not SIGNING_SECRET itself"},
	} {
		if row.key != "" {
			all.add(OtherKey, row.key, "was made with "+row.says, row.cure)
		}
	}
}

// derived returns the key of the tenant in the headers, whose prefix is a setting.
func (c *callback) derived(text string) string {
	secret, err := signer.ParseSecret(text)
	if err != nil {
		return ""
	}
	tenant := ""
	for name := range c.Header {
		if strings.HasSuffix(strings.ToLower(name), "-tenant") {
			tenant = c.Header.Get(name)
		}
	}
	return decoded(strings.TrimPrefix(secret.Derive(tenant).Reveal(), signer.SecretPrefix))
}

// isEd25519 reports whether a text is a private or public key of ed25519.
func isEd25519(text string) bool {
	return strings.HasPrefix(text, signer.PublicPrefix) || strings.HasPrefix(text, signer.PrivatePrefix)
}

// decoded returns the bytes of base64 in any alphabet, padded or not; empty: it is no base64.
func decoded(text string) string {
	text = strings.TrimRight(strings.NewReplacer("-", "+", "_", "/").Replace(text), "=")
	return valid(base64.RawStdEncoding.DecodeString(text))
}

// valid returns a value as text, or an empty text instead of an error.
func valid[T string | []byte](value T, err error) string {
	if err != nil {
		return ""
	}
	return string(value)
}

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

// The cures of mistakes in bodies.
const (
	cureRaw    = "verify the bytes as they came, before any parser or framework touches them"
	cureLine   = "sign and verify the bytes as they are: take care that no editor, shell or template adds or drops an end of line"
	cureQuoted = "sign and verify the text itself: it was put into JSON once more"
)

// contents returns the text that is signed before the body, and then the mistakes in it.
func (c *callback) contents() (all assumptions) {
	seconds := c.timestamp
	if !c.signedAt.IsZero() {
		seconds = strconv.FormatInt(c.signedAt.Unix(), 10)
	}
	all.right(c.head)
	for _, row := range []struct{ head, says string }{
		{strings.Replace(c.head, c.timestamp, seconds, 1), "the timestamp in whole seconds, which is not what its header has"},
		{"", "the body alone"},
		{seconds + ".", "timestamp.body, without the id"},
		{seconds + ",", "timestamp,body, with a comma between"},
		{c.id + "." + seconds + ".", "id.timestamp.body"},
		{c.id + ".", "id.body, without the timestamp"},
		{seconds + "." + c.id + ".", "timestamp.id.body, in another order"},
		{c.id + seconds, "the parts without dots between"},
		{seconds, "timestamp and body without a dot between"},
		{c.id + "." + seconds + "000.", "the timestamp in milliseconds"},
		{seconds + "000.", "the timestamp in milliseconds"},
	} {
		all.add(OtherContent, row.head, "is of "+row.says, "sign "+c.signs+", with the headers' own text")
	}
	return all
}

// bodies returns the received body, and then each different body that a mistake makes of it.
func bodies(came []byte) (all assumptions) {
	text := string(came)
	add := func(made, says, cure string) { all.add(OtherBody, made, "is of "+says, cure) }
	all.right(text)
	// A change that does not apply makes an empty body too.
	add("", "an empty body", "read the body before it is verified, and only once: a stream that was read is empty the second time")
	add(strings.TrimRight(text, "\r\n"), "the body without the end of line at its end", cureLine)
	add(text+"\n", "the body with an end of line at its end", cureLine)
	add(strings.TrimSpace(text), "the body without white space around it", cureLine)
	add(strings.ReplaceAll(text, "\r\n", "\n"), "the body with LF in place of CR LF", cureLine)
	add(valid(jsontext.AppendUnquote(nil, text)), "the text that the body has as a JSON string", cureQuoted)
	add(valid(jsontext.AppendQuote(nil, text)), "the body put into a JSON string", cureQuoted)
	add(valid(base64.StdEncoding.DecodeString(text)), "the body behind base64", "decode the base64 that a gateway or function platform puts around bodies")
	for _, style := range jsonStyles {
		made, err := jsontext.AppendFormat(nil, came, style.options...)
		if err != nil {
			return all
		}
		for _, e := range jsonEscapes {
			add(e.escape(string(made)), "the same JSON written anew: "+style.says+e.says, cureRaw)
		}
	}
	return all
}

// Programs that write JSON differ in white space, in the order of names, in numbers, and in the
// characters of strings that they escape.
var (
	spaced     = []jsontext.Options{jsontext.SpaceAfterComma(true), jsontext.SpaceAfterColon(true)}
	sorted     = []jsontext.Options{jsontext.ReorderRawObjects(true)}
	floats     = []jsontext.Options{jsontext.CanonicalizeRawInts(true), jsontext.CanonicalizeRawFloats(true)}
	jsonStyles = []struct {
		says    string
		options []jsontext.Options
	}{
		{"without white space", nil},
		{"with a space after each comma and colon", spaced},
		{"without white space, with sorted names", sorted},
		{"with a space after each comma and colon, with sorted names", slices.Concat(spaced, sorted)},
		{"without white space, with numbers as floating point", floats},
		{"without white space, with sorted names, with numbers as floating point", slices.Concat(sorted, floats)},
	}
	slashes     = strings.NewReplacer("/", `\/`)
	angles      = strings.NewReplacer("<", `\u003c`, ">", `\u003e`, "&", `\u0026`)
	jsonEscapes = []struct {
		says   string
		escape func(string) string
	}{
		{"", strings.Clone},
		{", with all but ASCII escaped", ascii},
		{", with all but ASCII and slashes escaped", func(text string) string { return slashes.Replace(ascii(text)) }},
		{", with slashes escaped", slashes.Replace},
		{", with <, > and & escaped", angles.Replace},
	}
)

// ascii escapes each character outside ASCII.
func ascii(text string) string {
	var out []byte
	for _, r := range text {
		if r < utf8.RuneSelf {
			out = append(out, byte(r))
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			out = fmt.Appendf(out, `\u%04x`, unit)
		}
	}
	return string(out)
}
