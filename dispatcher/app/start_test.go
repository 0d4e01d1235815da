package app_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher/app"
)

// An instance that restarts while Redis is away must not swallow calls: others can serve them.
func TestEachPortRespondsWhileTheStoreIsAwaited(t *testing.T) {
	server := redistest.Start(t)
	server.Stop()
	o := newTestOptions(server.URL())
	o.StoreWait = patience
	ready := make(chan string, 1)
	o.Ready = func(addr string, _ func() error) { ready <- addr }
	o.Listen, o.MetricsListen = fmt.Sprint("127.0.0.1:", redistest.FreePort(t)), fmt.Sprint("127.0.0.1:", redistest.FreePort(t))
	ctx, stop := context.WithCancel(t.Context())
	p := &process{t: t, stop: stop, done: make(chan error, 1)}
	t.Cleanup(stop)
	go func() { p.done <- app.Run(ctx, o) }()

	ask := func(method, addr, path string) (*http.Response, string, error) {
		r, err := http.NewRequestWithContext(ctx, method, "http://"+addr+path, nil)
		require.NoError(t, err)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			return nil, "", err
		}
		defer resp.Body.Close() //nolint:errcheck // it was read
		text, err := io.ReadAll(resp.Body)
		return resp, string(text), err
	}
	for _, addr := range []string{o.Listen, o.MetricsListen} {
		within, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		require.NoError(t, kit.Until(within, "the port is bound", func() error {
			_, _, err := ask("GET", addr, "/healthz")
			return err
		}))
		resp, text, err := ask("GET", addr, "/healthz")
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, resp.StatusCode, text)
		require.JSONEq(t, `{"status":"ok"}`, text)
		for _, call := range []string{"GET /readyz", "GET /metrics", "POST /v1/messages", "GET /console/", "GET /"} {
			method, path, _ := strings.Cut(call, " ")
			resp, text, err := ask(method, addr, path)
			require.NoError(t, err)
			require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode, "%s %s", call, text)
			require.Equal(t, "1", resp.Header.Get("Retry-After"))
			require.Contains(t, text, "/problems/unavailable")
			require.Contains(t, text, "This instance starts")
		}
	}
	server.Restart()
	select {
	case <-ready:
	case <-time.After(patience):
		require.FailNow(t, "it is never ready")
	}
	for _, addr := range []string{o.Listen, o.MetricsListen} {
		resp, text, err := ask("GET", addr, "/readyz")
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, resp.StatusCode, text)
	}
	require.NoError(t, p.end())
}

// A stop while it waits closes both ports.
func TestAStopEndsTheWaitForTheStore(t *testing.T) {
	server := redistest.Start(t)
	server.Stop()
	o := newTestOptions(server.URL())
	o.StoreWait = patience
	o.Listen = fmt.Sprint("127.0.0.1:", redistest.FreePort(t))
	ctx, stop := context.WithCancel(t.Context())
	p := &process{t: t, api: "http://" + o.Listen, stop: stop, done: make(chan error, 1)}
	go func() { p.done <- app.Run(ctx, o) }()
	within, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.NoError(t, kit.Until(within, "the port is bound", func() error {
		resp, err := http.Get(p.api + "/healthz")
		if err == nil {
			_ = resp.Body.Close()
		}
		return err
	}))
	require.NoError(t, p.end())
	_, err := http.Get(p.api + "/healthz")
	require.Error(t, err)
}
