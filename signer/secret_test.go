package signer_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/signer"
)

// keyText is the base64 of a key that no other text of these tests resembles.
var keyText = base64.StdEncoding.EncodeToString([]byte("0123456789-QRSTUVWXYZ-!?-abcdef"))

func TestParseSecretTakesKeysOf24To75Bytes(t *testing.T) {
	for size := range 80 {
		text := signer.SecretPrefix + base64.StdEncoding.EncodeToString(make([]byte, size))
		s, err := signer.ParseSecret(text)
		if size < 24 || size > 75 {
			require.ErrorIs(t, err, signer.ErrSecret, "%d bytes", size)
			require.True(t, s.IsZero())
			continue
		}
		require.NoError(t, err, "%d bytes", size)
		require.Equal(t, text, s.Reveal())
		require.False(t, s.IsZero())
	}
}

func TestParseSecretRefusesWithoutRepeating(t *testing.T) {
	for name, text := range map[string]string{
		"empty":               "",
		"prefix only":         "whsec_",
		"no prefix":           keyText,
		"prefix in capitals":  "WHSEC_" + keyText,
		"another prefix":      "sk_live_" + keyText,
		"prefix twice":        "whsec_whsec_" + keyText,
		"without padding":     "whsec_" + strings.TrimRight(keyText, "="),
		"a space before":      " whsec_" + keyText,
		"a space after":       "whsec_" + keyText + " ",
		"a line break after":  "whsec_" + keyText + "\n",
		"a line break inside": "whsec_" + keyText[:8] + "\r\n" + keyText[8:],
		"a bad character":     "whsec_" + keyText[:20] + "*" + keyText[21:],
		"stray bits":          "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 31))[:42] + "B=",
		"in hex":              "whsec_" + hex.EncodeToString([]byte(keyText)) + "0",
	} {
		t.Run(name, func(t *testing.T) {
			s, err := signer.ParseSecret(text)
			require.ErrorIs(t, err, signer.ErrSecret)
			require.True(t, s.IsZero())
			requireNoLeak(t, err.Error())

			_, err = signer.ParseSecrets(signer.NewSecret().Reveal() + " x" + text)
			require.ErrorIs(t, err, signer.ErrSecret)
			require.ErrorContains(t, err, "secret 2")
			requireNoLeak(t, err.Error())
		})
	}
}

// requireNoLeak holds that a text has no run of eight characters of the secret, as
// such or in hex, nor four of its bytes as decimals. Of fewer characters an address
// or a time may have the same by chance.
func requireNoLeak(t testing.TB, text string) {
	t.Helper()
	const run = 8
	key := mustKey(t)
	decimals := strings.Trim(fmt.Sprint(key[:4]), "[]")
	for form, secret := range map[string]string{
		"base64": keyText, "bytes": string(key), "hex of bytes": hex.EncodeToString(key),
		"hex of text": hex.EncodeToString([]byte(keyText)), "capitals": strings.ToUpper(hex.EncodeToString(key)),
	} {
		for i := range len(secret) - run + 1 {
			require.NotContains(t, text, secret[i:i+run], "leaks the %s", form)
		}
	}
	require.NotContains(t, text, decimals)
	require.NotContains(t, text, strings.ReplaceAll(decimals, " ", ","))
}

func TestSecretNeverShowsItself(t *testing.T) {
	t.Run("standard", func(t *testing.T) {
		requireRedacted(t, mustSecret(t, signer.SecretPrefix+keyText), "whsec_[redacted]", signer.Standard)
	})
	t.Run("ed25519", func(t *testing.T) {
		text := signer.PrivatePrefix + base64.StdEncoding.EncodeToString(append([]byte("!"), mustKey(t)...))
		requireRedacted(t, mustSecrets(t, signer.StandardEd25519, text)[0], "whsk_[redacted]", signer.StandardEd25519)
	})
	t.Run("a text", func(t *testing.T) {
		for _, scheme := range []signer.Scheme{signer.Stripe, signer.GitHub, signer.HMACHex, signer.HMAC} {
			requireRedacted(t, mustSecrets(t, scheme, keyText)[0], "[redacted]", scheme)
		}
	})
}

// mustKey is the key whose base64 is keyText.
func mustKey(t testing.TB) []byte {
	t.Helper()
	key, err := base64.StdEncoding.DecodeString(keyText)
	require.NoError(t, err)
	return key
}

// requireRedacted holds that a secret of keyText shows nothing of it, wherever
// it is held and however that is printed.
func requireRedacted(t *testing.T, s signer.Secret, redacted string, scheme signer.Scheme) {
	t.Helper()
	sign, err := scheme.NewSigner(s)
	require.NoError(t, err)
	text := s.Reveal()

	type open struct{ Secret signer.Secret }
	type closed struct{ secret signer.Secret } // fmt can call no method on this field
	holders := map[string]any{
		"secret": s, "pointer": &s, "list": []signer.Secret{s}, "map": map[string]signer.Secret{"a": s},
		"field": open{s}, "pointer to field": &open{s}, "unexported field": closed{s}, "pointer to unexported": &closed{s},
		"verifier": &signer.Verifier{Secrets: []signer.Secret{s}}, "signer": sign,
		"error": fmt.Errorf("with %v", s),
	}
	for name, held := range holders {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%20s", "% x", "%#x"} {
			text := fmt.Sprintf(verb, held)
			requireNoLeak(t, text)
			if name == "secret" || name == "pointer" {
				require.Equal(t, redacted, text, verb)
			}
		}
		for _, asJSON := range []bool{true, false} {
			var out bytes.Buffer
			options := &slog.HandlerOptions{ReplaceAttr: withoutTime}
			var handler slog.Handler = slog.NewTextHandler(&out, options)
			if asJSON {
				handler = slog.NewJSONHandler(&out, options)
			}
			slog.New(handler).Info("held", "it", held, slog.Group("group", slog.Any("it", held)))
			requireNoLeak(t, out.String())
			if name == "secret" {
				require.Equal(t, 2, strings.Count(out.String(), redacted))
			}
		}
		if name == "verifier" {
			continue // has a clock, a function, which no encoder takes
		}
		out, err := json.Marshal(held)
		require.NoError(t, err, name)
		requireNoLeak(t, string(out))
	}

	require.Equal(t, redacted, s.String())
	require.Equal(t, redacted, s.GoString())
	out, err := json.Marshal(open{s})
	require.NoError(t, err)
	require.JSONEq(t, `{"Secret":"`+redacted+`"}`, string(out))
	out, err = xml.Marshal(open{s})
	require.NoError(t, err)
	require.Contains(t, string(out), redacted)
	require.Equal(t, text, s.Reveal(), "the check must know the right secret")
}

// withoutTime leaves a line's time out: its digits may be those of a secret in hex.
func withoutTime(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}

func TestNewSecretIsNewEachTime(t *testing.T) {
	a, b := signer.NewSecret(), signer.NewSecret()
	require.NotEqual(t, a.Reveal(), b.Reveal())
	again := mustSecret(t, a.Reveal())
	require.Equal(t, a, again)
	require.Len(t, a.Reveal(), len(signer.SecretPrefix)+44, "32 bytes")
}

func TestParseSecrets(t *testing.T) {
	a, b := signer.NewSecret(), signer.NewSecret()
	got, err := signer.ParseSecrets("  " + a.Reveal() + " \n\t" + b.Reveal() + "\n")
	require.NoError(t, err)
	require.Equal(t, []signer.Secret{a, b}, got)

	for _, text := range []string{"", " \n "} {
		_, err = signer.ParseSecrets(text)
		require.ErrorIs(t, err, signer.ErrNoSecret)
	}

	_, err = signer.ParseSecrets(strings.Repeat(a.Reveal()+" ", signer.MaxSecrets))
	require.NoError(t, err)
	_, err = signer.ParseSecrets(strings.Repeat(a.Reveal()+" ", signer.MaxSecrets+1))
	require.EqualError(t, err, "more than 16 secrets")
}

func TestZeroSecretIsNothing(t *testing.T) {
	var s signer.Secret
	require.True(t, s.IsZero())
	require.Empty(t, s.Reveal())
	require.Equal(t, "whsec_[redacted]", fmt.Sprint(s))
}

func FuzzParseSecret(f *testing.F) {
	f.Add(signer.SecretPrefix + keyText)
	f.Add(signer.SecretPrefix + keyText[:10])
	f.Add("whsec_\n")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := signer.ParseSecret(text)
		if err == nil {
			require.Equal(t, text, s.Reveal(), "a secret has one spelling")
			return
		}
		require.True(t, errors.Is(err, signer.ErrSecret))
		_, empty := signer.ParseSecret("")
		if len(text) > len(empty.Error()) {
			require.NotContains(t, err.Error(), text)
		}
	})
}

func TestAFingerprintComparesSecretsAndShowsNone(t *testing.T) {
	const text = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	s, err := signer.ParseSecret(text)
	require.NoError(t, err)
	sum := sha256.Sum256([]byte(text))
	require.Equal(t, hex.EncodeToString(sum[:])[:8], s.Fingerprint(), "as sha256sum prints it")
	require.NotEqual(t, s.Fingerprint(), signer.NewSecret().Fingerprint())
	require.Len(t, signer.StandardEd25519.NewSecret().Fingerprint(), 8)
	require.Empty(t, signer.Secret{}.Fingerprint())
	chosen, err := signer.GitHub.ParseSecret("password-password")
	require.NoError(t, err)
	require.Empty(t, chosen.Fingerprint(), "a person may have chosen it")
}
