package e2e_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// waitingBytes is the memory of Redis that the keys of what waits take.
func (w *world) waitingBytes() (sum int) {
	w.t.Helper()
	for _, pattern := range []string{"*:ready:*", "*:due"} {
		keys, err := w.rdb.Keys(w.t.Context(), pattern).Result()
		require.NoError(w.t, err)
		for _, key := range keys {
			bytes, err := w.rdb.MemoryUsage(w.t.Context(), key, 0).Result()
			require.NoError(w.t, err)
			sum += int(bytes)
		}
	}
	return sum
}

// A receiver without a success for too long holds nothing any more: its endpoint is
// disabled. After a resume and a replay all arrive once.
func TestAnEndpointThatAnsweredNobodyForTooLongIsGivenUpAndReplayed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var mu sync.Mutex
	works, took := false, map[string]int{}
	w.receiver.answers(func(rw http.ResponseWriter, _ *http.Request, id string, _ int) {
		mu.Lock()
		defer mu.Unlock()
		if !works {
			rw.WriteHeader(http.StatusInternalServerError)
			return
		}
		took[id]++
	})
	i := w.serve("DISABLE_AFTER=3s", "FAILING_AFTER=1s", "BREAKER=5/1s", "DEAD_MAX=250000")
	view := i.endpoint("/shop", wire.Endpoint{Tenant: "shop", Topics: []string{"*"}})
	_, err := i.PauseEndpoint(t.Context(), view.ID)
	require.NoError(t, err)
	const n = 1000
	messages := make([]wire.Message, n)
	for m := range messages {
		messages[m] = wire.Message{ID: fmt.Sprintf("m-%06d", m), Topic: "t", Tenant: "shop", Body: []byte("1")}
	}
	_, err = i.PublishBatch(t.Context(), messages)
	require.NoError(t, err)
	waiting := w.waitingBytes()
	_, err = i.ResumeEndpoint(t.Context(), view.ID)
	require.NoError(t, err)
	eventually(t, "the endpoint is disabled", func() bool {
		view, err = i.Endpoint(t.Context(), view.ID)
		return err == nil && view.State == "disabled"
	})
	require.Equal(t, "failing", view.DisabledReason)
	require.False(t, view.FailingSince.IsZero())
	i.says("destination failing")
	i.counts("nothing waits", func(s wire.Stats) bool { return s.Counts["dead"] == int64(n) })
	require.Less(t, w.waitingBytes(), waiting/2+1000)
	audit, err := i.Audit(t.Context(), client.AuditFilter{Limit: 1})
	require.NoError(t, err)
	require.Equal(t, []string{"endpoint.disable", "system", view.ID}, []string{audit.Data[0].What, audit.Data[0].By, audit.Data[0].Target})

	mu.Lock()
	works = true
	mu.Unlock()
	view, err = i.ResumeEndpoint(t.Context(), view.ID)
	require.NoError(t, err)
	require.True(t, view.FailingSince.IsZero())
	job, err := i.StartJob(t.Context(), client.JobRetry, wire.JobRequest{Destination: []string{view.ID}})
	require.NoError(t, err)
	eventually(t, "the replay ends", func() bool {
		job, err = i.Job(t.Context(), job.ID)
		return err == nil && job.State == "done"
	})
	require.Equal(t, []int{n, n, 0}, []int{job.Matched, job.Done, job.Failed})
	i.counts("all are delivered", func(s wire.Stats) bool { return s.Counts["delivered"] == int64(n) })
	mu.Lock()
	defer mu.Unlock()
	require.Len(t, took, n)
	for id, times := range took {
		require.Equal(t, 1, times, id)
	}
}
