package httpapi_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/internal/callers"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// PortsOf are options whose ports are all one fake.
func PortsOf(f *Fake) httpapi.Options {
	return httpapi.Options{
		Publisher: f, Messages: f, MessageLanes: f, Lists: f, Dead: f, Attempts: f, Followers: f, Jobs: f,
		Endpoints: f, Tester: f, Lanes: f, Takers: f, Links: f, Audit: f, Stats: f, Ticks: f, Readiness: f,
	}
}

// Policy is a policy that refuses private addresses.
func Policy() dispatcher.Policy {
	return dispatcher.Policy{
		MaxBody: 256 << 10,
		Now:     func() time.Time { return Now },
		CheckURL: func(u *url.URL) error {
			if a, err := netip.ParseAddr(u.Hostname()); err == nil && a.IsPrivate() {
				return errors.New(a.String() + " is private; allow it with ALLOW_NETS=" + a.String() + "/32")
			}
			return nil
		},
	}
}

// newTestAPI is the real handler on a fake engine, open to this host.
func newTestAPI(t testing.TB, f *Fake, change ...func(*httpapi.Options)) http.Handler {
	t.Helper()
	o := PortsOf(f)
	o.Policy, o.Version, o.Log = Policy(), "1.2.3", slog.New(slog.DiscardHandler)
	for _, c := range change {
		c(&o)
	}
	h, err := httpapi.New(o)
	require.NoError(t, err)
	return h
}

// WithKeys has the API ask for keys.
func WithKeys(t testing.TB, text string) func(*httpapi.Options) {
	t.Helper()
	keys, err := callers.ParseAPIKeys(text)
	require.NoError(t, err)
	return func(o *httpapi.Options) { o.Keys = callers.NewKeyRing(keys) }
}

// WithLimits changes the policy.
func WithLimits(l dispatcher.Policy) func(*httpapi.Options) {
	return func(o *httpapi.Options) { o.Policy = l }
}

// WithLog writes the log to w.
func WithLog(w io.Writer) func(*httpapi.Options) {
	return func(o *httpapi.Options) {
		o.Log = slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
}

// newTestRequest returns a request to the loopback host, with a JSON body if there is one.
func newTestRequest(method, target, body string) *http.Request {
	r := httptest.NewRequest(method, "http://localhost:8080"+target, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	return r
}

// Serve serves one request.
func Serve(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// Post sends a body.
func Post(h http.Handler, target, body string) *httptest.ResponseRecorder {
	return Serve(h, newTestRequest("POST", target, body))
}

// Get reads a path.
func Get(h http.Handler, target string) *httptest.ResponseRecorder {
	return Serve(h, newTestRequest("GET", target, ""))
}

// RequireProblem checks that the answer is a problem of this kind, and reads it.
func RequireProblem(t testing.TB, w *httptest.ResponseRecorder, status int, word string) wire.Problem {
	t.Helper()
	require.Equal(t, status, w.Code, w.Body.String())
	require.Equal(t, "application/problem+json", w.Header().Get("Content-Type"))
	require.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
	var p wire.Problem
	dec := json.NewDecoder(bytes.NewReader(w.Body.Bytes()))
	dec.DisallowUnknownFields()
	require.NoError(t, dec.Decode(&p))
	require.Equal(t, "/problems/"+word, p.Type)
	require.Equal(t, status, p.Status)
	require.NotEmpty(t, p.Title)
	return p
}

// RequireField checks that exactly one field is wrong.
func RequireField(t testing.TB, w *httptest.ResponseRecorder, path, says string) {
	t.Helper()
	p := RequireProblem(t, w, 422, "invalid")
	require.Len(t, p.Errors, 1, w.Body.String())
	require.Equal(t, path, p.Errors[0].Path)
	require.Contains(t, p.Errors[0].Detail, says)
	require.NotRegexp(t, `\b(Go|json:|jsontext|dispatcher\.)`, p.Errors[0].Detail, "it says so in our words")
}

// DecodeAnswer reads a response strictly.
func DecodeAnswer[T any](t testing.TB, w *httptest.ResponseRecorder, status int) T {
	t.Helper()
	require.Equal(t, status, w.Code, w.Body.String())
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	var out T
	dec := json.NewDecoder(bytes.NewReader(w.Body.Bytes()))
	dec.DisallowUnknownFields()
	require.NoError(t, dec.Decode(&out), w.Body.String())
	return out
}

// newTestClient returns the public client for the real server. It does not retry, because each
// response is checked.
func newTestClient(t testing.TB, f *Fake, change ...func(*httpapi.Options)) *client.Client {
	t.Helper()
	srv := httptest.NewServer(newTestAPI(t, f, append(change, WithKeys(t, Keys()))...))
	t.Cleanup(srv.Close)
	c, err := client.New(srv.URL+"/", AdminKey, client.WithRepeats(client.Repeats{Tries: 1}))
	require.NoError(t, err)
	return c
}

// WithLinks has the API make links.
func WithLinks(o *httpapi.Options) {
	o.LinksTo = &url.URL{Scheme: "https", Host: "hooks.example", Path: "/pay"}
}

// WaitMost ends a test that hangs.
const WaitMost = 2 * time.Minute

// newTestServer serves an API over TCP, as a process does.
func newTestServer(t testing.TB, f *Fake, change ...func(*httpapi.Options)) string {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	s := callers.Server(newTestAPI(t, f, change...), log)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- s.Serve(callers.New(1000, nil, log).Listen(l)) }()
	t.Cleanup(func() {
		_ = s.Close()
		<-served
	})
	return l.Addr().String()
}
