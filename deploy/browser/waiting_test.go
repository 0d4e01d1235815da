package browser_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/browser/browsertest"
	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// After an outage a person retries the waiting deliveries from their list. The job's page shows the
// probe, then how all deliveries ended, and links to their attempts.
func TestWhatWaitsIsSentNowFromItsList(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "BREAKER=off", "LADDER=1h,2h", "QUICK_RETRIES=0")
	for n := range 3 {
		w.publish(wire.Message{ID: fmt.Sprint("waits_", n), Tenant: "acme", URL: w.at("fail")})
	}
	w.publish(wire.Message{ID: "later_0", Tenant: "acme", URL: w.at("ok"), Delay: hour})
	for n := range 3 {
		w.until(fmt.Sprint("waits_", n), "retrying")
	}
	back := make(chan struct{}) // closed when the first one is answered
	answer := sync.OnceFunc(func() { close(back) })
	t.Cleanup(answer)
	w.answers(func(rw http.ResponseWriter, _ string) bool {
		<-back
		rw.WriteHeader(http.StatusOK)
		return true
	})

	b := w.tab(t)
	b.Open(w.page("/console/deliveries"))
	b.Click("link", "retrying 3")
	b.WaitURL("status=retrying")
	b.WaitGone("later_0")
	b.WaitFor("waits_0", "waits_1", "waits_2")
	b.Click("link", "Send all that match now…")
	b.WaitURL("/console/jobs/new")
	b.WaitFor("3 deliveries", "Each gets one attempt now beside its ladder.")
	require.Equal(t, "true", b.Value("checkbox", "First try one of each destination"))
	b.Shot("send-waiting")
	require.Empty(t, b.Axe())
	b.Click("button", "Send 3")
	b.WaitURL("/console/jobs/job_")
	b.WaitFor("1 of about 3 sent", "0 delivered, 0 dead again, 0 cancelled, 1 still retrying")
	b.Shot("job-waiting")
	answer()
	b.WaitFor("3 of about 3 sent", "What it sent", "waits_2", "3 delivered, 0 dead again, 0 cancelled, 0 still retrying")
	for n := range 3 {
		w.until(fmt.Sprint("waits_", n), "delivered")
	}
	w.until("later_0", "scheduled")

	b.Click("link", "Its attempts")
	b.WaitURL("/console/tail?job=job_")
	b.WaitFor("waits_0", "waits_1", "waits_2", "200")
	require.Len(t, b.Names("link", "waits_"), 3, "the attempts before the job are not its own")
	b.Shot("job-attempts")
	require.Empty(t, b.Axe())
	w.onScreens(t, func(t *testing.T, s screen, b *browsertest.Tab) {
		b.Open(w.page("/console/jobs/job_1"))
		b.WaitFor("3 of about 3 sent", "3 delivered")
		require.Len(t, b.In("table", "").Names("link", "waits_"), 3, "what it sent is a list")
		require.NotContains(t, b.Text(), "100 %")
		require.Empty(t, b.Sideways())
		require.Empty(t, b.Axe())
		b.Shot("job-" + s.name)
	})
	b.Click("link", "failed, goes on") // of the outcomes
	b.WaitURL("outcome=retry")
	b.WaitFor("Nothing matches these filters yet.")
	require.Equal(t, "job_1", b.Value("searchbox", "Job"))
}

// A preview answers at once with what it has found, and counts on. What was typed meanwhile stays.
func TestAPreviewCountsOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	far := redistest.NewProxy(t, w.redis.Addr())
	slow := w.serve("REDIS_URL=" + far.URL())
	const all = 6000
	for from := 0; from < all; from += 100 {
		var batch []wire.Message
		for _, id := range named(fmt.Sprint("later_", from, "_"), 100) {
			batch = append(batch, wire.Message{ID: id, Topic: "order.paid", URL: w.at("ok"), Body: []byte("1"), Delay: hour})
		}
		_, err := w.PublishBatch(t.Context(), batch)
		require.NoError(t, err)
	}
	far.Delay(60 * time.Millisecond)
	const preview = "/console/jobs/new?kind=cancel&topic=order.paid"
	plain := w.tab(t)
	plain.NoScript()
	plain.Open(slow.page(preview))
	plain.WaitFor("Cancel at least")
	plain.Click("link", "Count on for up to ten seconds")
	plain.WaitFor("Cancel 6,000", "6,000 deliveries")

	w.onScreens(t, func(t *testing.T, s screen, b *browsertest.Tab) {
		b.Open(slow.page(preview))
		b.Fill("textbox", "At most a second", "100")
		b.WaitFor("Cancel 6,000", "About 1m")
		require.Equal(t, "100", b.Value("textbox", "At most a second"))
		require.Empty(t, b.Sideways())
		require.Empty(t, b.Axe())
		b.Shot("preview-counted-" + s.name)
		b.Open(slow.page("/console/jobs/new?kind=cancel&status=scheduled"))
		require.Contains(t, b.Text(), "Cancel 6,000", "a counter knows it")
		b.WaitGone("at least", "Counting")
	})
}
