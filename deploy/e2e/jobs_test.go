package e2e_test

import (
	"fmt"
	"net/http"
	"os"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// replayed is how many deliveries the test of a replay has. JOBS_TEST_DELIVERIES
// sets another number, as 100000.
func replayed(t *testing.T) int {
	n, err := strconv.Atoi(os.Getenv("JOBS_TEST_DELIVERIES"))
	if err != nil {
		return 600
	}
	t.Log("deliveries:", n)
	return n
}

// The instance that carries out a replay is killed, and the job is stopped and goes
// on: each arrives once, twice only what was in flight at the kill.
func TestAReplayGoesOnWithoutItsInstanceAndAfterAStop(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var open atomic.Bool
	w.receiver.answers(func(rw http.ResponseWriter, _ *http.Request, _ string, _ int) {
		if !open.Load() {
			rw.WriteHeader(http.StatusGone)
		}
	})
	n := replayed(t)
	rate := fmt.Sprint(min(n/3, 2000), "/s") // so that the kill and the stop come before its end
	stays := w.serve("BREAKER=off", "DEAD_MAX=250000")
	publishDead(t, w, stays, n)

	survey, err := stays.SurveyJob(t.Context(), client.JobRetry, wire.JobRequest{Tenant: []string{"shop"}, CountAll: true})
	require.NoError(t, err)
	require.True(t, survey.Complete)
	require.Equal(t, n, survey.Matched)
	require.Equal(t, map[string]int{"gone": n}, survey.ByReason)
	require.Len(t, survey.Sample, 10)

	open.Store(true)
	dies := w.serve("BREAKER=off")
	job, err := dies.StartJob(t.Context(), client.JobRetry, wire.JobRequest{Destination: []string{survey.Sample[0].Destination}, Rate: rate})
	require.NoError(t, err)
	arrived := func(some int) func() bool {
		return func() bool { _, all := w.receiver.ids(); return all >= n+some }
	}
	w.receiver.until("a part arrives", arrived(n/5))
	dies.Kill()
	_, before := w.receiver.ids()
	w.receiver.until("another instance goes on", arrived(before-n+n/10))
	stopped, err := stays.StopJob(t.Context(), job.ID)
	require.NoError(t, err)
	require.Equal(t, "stopped", stopped.State)
	require.Less(t, stopped.Done, n)
	again, err := stays.Job(t.Context(), job.ID)
	require.NoError(t, err)
	require.Equal(t, stopped.Done, again.Done)
	stays.counts("what it moved is delivered", func(s wire.Stats) bool { return s.Counts["delivered"] == int64(stopped.Done) })

	_, err = stays.ResumeJob(t.Context(), job.ID)
	require.NoError(t, err)
	eventually(t, "the job ends", func() bool {
		job, err = stays.Job(t.Context(), job.ID)
		return err == nil && job.State == "done"
	})
	require.Equal(t, []int{n, n, 0}, []int{job.Matched, job.Done, job.Failed})
	stays.counts("all are delivered", func(s wire.Stats) bool { return s.Counts["delivered"] == int64(n) && s.Counts["dead"] == 0 })
	distinct, all := w.receiver.ids()
	require.Equal(t, n, distinct)
	require.LessOrEqual(t, all-2*n, 128, "twice only what was in flight")
	t.Log("arrived twice:", all-2*n)
}

// publishDead publishes messages and waits until each has died of its first attempt.
func publishDead(t *testing.T, w *world, i *instance, n int) {
	t.Helper()
	const batch = 1000
	for from := 0; from < n; from += batch {
		messages := make([]wire.Message, min(batch, n-from))
		for m := range messages {
			messages[m] = wire.Message{ID: fmt.Sprintf("m-%06d", from+m), Topic: "t", Tenant: "shop", URL: w.receiver.URL(0), Body: []byte("1")}
		}
		results, err := i.PublishBatch(t.Context(), messages)
		require.NoError(t, err)
		require.Len(t, results, len(messages))
	}
	i.counts("all are dead", func(s wire.Stats) bool { return s.Counts["dead"] == int64(n) })
}
