package signer_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/signer"
)

func TestAFormIsChecked(t *testing.T) {
	long := strings.Repeat("x", signer.MaxPrefix)
	for want, f := range map[string]signer.Form{
		"must be one of sha256, sha512":                     {Hash: "sha1"},
		"must be one of hex, base64":                        {Encoding: "base64url"},
		"must be one of body, t.body, t-comma-body":         {Content: "id.t.body"},
		"has 17 characters, at most 16 are accepted":        {Prefix: long + "x"},
		"must be printable ASCII":                           {Prefix: "v0\n"},
		"and not begin with a space":                        {Prefix: " v0="},
		"must be empty, because the content t-comma-body":   {Prefix: "v0=", Content: signer.TimeCommaBody},
		"must be empty, because the content t.body writes ": {Prefix: "v0=", Content: signer.TimeDotBody},
	} {
		err := f.Check()
		require.ErrorIs(t, err, signer.ErrForm)
		require.ErrorContains(t, err, want)
		_, err = signer.HMAC.NewSignerIn(f, signer.HMAC.NewSecret())
		require.ErrorIs(t, err, signer.ErrForm)
		v := signer.Verifier{Scheme: signer.HMAC, Form: f, Secrets: []signer.Secret{signer.HMAC.NewSecret()}}
		require.ErrorIs(t, v.Verify(signer.Signed{Signature: ""}, nil), signer.ErrForm)
	}
	for _, hash := range signer.Hashes() {
		for _, encoding := range signer.Encodings() {
			for _, content := range signer.Contents() {
				require.NoError(t, signer.Form{Hash: hash, Encoding: encoding, Content: content}.Check())
			}
			require.NoError(t, signer.Form{Header: "x-sign", Hash: hash, Encoding: encoding, Prefix: long}.Check())
		}
	}
}

func TestOnlyHMACHasAForm(t *testing.T) {
	form := signer.Form{Header: "x-sign", Hash: signer.SHA512}
	for _, scheme := range signer.Schemes() {
		_, err := scheme.NewSignerIn(form, scheme.NewSecret())
		if scheme == signer.HMAC {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, signer.ErrForm)
		require.False(t, scheme.RotatesIn(form))
	}
	s, err := signer.HMACHex.NewSignerIn(signer.Form{Header: "x-sign"}, signer.HMACHex.NewSecret())
	require.NoError(t, err, "the short form accepts another header")
	require.Equal(t, "X-Sign", s.Header())
}

func TestAFormWithATimeRotates(t *testing.T) {
	require.True(t, signer.HMAC.RotatesIn(signer.Form{Content: signer.TimeDotBody}))
	require.True(t, signer.HMAC.RotatesIn(signer.Form{Content: signer.TimeCommaBody}))
	require.False(t, signer.HMAC.RotatesIn(signer.Form{Prefix: "v0="}))
	require.False(t, signer.HMAC.Rotates())
}

func TestTheMiddlewareReadsTheHeaderOfTheForm(t *testing.T) {
	secret := signer.HMAC.NewSecret()
	for _, form := range []signer.Form{
		{Header: "X-Convoy-Signature", Hash: signer.SHA512, Encoding: signer.Base64, Content: signer.TimeCommaBody},
		{Header: "x-outpost-signature", Prefix: "v0="},
	} {
		sign, err := signer.HMAC.NewSignerIn(form, secret)
		require.NoError(t, err)
		v := verifierAt(signedAt, secret)
		v.Scheme, v.Form = signer.HMAC, form
		status := func(header string) int {
			r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("{}"))
			r.Header.Set(header, sign.Sign("m", signedAt, []byte("{}")))
			w := httptest.NewRecorder()
			v.Middleware(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(w, r)
			return w.Code
		}
		require.Equal(t, http.StatusOK, status(form.Header))
		require.Equal(t, http.StatusUnauthorized, status(signer.HeaderHMAC))
	}
}

func FuzzFormsVerifyWhatTheySign(f *testing.F) {
	f.Add(uint(0), "v0=", []byte("body"))
	f.Add(uint(11), "", []byte(nil))
	f.Fuzz(func(t *testing.T, n uint, prefix string, body []byte) {
		form := signer.Form{
			Hash: signer.Hashes()[n%2], Encoding: signer.Encodings()[n/2%2], Content: signer.Contents()[n/4%3], Prefix: prefix,
		}
		secret := signer.HMAC.NewSecret()
		sign, err := signer.HMAC.NewSignerIn(form, secret)
		require.Equal(t, form.Check() == nil, err == nil)
		if err != nil {
			return
		}
		v := verifierAt(signedAt, secret)
		v.Scheme, v.Form = signer.HMAC, form
		require.NoError(t, v.Verify(signer.Signed{Signature: sign.Sign("m", signedAt, body)}, body))
		require.ErrorIs(t, v.Verify(signer.Signed{Signature: sign.Sign("m", signedAt, body)}, append(body, 'x')), signer.ErrMismatch)
	})
}
