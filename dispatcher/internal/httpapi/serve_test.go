package httpapi_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
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
	"github.com/hookladder/hookladder/dispatcher/success"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/ladder"
	"github.com/hookladder/hookladder/signer"
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

// Endpoint has every field.
func Endpoint(t testing.TB) *dispatcher.Endpoint {
	t.Helper()
	l, err := ladder.Parse("15s/3m")
	require.NoError(t, err)
	s, err := success.Parse(`{"status":["200"],"body":"ok"}`)
	require.NoError(t, err)
	return &dispatcher.Endpoint{
		ID: "ep_123456789", Version: 7, UID: "merchant:7", Tenant: "m7", URL: "https://shop.example/hooks?k=1&l=2",
		Topics: []string{"payment.*"}, Description: "the shop", Metadata: map[string]string{"plan": "gold"},
		Signature: signer.Standard,
		Secrets: []dispatcher.EndpointSecret{
			{Secret: MustSecret(t, signer.Standard, SecretNew)},
			{Secret: MustSecret(t, signer.Standard, SecretOld), Until: Now.Add(time.Hour)},
		},
		Ladder: &l, Timeout: 2 * time.Second, MaxInFlight: 5, Rate: dispatcher.Rate{Count: 100, Per: time.Second},
		Headers: []dispatcher.Header{{Name: "Authorization", Value: "Bearer hunter2"}, {Name: "x-b", Value: "hunter3"}},
		Success: s, Ordered: true, Trace: true, CreatedAt: Now, UpdatedAt: Now.Add(time.Minute),
	}
}

// Secrets of testEndpoint, and one with public keys.
const (
	SecretNew = "whsec_bmV3bmV3bmV3bmV3bmV3bmV3bmV3bmV3bmV3bmU="
	SecretOld = "whsec_b2xkb2xkb2xkb2xkb2xkb2xkb2xkb2xkb2xkb2w="
	SecretEd  = "whsk_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
)

// MustSecret parses a secret.
func MustSecret(t testing.TB, s signer.Scheme, text string) signer.Secret {
	t.Helper()
	secret, err := s.ParseSecret(text)
	require.NoError(t, err)
	return secret
}

// Now is the time of all clocks.
var Now = time.Date(2026, 1, 31, 12, 0, 0, 123456789, time.FixedZone("", 3600))

// Accepted is the result of a message that was stored.
func Accepted(m *dispatcher.Message) dispatcher.Published {
	u, _ := url.Parse(m.URL)
	return dispatcher.Published{
		Result: dispatcher.Accepted, CreatedAt: Now,
		Deliveries: []dispatcher.Delivery{{
			ID:  dispatcher.DeliveryID{Lane: dispatcher.URLLane(u, ""), Message: m.ID},
			URL: m.URL, Status: dispatcher.StatusReady, Due: Now,
		}},
	}
}

// Message is a message as JSON, with more members or other ones.
func Message(more string) string {
	m := `{"topic":"payment.paid","url":"https://shop.example/hooks"`
	if !strings.HasPrefix(more, `"body`) && !strings.HasPrefix(more, `"raw`) {
		m += `,"body":{"a":1}`
	}
	if more != "" {
		m += "," + more
	}
	return m + "}"
}

// Link has every field.
func Link() dispatcher.Link {
	return dispatcher.Link{
		ID: dispatcher.LinkID("x"), Tenant: "m7", Endpoint: "ep_123456789", Manage: true, Name: "Anna", By: "key:ops",
		CreatedAt: Now, ExpiresAt: Now.Add(time.Hour),
	}
}

// LogPage has an attempt and an end without one.
var LogPage = dispatcher.LogPage{
	Lines: []dispatcher.Logged{
		{
			ID: dispatcher.DeliveryID{Lane: "u_1", Message: "m1"}, Topic: "a.b", Tenant: "acme", Subject: "order 7", Happening: dispatcher.HappenedDelivered,
			Attempt: dispatcher.Attempt{
				Number: 2, At: Now, Duration: 12345 * time.Microsecond, Status: 200, Verdict: dispatcher.Delivered,
				URL: "https://a.example/hook", Address: "192.0.2.1:443", Resend: true, ShortHello: true, Excerpt: []byte("ok\xff"),
			}, Job: 7,
		},
		{
			ID: dispatcher.DeliveryID{Lane: "u_1", Message: "m2"}, Happening: dispatcher.HappenedDead, Reason: dispatcher.ReasonDisabled,
			Attempt: dispatcher.Attempt{Number: 1, At: Now},
		},
	},
	Next: "1-0-0-0", LookedAt: 7, CompleteSince: Now,
}

// Batch is a batch of messages.
func Batch(messages ...string) string {
	return `{"messages":[` + strings.Join(messages, ",") + `]}`
}

// Bare is a message without a destination, and without its last brace.
const Bare = `{"topic":"payment.paid","tenant":"m7","body":1`

// ManyHeaders is n headers as members of an object.
func ManyHeaders(n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf(`"x-%d":"v"`, i)
	}
	return strings.Join(all, ",")
}

// ClipName shortens the name of a case.
func ClipName(s string) string { return s[:min(len(s), 120)] }

// Record is a message with three deliveries.
func Record(t testing.TB) dispatcher.MessageView {
	t.Helper()
	l, err := ladder.Parse("15s/3m")
	require.NoError(t, err)
	s, err := success.Parse(`{"status":["200"],"body":{"path":"code","equals":"SUCCESS"}}`)
	require.NoError(t, err)
	return dispatcher.MessageView{
		Message: dispatcher.Message{
			ID: "a", Topic: "payment.paid", Tenant: "m7", Subject: "order 17", URL: "http://a/x?q=\"<&", OrderingKey: "k:1", Body: []byte(`{ "n" : 12345678901234567890, "h":"<" }`),
			ContentType: "application/json", Delay: 90 * time.Second, ExpiresAt: Now.Add(time.Hour), CreatedAt: Now,
			Headers: []dispatcher.Header{{Name: "x-b", Value: "2\xff"}}, Ladder: &l, MaxAttempts: 2, Timeout: 2 * time.Second, Success: s,
		},
		Deliveries: []dispatcher.Delivery{
			{
				ID: dispatcher.DeliveryID{Lane: "u_1", Message: "a"}, Topic: "payment.paid", Tenant: "m7", URL: "http://a/x",
				Status: dispatcher.StatusRetrying, Due: Now.Add(time.Minute), Attempts: 1, LastStatus: 500, LastError: "status 500", WaitingFor: "rung",
				History: []dispatcher.Attempt{{
					Number: 1, At: Now, Duration: 1500 * time.Microsecond, Status: 500, Verdict: dispatcher.Retry,
					Error: "status 500", Excerpt: []byte("oops\xff"), Next: Now.Add(time.Minute),
				}},
			},
			{ID: dispatcher.DeliveryID{Lane: "u_2", Message: "a"}, Status: dispatcher.StatusDelivered, Ended: Now, Delivered: Now, Attempts: 1, LastStatus: 200},
			{ID: dispatcher.DeliveryID{Lane: "u_3", Message: "a"}, Status: dispatcher.StatusDead, Ended: Now, Reason: dispatcher.ReasonExhausted},
		},
	}
}

// Keys are keys as API_KEYS has them.
func Keys() string {
	sum := sha256.Sum256([]byte(AdminKey))
	return PublishKey + ":publish:shop, " + ReadKey + ":read,sha256:" + hex.EncodeToString(sum[:]) + ":admin:ops," + TickKey + ":tick+consume"
}

// OtherKey is a key that testKeys does not have.
const OtherKey = "other-key-0123456789ab"

// Keys that testKeys has.
const (
	PublishKey = "publish-key-0123456789"
	ReadKey    = "read-key-0123456789abc"
	AdminKey   = "admin-key-0123456789ab"
	TickKey    = "tick-key-0123456789abc"
)

// Operations is every call that needs a key, with the scope that it needs.
var Operations = []struct{ Method, Path, Scope string }{
	{"POST", "/v1/messages", "publish"},
	{"POST", "/v1/messages/batch", "publish"},
	{"GET", "/v1/messages/a", "read"},
	{"DELETE", "/v1/messages/a", "publish"},
	{"POST", "/v1/messages/a/retry", "publish"},
	{"GET", "/v1/deliveries", "read"},
	{"GET", "/v1/stats", "read"},
	{"POST", "/v1/endpoints", "admin"},
	{"GET", "/v1/endpoints", "read"},
	{"GET", "/v1/endpoints/a", "read"},
	{"PATCH", "/v1/endpoints/a", "admin"},
	{"DELETE", "/v1/endpoints/a", "admin"},
	{"POST", "/v1/endpoints/a/pause", "admin"},
	{"POST", "/v1/endpoints/a/resume", "admin"},
	{"POST", "/v1/endpoints/a/confirm", "admin"},
	{"POST", "/v1/endpoints/a/rotate-secret", "admin"},
	{"POST", "/v1/endpoints/a/test", "admin"},
	{"GET", "/v1/endpoints/a/secret", "admin"},
	{"GET", "/v1/lanes", "read"},
	{"POST", "/v1/lanes/a/pause", "admin"},
	{"POST", "/v1/lanes/a/resume", "admin"},
	{"POST", "/v1/tick", "tick"},
}
