package signer_test

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/signer"
)

func TestVerifierIsSafeWithoutSettings(t *testing.T) {
	secret := signer.NewSecret()
	v := &signer.Verifier{Secrets: []signer.Secret{secret}} // the real clock, the default tolerance
	check := func(at time.Time) error {
		return v.Verify(signer.Signed{ID: "msg_1", Timestamp: unix(at), Signature: signer.Sign(secret, "msg_1", at, nil)}, nil)
	}
	require.NoError(t, check(time.Now()))
	require.NoError(t, check(time.Now().Add(-4*time.Minute)))
	require.NoError(t, check(time.Now().Add(4*time.Minute)))
	require.ErrorIs(t, check(time.Now().Add(-6*time.Minute)), signer.ErrTooOld)
	require.ErrorIs(t, check(time.Now().Add(6*time.Minute)), signer.ErrTooNew)

	v.Tolerance = -time.Hour
	require.NoError(t, check(time.Now()), "a negative tolerance is the default one")
	require.ErrorIs(t, check(time.Now().Add(-6*time.Minute)), signer.ErrTooOld)
}

func TestVerifierToleratesToTheNanosecond(t *testing.T) {
	secret := signer.NewSecret()
	signature := signer.Sign(secret, "msg_1", signedAt, nil)
	edge := signedAt.Add(signer.DefaultTolerance)
	require.NoError(t, verifierAt(edge, secret).Verify(signer.Signed{ID: "msg_1", Timestamp: unix(signedAt), Signature: signature}, nil))
	require.ErrorIs(t, verifierAt(edge.Add(1), secret).Verify(signer.Signed{ID: "msg_1", Timestamp: unix(signedAt), Signature: signature}, nil), signer.ErrTooOld)
	edge = signedAt.Add(-signer.DefaultTolerance)
	require.NoError(t, verifierAt(edge, secret).Verify(signer.Signed{ID: "msg_1", Timestamp: unix(signedAt), Signature: signature}, nil))
	require.ErrorIs(t, verifierAt(edge.Add(-1), secret).Verify(signer.Signed{ID: "msg_1", Timestamp: unix(signedAt), Signature: signature}, nil), signer.ErrTooNew)
}

func TestVerifierWithoutAWholeSetOfSecretsAcceptsNothing(t *testing.T) {
	secret := signer.NewSecret()
	signature := signer.Sign(secret, "msg_1", signedAt, nil)
	for name, v := range map[string]*signer.Verifier{
		"none":            verifierAt(signedAt),
		"a zero one":      verifierAt(signedAt, signer.Secret{}),
		"a zero one also": verifierAt(signedAt, secret, signer.Secret{}),
	} {
		require.ErrorIs(t, v.Verify(signer.Signed{ID: "msg_1", Timestamp: unix(signedAt), Signature: signature}, nil), signer.ErrNoSecret, name)
	}
}

func TestErrorsTellNeitherSecretNorSignature(t *testing.T) {
	secret := mustSecret(t, signer.SecretPrefix+keyText)
	good := signer.Sign(secret, "msg_1", signedAt, nil)
	sum := strings.TrimPrefix(good, "v1,")
	v := verifierAt(signedAt, secret)
	for _, err := range []error{
		v.Verify(signer.Signed{ID: "msg_1", Timestamp: unix(signedAt), Signature: good}, []byte("other")),
		v.Verify(signer.Signed{ID: "msg_1", Timestamp: unix(signedAt), Signature: sum}, nil),
		v.Verify(signer.Signed{ID: "msg_1", Timestamp: unix(signedAt), Signature: good + "x"}, nil),
		v.Verify(signer.Signed{ID: "msg_1", Timestamp: unix(signedAt), Signature: strings.Repeat(good+" ", 40)}, nil),
		v.Verify(signer.Signed{ID: "msg_1", Timestamp: sum, Signature: good}, nil),
		v.Verify(signer.Signed{ID: sum + ".", Timestamp: unix(signedAt), Signature: good}, nil),
		v.Verify(signer.Signed{ID: "msg_1", Timestamp: unix(signedAt.Add(time.Hour)), Signature: good}, nil),
	} {
		require.Error(t, err)
		requireNoLeak(t, err.Error())
		require.NotContains(t, err.Error(), sum[:10])
	}
}

func FuzzSignThenVerify(f *testing.F) {
	f.Add([]byte("0123456789abcdef01234567"), "msg_1", int64(1_750_000_000), []byte(`{"a":1}`), uint(3))
	f.Add([]byte("0123456789abcdef0123456789abcdef"), "a", int64(0), []byte{}, uint(0))
	f.Fuzz(func(t *testing.T, key []byte, id string, seconds int64, body []byte, at uint) {
		if len(key) < 24 || len(key) > 64 || id == "" || len(id) > 256 || strings.Contains(id, ".") ||
			seconds < 0 || seconds > 999_999_999_999 {
			return
		}
		secret := mustSecret(t, signer.SecretPrefix+base64.StdEncoding.EncodeToString(key))
		sentAt := time.Unix(seconds, 0)
		timestamp, signature := unix(sentAt), mustSigner(t, secret).Sign(id, sentAt, body)
		v := verifierAt(sentAt, secret)
		require.NoError(t, v.Verify(signer.Signed{ID: id, Timestamp: timestamp, Signature: signature}, body))

		require.Error(t, v.Verify(signer.Signed{ID: flip(id, at), Timestamp: timestamp, Signature: signature}, body), "another id")
		require.Error(t, v.Verify(signer.Signed{ID: id, Timestamp: flip(timestamp, at), Signature: signature}, body), "another timestamp")
		require.Error(t, v.Verify(signer.Signed{ID: id, Timestamp: timestamp, Signature: flip(signature, at)}, body), "another signature")
		require.Error(t, v.Verify(signer.Signed{ID: id, Timestamp: timestamp, Signature: signature}, append([]byte{0}, body...)), "a longer body")
		require.Error(t, v.Verify(signer.Signed{ID: id, Timestamp: timestamp, Signature: signature[:len(signature)-1-int(at%44)]}, body), "a shorter signature")
		if len(body) > 0 {
			require.Error(t, v.Verify(signer.Signed{ID: id, Timestamp: timestamp, Signature: signature}, []byte(flip(string(body), at))), "another body")
			require.Error(t, v.Verify(signer.Signed{ID: id, Timestamp: timestamp, Signature: signature}, body[1:]), "a shorter body")
		}
		other := verifierAt(sentAt, mustSecret(t, signer.SecretPrefix+base64.StdEncoding.EncodeToString([]byte(flip(string(key), at)))))
		require.ErrorIs(t, other.Verify(signer.Signed{ID: id, Timestamp: timestamp, Signature: signature}, body), signer.ErrMismatch, "another secret")
	})
}

// flip turns one bit of s around.
func flip(s string, at uint) string {
	b := []byte(s)
	b[at/8%uint(len(b))] ^= 1 << (at % 8)
	return string(b)
}

func FuzzVerify(f *testing.F) {
	for _, v := range readVectors(f) {
		f.Add(v.ID, v.Timestamp, v.Signature, v.Body)
	}
	secret := signer.NewSecret() // not known to the fuzzer, so nothing may pass
	f.Fuzz(func(t *testing.T, id, timestamp, signature string, body []byte) {
		err := verifierAt(signedAt, secret).Verify(signer.Signed{ID: id, Timestamp: timestamp, Signature: signature}, body)
		for _, reason := range reasons {
			if reason != signer.ErrNoSecret && errors.Is(err, reason) {
				return
			}
		}
		t.Fatalf("no reason fits: %v", err)
	})
}
