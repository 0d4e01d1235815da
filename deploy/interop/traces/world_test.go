package traces_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/signer"
)

// key is of all scopes.
const key = "key-of-these-traces"

// world is a real program with a real Redis.
type world struct {
	t        testing.TB
	server   *redistest.Server
	redis    string // its URL
	instance *kit.Instance
}

// newWorld starts the program with more settings.
func newWorld(t testing.TB, more ...string) *world {
	t.Helper()
	redistest.Long(t)
	server := redistest.Start(t)
	w := &world{t: t, server: server, redis: server.URL()}
	w.start(more...)
	return w
}

func (w *world) start(more ...string) {
	w.t.Helper()
	p := w.process(more...)
	var err error
	w.instance, err = kit.Serve(w.t.Context(), p)
	require.NoError(w.t, err, p.Output.String())
	require.NoError(w.t, w.instance.WaitReady(w.t.Context()))
}

// process starts the program, which may refuse its settings.
func (w *world) process(more ...string) *kit.Process {
	w.t.Helper()
	path, err := kit.FastBinary()
	require.NoError(w.t, err)
	p, err := kit.Start(kit.Command{
		Name: "hookladder serve", Path: path, Args: []string{"serve"},
		Env: kit.Environ(w.redis, signer.NewSecret(), append([]string{"API_KEYS=" + key + ":admin:test", "LADDER=0s,0s,0s"}, more...)...),
	})
	require.NoError(w.t, err)
	w.t.Cleanup(p.Kill)
	return p
}

// to returns the settings that send spans to a collector at once.
func to(c *spans, more ...string) []string {
	return append([]string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + c.URL, "OTEL_BSP_SCHEDULE_DELAY=20"}, more...)
}

// call calls the API. It returns the response as JSON.
func (w *world) call(method, path string, header map[string]string, body any) (status int, answer map[string]any) {
	w.t.Helper()
	text, err := json.Marshal(body)
	require.NoError(w.t, err)
	r, err := http.NewRequestWithContext(w.t.Context(), method, w.instance.URL+path, bytes.NewReader(text))
	require.NoError(w.t, err)
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("Content-Type", "application/json")
	for name, value := range header {
		r.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(r)
	require.NoError(w.t, err)
	defer resp.Body.Close() //nolint:errcheck // it was read
	text, err = io.ReadAll(resp.Body)
	require.NoError(w.t, err)
	require.NoError(w.t, json.Unmarshal(text, &answer), "%s", text)
	return resp.StatusCode, answer
}

// publish publishes a message with a traceparent; empty: without one.
func (w *world) publish(traceparent string, message map[string]any) {
	w.t.Helper()
	header := map[string]string{}
	if traceparent != "" {
		header["traceparent"] = traceparent
	}
	status, answer := w.call("POST", "/v1/messages", header, message)
	require.Equal(w.t, http.StatusAccepted, status, "%v", answer)
}

// endpoint registers an endpoint, and returns its id.
func (w *world) endpoint(fields map[string]any) string {
	w.t.Helper()
	status, answer := w.call("POST", "/v1/endpoints", nil, fields)
	require.Equal(w.t, http.StatusCreated, status, "%v", answer)
	return answer["id"].(string)
}

// receiver answers callbacks and keeps their headers.
type receiver struct {
	*httptest.Server

	mu    sync.Mutex // guards the fields below
	got   []http.Header
	fails int // so many callbacks are answered with 500
}

func newReceiver(t testing.TB, fails int) *receiver {
	r := &receiver{fails: fails}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Server.Close)
	return r
}

// ServeHTTP answers a callback.
func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got = append(r.got, req.Header)
	if len(r.got) <= r.fails {
		w.WriteHeader(http.StatusInternalServerError)
	}
}

// wait waits for n callbacks, and returns their headers.
func (r *receiver) wait(t testing.TB, n int) (got []http.Header) {
	t.Helper()
	require.NoError(t, kit.Until(t.Context(), fmt.Sprintf("%d callbacks are there", n), func() error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if got = append([]http.Header{}, r.got...); len(got) < n {
			return fmt.Errorf("%d of %d", len(got), n)
		}
		return nil
	}))
	require.Len(t, got, n)
	return got
}
