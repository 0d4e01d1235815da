package httpapi_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
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

func TestATickAnswersWhatWasDoneAndWhenToCallAgain(t *testing.T) {
	f := &Fake{Ticked: dispatcher.Tick{Attempted: 3, Delivered: 2, Dead: 1, Next: time.Date(2026, 1, 31, 12, 0, 0, 1e6, time.UTC)}}
	h := newTestAPI(t, f)
	w := Post(h, "/v1/tick", "")
	require.Equal(t, 200, w.Code)
	require.JSONEq(t, `{"attempted":3,"delivered":2,"dead":1,"next_due_at":"2026-01-31T12:00:00.001Z"}`, w.Body.String())
	require.Equal(t, 25*time.Second, f.Within)
	f.Ticked.Next = time.Time{}
	for text, want := range map[string]time.Duration{"1s": time.Second, "2.5": 2500 * time.Millisecond, "60": time.Minute, "1m": time.Minute} {
		w = Post(h, "/v1/tick?for="+text, "{}")
		require.Equal(t, 200, w.Code)
		require.JSONEq(t, `{"attempted":3,"delivered":2,"dead":1,"next_due_at":null}`, w.Body.String())
		require.Equal(t, want, f.Within)
	}
}

func TestATickLastsASecondToAMinute(t *testing.T) {
	f := &Fake{}
	h := newTestAPI(t, f)
	for _, text := range []string{"0s", "999ms", "61s", "1d", "-5s", "soon", "1e3", "%205s", ""} {
		RequireField(t, Post(h, "/v1/tick?for="+text, ""), "query.for", "")
	}
	RequireField(t, Post(h, "/v1/tick?wait=5s", ""), "query.wait", "unknown")
	RequireField(t, Post(h, "/v1/tick", `{"for":"5s"}`), "$", "no body")
	require.Empty(t, f.Calls)
}

func TestAnInstanceThatAcceptsOnlyRefusesTicks(t *testing.T) {
	f := &Fake{Err: dispatcher.ErrAcceptsOnly}
	RequireProblem(t, Post(newTestAPI(t, f), "/v1/tick", ""), 409, "accepts-only")
	f.Err = dispatcher.ErrStopping
	RequireProblem(t, Post(newTestAPI(t, f), "/v1/tick", ""), 503, "unavailable")
}

func TestTicksThatWaitAreBounded(t *testing.T) {
	f := &Fake{Waits: make(chan struct{})}
	h := newTestAPI(t, f, func(o *httpapi.Options) { o.Waiting = 1 })
	first := make(chan *httptest.ResponseRecorder)
	go func() { first <- Post(h, "/v1/tick", "") }()
	require.Eventually(t, func() bool {
		f.Mu.Lock()
		defer f.Mu.Unlock()
		return len(f.Calls) == 1
	}, 10*time.Second, time.Millisecond)
	RequireProblem(t, Post(h, "/v1/tick", ""), 429, "waiting")
	close(f.Waits)
	require.Equal(t, 200, (<-first).Code)
	require.Equal(t, 200, Post(h, "/v1/tick", "").Code)
}
