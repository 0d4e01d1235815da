package httpapi_test

import (
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime/pprof"
	"runtime/trace"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// profilePaths are all that the process tells of itself.
var profilePaths = []string{
	"/debug/pprof/", "/debug/pprof/cmdline", "/debug/pprof/symbol?0x1", "/debug/pprof/heap", "/debug/pprof/allocs?debug=1",
	"/debug/pprof/goroutine", "/debug/pprof/block", "/debug/pprof/mutex", "/debug/pprof/threadcreate",
}

func TestOnlyWhoMayDoEverythingSeesProfiles(t *testing.T) {
	f := &Fake{}
	h := newTestAPI(t, f, WithKeys(t, Keys()))
	for _, path := range append(profilePaths, "/debug/pprof/profile?seconds=1", "/debug/pprof/trace?seconds=1", "/debug/pprof/none") {
		RequireProblem(t, Get(h, path), http.StatusUnauthorized, "unauthorized")
		for _, key := range []string{PublishKey, ReadKey, TickKey} {
			r := newTestRequest("GET", path, "")
			r.Header.Set("Authorization", "Bearer "+key)
			RequireProblem(t, Serve(h, r), http.StatusForbidden, "forbidden")
		}
	}
	for _, path := range profilePaths {
		r := newTestRequest("GET", path, "")
		r.Host = "hooks.example"
		r.Header.Set("Authorization", "Bearer "+AdminKey)
		w := Serve(h, r)
		require.Equal(t, http.StatusOK, w.Code, path)
		require.NotEmpty(t, w.Body.Bytes(), path)
		require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
	}
	require.Empty(t, f.Calls)
}

func TestWithoutKeysThisHostSeesProfiles(t *testing.T) {
	h := newTestAPI(t, &Fake{})
	for _, path := range profilePaths {
		require.Equal(t, http.StatusOK, Get(h, path).Code, path)
		r := newTestRequest("GET", path, "")
		r.Host = "hooks.example"
		RequireProblem(t, Serve(h, r), http.StatusForbidden, "forbidden")
	}
	require.Equal(t, http.StatusOK, Post(h, "/debug/pprof/symbol", "0x1+0x2").Code)
	RequireProblem(t, Post(h, "/debug/pprof/heap", ""), http.StatusMethodNotAllowed, "method-not-allowed")
	RequireProblem(t, Get(h, "/debug/pprof/none"), http.StatusNotFound, "not-found")
	require.NotContains(t, Get(h, "/openapi.json").Body.String(), "pprof")
	for _, seconds := range []string{"0", "-1", "301", "1.5", "x", ""} {
		for _, name := range []string{"profile", "trace", "heap", "mutex"} {
			RequireField(t, Get(h, "/debug/pprof/"+name+"?seconds="+seconds), "query.seconds", "1 to 300")
		}
	}
}

// TestAProfileTakesLongerThanAnyOtherAnswer: it would end early where the
// request does, and have no end where its answer is cut.
func TestAProfileTakesLongerThanAnyOtherAnswer(t *testing.T) {
	server := httptest.NewUnstartedServer(newTestAPI(t, &Fake{}))
	server.Config.ReadTimeout, server.Config.WriteTimeout = 2*time.Second, 2*time.Second // of the three
	server.Start()
	t.Cleanup(server.Close)
	for _, name := range []string{"profile", "heap", "mutex"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			res, err := server.Client().Get(server.URL + "/debug/pprof/" + name + "?seconds=3")
			require.NoError(t, err)
			defer func() { require.NoError(t, res.Body.Close()) }()
			require.Equal(t, http.StatusOK, res.StatusCode)
			require.Equal(t, "application/octet-stream", res.Header.Get("Content-Type"))
			plain, err := gzip.NewReader(res.Body)
			require.NoError(t, err)
			content, err := io.ReadAll(plain)
			require.NoError(t, err)
			require.NotEmpty(t, content)
			require.GreaterOrEqual(t, time.Since(began), 3*time.Second)
		})
	}
}

func TestOneProfileOfASortIsTakenAtATime(t *testing.T) {
	h := newTestAPI(t, &Fake{})
	// These fail where somebody takes one of the tests, which is as good.
	_ = pprof.StartCPUProfile(io.Discard)
	_ = trace.Start(io.Discard)
	for _, name := range []string{"profile", "trace"} {
		w := Get(h, "/debug/pprof/"+name+"?seconds=1")
		RequireProblem(t, w, http.StatusConflict, "profiling")
		require.Empty(t, w.Header().Get("Content-Disposition"))
	}
	trace.Stop()
	pprof.StopCPUProfile()

	// A caller who went away ends a profile, so that the next one can have theirs.
	gone, leave := context.WithCancel(t.Context())
	leave()
	for range 2 {
		for _, name := range []string{"profile", "trace"} {
			w := Serve(h, newTestRequest("GET", "/debug/pprof/"+name, "").WithContext(gone))
			require.Equal(t, http.StatusOK, w.Code)
			require.NotEmpty(t, w.Body.Bytes(), name)
		}
	}
}

func TestLocksAreSampledForOneCallerAtATime(t *testing.T) {
	h := newTestAPI(t, &Fake{})
	waits, leave := context.WithCancel(t.Context())
	first := make(chan int, 1)
	go func() {
		code := http.StatusConflict // with those who ask below
		for code == http.StatusConflict {
			code = Serve(h, newTestRequest("GET", "/debug/pprof/mutex?seconds=300", "").WithContext(waits)).Code
		}
		first <- code
	}()
	gone, end := context.WithCancel(t.Context())
	end()
	require.Eventually(t, func() bool {
		return Serve(h, newTestRequest("GET", "/debug/pprof/block?seconds=300", "").WithContext(gone)).Code == http.StatusConflict
	}, time.Minute, time.Millisecond)
	leave()
	require.NotEqual(t, http.StatusOK, <-first, "there is no profile for who did not wait")
	w := Serve(h, newTestRequest("GET", "/debug/pprof/block?seconds=300", "").WithContext(gone))
	require.NotEqual(t, http.StatusConflict, w.Code, "the first has ended")
}
