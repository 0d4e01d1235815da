package signer_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/signer"
)

func TestParseScheme(t *testing.T) {
	for _, text := range []string{"standard", "standard-ed25519", "stripe", "github", "hmac-hex", "hmac"} {
		s, err := signer.ParseScheme(text)
		require.NoError(t, err)
		require.Equal(t, text, s.String())
		require.Contains(t, signer.Schemes(), s)
	}
	require.Len(t, signer.Schemes(), 6)
	for _, text := range []string{"", " standard", "Standard", "ed25519", "hmac_hex", "standard,stripe"} {
		_, err := signer.ParseScheme(text)
		require.ErrorIs(t, err, signer.ErrScheme)
		require.EqualError(t, err, "not a signature scheme: want one of standard, standard-ed25519, stripe, github, hmac-hex, hmac")
	}
}

func TestZeroSchemeIsStandard(t *testing.T) {
	var zero signer.Scheme
	require.Equal(t, "standard", zero.String())
	require.Equal(t, signer.Standard.Header(), zero.Header())
	require.True(t, zero.Rotates())
	secret := zero.NewSecret()
	require.True(t, strings.HasPrefix(secret.Reveal(), signer.SecretPrefix))
	s, err := zero.NewSigner(secret)
	require.NoError(t, err)
	require.Equal(t, signer.Sign(secret, "msg_1", signedAt, []byte("x")), s.Sign("msg_1", signedAt, []byte("x")))
}

func TestWhatIsNoSchemeDoesNothing(t *testing.T) {
	const no signer.Scheme = "rsa"
	require.Empty(t, no.Header())
	require.False(t, no.Rotates())
	require.True(t, no.NewSecret().IsZero())
	_, err := no.ParseSecret(signer.NewSecret().Reveal())
	require.ErrorIs(t, err, signer.ErrScheme)
	_, err = no.NewSigner(signer.NewSecret())
	require.ErrorIs(t, err, signer.ErrScheme)
	_, err = no.NewVerifier(signer.NewSecret().Reveal())
	require.ErrorIs(t, err, signer.ErrScheme)
	v := verifierAt(signedAt, signer.NewSecret())
	v.Scheme = no
	require.ErrorIs(t, v.Verify(signer.Signed{ID: "msg_1", Timestamp: unix(signedAt), Signature: ""}, nil), signer.ErrScheme)
}

func TestHeadersOfTheSchemes(t *testing.T) {
	for scheme, want := range map[signer.Scheme]string{
		signer.Standard: signer.HeaderSignature, signer.StandardEd25519: signer.HeaderSignature,
		signer.Stripe: "stripe-signature", signer.GitHub: "x-hub-signature-256", signer.HMACHex: "x-signature", signer.HMAC: "x-signature",
	} {
		s, err := scheme.NewSigner(scheme.NewSecret())
		require.NoError(t, err)
		require.Equal(t, http.CanonicalHeaderKey(want), s.Header())
		require.Equal(t, s.Header(), scheme.Header())
	}
}

func TestNewSecretsFitTheirSchemeAndAreStrong(t *testing.T) {
	for _, scheme := range signer.Schemes() {
		a, b := scheme.NewSecret(), scheme.NewSecret()
		require.NotEqual(t, a.Reveal(), b.Reveal(), scheme)
		again, err := scheme.ParseSecret(a.Reveal())
		require.NoError(t, err)
		require.True(t, a.Equal(again), scheme)
		require.False(t, a.Equal(b), scheme)
	}

	random, ok := strings.CutPrefix(signer.Stripe.NewSecret().Reveal(), "whsec_")
	require.True(t, ok)
	key, err := base64.RawURLEncoding.DecodeString(random)
	require.NoError(t, err)
	require.Len(t, key, 32)
	_, err = signer.ParseSecret("whsec_" + random)
	require.ErrorIs(t, err, signer.ErrSecret, "nobody takes it for a standard secret")

	for _, scheme := range []signer.Scheme{signer.GitHub, signer.HMACHex, signer.HMAC} {
		key, err := hex.DecodeString(scheme.NewSecret().Reveal())
		require.NoError(t, err)
		require.Len(t, key, 32)
	}
}

func TestSecretsOfAnotherSchemeNeverSign(t *testing.T) {
	texts := func(s signer.Scheme) bool {
		return s == signer.Stripe || s == signer.GitHub || s == signer.HMACHex || s == signer.HMAC
	}
	for _, of := range signer.Schemes() {
		for _, by := range signer.Schemes() {
			secret := of.NewSecret()
			fits := of == by || texts(of) && texts(by) // a text is the key whatever the scheme
			v := verifierAt(signedAt, secret)
			v.Scheme = by
			_, signs := by.NewSigner(by.NewSecret(), secret)
			verifies := v.Verify(signer.Signed{ID: "msg_1", Timestamp: unix(signedAt), Signature: ""}, nil)
			if fits {
				require.NoError(t, signs, "%s by %s", of, by)
				require.ErrorIs(t, verifies, signer.ErrNoSignature)
				continue
			}
			require.ErrorIs(t, signs, signer.ErrMisfit, "%s by %s", of, by)
			require.ErrorContains(t, signs, "secret 2: secret of another scheme: "+string(by)+" signs with ")
			require.ErrorIs(t, verifies, signer.ErrMisfit)
		}
		if of != signer.Standard {
			require.Empty(t, signer.Sign(of.NewSecret(), "msg_1", signedAt, nil), of)
		}
	}
}

func TestSchemesRotate(t *testing.T) {
	body := []byte(`{"n":1}`)
	for _, scheme := range signer.Schemes() {
		fresh, old := scheme.NewSecret(), scheme.NewSecret()
		s, err := scheme.NewSigner(fresh, old)
		require.NoError(t, err)
		header := s.Sign("msg_1", signedAt, body)
		verify := func(secret signer.Secret) error {
			v := verifierAt(signedAt, secret)
			v.Scheme = scheme
			return v.Verify(signer.Signed{ID: "msg_1", Timestamp: unix(signedAt), Signature: header}, body)
		}
		require.NoError(t, verify(fresh), scheme)
		require.ErrorIs(t, verify(scheme.NewSecret()), signer.ErrMismatch, scheme)
		if scheme.Rotates() {
			require.NoError(t, verify(old), scheme)
			continue
		}
		require.ErrorIs(t, verify(old), signer.ErrMismatch, scheme)
		alone, err := scheme.NewSigner(fresh)
		require.NoError(t, err)
		require.Equal(t, alone.Sign("msg_1", signedAt, body), header, "the first secret signs alone")
	}
}

func TestOnlySchemesThatSignTheIDCareForIt(t *testing.T) {
	for _, scheme := range signer.Schemes() {
		s, err := scheme.NewSigner(scheme.NewSecret())
		require.NoError(t, err)
		signs := scheme == signer.Standard || scheme == signer.StandardEd25519
		require.Equal(t, signs, s.Sign("a.b", signedAt, nil) == "", scheme)
		require.Equal(t, signs, s.Sign("a", signedAt, nil) != s.Sign("b", signedAt, nil), scheme)
	}
}

func TestSignersOfAllSchemesKeepNothingOfTheCallBefore(t *testing.T) {
	for _, scheme := range signer.Schemes() {
		s, err := scheme.NewSigner(scheme.NewSecret(), scheme.NewSecret())
		require.NoError(t, err)
		body := []byte(strings.Repeat("x", 100_000))
		first := s.Sign("a_rather_long_message_id", signedAt, body)
		s.Sign("b", signedAt.Add(1e9), []byte("y"))
		require.Equal(t, first, s.Sign("a_rather_long_message_id", signedAt, body), scheme)
	}
}

func TestSignersOfAllSchemesServeManyGoroutines(t *testing.T) {
	for _, scheme := range signer.Schemes() {
		secrets := []signer.Secret{scheme.NewSecret(), scheme.NewSecret()}
		s, err := scheme.NewSigner(secrets...)
		require.NoError(t, err)
		v := verifierAt(signedAt, secrets...)
		v.Scheme = scheme
		var wg sync.WaitGroup
		for g := range 4 {
			wg.Go(func() {
				for i := range 20 {
					body := bytes.Repeat([]byte{byte(g)}, i)
					if err := v.Verify(signer.Signed{ID: "msg_1", Timestamp: unix(signedAt), Signature: s.Sign("msg_1", signedAt, body)}, body); err != nil {
						t.Errorf("%s: %v", scheme, err)
						return
					}
				}
			})
		}
		wg.Wait()
	}
}

func TestAllSchemesSignWithFewAllocations(t *testing.T) {
	body := make([]byte, 1024)
	for _, scheme := range signer.Schemes() {
		s, err := scheme.NewSigner(scheme.NewSecret())
		require.NoError(t, err)
		allocs := testing.AllocsPerRun(200, func() { s.Sign("msg_1", signedAt, body) })
		require.LessOrEqual(t, allocs, 8.0, scheme) // 1, and more under the race detector: TestSignAllocatesLittle
	}
}

func FuzzParseScheme(f *testing.F) {
	for _, s := range signer.Schemes() {
		f.Add(s.String())
	}
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := signer.ParseScheme(text)
		if err != nil {
			require.Empty(t, s)
			require.NotContains(t, signer.Schemes(), signer.Scheme(text))
			return
		}
		require.Equal(t, text, s.String(), "a scheme has one spelling")
		require.NotEmpty(t, s.Header())
	})
}
