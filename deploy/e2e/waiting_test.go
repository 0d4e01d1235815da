package e2e_test

import (
	"fmt"
	"net/http"
	"os"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

// After an outage one command sends what waits: one of each destination first, and the
// others at the rate, but for the destination that still fails.
func TestOneCommandSendsWhatWaitsAfterAnOutage(t *testing.T) {
	t.Parallel()
	const destinations, sick = 10, 3
	n := 2000
	if more, err := strconv.Atoi(os.Getenv("JOBS_TEST_DELIVERIES")); err == nil {
		n = more
	}
	w := newWorld(t)
	var back atomic.Bool
	w.receiver.answers(func(rw http.ResponseWriter, r *http.Request, _ string, _ int) {
		if !back.Load() || r.URL.Path == fmt.Sprint("/", sick) {
			rw.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	i := w.serve("BREAKER=off", "LADDER=5h,5h,5h", "QUICK_RETRIES=0")
	tenants := make([]string, destinations)
	for d := range tenants {
		tenants[d] = fmt.Sprint("shop_", d)
	}
	for from := 0; from < n; from += 500 {
		messages := make([]wire.Message, 500)
		for m := range messages {
			d := m % destinations
			messages[m] = wire.Message{ID: fmt.Sprintf("m-%06d", from+m), Topic: "t", Tenant: tenants[d], URL: w.receiver.URL(0) + fmt.Sprint("/", d), Body: []byte("1")}
		}
		_, err := i.PublishBatch(t.Context(), messages)
		require.NoError(t, err)
	}
	i.counts("all wait", func(s wire.Stats) bool { return s.Counts["retrying"] == int64(n) })
	back.Store(true)
	_, failed := w.receiver.ids()

	got := mustRun(t, []string{"HOOKLADDER_URL=" + i.URL}, "", "dead", "replay", "--waiting", "--probe", "--all", "--rate", "1000/s", "--yes", "--json")
	require.Equal(t, exitOK, got.code, got.err)
	jobs, err := i.Jobs(t.Context(), 1, "")
	require.NoError(t, err)
	job := jobs.Data[0]
	require.Equal(t, n, *job.Expected)
	eventually(t, "the job ends", func() bool {
		job, err = i.Job(t.Context(), job.ID)
		return err == nil && job.State == "done" && job.Outcomes.Delivered == n-n/destinations && *job.Retrying == 1
	})
	healthy := n - n/destinations
	require.Equal(t, []int{healthy + 1, 0, n/destinations - 1}, []int{job.Done, job.Failed, job.Left})
	require.Equal(t, wire.LeftReasons{"probe_failed": n/destinations - 1}, job.Reasons)
	require.Equal(t, wire.JobOutcomes{Delivered: healthy}, *job.Outcomes)
	_, all := w.receiver.ids()
	require.Equal(t, healthy+1, all-failed, "each once, and one of the destination that fails")
	took := job.EndedAt.Sub(job.StartedAt.Time)
	t.Log("the job took", took, "for", job.Done, "of", n)
	i.counts("the others wait on", func(s wire.Stats) bool {
		return s.Counts["retrying"] == int64(n/destinations) && s.Counts["delivered"] == int64(healthy)
	})
}
