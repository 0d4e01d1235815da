package signer_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/signer"
)

// edKey is an Ed25519 key that no other text of these tests resembles.
func edKey(t testing.TB) ed25519.PrivateKey {
	t.Helper()
	return ed25519.NewKeyFromSeed(append([]byte("!"), mustKey(t)...))
}

func whsk(key []byte) string { return signer.PrivatePrefix + base64.StdEncoding.EncodeToString(key) }
func whpk(key []byte) string { return signer.PublicPrefix + base64.StdEncoding.EncodeToString(key) }

func TestParsePrivateKeyTakesSeedAndLongForm(t *testing.T) {
	key := edKey(t)
	for _, text := range []string{whsk(key.Seed()), whsk(key)} {
		s, err := signer.StandardEd25519.ParseSecret(text)
		require.NoError(t, err)
		require.Equal(t, text, s.Reveal())
		public, ok := s.PublicKey()
		require.True(t, ok)
		require.Equal(t, whpk(key.Public().(ed25519.PublicKey)), public)
	}
}

func TestParsePrivateKeyRefusesWithoutRepeating(t *testing.T) {
	key := edKey(t)
	seed := base64.StdEncoding.EncodeToString(key.Seed())
	foreign := bytes.Clone(key)
	foreign[40] ^= 1
	for name, text := range map[string]string{
		"empty":                    "",
		"prefix only":              "whsk_",
		"no prefix":                seed,
		"a shared secret":          "whsec_" + seed,
		"a public key":             whpk(key.Public().(ed25519.PublicKey)),
		"31 bytes":                 whsk(key[:31]),
		"33 bytes":                 whsk(key[:33]),
		"63 bytes":                 whsk(key[:63]),
		"65 bytes":                 whsk(append(bytes.Clone(key), 0)),
		"another public half":      whsk(foreign),
		"without padding":          whsk(key.Seed())[:48],
		"a line break after":       whsk(key.Seed()) + "\n",
		"a space before":           " " + whsk(key.Seed()),
		"a line break in the text": "whsk_" + seed[:8] + "\n" + seed[8:],
	} {
		t.Run(name, func(t *testing.T) {
			s, err := signer.StandardEd25519.ParseSecret(text)
			require.ErrorIs(t, err, signer.ErrSecret)
			require.ErrorContains(t, err, "want whsk_")
			require.True(t, s.IsZero())
			requireNoLeak(t, err.Error())
		})
	}
}

func TestParseSecretTakesAnyPrintableText(t *testing.T) {
	all := strings.Builder{}
	for c := byte('!'); c <= '~'; c++ {
		all.WriteByte(c)
	}
	for _, scheme := range []signer.Scheme{signer.Stripe, signer.GitHub, signer.HMACHex, signer.HMAC} {
		for _, text := range []string{all.String(), strings.Repeat("x", 16), strings.Repeat("x", 256), "whsec_" + keyText} {
			s, err := scheme.ParseSecret(text)
			require.NoError(t, err)
			require.Equal(t, text, s.Reveal())
			_, ok := s.PublicKey()
			require.False(t, ok)
		}
		for name, text := range map[string]string{
			"empty": "", "too short": strings.Repeat("x", 15), "too long": strings.Repeat("x", 257),
			"a space": keyText + " x", "a space before": " " + keyText, "a line break": keyText + "\n",
			"a tab": keyText + "\t", "NUL": keyText + "\x00", "DEL": keyText + "\x7f", "beyond ASCII": keyText + "é",
		} {
			s, err := scheme.ParseSecret(text)
			require.ErrorIs(t, err, signer.ErrSecret, name)
			require.True(t, s.IsZero())
			requireNoLeak(t, err.Error())
		}
	}
}

func TestParseSecretsOfASchemeNamesTheWrongOne(t *testing.T) {
	a, b := signer.Stripe.NewSecret(), signer.Stripe.NewSecret()
	got, err := signer.Stripe.ParseSecrets(a.Reveal() + "\n" + b.Reveal())
	require.NoError(t, err)
	require.True(t, a.Equal(got[0]) && b.Equal(got[1]))
	_, err = signer.StandardEd25519.ParseSecrets(signer.StandardEd25519.NewSecret().Reveal() + " whsec_" + keyText)
	require.ErrorContains(t, err, "secret 2: not a secret: want whsk_")
	requireNoLeak(t, err.Error())
}

func TestEqual(t *testing.T) {
	key := edKey(t)
	shared, text := signer.SecretPrefix+keyText, "github-"+keyText
	for _, c := range []struct {
		name  string
		a, b  signer.Secret
		equal bool
	}{
		{"the same", mustSecret(t, shared), mustSecret(t, shared), true},
		{"another", mustSecret(t, shared), signer.NewSecret(), false},
		{"a text and a shared one spelled alike", mustSecrets(t, signer.Stripe, shared)[0], mustSecret(t, shared), false},
		{"a text under two schemes", mustSecrets(t, signer.GitHub, text)[0], mustSecrets(t, signer.HMACHex, text)[0], true},
		{"a longer text", mustSecrets(t, signer.GitHub, text)[0], mustSecrets(t, signer.GitHub, text+"x")[0], false},
		{"a text that is a key's bytes", mustSecrets(t, signer.GitHub, string(mustKey(t)))[0], mustSecret(t, shared), false},
		{"two forms of one private key", mustSecrets(t, signer.StandardEd25519, whsk(key))[0], mustSecrets(t, signer.StandardEd25519, whsk(key.Seed()))[0], true},
		{"zero and one", signer.Secret{}, mustSecret(t, shared), false},
		{"zero and zero", signer.Secret{}, signer.Secret{}, true},
	} {
		require.Equal(t, c.equal, c.a.Equal(c.b), c.name)
		require.Equal(t, c.equal, c.b.Equal(c.a), c.name)
	}
}

func TestDerive(t *testing.T) {
	s := signer.NewSecret()
	a, b := s.Derive("acme"), s.Derive("acme2")
	require.True(t, a.Equal(s.Derive("acme")))
	require.False(t, a.Equal(b))
	require.False(t, a.Equal(s))
	require.False(t, a.Equal(signer.NewSecret().Derive("acme")))
	none := s.Derive("")
	require.False(t, none.Equal(s), "a receiver of what has no tenant could derive everybody's secret else")
	require.True(t, none.Equal(s.Derive("")))
	require.False(t, none.Equal(a))
	_, err := signer.NewSigner(a)
	require.NoError(t, err)

	require.True(t, signer.Secret{}.Derive("acme").IsZero())
	for _, scheme := range signer.Schemes()[1:] {
		require.True(t, scheme.NewSecret().Derive("acme").IsZero(), scheme)
	}
}

func TestParsePublicKey(t *testing.T) {
	text := whpk(edKey(t).Public().(ed25519.PublicKey))
	k, err := signer.ParsePublicKey(text)
	require.NoError(t, err)
	require.False(t, k.IsZero())
	require.Equal(t, text, k.String())

	out, err := json.Marshal([]signer.PublicKey{k})
	require.NoError(t, err)
	require.JSONEq(t, `["`+text+`"]`, string(out))
	var back []signer.PublicKey
	require.NoError(t, json.Unmarshal(out, &back))
	require.Equal(t, []signer.PublicKey{k}, back)
	require.ErrorIs(t, json.Unmarshal([]byte(`["whpk_"]`), &back), signer.ErrPublicKey)

	for name, text := range map[string]string{
		"empty": "", "prefix only": "whpk_", "a private key": whsk(edKey(t).Seed()), "a shared secret": "whsec_" + keyText,
		"31 bytes": whpk(mustKey(t)), "33 bytes": whpk(append([]byte("ab"), mustKey(t)...)),
		"never filled in": whpk(make([]byte, 32)), "a space after": text + " ", "no base64": text[:20] + "*" + text[21:],
	} {
		_, err := signer.ParsePublicKey(text)
		require.ErrorIs(t, err, signer.ErrPublicKey, name)
		requireNoLeak(t, err.Error())
	}

	_, err = signer.ParsePublicKeys(" ")
	require.ErrorIs(t, err, signer.ErrNoSecret)
	_, err = signer.ParsePublicKeys(text + " " + whsk(edKey(t)))
	require.ErrorContains(t, err, "public key 2: not a public key")
	keys, err := signer.ParsePublicKeys(text + " " + text)
	require.NoError(t, err)
	require.Len(t, keys, 2)
	require.Empty(t, signer.PublicKey{}.String())
}

func FuzzParseSecretOfAScheme(f *testing.F) {
	for i, scheme := range signer.Schemes() {
		f.Add(uint(i), scheme.NewSecret().Reveal())
		f.Add(uint(i), "")
	}
	f.Add(uint(1), whsk(make([]byte, 32)))
	f.Add(uint(1), whsk(make([]byte, 64)))
	f.Fuzz(func(t *testing.T, i uint, text string) {
		scheme := signer.Schemes()[i%uint(len(signer.Schemes()))]
		s, err := scheme.ParseSecret(text)
		if err != nil {
			require.True(t, errors.Is(err, signer.ErrSecret))
			require.True(t, s.IsZero())
			require.True(t, len(text) < 100 || !strings.Contains(err.Error(), text))
			return
		}
		require.Equal(t, text, s.Reveal(), "a secret has one spelling")
		_, err = scheme.NewSigner(s)
		require.NoError(t, err, "what was parsed signs")
		require.NotContains(t, s.String(), strings.TrimPrefix(strings.TrimPrefix(text, "whsec_"), "whsk_"))
	})
}

func FuzzParsePublicKey(f *testing.F) {
	f.Add(whpk(make([]byte, 32)))
	public, _ := signer.StandardEd25519.NewSecret().PublicKey()
	f.Add(public)
	f.Fuzz(func(t *testing.T, text string) {
		k, err := signer.ParsePublicKey(text)
		if err != nil {
			require.True(t, errors.Is(err, signer.ErrPublicKey))
			require.True(t, k.IsZero())
			return
		}
		require.Equal(t, text, k.String(), "a key has one spelling")
		v := signer.Verifier{Scheme: signer.StandardEd25519, PublicKeys: []signer.PublicKey{k}, Now: verifierAt(signedAt).Now}
		require.ErrorIs(t, v.Verify(signer.Signed{ID: "msg_1", Timestamp: unix(signedAt), Signature: "v1a," + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", 64)))}, nil), signer.ErrMismatch)
	})
}
