package httpapi_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/internal/httpapi"
)

func withMetrics(o *httpapi.Options) {
	o.Metrics = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept-Encoding") != "" {
			w.WriteHeader(http.StatusTeapot) // it would be compressed, and not say so
			return
		}
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		_, _ = w.Write([]byte("hookladder_store_up 1\n"))
	})
}

func TestMetricsAreServedToWhoMayRead(t *testing.T) {
	h := newTestAPI(t, &Fake{}, withMetrics, WithKeys(t, "0123456789abcdef:read,0123456789abcdeg:publish"))
	RequireProblem(t, Get(h, "/metrics"), http.StatusUnauthorized, "unauthorized")
	for key, status := range map[string]int{"0123456789abcdef": http.StatusOK, "0123456789abcdeg": http.StatusForbidden} {
		r := newTestRequest("GET", "/metrics", "")
		r.Header.Set("Authorization", "Bearer "+key)
		r.Header.Set("Accept-Encoding", "gzip")
		w := Serve(h, r)
		require.Equal(t, status, w.Code, w.Body.String())
		if status == http.StatusOK {
			require.Equal(t, "hookladder_store_up 1\n", w.Body.String())
			require.Equal(t, "text/plain; version=0.0.4", w.Header().Get("Content-Type"))
		}
	}
	require.Contains(t, Get(h, "/openapi.json").Body.String(), `"/metrics"`)
}

func TestWhereNobodyCountsThereAreNoMetrics(t *testing.T) {
	h := newTestAPI(t, &Fake{})
	RequireProblem(t, Get(h, "/metrics"), http.StatusNotFound, "not-found")
	require.NotContains(t, Get(h, "/openapi.json").Body.String(), "/metrics")
}
