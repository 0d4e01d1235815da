package diagnose_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/signer"
	"github.com/hookladder/hookladder/signer/diagnose"
)

const (
	secretText = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
	plainText  = "whsec_4f0a1b2c3d4e5f60718293a4b5c6d7e8"
	messageID  = "msg_order_17"
	sent       = `{"order":17,"note":"5 € <paid>","path":"a/b","total":10.50,"lines":[],"by":{"b":1,"a":2}}`
)

var signedAt = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

// signed is a webhook as Hookladder sends it, and as its receiver asks about it.
func signed(t testing.TB, scheme signer.Scheme) *diagnose.Question {
	t.Helper()
	text := map[signer.Scheme]string{signer.Standard: secretText, signer.StandardEd25519: scheme.NewSecret().Reveal()}[scheme]
	if text == "" {
		text = plainText
	}
	secret, err := scheme.ParseSecret(text)
	require.NoError(t, err)
	s, err := scheme.NewSigner(secret)
	require.NoError(t, err)
	q := &diagnose.Question{Header: http.Header{}, Body: []byte(sent), Secrets: []string{text}, At: signedAt.Add(2 * time.Second)}
	if public, ok := secret.PublicKey(); ok {
		q.Secrets = []string{public}
	}
	q.Header.Set(signer.HeaderID, messageID)
	q.Header.Set(signer.HeaderTimestamp, unix(signedAt))
	q.Header.Set(s.Header(), s.Sign(messageID, signedAt, q.Body))
	q.Header.Set("content-type", "application/json")
	return q
}

func unix(at time.Time) string { return strconv.FormatInt(at.Unix(), 10) }

func sum(key, text string) []byte {
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(text))
	return mac.Sum(nil)
}

func v1(sum []byte) string { return "v1," + base64.StdEncoding.EncodeToString(sum) }

// decodedKey is the key of secretText.
const decodedKey = "0123456789abcdef0123456789abcdef"

// right is what is signed by the standard.
func right(body string) string { return messageID + "." + unix(signedAt) + "." + body }

func TestASoundCallbackOfEachSchemeIsValid(t *testing.T) {
	for _, scheme := range signer.Schemes() {
		q := signed(t, scheme)
		r := diagnose.Inspect(*q)
		require.True(t, r.Valid, "%s: %v", scheme, r.Findings)
		require.Empty(t, r.Findings)
		found := scheme
		if scheme == signer.HMAC {
			found = signer.HMACHex // its short form
		}
		require.Equal(t, found, r.Scheme, "found out by its headers")

		q.Body = append(q.Body, 'x')
		r = diagnose.Inspect(*q)
		require.False(t, r.Valid)
		require.Equal(t, diagnose.OtherSecret, r.Findings[0].Cause, "%v", r.Findings)
	}
}

// formed is a webhook of Convoy or another sender that signs by a form of hmac.
func formed(t testing.TB, f signer.Form) *diagnose.Question {
	t.Helper()
	secret, err := signer.HMAC.ParseSecret(plainText)
	require.NoError(t, err)
	s, err := signer.HMAC.NewSignerIn(f, secret)
	require.NoError(t, err)
	q := &diagnose.Question{Header: http.Header{}, Body: []byte(sent), Secrets: []string{plainText}, At: signedAt.Add(2 * time.Second)}
	q.Header.Set(s.Header(), s.Sign(messageID, signedAt, q.Body))
	return q
}

func TestTheFormOfAnotherSenderIsReadFromItsHeader(t *testing.T) {
	for name, f := range map[string]signer.Form{
		"convoy":                   {Header: "x-convoy-signature"},
		"convoy, sha512, base64":   {Header: "x-convoy-signature", Hash: signer.SHA512, Encoding: signer.Base64},
		"convoy, advanced":         {Header: "x-convoy-signature", Content: signer.TimeCommaBody},
		"convoy, advanced, sha512": {Header: "x-convoy-signature", Hash: signer.SHA512, Content: signer.TimeCommaBody},
		"convoy, advanced, base64": {Header: "x-convoy-signature", Hash: signer.SHA512, Encoding: signer.Base64, Content: signer.TimeCommaBody},
		"outpost":                  {Header: "x-outpost-signature", Prefix: "v0="},
		"a header of its own":      {Header: "x-shop-sign", Encoding: signer.Base64, Content: signer.TimeDotBody},
	} {
		q := formed(t, f)
		if name == "a header of its own" {
			q.Form.Header = f.Header
		}
		r := diagnose.Inspect(*q)
		require.True(t, r.Valid, "%s: %v", name, r.Findings)
		require.Empty(t, r.Findings, name)
		require.Equal(t, signer.HMAC, r.Scheme, name)
		require.Equal(t, f.Content != "", r.Age != nil, name)

		q.Scheme, q.Form = signer.HMAC, f
		r = diagnose.Inspect(*q)
		require.True(t, r.Valid, "%s, named: %v", name, r.Findings)
	}
	text := formed(t, signer.Form{Header: "x-shop-sign", Prefix: "HMAC "})
	text.Scheme, text.Form = signer.HMAC, signer.Form{Header: "x-shop-sign", Prefix: "HMAC "}
	require.True(t, diagnose.Inspect(*text).Valid, "a prefix with a space")
}

func TestTheCauseOfABrokenFormIsNamed(t *testing.T) {
	convoy := signer.Form{Header: "x-convoy-signature", Content: signer.TimeCommaBody}
	for name, c := range map[string]struct {
		made, wanted signer.Form
		cause        diagnose.Cause
		says         string
	}{
		"another hash":            {signer.Form{Hash: signer.SHA512}, signer.Form{Encoding: signer.Hex}, diagnose.OtherHash, "was made with SHA-512"},
		"sha256 for sha512":       {signer.Form{}, signer.Form{Hash: signer.SHA512}, diagnose.OtherHash, "was made with SHA-256"},
		"another encoding":        {signer.Form{Encoding: signer.Base64}, signer.Form{Encoding: signer.Hex}, diagnose.OtherEncoding, "is in base64, not in hex"},
		"no prefix":               {signer.Form{}, signer.Form{Prefix: "v0="}, diagnose.OtherEncoding, "has no v0= before it"},
		"a dot for a comma":       {signer.Form{Content: signer.TimeDotBody}, signer.Form{Content: signer.TimeCommaBody}, diagnose.OtherContent, "timestamp.body, without the id"},
		"a comma for a dot":       {signer.Form{Content: signer.TimeCommaBody}, signer.Form{Content: signer.TimeDotBody}, diagnose.OtherContent, "timestamp,body, with a comma between"},
		"an old one":              {convoy, convoy, diagnose.TooOld, "1h before"},
		"another body, with time": {convoy, convoy, diagnose.OtherSecret, "another secret"},
	} {
		q := formed(t, c.made)
		q.Scheme, q.Form = signer.HMAC, c.wanted
		switch c.cause {
		case diagnose.TooOld:
			q.At = signedAt.Add(time.Hour)
		case diagnose.OtherSecret:
			q.Body = append(q.Body, 'x')
		}
		r := diagnose.Inspect(*q)
		require.False(t, r.Valid, name)
		require.NotEmpty(t, r.Findings, name)
		require.Equal(t, c.cause, r.Findings[0].Cause, "%s: %v", name, r.Findings)
		require.Contains(t, r.Findings[0].Says, c.says, name)
	}
}

// Each case breaks a sound webhook in one way that receivers meet, and the cause
// found is that one and no other.
func TestTheCauseOfABrokenCallbackIsNamed(t *testing.T) {
	sign := func(q *diagnose.Question, value string) { q.Header.Set(signer.HeaderSignature, value) }
	python := func(text string) string {
		var value any
		dec := json.NewDecoder(strings.NewReader(text))
		dec.UseNumber()
		require.NoError(t, dec.Decode(&value))
		return strings.NewReplacer(`":`, `": `, `,"`, `, "`, "€", `\u20ac`).Replace(text)
	}
	for _, c := range []struct {
		name  string
		wreck func(*diagnose.Question)
		cause diagnose.Cause
		says  string
	}{
		{"no signature", func(q *diagnose.Question) { q.Header.Del(signer.HeaderSignature) }, diagnose.NoSignature, "no webhook-signature"},
		{"no id", func(q *diagnose.Question) { q.Header.Del(signer.HeaderID) }, diagnose.NoID, "no webhook-id"},
		{"no timestamp", func(q *diagnose.Question) { q.Header.Del(signer.HeaderTimestamp) }, diagnose.NoTimestamp, "no webhook-timestamp"},
		{"a timestamp in milliseconds", func(q *diagnose.Question) { q.Header.Set(signer.HeaderTimestamp, unix(signedAt)+"000") }, diagnose.BadTimestamp, "not milliseconds"},
		{"a timestamp as a date", func(q *diagnose.Question) { q.Header.Set(signer.HeaderTimestamp, signedAt.Format(time.RFC3339)) }, diagnose.BadTimestamp, "want whole Unix seconds"},
		{"an old recording", func(q *diagnose.Question) { q.At = signedAt.Add(time.Hour) }, diagnose.TooOld, "1h before"},
		{"a clock that is slow", func(q *diagnose.Question) { q.At = signedAt.Add(-time.Hour) }, diagnose.TooNew, "1h after"},
		{"a header twice", func(q *diagnose.Question) { q.Header.Add(signer.HeaderID, "other") }, diagnose.Repeated, "webhook-id is there more than once"},
		{"a signature in hex", func(q *diagnose.Question) { sign(q, "v1,"+hex.EncodeToString(sum(decodedKey, right(sent)))) }, diagnose.OtherEncoding, "is in hex, not in base64"},
		{"a signature in the base64 of URLs", func(q *diagnose.Question) {
			sign(q, "v1,"+base64.RawURLEncoding.EncodeToString(sum(decodedKey, right(sent))))
		}, diagnose.OtherEncoding, "is in the base64 of URLs"},
		{"a signature in base64 of hex", func(q *diagnose.Question) {
			sign(q, "v1,"+base64.StdEncoding.EncodeToString([]byte(hex.EncodeToString(sum(decodedKey, right(sent))))))
		}, diagnose.OtherEncoding, "is in base64 of hex"},
		{"a signature without its version", func(q *diagnose.Question) { sign(q, strings.TrimPrefix(v1(sum(decodedKey, right(sent))), "v1,")) }, diagnose.OtherEncoding, "has no v1, before it"},
		{"a signature that is none", func(q *diagnose.Question) { sign(q, "v1,oops") }, diagnose.BadSignature, "want v1,<base64"},
		{"a signature of another version only", func(q *diagnose.Question) {
			sign(q, "v1a,"+base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{1}, 64)))
			q.Scheme = signer.Standard
		}, diagnose.OtherKind, "no v1 signature"},
		{"a secret that was not decoded", func(q *diagnose.Question) { sign(q, v1(sum(secretText, right(sent)))) }, diagnose.OtherKey, "the secret's text, not decoded"},
		{"a secret whose base64 was not decoded", func(q *diagnose.Question) { sign(q, v1(sum(secretText[6:], right(sent)))) }, diagnose.OtherKey, "the text behind whsec_, not decoded"},
		{"another secret", func(q *diagnose.Question) { q.Secrets = []string{signer.NewSecret().Reveal()} }, diagnose.OtherSecret, "another secret"},
		{"a secret that was cut", func(q *diagnose.Question) { q.Secrets = []string{secretText[:20]} }, diagnose.BadSecret, "not a secret"},
		{"a public key for a shared secret", func(q *diagnose.Question) {
			q.Scheme, q.Secrets = signer.Standard, signed(t, signer.StandardEd25519).Secrets
		}, diagnose.OtherKind, "none of standard"},
		{"the secret of all tenants for one", func(q *diagnose.Question) {
			q.Header.Set("hookladder-tenant", "shop_42")
			one, err := signer.ParseSecret(secretText)
			require.NoError(t, err)
			sign(q, signer.Sign(one.Derive("shop_42"), messageID, signedAt, q.Body))
		}, diagnose.OtherKey, "derived for the tenant"},
		{"a body without spaces, saved with them", func(q *diagnose.Question) { q.Body = []byte(python(sent)) }, diagnose.OtherBody, "without white space"},
		{"a body with spaces, saved without", func(q *diagnose.Question) {
			sign(q, v1(sum(decodedKey, right(python(sent)))))
		}, diagnose.OtherBody, "with a space after each comma and colon, with all but ASCII escaped"},
		{"a body whose names were sorted", func(q *diagnose.Question) {
			sign(q, v1(sum(decodedKey, right(`{"by":{"a":2,"b":1},"lines":[],"note":"5 € <paid>","order":17,"path":"a/b","total":10.50}`))))
		}, diagnose.OtherBody, "sorted names"},
		{"a body whose numbers were read as floats", func(q *diagnose.Question) {
			sign(q, v1(sum(decodedKey, right(strings.Replace(sent, "10.50", "10.5", 1)))))
		}, diagnose.OtherBody, "numbers as floating point"},
		{"a body written by PHP", func(q *diagnose.Question) {
			sign(q, v1(sum(decodedKey, right(strings.NewReplacer("€", `\u20ac`, "a/b", `a\/b`).Replace(sent)))))
		}, diagnose.OtherBody, "ASCII and slashes escaped"},
		{"a body written by Go", func(q *diagnose.Question) {
			sign(q, v1(sum(decodedKey, right(strings.NewReplacer("<", `\u003c`, ">", `\u003e`).Replace(sent)))))
		}, diagnose.OtherBody, "with <, > and & escaped"},
		{"a body that an editor saved", func(q *diagnose.Question) { q.Body = append(q.Body, '\n') }, diagnose.OtherBody, "without the end of line"},
		{"a body that was read before", func(q *diagnose.Question) { sign(q, v1(sum(decodedKey, right("")))) }, diagnose.OtherBody, "an empty body"},
		{"a body in base64", func(q *diagnose.Question) { q.Body = []byte(base64.StdEncoding.EncodeToString(q.Body)) }, diagnose.OtherBody, "behind base64"},
		{"a body in a string", func(q *diagnose.Question) {
			text, err := json.Marshal(sent)
			require.NoError(t, err)
			q.Body = text
		}, diagnose.OtherBody, "as a JSON string"},
		{"the body alone is signed", func(q *diagnose.Question) { sign(q, v1(sum(decodedKey, sent))) }, diagnose.OtherContent, "the body alone"},
		{"timestamp and body are signed", func(q *diagnose.Question) { sign(q, v1(sum(decodedKey, unix(signedAt)+"."+sent))) }, diagnose.OtherContent, "without the id"},
		{"SHA-1", func(q *diagnose.Question) {
			mac := hmac.New(sha1.New, []byte(decodedKey))
			mac.Write([]byte(right(sent)))
			sign(q, v1(mac.Sum(nil)))
		}, diagnose.OtherHash, "SHA-1"},
		{"a secret with the end of line of its file", func(q *diagnose.Question) { sign(q, v1(sum(secretText+"\n", right(sent)))) }, diagnose.OtherKey, "an end of line behind it"},
		{"a malformed id", func(q *diagnose.Question) { q.Header.Set(signer.HeaderID, "a.b") }, diagnose.BadID, "malformed webhook-id"},
		{"headers of another scheme", func(q *diagnose.Question) { *q = *signed(t, signer.Stripe); q.Scheme = signer.Standard }, diagnose.OtherScheme, "but there is stripe-signature"},
		{"headers with another vendor's names", func(q *diagnose.Question) {
			q.Header.Set("svix-signature", q.Header.Get(signer.HeaderSignature))
			q.Header.Del(signer.HeaderSignature)
		}, diagnose.OtherScheme, "but there is svix-signature"},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := signed(t, signer.Standard)
			c.wreck(q)
			r := diagnose.Inspect(*q)
			require.False(t, r.Valid)
			require.NotEmpty(t, r.Findings)
			for _, one := range r.Findings {
				if one.Cause != diagnose.OtherContent || c.cause != diagnose.BadTimestamp { // told as well: what was signed instead
					require.Equal(t, c.cause, one.Cause, "%v", r.Findings)
				}
			}
			require.Contains(t, r.Findings[0].Says, c.says)
			for _, one := range r.Findings {
				require.NotContains(t, one.Says+one.Cure, q.Secrets[0][6:])
			}
		})
	}
}

func TestOtherSchemesHaveTheirOwnMistakes(t *testing.T) {
	for _, c := range []struct {
		name   string
		scheme signer.Scheme
		wreck  func(*diagnose.Question)
		cause  diagnose.Cause
		says   string
	}{
		{"a text that was decoded", signer.GitHub, func(q *diagnose.Question) {
			key, err := base64.RawStdEncoding.DecodeString(plainText[6:])
			require.NoError(t, err)
			q.Header.Set(signer.HeaderGitHub, "sha256="+hex.EncodeToString(sum(string(key), sent)))
		}, diagnose.OtherKey, "the decoded secret"},
		{"base64 for hex", signer.GitHub, func(q *diagnose.Question) {
			q.Header.Set(signer.HeaderGitHub, "sha256="+base64.StdEncoding.EncodeToString(sum(plainText, sent)))
		}, diagnose.OtherEncoding, "is in base64, not in hex"},
		{"no version", signer.GitHub, func(q *diagnose.Question) {
			q.Header.Set(signer.HeaderGitHub, hex.EncodeToString(sum(plainText, sent)))
		}, diagnose.OtherEncoding, "has no sha256= before it"},
		{"a secret in quotes", signer.GitHub, func(q *diagnose.Question) { q.Secrets = []string{`"` + plainText + `"`} }, diagnose.OtherKey, "without the quotes"},
		{"a text that was decoded as hex", signer.GitHub, func(q *diagnose.Question) {
			key := strings.Repeat("5a", 16)
			q.Secrets = []string{key}
			q.Header.Set(signer.HeaderGitHub, "sha256="+hex.EncodeToString(sum(strings.Repeat("Z", 16), sent)))
		}, diagnose.OtherKey, "decoded as hex"},
		{"upper case", signer.HMACHex, func(q *diagnose.Question) {
			q.Header.Set(signer.HeaderHMAC, strings.ToUpper(hex.EncodeToString(sum(plainText, sent))))
		}, diagnose.OtherEncoding, "upper case"},
		{"the time is not signed", signer.Stripe, func(q *diagnose.Question) {
			q.Header.Set(signer.HeaderStripe, "t="+unix(signedAt)+",v1="+hex.EncodeToString(sum(plainText, sent)))
		}, diagnose.OtherContent, "the body alone"},
		{"a body that an editor saved", signer.StandardEd25519, func(q *diagnose.Question) { q.Body = append(q.Body, "\r\n"...) }, diagnose.OtherBody, "end of line"},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := signed(t, c.scheme)
			c.wreck(q)
			r := diagnose.Inspect(*q)
			require.False(t, r.Valid)
			require.Len(t, r.Findings, 1, "%v", r.Findings)
			require.Equal(t, c.cause, r.Findings[0].Cause)
			require.Contains(t, r.Findings[0].Says, c.says)
		})
	}
}

func TestTwoMistakesAreBothNamed(t *testing.T) {
	for _, c := range []struct {
		wreck func(*diagnose.Question)
		want  []diagnose.Cause
	}{
		{func(q *diagnose.Question) {
			q.Header.Set(signer.HeaderSignature, "v1,"+hex.EncodeToString(sum(secretText, right(sent))))
		}, []diagnose.Cause{diagnose.OtherKey, diagnose.OtherEncoding}},
		{func(q *diagnose.Question) { q.Header = http.Header{} }, []diagnose.Cause{diagnose.NoSignature, diagnose.NoID}},
		{func(q *diagnose.Question) { q.Secrets = []string{"whsec_x"}; q.Header.Del(signer.HeaderID) }, []diagnose.Cause{diagnose.BadSecret, diagnose.NoID}},
	} {
		q := signed(t, signer.Standard)
		c.wreck(q)
		var causes []diagnose.Cause
		for _, one := range diagnose.Inspect(*q).Findings {
			causes = append(causes, one.Cause)
		}
		require.Equal(t, c.want, causes)
	}
}

func TestWhatTheReceiversCodeDoesInsteadIsTold(t *testing.T) {
	for computed, want := range map[string]diagnose.Cause{
		v1(sum(decodedKey, right(sent))):                                                 diagnose.ComputedRight,
		base64.StdEncoding.EncodeToString(sum(decodedKey, right(sent))):                  diagnose.ComputedRight,
		hex.EncodeToString(sum(decodedKey, right(sent))):                                 diagnose.OtherEncoding,
		v1(sum(secretText, right(sent))):                                                 diagnose.OtherKey,
		v1(sum(decodedKey, sent)):                                                        diagnose.OtherContent,
		v1(sum(decodedKey, right(strings.ReplaceAll(sent, ":", ": ")))):                  diagnose.OtherSecret,
		v1(sum(decodedKey, right(strings.NewReplacer(`":`, `": `).Replace(sent)))) + "x": diagnose.BadSignature,
	} {
		q := signed(t, signer.Standard)
		q.Computed = computed
		r := diagnose.Inspect(*q)
		require.True(t, r.Valid, "the webhook itself is sound")
		require.Len(t, r.Findings, 1)
		require.Equal(t, want, r.Findings[0].Cause, "%s %v", computed, r.Findings)
		require.Contains(t, r.Findings[0].Says, "your code's value")
	}
}

func TestALengthThatIsNotTheBodysIsTold(t *testing.T) {
	q := signed(t, signer.Standard)
	q.Header.Set("content-length", strconv.Itoa(len(sent)+1))
	r := diagnose.Inspect(*q)
	require.True(t, r.Matches)
	require.Equal(t, diagnose.BodyLength, r.Findings[0].Cause)
}

// Bodies come from anywhere: none may take the search down.
func FuzzInspect(f *testing.F) {
	for _, seed := range []string{sent, "", "[", strings.Repeat("[", 5000), `"\ud800"`, "\x1f\x8b\x08", "5\r\nab"} {
		f.Add(seed, "v1,"+seed, unix(signedAt))
	}
	f.Fuzz(func(t *testing.T, body, signature, timestamp string) {
		q := signed(t, signer.Standard)
		q.Body = []byte(body)
		q.Header.Set(signer.HeaderSignature, signature)
		q.Header.Set(signer.HeaderTimestamp, timestamp)
		require.False(t, diagnose.Inspect(*q).Valid)
	})
}
