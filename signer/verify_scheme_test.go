package signer_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/signer"
)

// mustSign is the header of one scheme's signature.
func mustSign(t testing.TB, scheme signer.Scheme, secret signer.Secret, body []byte) (name, value string) {
	t.Helper()
	s, err := scheme.NewSigner(secret)
	require.NoError(t, err)
	return s.Header(), s.Sign("msg_1", signedAt, body)
}

func mustVerifier(t testing.TB, scheme signer.Scheme, keys string) *signer.Verifier {
	t.Helper()
	v, err := scheme.NewVerifier(keys)
	require.NoError(t, err)
	v.Now = verifierAt(signedAt).Now
	return v
}

func TestNewVerifierTakesWhatAReceiverHolds(t *testing.T) {
	for _, scheme := range signer.Schemes() {
		mine, other := scheme.NewSecret(), scheme.NewSecret()
		_, header := mustSign(t, scheme, mine, []byte("x"))
		held := []string{mine.Reveal(), other.Reveal() + "\n" + mine.Reveal()}
		if public, ok := mine.PublicKey(); ok {
			held = append(held, public, other.Reveal()+" "+public)
		}
		for _, keys := range held {
			v := mustVerifier(t, scheme, keys)
			require.NoError(t, v.Verify(signer.Signed{ID: "msg_1", Timestamp: unix(signedAt), Signature: header}, []byte("x")), scheme)
			require.ErrorIs(t, v.Verify(signer.Signed{ID: "msg_1", Timestamp: unix(signedAt), Signature: header}, []byte("y")), signer.ErrMismatch, scheme)
		}
		_, err := scheme.NewVerifier(" ")
		require.ErrorIs(t, err, signer.ErrNoSecret)
		v, err := scheme.NewVerifier(mine.Reveal() + " whpk_x")
		require.Error(t, err)
		require.Nil(t, v)
		require.NotContains(t, err.Error(), mine.Reveal())
	}
}

func TestPublicKeysAreForEd25519Only(t *testing.T) {
	secret := signer.StandardEd25519.NewSecret()
	public, _ := secret.PublicKey()
	v := mustVerifier(t, signer.StandardEd25519, public)
	_, header := mustSign(t, signer.StandardEd25519, secret, nil)
	require.NoError(t, v.Verify(signer.Signed{ID: "msg_1", Timestamp: unix(signedAt), Signature: header}, nil))

	v.Secrets = []signer.Secret{secret}
	v.PublicKeys = append(v.PublicKeys, signer.PublicKey{})
	require.ErrorIs(t, v.Verify(signer.Signed{ID: "msg_1", Timestamp: unix(signedAt), Signature: header}, nil), signer.ErrNoSecret, "a zero one also")

	v.PublicKeys = v.PublicKeys[:1]
	v.Scheme, v.Secrets = signer.Standard, []signer.Secret{signer.NewSecret()}
	require.ErrorIs(t, v.Verify(signer.Signed{ID: "msg_1", Timestamp: unix(signedAt), Signature: header}, nil), signer.ErrMisfit)
}

func TestVerifierWithSecretsAndPublicKeysTriesBoth(t *testing.T) {
	a, b := signer.StandardEd25519.NewSecret(), signer.StandardEd25519.NewSecret()
	public, _ := a.PublicKey()
	v := mustVerifier(t, signer.StandardEd25519, public)
	v.PublicKeys = append(make([]signer.PublicKey, 0, 4), v.PublicKeys...)
	v.Secrets = []signer.Secret{b}
	for _, secret := range []signer.Secret{a, b} {
		_, header := mustSign(t, signer.StandardEd25519, secret, nil)
		require.NoError(t, v.Verify(signer.Signed{ID: "msg_1", Timestamp: unix(signedAt), Signature: header}, nil))
	}
	require.True(t, v.PublicKeys[:2][1].IsZero(), "the fields are the caller's, and so is the room behind them")
}

func TestBothVersionsInOneHeaderVerifyByEither(t *testing.T) {
	shared, private := signer.NewSecret(), signer.StandardEd25519.NewSecret()
	_, v1 := mustSign(t, signer.Standard, shared, nil)
	_, v1a := mustSign(t, signer.StandardEd25519, private, nil)
	for _, header := range []string{v1 + " " + v1a, v1a + " " + v1, "v9,? " + v1a + " " + v1} {
		require.NoError(t, mustVerifier(t, signer.Standard, shared.Reveal()).Verify(signer.Signed{ID: "msg_1", Timestamp: unix(signedAt), Signature: header}, nil))
		require.NoError(t, mustVerifier(t, signer.StandardEd25519, private.Reveal()).Verify(signer.Signed{ID: "msg_1", Timestamp: unix(signedAt), Signature: header}, nil))
	}
	err := mustVerifier(t, signer.Standard, shared.Reveal()).Verify(signer.Signed{ID: "msg_1", Timestamp: unix(signedAt), Signature: v1a}, nil)
	require.EqualError(t, err, "no v1 signature in webhook-signature")
	err = mustVerifier(t, signer.StandardEd25519, private.Reveal()).Verify(signer.Signed{ID: "msg_1", Timestamp: unix(signedAt), Signature: v1}, nil)
	require.EqualError(t, err, "no v1a signature in webhook-signature")
}

func TestMiddlewareOfEveryScheme(t *testing.T) {
	for _, scheme := range signer.Schemes() {
		t.Run(scheme.String(), func(t *testing.T) {
			secret := scheme.NewSecret()
			name, value := mustSign(t, scheme, secret, []byte("hello"))
			answer := func(v *signer.Verifier, change func(*http.Request)) (int, string) {
				r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("hello"))
				r.Header.Set(signer.HeaderID, "msg_1")
				r.Header.Set(signer.HeaderTimestamp, unix(signedAt))
				r.Header.Set(name, value)
				change(r)
				w := httptest.NewRecorder()
				v.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(w, r.Body)
				})).ServeHTTP(w, r)
				require.NotContains(t, w.Body.String(), value)
				require.NotContains(t, w.Body.String(), secret.Reveal())
				return w.Code, w.Body.String()
			}
			v := mustVerifier(t, scheme, secret.Reveal())
			check := func(status int, says string, change func(*http.Request)) {
				t.Helper()
				got, text := answer(v, change)
				require.Equal(t, status, got, text)
				require.Contains(t, text, says)
			}
			header := strings.ToLower(name)
			check(200, "hello", func(*http.Request) {})
			check(401, "no "+header, func(r *http.Request) { r.Header.Del(name) })
			check(400, "malformed "+header, func(r *http.Request) { r.Header.Set(name, "yes") })
			check(401, header+" does not match", func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader("hellO")) })
			check(413, "body too large", func(r *http.Request) { r.ContentLength = 1 << 30 })

			if header != signer.HeaderSignature {
				check(200, "hello", func(r *http.Request) { r.Header.Del(signer.HeaderID); r.Header.Del(signer.HeaderTimestamp) })
				check(400, header+": header given more than once", func(r *http.Request) { r.Header.Add(name, value) })
			}
			stale := func() time.Time { return signedAt.Add(time.Hour) }
			v.Now = stale
			switch scheme {
			case signer.GitHub, signer.HMACHex, signer.HMAC:
				check(200, "hello", func(*http.Request) {}) // they sign no time
			case signer.Stripe:
				check(401, "stripe-signature t too old: more than 5m ago", func(*http.Request) {})
			default:
				check(401, "webhook-timestamp too old: more than 5m ago", func(*http.Request) {})
			}

			unfit := &signer.Verifier{Scheme: scheme, Secrets: []signer.Secret{{}}}
			status, _ := answer(unfit, func(*http.Request) {})
			require.Equal(t, 500, status)
			unfit.Secrets[0] = signer.NewSecret()
			if scheme == signer.Standard {
				unfit.Secrets[0] = signer.Stripe.NewSecret()
			}
			status, text := answer(unfit, func(*http.Request) {})
			require.Equal(t, 500, status)
			require.Equal(t, "no signing secret that fits its scheme\n", text)
		})
	}
}

func FuzzVerifyOfAScheme(f *testing.F) {
	number := map[signer.Scheme]uint{}
	for i, scheme := range signer.Schemes() {
		number[scheme] = uint(i)
	}
	for _, v := range readVectors(f) {
		f.Add(number[v.Scheme], v.ID, v.Timestamp, v.Signature, v.Body)
	}
	verifiers := make([]*signer.Verifier, len(signer.Schemes()))
	for i, scheme := range signer.Schemes() {
		verifiers[i] = mustVerifier(f, scheme, scheme.NewSecret().Reveal()) // not known to the fuzzer, so nothing may pass
	}
	f.Fuzz(func(t *testing.T, i uint, id, timestamp, signature string, body []byte) {
		err := verifiers[i%uint(len(verifiers))].Verify(signer.Signed{ID: id, Timestamp: timestamp, Signature: signature}, body)
		for _, reason := range reasons {
			if reason != signer.ErrNoSecret && errors.Is(err, reason) {
				return
			}
		}
		t.Fatalf("no reason fits: %v", err)
	})
}

func FuzzSignThenVerifyByAnyScheme(f *testing.F) {
	for i := range signer.Schemes() {
		f.Add(uint(i), "msg_1", int64(1_750_000_000), []byte(`{"a":1}`), uint(13))
	}
	f.Fuzz(func(t *testing.T, i uint, id string, seconds int64, body []byte, at uint) {
		if id == "" || len(id) > 256 || strings.Contains(id, ".") || seconds < 0 || seconds > 999_999_999_999 {
			return
		}
		scheme := signer.Schemes()[i%uint(len(signer.Schemes()))]
		secret, sentAt := scheme.NewSecret(), time.Unix(seconds, 0)
		s, err := scheme.NewSigner(secret, scheme.NewSecret())
		require.NoError(t, err)
		header := s.Sign(id, sentAt, body)
		v := mustVerifier(t, scheme, secret.Reveal())
		v.Now = func() time.Time { return sentAt }
		require.NoError(t, v.Verify(signer.Signed{ID: id, Timestamp: unix(sentAt), Signature: header}, body))

		require.Error(t, v.Verify(signer.Signed{ID: id, Timestamp: unix(sentAt), Signature: header}, append([]byte{0}, body...)), "a longer body")
		if len(body) > 0 {
			require.Error(t, v.Verify(signer.Signed{ID: id, Timestamp: unix(sentAt), Signature: header}, []byte(flip(string(body), at))), "another body")
		}
		first := len(header) // where the first signature ends: the second one is another secret's
		if end := strings.IndexAny(header, " "); end >= 0 {
			first = end
		}
		if scheme == signer.Stripe {
			first = strings.LastIndex(header, ",")
		}
		require.Error(t, v.Verify(signer.Signed{ID: id, Timestamp: unix(sentAt), Signature: flip(header[:first], at) + header[first:]}, body), "another signature")
		stranger := mustVerifier(t, scheme, scheme.NewSecret().Reveal())
		stranger.Now = v.Now
		require.ErrorIs(t, stranger.Verify(signer.Signed{ID: id, Timestamp: unix(sentAt), Signature: header}, bytes.Clone(body)), signer.ErrMismatch)
	})
}
