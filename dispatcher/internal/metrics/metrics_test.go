package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
	"github.com/hookladder/hookladder/dispatcher/internal/metrics"
)

// scrape reads the metrics as Prometheus does.
func scrape(t testing.TB, m *metrics.Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	require.Equal(t, http.StatusOK, w.Code)
	require.Contains(t, w.Header().Get("Content-Type"), "text/plain")
	return w.Body.String()
}

func mustContain(t testing.TB, text string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		require.Contains(t, "\n"+text, "\nhookladder_"+line+"\n")
	}
}

// fakeSource is an engine that answers what a test wants.
type fakeSource struct {
	emptied *dispatcher.Emptied // what was lost; nil: nothing
	stats   dispatcher.Stats
	err     error // of counting
	down    error // of the store
	hangs   bool
	asked   atomic.Int32
}

func (s *fakeSource) Stats(ctx context.Context) (dispatcher.Stats, error) {
	s.asked.Add(1)
	if s.hangs {
		<-ctx.Done()
		return dispatcher.Stats{}, ctx.Err()
	}
	return s.stats, s.err
}

func (s *fakeSource) Ping(ctx context.Context) error {
	if s.hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	return s.down
}

// Emptied is what a test says was lost.
func (s *fakeSource) Emptied() *dispatcher.Emptied { return s.emptied }

func (s *fakeSource) Permits() (used, all int) { return 3, 1024 }

func (s *fakeSource) Exhausted() int64 { return 7 }

func (s *fakeSource) Network() (bool, map[dispatcher.EgressFault]int64) {
	return false, map[dispatcher.EgressFault]int64{dispatcher.FaultProxy: 3}
}

type fakeConnections struct{}

func (fakeConnections) Open() int64                         { return 5 }
func (fakeConnections) Refused() (full, idle, failed int64) { return 1, 2, 3 }

func TestConnectionsAreCounted(t *testing.T) {
	m := metrics.New()
	m.WatchConnections(fakeConnections{})
	w := httptest.NewRecorder()
	m.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, line := range []string{
		"hookladder_connections 5", `hookladder_connections_refused_total{why="full"} 1`,
		`hookladder_connections_refused_total{why="idle"} 2`, `hookladder_connections_refused_total{why="error"} 3`,
	} {
		require.Contains(t, w.Body.String(), "\n"+line+"\n")
	}
}

func TestCallsAreCountedInAClosedSet(t *testing.T) {
	m := metrics.New()
	r := m.WatchRequests(map[string][]int{"publish": {202, 422}, "stats": {200}})
	mustContain(t, scrape(t, m), `requests_total{call="publish",status="422"} 0`, `requests_total{call="stats",status="other"} 0`)
	r.Requested("publish", 422, 20*time.Millisecond)
	mustContain(t, scrape(t, m), `request_seconds_bucket{call="publish",le="0.01"} 0`, `request_seconds_bucket{call="publish",le="0.025"} 1`, `request_seconds_count{call="stats"} 0`)
	r.Requested("stats", 418, 0)
	r.Requested("stats", 419, 0)
	r.Requested("of a later version", 200, 0)
	r.Refused(3)
	text := scrape(t, m)
	mustContain(t, text, `requests_total{call="publish",status="422"} 1`, `requests_total{call="stats",status="other"} 2`, `accepted_total{result="refused"} 3`)
	require.NotContains(t, text, "later version")
	require.NotContains(t, text, `status="418"`)
}

func TestAttemptsAreCounted(t *testing.T) {
	m := metrics.New()
	attempt := func(v dispatcher.Verdict, class dispatcher.Class, reason dispatcher.DeadReason, number int) {
		m.Attempted(dispatcher.Attempted{
			Attempt: dispatcher.Attempt{Number: number, Verdict: v, Class: class, Duration: 40 * time.Millisecond},
			Reason:  reason, Late: 3 * time.Millisecond,
		})
	}
	for range 3 {
		attempt(dispatcher.Delivered, dispatcher.ClassNone, "", 1)
	}
	attempt(dispatcher.Retry, dispatcher.ClassTimeout, "", 2)
	attempt(dispatcher.Dead, dispatcher.ClassStatus, dispatcher.ReasonExhausted, 10)
	attempt(dispatcher.Retry, dispatcher.ClassLease, "", 1)
	attempt(dispatcher.Dead, dispatcher.ClassHandler, dispatcher.ReasonRejected, 1)
	attempt(dispatcher.Dead, dispatcher.ClassExpired, dispatcher.ReasonExpired, 0) // none was made
	attempt(dispatcher.Dead, "of a later version", "of a later version", 1)
	m.Attempted(dispatcher.Attempted{
		Attempt: dispatcher.Attempt{Number: 3, Verdict: dispatcher.Delivered}, Since: 20 * time.Minute,
	})
	m.TookOver(17)
	m.Died(dispatcher.Death{Reason: dispatcher.ReasonPoison})
	m.Died(dispatcher.Death{Reason: "of a later version"})
	text := scrape(t, m)
	mustContain(t, text,
		`attempts_total{class="none",outcome="delivered"} 4`,
		`attempts_total{class="timeout",outcome="retry"} 1`,
		`attempts_total{class="status",outcome="dead"} 1`,
		`attempts_total{class="lease",outcome="retry"} 1`, `attempts_total{class="handler",outcome="dead"} 1`,
		`attempts_total{class="expired",outcome="dead"} 0`,
		`attempt_seconds_count 9`, `attempt_seconds_bucket{le="0.025"} 1`, `attempt_seconds_bucket{le="0.05"} 9`,
		`lateness_seconds_bucket{le="0.0025"} 1`, `lateness_seconds_bucket{le="0.005"} 9`,
		`delivery_seconds_count 1`, `delivery_seconds_bucket{le="300"} 0`, `delivery_seconds_bucket{le="1800"} 1`,
		`dead_total{reason="exhausted"} 0`, `dead_total{reason="expired"} 0`, `dead_total{reason="gone"} 0`, `dead_total{reason="poison"} 1`,
		`takeovers_total 1`,
	)
	require.NotContains(t, text, "later version", "labels are closed sets")
	require.Contains(t, text, "go_goroutines")
}

func TestPublishesAreCounted(t *testing.T) {
	m := metrics.New()
	sent := []dispatcher.Delivery{{Status: dispatcher.StatusReady}}
	for _, p := range []dispatcher.Published{
		{Result: dispatcher.Accepted, Deliveries: sent},
		{Result: dispatcher.Accepted, Deliveries: sent},
		{Result: dispatcher.Accepted, Deliveries: append(sent, dispatcher.Delivery{Status: dispatcher.StatusDead, Reason: dispatcher.ReasonOverflow})},
		{Result: dispatcher.Accepted},
		{Result: dispatcher.Duplicate},
		{Result: dispatcher.Conflict},
		{Result: dispatcher.LaneFull},
		{Err: fmt.Errorf("publish m1: %w", dispatcher.ErrFull)},
		{Err: dispatcher.ErrUnavailable},
		{Err: dispatcher.ErrNoEndpoint},
		{Err: context.Canceled},
	} {
		m.Published(p)
	}
	mustContain(t, scrape(t, m),
		`accepted_total{result="accepted"} 3`, `accepted_total{result="unmatched"} 1`, `accepted_total{result="duplicate"} 1`,
		`accepted_total{result="conflict"} 1`, `accepted_total{result="lane_full"} 1`, `accepted_total{result="store_full"} 1`,
		`accepted_total{result="unavailable"} 2`, `accepted_total{result="refused"} 1`,
		`unmatched_total 1`, `dead_total{reason="overflow"} 0`,
	)
}

func TestTheQueueIsToldOf(t *testing.T) {
	used, most := int64(50), int64(200)
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	source := &fakeSource{stats: dispatcher.Stats{
		Counts: map[dispatcher.Status]int64{dispatcher.StatusReady: 7, dispatcher.StatusDead: 2},
		Now:    now, OldestDue: now.Add(-90 * time.Second), BlockedSince: now.Add(-10 * time.Minute), Instances: 3, Retention: 2 * time.Hour,
		Blocked: map[dispatcher.LaneWhy]int64{dispatcher.WhyPaused: 4, dispatcher.WhyOrder: 1},
		LanesBy: map[dispatcher.EndpointState]int64{dispatcher.StateActive: 8, dispatcher.StateOpen: 2},
		Store:   dispatcher.StoreInfo{UsedBytes: &used, MaxBytes: &most, Durable: dispatcher.No},
	}}
	m := metrics.New()
	require.NotContains(t, scrape(t, m), "store_up", "nobody can be asked yet")
	m.Watch(source)
	mustContain(t, scrape(t, m),
		"store_up 1", "store_durable 0", "store_used_ratio 0.25", "retention_seconds 7200", "instances 3",
		`deliveries{status="ready"} 7`, `deliveries{status="dead"} 2`, `deliveries{status="delivered"} 0`,
		"oldest_due_seconds 90", "oldest_held_seconds 600", "in_flight 3", "permits 1024",
		`held{why="paused"} 4`, `held{why="order"} 1`, `held{why="breaker"} 0`, `held{why="retry_after"} 0`, `held{why="rate"} 0`,
		`held{why="consumer"} 0`, `lanes{state="active"} 8`, `lanes{state="open"} 2`, `lanes{state="limited"} 0`,
		`lanes{state="failing"} 0`, `lanes{state="paused"} 0`, `lanes{state="disabled"} 0`,
	)
}

func TestWhatIsUnknownIsLeftOut(t *testing.T) {
	m := metrics.New()
	m.Watch(&fakeSource{})
	text := scrape(t, m)
	mustContain(t, text, "store_up 1", "oldest_due_seconds 0")
	require.NotContains(t, text, "store_durable ")
	require.NotContains(t, text, "store_used_ratio ")

	m.Watch(&fakeSource{stats: dispatcher.Stats{Partial: true, LanesBy: map[dispatcher.EndpointState]int64{dispatcher.StateActive: 8}}})
	text = scrape(t, m)
	mustContain(t, text, "store_up 1", `deliveries{status="ready"} 0`)
	for _, name := range []string{"hookladder_lanes", "hookladder_held", "oldest_due"} {
		require.NotContains(t, text, name, "some lanes would stand for all")
	}

	m.Watch(&fakeSource{down: errors.New("away")})
	text = scrape(t, m)
	mustContain(t, text, "store_up 0", "permits 1024")
	require.NotContains(t, text, "hookladder_deliveries", "what stands still would tell that all is well")
	require.NotContains(t, text, "retention")
}

func TestAStoreThatAnswersIsUpThoughItCouldNotBeCounted(t *testing.T) {
	m := metrics.New()
	m.Watch(&fakeSource{err: context.DeadlineExceeded})
	text := scrape(t, m)
	mustContain(t, text, "store_up 1", "permits 1024")
	require.NotContains(t, text, "hookladder_deliveries")
	require.NotContains(t, text, "oldest_due")
	require.NotContains(t, text, "hookladder_lanes")
	require.NotContains(t, text, "hookladder_held")
}

func TestTheQueueIsNotCountedAtEachScrape(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &fakeSource{}
		m := metrics.New()
		m.Watch(source)
		for range 5 {
			scrape(t, m)
		}
		require.Equal(t, int32(1), source.asked.Load())
		time.Sleep(time.Second)
		scrape(t, m)
		require.Equal(t, int32(2), source.asked.Load())
	})
}

func TestAScrapeDoesNotWaitForAStoreThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := metrics.New()
		m.Watch(&fakeSource{hangs: true})
		began := time.Now()
		mustContain(t, scrape(t, m), "store_up 0")
		require.LessOrEqual(t, time.Since(began), 5*time.Second)
	})
}

// fakeOutbox has relayed some rows.
type fakeOutbox struct{ up bool }

func (fakeOutbox) Relayed() map[string]int64    { return map[string]int64{"accepted": 7, "waits": 0} }
func (fakeOutbox) Rejected() int64              { return 4 }
func (f fakeOutbox) Lag() (time.Duration, bool) { return 1500 * time.Millisecond, f.up }

func TestAnOutboxIsCounted(t *testing.T) {
	m := metrics.New()
	require.NotContains(t, scrape(t, m), "outbox", "there is none")
	m.WatchOutbox(fakeOutbox{up: true})
	text := scrape(t, m)
	for _, line := range []string{
		`hookladder_outbox_relayed_total{result="accepted"} 7`, `hookladder_outbox_relayed_total{result="waits"} 0`,
		"hookladder_outbox_lag_seconds 1.5", "hookladder_outbox_up 1", "hookladder_outbox_rejected 4",
	} {
		require.Contains(t, text, line+"\n")
	}
	m = metrics.New()
	m.WatchOutbox(fakeOutbox{})
	text = scrape(t, m)
	require.Contains(t, text, "hookladder_outbox_up 0\n")
	require.NotContains(t, text, "hookladder_outbox_rejected 4")
	require.NotContains(t, text, "hookladder_outbox_lag_seconds 1", "an old lag would tell that all is well")
}

func TestLostSpansAreCountedIfTracesAreOn(t *testing.T) {
	m := metrics.New()
	require.NotContains(t, scrape(t, m), "traces", "they are off")
	m.WatchTraces(func() int64 { return 3 })
	require.Contains(t, scrape(t, m), "hookladder_traces_dropped_total 3\n")
}

func TestNamesAreAsPrometheusWantsThem(t *testing.T) {
	m := metrics.New()
	m.Watch(&fakeSource{})
	m.WatchOutbox(fakeOutbox{up: true})
	problems, err := promlint.New(strings.NewReader(scrape(t, m))).Lint()
	require.NoError(t, err)
	for _, p := range problems {
		require.NotContains(t, p.Metric, "hookladder_", p.Text)
	}
}

func BenchmarkAttempted(b *testing.B) {
	m := metrics.New()
	a := dispatcher.Attempted{
		Attempt: dispatcher.Attempt{Number: 1, Verdict: dispatcher.Delivered, Duration: 40 * time.Millisecond}, Late: time.Millisecond,
	}
	b.ReportAllocs()
	for b.Loop() {
		m.Attempted(a)
	}
}

func BenchmarkPublished(b *testing.B) {
	m := metrics.New()
	p := dispatcher.Published{Result: dispatcher.Accepted, Deliveries: make([]dispatcher.Delivery, 1)}
	b.ReportAllocs()
	for b.Loop() {
		m.Published(p)
	}
}

func TestAnArchiveHasMetricsOfItsOwn(t *testing.T) {
	m := metrics.New()
	require.NotContains(t, scrape(t, m), "hookladder_archive")
	var fault error
	m.WatchArchive(func(context.Context) (archive.Figures, error) {
		return archive.Figures{
			Status: archive.Status{Up: true, Messages: 3, Events: 4, Orphans: 5, Comparing: 0.25}, Lag: 1500 * time.Millisecond, Backlog: 6, Dropped: 7,
		}, fault
	})
	text := scrape(t, m)
	for _, line := range []string{
		"hookladder_archive_up 1", "hookladder_archive_lag_seconds 1.5", "hookladder_archive_backlog_bytes 6", "hookladder_archive_dropped_total 7",
		"hookladder_archive_orphans 5", "hookladder_archive_comparing 0.25", `hookladder_archive_rows_total{table="message"} 3`, `hookladder_archive_rows_total{table="event"} 4`,
	} {
		require.Contains(t, text, "\n"+line+"\n")
	}
	fault = dispatcher.ErrUnavailable
	text = scrape(t, m)
	require.NotContains(t, text, "\nhookladder_archive_lag_seconds", "the store does not tell")
	require.Contains(t, text, "\nhookladder_archive_up 1")
}

// A label has each word of its list, so a new one is counted.
func TestEachWordIsALabel(t *testing.T) {
	m := metrics.New()
	m.Watch(&fakeSource{})
	text := scrape(t, m)
	for _, status := range dispatcher.Statuses() {
		require.Contains(t, text, fmt.Sprintf(`hookladder_deliveries{status="%s"}`, status))
	}
	for _, reason := range dispatcher.DeadReasons() {
		require.Contains(t, text, fmt.Sprintf(`hookladder_dead_total{reason="%s"}`, reason))
	}
	for _, result := range dispatcher.Results() {
		require.Contains(t, text, fmt.Sprintf(`hookladder_accepted_total{result="%s"}`, result))
	}
	for _, class := range dispatcher.Classes() {
		label := fmt.Sprintf(`hookladder_attempts_total{class="%s",outcome="dead"}`, class)
		if class == dispatcher.ClassEgress { // it is counted by its reason
			require.NotContains(t, text, label)
			continue
		}
		require.Contains(t, text, label)
	}
	for _, state := range dispatcher.LaneStates() {
		if state != dispatcher.StateDeleted { // such a lane is disabled here
			require.Contains(t, text, fmt.Sprintf(`hookladder_lanes{state="%s"}`, state))
		}
	}
	otherwise := map[dispatcher.Wait]string{
		"due": "it is not due", "rung": "it is not due", "limit": "its lane is busy, and held by nothing", "permits": "the instances are busy",
	}
	for _, wait := range dispatcher.Waits() {
		if otherwise[wait] == "" {
			require.Contains(t, text, fmt.Sprintf(`hookladder_held{why="%s"}`, wait))
		}
	}
}
