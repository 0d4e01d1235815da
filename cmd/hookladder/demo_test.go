package main

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/signer"
)

func TestTheReceiverFailsAsItsPathsSay(t *testing.T) {
	secret := signer.NewSecret()
	receiver := newDemoReceiver([]signer.Secret{secret}, 1<<10)
	answer := func(path, id string, by signer.Secret) int {
		r := httptest.NewRequest(http.MethodPost, path, strings.NewReader("{}"))
		now := time.Now()
		r.Header.Set(signer.HeaderID, id)
		r.Header.Set(signer.HeaderTimestamp, strconv.FormatInt(now.Unix(), 10))
		r.Header.Set(signer.HeaderSignature, signer.Sign(by, id, now, []byte("{}")))
		w := httptest.NewRecorder()
		receiver.ServeHTTP(w, r)
		return w.Code
	}
	require.Equal(t, 204, answer("/ok", "a", secret))
	require.Equal(t, 500, answer("/fail", "a", secret))
	turn := func(method, path, site string) (int, string) {
		r := httptest.NewRequest(method, path, nil)
		r.Header.Set("Sec-Fetch-Site", site)
		w := httptest.NewRecorder()
		receiver.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	code, text := turn(http.MethodGet, "/", "none")
	require.Equal(t, 200, code)
	require.Contains(t, text, "Mend it")
	code, _ = turn(http.MethodPost, "/mend", "cross-site")
	require.Equal(t, 403, code)
	require.Equal(t, 500, answer("/fail", "a", secret))
	code, _ = turn(http.MethodPost, "/mend", "same-origin")
	require.Equal(t, 303, code)
	require.Equal(t, 204, answer("/fail", "a", secret), "a person mended it")
	_, text = turn(http.MethodGet, "/", "none")
	require.Contains(t, text, "Break it again")
	_, _ = turn(http.MethodPost, "/break", "same-origin")
	require.Equal(t, 500, answer("/fail", "a", secret))
	require.Equal(t, 404, answer("/elsewhere", "a", secret))
	require.Equal(t, 401, answer("/ok", "a", signer.NewSecret()), "it verifies")
	for _, id := range []string{"a", "b"} {
		require.Equal(t, 503, answer("/flaky", id, secret))
		require.Equal(t, 503, answer("/flaky", id, secret))
		require.Equal(t, 204, answer("/flaky", id, secret))
		require.Equal(t, 204, answer("/flaky", id, secret))
	}
}
