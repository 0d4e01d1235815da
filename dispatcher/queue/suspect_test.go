package queue_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/start"
	"github.com/hookladder/hookladder/dispatcher/queue"
)

// TestSuspectsAreHandledOneAtATime has what two instances held when they died handled by a
// program, beside others.
func TestSuspectsAreHandledOneAtATime(t *testing.T) {
	url := redistest.Start(t).URL()
	p := newTestProgram(t, url, queue.Options{Workers: 8, Ladder: rungs})
	var suspects, others, most atomic.Int32
	var waiting sync.WaitGroup
	waiting.Add(4)
	p.Handle("work", func(_ context.Context, d queue.Delivery) error {
		if d.Topic == "other" {
			others.Add(1)
			waiting.Done()
			return nil
		}
		if now := suspects.Add(1); now > most.Load() {
			most.Store(now)
		}
		waiting.Wait() // others go on beside it
		suspects.Add(-1)
		return nil
	})
	var ids []string
	for n := range 4 {
		ids = append(ids, p.publish(t, queue.Message{ID: fmt.Sprint("suspect", n)}).ID)
	}
	dieHolding(t, url, len(ids), "victim1", "victim2", "victim3")
	for n := range 4 {
		ids = append(ids, p.publish(t, queue.Message{ID: fmt.Sprint("other", n), Topic: "other"}).ID)
	}
	p.start(t)
	for _, id := range ids {
		require.Equal(t, dispatcher.StatusDelivered, p.ends(t, id).Status)
	}
	require.Equal(t, int32(1), most.Load())
}

// dieHolding has instances take n deliveries one after another, and die.
func dieHolding(t testing.TB, url string, n int, victims ...string) {
	t.Helper()
	o := queue.Options{}
	s, err := o.StoreOptions(url)
	require.NoError(t, err)
	store, err := start.Open(t.Context(), s)
	require.NoError(t, err)
	defer store.Close()
	for _, by := range victims {
		taken, err := store.Take(t.Context(), by, dispatcher.Take{
			Lanes: []dispatcher.Lane{dispatcher.QueueLane("work")}, Most: n, Bytes: 1 << 20, Suspects: n,
		})
		require.NoError(t, err)
		require.Len(t, taken.Claimed, n)
		_, err = store.Reap(t.Context(), "another", by)
		require.NoError(t, err)
	}
}
