package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/apikey"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

var testNow = time.Date(2026, 1, 31, 12, 0, 0, 123456789, time.FixedZone("", 3600))

// fakeService takes everything and remembers it. A func that is set answers
// instead.
type fakeService struct {
	mu        sync.Mutex // guards published and calls
	published []*dispatcher.Message
	calls     []string

	publish   func(batch []*dispatcher.Message) ([]dispatcher.Published, error)
	record    dispatcher.MessageView
	filter    dispatcher.Filter
	logFilter dispatcher.LogFilter
	logPage   dispatcher.LogPage
	behind    string                                                                  // whence a log was followed
	follow    func(ctx context.Context, show func([]dispatcher.LogEvent) error) error // the log; nil: it can't be
	page      dispatcher.Page
	stats     dispatcher.Stats
	store     dispatcher.StoreInfo
	lane      dispatcher.Lane
	missing   bool              // err is of what a call names: it is not there
	left      []dispatcher.Left // why a retry leaves the first deliveries of record
	dead      dispatcher.DeadFilter
	groups    dispatcher.DeadPage
	ended     dispatcher.EndedPage
	endedOf   []dispatcher.EndedFilter
	fakeEndpoints
	fakeTakers
	err    error
	panics any

	delivered bool // what was delivered was to be retried too

	recorded  []dispatcher.AuditEntry
	before    [][]string // the calls before each of recorded
	url       string     // of the endpoint, when the first was recorded
	auditPage dispatcher.AuditPage
	fakeLinks
	auditOf dispatcher.AuditFilter
	job     dispatcher.Job // as it was begun, and is answered
	survey  dispatcher.Survey
	jobKind dispatcher.JobKind
	ticked  dispatcher.Tick
	within  time.Duration // how long a tick was to last
	waits   chan struct{} // until it is closed a tick lasts; nil: no time
}

func (f *fakeService) called(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, name)
	if f.panics != nil {
		panic(f.panics)
	}
}

func (f *fakeService) Record(_ context.Context, e dispatcher.AuditEntry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.recorded, f.before = append(f.recorded, e), append(f.before, slices.Clone(f.calls))
	if f.there != nil && f.url == "" {
		f.url = f.there.URL
	}
}

func (f *fakeService) ReadAudit(_ context.Context, filter dispatcher.AuditFilter) (dispatcher.AuditPage, error) {
	f.called("audit")
	f.auditOf = filter
	return f.auditPage, f.err
}

func (f *fakeService) Publish(_ context.Context, batch []*dispatcher.Message) ([]dispatcher.Published, error) {
	f.called("publish")
	f.mu.Lock()
	f.published = append(f.published, batch...)
	f.mu.Unlock()
	if f.publish != nil {
		return f.publish(batch)
	}
	out := make([]dispatcher.Published, len(batch))
	for i, m := range batch {
		out[i] = accepted(m)
	}
	return out, f.err
}

func accepted(m *dispatcher.Message) dispatcher.Published {
	u, _ := url.Parse(m.URL)
	return dispatcher.Published{
		Result: dispatcher.Accepted, CreatedAt: testNow,
		Deliveries: []dispatcher.Delivery{{
			ID:  dispatcher.DeliveryID{Lane: dispatcher.URLLane(u, ""), Message: m.ID},
			URL: m.URL, Status: dispatcher.StatusReady, Due: testNow,
		}},
	}
}

func (f *fakeService) Message(context.Context, string) (dispatcher.MessageView, error) {
	f.called("message")
	return f.record, f.err
}

func (f *fakeService) Cancel(_ context.Context, _ string, lane dispatcher.Lane) ([]dispatcher.Delivery, error) {
	f.called("cancel")
	f.lane = lane
	return f.record.Deliveries, f.err
}

func (f *fakeService) Retry(_ context.Context, _ string, lane dispatcher.Lane, delivered bool) ([]dispatcher.Retried, error) {
	f.called("retry")
	f.lane, f.delivered = lane, delivered
	var out []dispatcher.Retried
	for i, d := range f.record.Deliveries {
		out = append(out, dispatcher.Retried{Delivery: d})
		if i < len(f.left) {
			out[i].Left = f.left[i]
		}
	}
	return out, f.err
}

func (f *fakeService) Deliveries(_ context.Context, filter dispatcher.Filter) (dispatcher.Page, error) {
	f.called("deliveries")
	f.filter = filter
	page := f.page
	page.Deliveries = page.Deliveries[:min(filter.Limit, len(page.Deliveries))]
	return page, f.err
}

func (f *fakeService) ReadLog(_ context.Context, filter dispatcher.LogFilter, limit int, cursor string) (dispatcher.LogPage, error) {
	f.called("attempts")
	f.logFilter, f.filter.Limit, f.filter.Cursor = filter, limit, cursor
	page := f.logPage
	page.Lines = page.Lines[:min(limit, len(page.Lines))]
	return page, f.err
}

func (f *fakeService) Ended(_ context.Context, name string, filter dispatcher.EndedFilter) (dispatcher.EndedPage, error) {
	if _, err := f.find("ended", name); err != nil {
		return dispatcher.EndedPage{}, err
	}
	f.endedOf = append(f.endedOf, filter)
	page := f.ended
	page.Deliveries = page.Deliveries[:min(filter.Limit, len(page.Deliveries))]
	return page, f.err
}

func (f *fakeService) FollowLog(ctx context.Context, filter dispatcher.LogFilter, behind string, show func([]dispatcher.LogEvent) error) error {
	f.called("follow")
	f.logFilter, f.behind = filter, behind
	if f.follow == nil {
		return f.err
	}
	return f.follow(ctx, show)
}

func (f *fakeService) Dead(_ context.Context, filter dispatcher.DeadFilter) (dispatcher.DeadPage, error) {
	f.called("dead")
	f.dead = filter
	return f.groups, f.err
}

func (f *fakeService) Stats(context.Context) (dispatcher.Stats, error) {
	f.called("stats")
	return f.stats, f.err
}

func (f *fakeService) Ready(context.Context) (dispatcher.StoreInfo, error) {
	f.called("ready")
	return f.store, f.err
}

// the is the one message that was published.
func (f *fakeService) the(t testing.TB) *dispatcher.Message {
	t.Helper()
	require.Len(t, f.published, 1)
	return f.published[0]
}

func testLimits() dispatcher.Policy {
	return dispatcher.Policy{
		MaxBody: 256 << 10,
		Now:     func() time.Time { return testNow },
		CheckURL: func(u *url.URL) error {
			if a, err := netip.ParseAddr(u.Hostname()); err == nil && a.IsPrivate() {
				return errors.New(a.String() + " is private; allow it with ALLOW_NETS=" + a.String() + "/32")
			}
			return nil
		},
	}
}

// newTestAPI is the real handler on a fake engine, open to this host.
func newTestAPI(t testing.TB, f service, change ...func(*httpapi.Options)) http.Handler {
	t.Helper()
	o := portsOf(f)
	o.Policy, o.Version, o.Log = testLimits(), "1.2.3", slog.New(slog.DiscardHandler)
	for _, c := range change {
		c(&o)
	}
	h, err := httpapi.New(o)
	require.NoError(t, err)
	return h
}

func withKeys(t testing.TB, text string) func(*httpapi.Options) {
	t.Helper()
	keys, err := apikey.Parse(text)
	require.NoError(t, err)
	return func(o *httpapi.Options) { o.Keys = apikey.NewRing(keys) }
}

func withLimits(l dispatcher.Policy) func(*httpapi.Options) {
	return func(o *httpapi.Options) { o.Policy = l }
}

func withLog(w io.Writer) func(*httpapi.Options) {
	return func(o *httpapi.Options) {
		o.Log = slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
}

// newRequest is one to the loopback host with a JSON body, where there is one.
func newRequest(method, target, body string) *http.Request {
	r := httptest.NewRequest(method, "http://localhost:8080"+target, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	return r
}

func serve(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func post(h http.Handler, target, body string) *httptest.ResponseRecorder {
	return serve(h, newRequest("POST", target, body))
}

func get(h http.Handler, target string) *httptest.ResponseRecorder {
	return serve(h, newRequest("GET", target, ""))
}

// message is a message as JSON, with more members or other ones.
func message(more string) string {
	m := `{"topic":"payment.paid","url":"https://shop.example/hooks"`
	if !strings.HasPrefix(more, `"body`) && !strings.HasPrefix(more, `"raw`) {
		m += `,"body":{"a":1}`
	}
	if more != "" {
		m += "," + more
	}
	return m + "}"
}

// requireProblem checks that the answer is a problem of this kind, and reads it.
func requireProblem(t testing.TB, w *httptest.ResponseRecorder, status int, word string) wire.Problem {
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

// requireField checks that exactly one field is wrong.
func requireField(t testing.TB, w *httptest.ResponseRecorder, path, says string) {
	t.Helper()
	p := requireProblem(t, w, 422, "invalid")
	require.Len(t, p.Errors, 1, w.Body.String())
	require.Equal(t, path, p.Errors[0].Path)
	require.Contains(t, p.Errors[0].Detail, says)
	require.NotRegexp(t, `\b(Go|json:|jsontext|dispatcher\.)`, p.Errors[0].Detail, "it says so in our words")
}

func decodeAnswer[T any](t testing.TB, w *httptest.ResponseRecorder, status int) T {
	t.Helper()
	require.Equal(t, status, w.Code, w.Body.String())
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	var out T
	dec := json.NewDecoder(bytes.NewReader(w.Body.Bytes()))
	dec.DisallowUnknownFields()
	require.NoError(t, dec.Decode(&out), w.Body.String())
	return out
}
