package engine_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	d "github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/engine"
)

// receivers answer at once, or hang until the timeout of their attempts.
type receivers struct {
	mu    sync.Mutex           // guards the fields below
	hang  map[string]bool      // kinds of lanes: their names before the _
	first map[d.Lane]time.Time // when each lane was called first
	now   map[d.Lane]int       // attempts under way
	most  int                  // of all lanes together
}

func (r *receivers) answer(ctx context.Context, c d.Call) d.Answer {
	kind, _, _ := strings.Cut(string(c.Lane), "_")
	hangs := r.begin(kind, c.Lane)
	defer r.end(c.Lane)
	if hangs {
		<-ctx.Done()
		return d.Answer{Class: d.ClassTimeout, Err: ctx.Err()}
	}
	return d.Answer{Status: 200}
}

func (r *receivers) begin(kind string, lane d.Lane) (hangs bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.first[lane].IsZero() {
		r.first[lane] = time.Now()
	}
	r.now[lane]++
	r.most = max(r.most, r.total())
	return r.hang[kind]
}

func (r *receivers) end(lane d.Lane) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now[lane]--
}

// total is how many attempts are under way. mu is locked.
func (r *receivers) total() (n int) {
	for _, some := range r.now {
		n += some
	}
	return n
}

func (r *receivers) hangs(kinds ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, kind := range kinds {
		r.hang[kind] = true
	}
}

// called is when a lane was called first, after a time.
func (r *receivers) called(t *testing.T, lane d.Lane, after time.Time) time.Duration {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	require.Contains(t, r.first, lane)
	return r.first[lane].Sub(after)
}

// crowdedRig has eight lanes that were quick and hang, a hundred new ones that hang,
// and all permits that they may have are taken.
func crowdedRig(t *testing.T, permits, loans int) (*rig, *receivers) {
	t.Helper()
	all := &receivers{hang: map[string]bool{}, first: map[d.Lane]time.Time{}, now: map[d.Lane]int{}}
	r := newTestRig(t, func(o *engine.Options, _ *testQueue, s *fakeSender) {
		o.MaxInFlight, o.Loans, s.answer = permits, loans, all.answer
	})
	r.start(t)
	r.pour("grown", 8, 1) // with one success they are as good as grown, see fastStart
	pass(time.Second)
	require.Equal(t, permits, r.FreePermits())
	r.queue.careful.Store(true)
	all.hangs("grown", "hung")
	r.pour("grown", 8, permits/8)
	pass(time.Second)
	r.pour("hung", 100, 3)
	return r, all
}

// pour makes n deliveries ready in each of some lanes of a kind.
func (r *rig) pour(kind string, lanes, n int) {
	for i := range lanes {
		r.queue.fillLane(d.Lane(fmt.Sprintf("%s_%d", kind, i)), n)
	}
	r.Note()
}

func TestFewPermitsHaveNoLoans(t *testing.T) {
	t.Parallel()
	for permits, loans := range map[int]int{0: 0, 1: 0, 15: 0, 16: 32, 64: 128, 1024: 128, 4096: 512} {
		require.Equal(t, loans, engine.LoansFor(permits), "%d permits", permits)
	}
}

func TestANewLaneIsCalledSoonBesideHungOnes(t *testing.T) {
	t.Parallel()
	for _, permits := range []int{64, 1024} {
		t.Run(fmt.Sprint(permits, " permits"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				loans := engine.LoansFor(permits)
				r, all := crowdedRig(t, permits, loans)
				began := time.Now()
				r.pour("new", 1, 50)
				pass(13 * time.Second) // less than the timeout of those that hang
				require.Less(t, all.called(t, "new_0", began), time.Second)
				for i := range 100 {
					require.Less(t, all.called(t, d.Lane(fmt.Sprint("hung_", i)), began), time.Second, "hung_%d", i)
				}
				require.LessOrEqual(t, all.most, permits+loans)
				require.Greater(t, all.most, permits)
				require.Positive(t, r.FreePermits(), "a quick lane finds a permit")
				require.Equal(t, 8+50, r.queue.verdicts()[d.Delivered], "all of the new lane arrive beside attempts that hang")
				r.stop(t)
				require.Equal(t, permits, r.FreePermits(), "every loan ends")
			})
		})
	}
}
