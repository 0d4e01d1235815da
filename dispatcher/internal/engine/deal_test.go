package engine_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	d "github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/engine"
)

// flushes are the messages of each flush, by the beginnings of their ids, and
// what each asked of the queue.
type flushes struct {
	mu    sync.Mutex
	order [][]string
	lanes []int
	bytes []int
}

func (f *flushes) note(batch []d.Entry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	ids, lanes, bytes := []string{}, 0, 0
	for _, e := range batch {
		ids, lanes, bytes = append(ids, e.Message.ID), lanes+len(e.Lanes), bytes+len(e.Message.Body)
	}
	f.order, f.lanes, f.bytes = append(f.order, ids), append(f.lanes, lanes), append(f.bytes, bytes)
}

// noting is a queue whose flushes are noted.
type noting struct {
	*testConn
	f *flushes
}

func (q noting) Schedule(ctx context.Context, by string, free, lease int, batch []d.Entry) ([]d.ScheduleResult, error) {
	q.f.note(batch)
	return q.testConn.Schedule(ctx, by, free, lease, batch)
}

// newFlushRig is a rig with endpoints, whose first call of schedule waits until
// release runs.
func newFlushRig(t *testing.T, endpoints int) (r *endpointRig, f *flushes, release func()) {
	f = &flushes{}
	var o engine.Options
	r = newTestEndpointRig(t, func(from *engine.Options, q *testQueue, s *fakeSender) {
		acceptsOnly(from, q, s)
		o = *from
	})
	r.instance = newTestInstance(t, noting{connect(t, r.queue, o.MaxInFlight), f}, r.sender, o)
	r.start(t)
	for i := range endpoints {
		r.create(t, tenant("many"), topics("*"), uid(fmt.Sprint(i)))
	}
	return r, f, blockFirst(r.queue, "schedule")
}

// put publishes in the background, after those before.
func (r *rig) put(t *testing.T, all *sync.WaitGroup, batch ...*d.Message) {
	all.Go(func() {
		out, err := r.Publish(t.Context(), batch)
		if err != nil || len(out) != len(batch) {
			t.Errorf("publish %s: %d, %v", batch[0].ID, len(out), err)
		}
		for i := range out {
			if out[i].Result != d.Accepted {
				t.Errorf("publish %s: %+v", batch[i].ID, out[i])
			}
		}
	})
	synctest.Wait()
}

func TestAFlushEndsAtItsBytes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, f, release := newFlushRig(t, 0)
		var all sync.WaitGroup
		r.put(t, &all, message("first"))
		var batch []*d.Message
		for _, m := range messages("big", 100) {
			m.Body = make([]byte, 200<<10)
			batch = append(batch, m)
		}
		r.put(t, &all, batch...)
		r.put(t, &all, message("small"))
		release()
		all.Wait()
		for i, n := range f.bytes {
			require.LessOrEqual(t, n, 4<<20, "flush %d", i)
		}
		require.Contains(t, slices.Concat(f.order[1:3]...), "small", "it has its turn beside the others, or a flush of its own")
		r.stop(t)
	})
}

func TestALargeFanOutDelaysNobodyElse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, f, release := newFlushRig(t, 100)
		var all sync.WaitGroup
		r.put(t, &all, message("first"))
		for i := range 20 {
			r.put(t, &all, fan("many", fmt.Sprintf("fan_%d", i)))
		}
		for i := range 10 {
			r.put(t, &all, message(fmt.Sprintf("single_%d", i)))
		}
		release()
		all.Wait()
		last := 0
		for i, ids := range f.order {
			require.LessOrEqual(t, f.lanes[i], 512+100, "flush %d", i)
			for _, id := range ids {
				if id[0] == 's' {
					last = i
				}
			}
		}
		require.LessOrEqual(t, last, 2, "they go first, though they came last")
		require.Greater(t, len(f.order), 4)
		r.stop(t)
	})
}

func TestATurnThatTookTooMuchIsTakenOffTheNext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, f, release := newFlushRig(t, 0)
		var all sync.WaitGroup
		r.put(t, &all, message("first"))
		var bulky []*d.Message
		for _, m := range messages("bulky", 10) {
			m.Body = make([]byte, 250<<10)
			bulky = append(bulky, m)
		}
		r.put(t, &all, bulky...)
		r.put(t, &all, messages("many", 250)...)
		release()
		all.Wait()
		order, bulkyBefore := f.order[1], 0
		require.Len(t, order, 256)
		last := slices.IndexFunc(order, func(id string) bool { return id == "many_245" })
		for _, id := range order[:last] {
			if id[0] == 'b' {
				bulkyBefore++
			}
		}
		require.LessOrEqual(t, bulkyBefore, 6, "what it took too much is taken off its next turns")
		r.stop(t)
	})
}
