package signer_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/signer"
)

// newRequest is a POST signed by secret.
func newRequest(secret signer.Secret, body []byte) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
	r.Header.Set(signer.HeaderID, "msg_1")
	r.Header.Set(signer.HeaderTimestamp, unix(signedAt))
	r.Header.Set(signer.HeaderSignature, signer.Sign(secret, "msg_1", signedAt, body))
	return r
}

func TestVerifyRequestGivesTheBodyTwice(t *testing.T) {
	secret := signer.NewSecret()
	for _, body := range []string{"", `{"amount": 12345678901234567890}`, strings.Repeat("x", 100_000)} {
		r := newRequest(secret, []byte(body))
		got, err := verifierAt(signedAt, secret).VerifyRequest(r)
		require.NoError(t, err)
		require.Equal(t, body, string(got))
		again, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		require.Equal(t, body, string(again))
		require.NoError(t, r.Body.Close())
	}

	r := newRequest(secret, nil)
	r.Body = nil // as in a request that was made and not received
	_, err := verifierAt(signedAt, secret).VerifyRequest(r)
	require.NoError(t, err)
	require.NotNil(t, r.Body)
}

func TestVerifyRequestBoundsTheBody(t *testing.T) {
	secret := signer.NewSecret()
	v := verifierAt(signedAt, secret)
	v.MaxBody = 10
	for size, fits := range map[int]bool{0: true, 9: true, 10: true, 11: false, 5000: false} {
		for _, announced := range []bool{true, false} {
			r := newRequest(secret, make([]byte, size))
			if !announced {
				r.ContentLength = -1
			}
			_, err := v.VerifyRequest(r)
			if fits {
				require.NoError(t, err, "%d bytes", size)
			} else {
				require.ErrorIs(t, err, signer.ErrBodyTooLarge, "%d bytes", size)
				require.ErrorContains(t, err, "more than 10 bytes")
			}
		}
	}

	v.MaxBody = 0
	_, err := v.VerifyRequest(newRequest(secret, make([]byte, signer.DefaultMaxBody)))
	require.NoError(t, err)
	_, err = v.VerifyRequest(newRequest(secret, make([]byte, signer.DefaultMaxBody+1)))
	require.ErrorIs(t, err, signer.ErrBodyTooLarge)

	r := newRequest(secret, make([]byte, 20))
	r.ContentLength = -1
	r.Body = http.MaxBytesReader(nil, r.Body, 7)
	_, err = v.VerifyRequest(r)
	require.ErrorIs(t, err, signer.ErrBodyTooLarge, "a limit that somebody else set")
	require.ErrorContains(t, err, "more than 7 bytes")
}

func TestVerifyRequestReadsNothingOfWhatItRefuses(t *testing.T) {
	secret := signer.NewSecret()
	r := newRequest(secret, nil)
	r.Header.Del(signer.HeaderSignature)
	r.Body = io.NopCloser(iotest.ErrReader(errors.New("was read")))
	_, err := verifierAt(signedAt, secret).VerifyRequest(r)
	require.ErrorIs(t, err, signer.ErrNoSignature)
}

func TestVerifyRequestTakesTheSignatureFromSeveralLines(t *testing.T) {
	secret := signer.NewSecret()
	r := newRequest(secret, []byte("x"))
	good := r.Header.Get(signer.HeaderSignature)
	r.Header.Set(signer.HeaderSignature, "v1a,other")
	r.Header.Add(signer.HeaderSignature, good)
	_, err := verifierAt(signedAt, secret).VerifyRequest(r)
	require.NoError(t, err)
}

func TestMiddlewareAnswers(t *testing.T) {
	secret := mustSecret(t, signer.SecretPrefix+keyText)
	set := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	for _, c := range []struct {
		name   string
		change func(*http.Request)
		status int
		says   string
	}{
		{"nothing wrong", func(*http.Request) {}, 200, "got hello"},
		{"no id", set(signer.HeaderID, ""), 400, "no webhook-id"},
		{"an id with a dot", set(signer.HeaderID, "a.b"), 400, "malformed webhook-id: it has a dot"},
		{"the id twice", func(r *http.Request) { r.Header.Add(signer.HeaderID, "msg_2") }, 400, "webhook-id: header given more than once"},
		{"the timestamp twice", func(r *http.Request) { r.Header.Add(signer.HeaderTimestamp, "1") }, 400, "webhook-timestamp: header given more than once"},
		{"no timestamp", func(r *http.Request) { r.Header.Del(signer.HeaderTimestamp) }, 400, "no webhook-timestamp"},
		{"milliseconds", set(signer.HeaderTimestamp, "1750000000000"), 400, "not milliseconds"},
		{"stale", set(signer.HeaderTimestamp, "1749999000"), 401, "webhook-timestamp too old: more than 5m ago"},
		{"from the future", set(signer.HeaderTimestamp, "1750009000"), 401, "too far in the future"},
		{"unsigned", func(r *http.Request) { r.Header.Del(signer.HeaderSignature) }, 401, "no webhook-signature"},
		{"a signature of no form", set(signer.HeaderSignature, "yes"), 400, "malformed webhook-signature"},
		{"a version to come", set(signer.HeaderSignature, "v9,x"), 400, "no v1 signature"},
		{"another body", func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader("hellO")) }, 401, "does not match"},
		{"a large body", func(r *http.Request) { r.ContentLength = 1 << 30 }, 413, "body too large: more than 1048576 bytes"},
		{"a broken body", func(r *http.Request) {
			r.Body = io.NopCloser(iotest.ErrReader(errors.New("10.0.0.1: reset")))
		}, 400, "body could not be read\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			called := false
			handler := verifierAt(signedAt, secret).Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				called = true
				body, err := io.ReadAll(r.Body)
				require.NoError(t, err)
				_, _ = w.Write([]byte("got " + string(body)))
			}))
			r := newRequest(secret, []byte("hello"))
			signature := r.Header.Get(signer.HeaderSignature)
			c.change(r)
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			require.Equal(t, c.status, w.Code, w.Body)
			require.Contains(t, w.Body.String(), c.says)
			require.Equal(t, c.status == 200, called, "the handler runs only for what verified")
			requireNoLeak(t, w.Body.String())
			require.NotContains(t, w.Body.String(), signature[3:13])
			require.NotContains(t, w.Body.String(), "10.0.0.1")
		})
	}
}

func TestMiddlewareWithoutASecretIsTheReceiversFault(t *testing.T) {
	w := httptest.NewRecorder()
	handler := (&signer.Verifier{}).Middleware(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("ran")
	}))
	handler.ServeHTTP(w, newRequest(signer.NewSecret(), nil))
	require.Equal(t, http.StatusInternalServerError, w.Code)
}
