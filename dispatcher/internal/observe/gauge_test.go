package observe_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/observe"
)

// shelf is a store in memory.
type shelf struct {
	mu      sync.Mutex
	calls   int
	number  int64 // of the last count that was added
	minutes []dispatcher.Minute
	lanes   []dispatcher.LaneBar

	away   error                                             // Add changes nothing
	taken  func(c *dispatcher.MinuteCount) (left bool)       // what Add leaves of a count; nil: nothing
	hangs  bool                                              // Add has no answer
	within func(what string)                                 // called once: before a read, or behind what Add adds
	heard  func(instance string, c []dispatcher.MinuteCount) // of each Add
}

func (s *shelf) Add(ctx context.Context, instance string, counts []dispatcher.MinuteCount) (left []dispatcher.MinuteCount, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	if s.heard != nil {
		s.heard(instance, counts)
	}
	if s.hangs {
		<-ctx.Done()
		return counts, ctx.Err()
	}
	if s.away != nil {
		return counts, s.away
	}
	for _, c := range counts {
		if s.taken != nil {
			if rest := c; s.taken(&rest) {
				left, err = append(left, rest), errors.New("in part")
				continue
			}
		}
		if c.Number <= s.number {
			continue
		}
		s.number = c.Number
		if c.Moved() {
			s.minutes = append(s.minutes, c.Minute)
		}
		s.lanes = append(s.lanes, c.Lanes...)
	}
	s.meet("add")
	return left, err
}

// meet calls within once.
func (s *shelf) meet(what string) {
	if within := s.within; within != nil {
		s.within = nil
		s.mu.Unlock()
		within(what)
		s.mu.Lock()
	}
}

func (s *shelf) Minutes(_ context.Context, since, until time.Time) (found []dispatcher.Minute, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.meet("read")
	for _, m := range s.minutes {
		if !m.At.Before(since.Truncate(time.Minute)) && m.At.Before(until) {
			found = append(found, m)
		}
	}
	return found, s.away
}

func (s *shelf) Bars(_ context.Context, lanes []dispatcher.Lane, since time.Time) (map[dispatcher.Lane][]dispatcher.Bar, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.meet("read")
	found := map[dispatcher.Lane][]dispatcher.Bar{}
	for _, b := range s.lanes {
		list := found[b.Lane]
		switch {
		case !slices.Contains(lanes, b.Lane) || b.At.Before(since.Truncate(dispatcher.HalfHour)):
		case len(list) > 0 && list[len(list)-1].At.Equal(b.At):
			list[len(list)-1].Merge(b.Bar)
		default:
			found[b.Lane] = append(list, b.Bar)
		}
	}
	return found, s.away
}

// rig is a gauge that runs, with its store.
type rig struct {
	testing.TB
	*observe.Gauge
	store  *shelf
	log    bytes.Buffer
	first  time.Time
	behind atomic.Int64 // by which the store's clock was set back
	stop   func()
}

// newRig starts one in the bubble of a test, two seconds after a minute began.
func newRig(t *testing.T) *rig {
	t.Helper()
	time.Sleep(2 * time.Second)
	r := &rig{TB: t, store: &shelf{}, first: time.Now().UTC().Truncate(time.Minute)}
	r.Gauge = observe.NewGauge(r.store, observe.GaugeOptions{
		Instance: "one", Log: slog.New(slog.NewTextHandler(&r.log, nil)),
		Now: func() time.Time { return time.Now().UTC().Add(-time.Duration(r.behind.Load())) },
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	t.Cleanup(r.stop)
	synctest.Wait()
	return r
}

// pass lets time pass.
func (r *rig) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// deliver counts an attempt that succeeded.
func (r *rig) deliver(lane dispatcher.Lane) {
	r.Attempted(dispatcher.Attempted{
		ID:      dispatcher.DeliveryID{Lane: lane, Message: "m"},
		Attempt: dispatcher.Attempt{Number: 1, Verdict: dispatcher.Delivered, Status: 200, Duration: 20 * time.Millisecond}, Late: time.Millisecond,
	})
}

// delivered are those that all minutes show.
func (r *rig) delivered() (n int64) {
	r.Helper()
	list, err := r.Minutes(r.Context(), r.first, time.Now().Add(time.Hour))
	require.NoError(r, err)
	require.True(r, slices.IsSortedFunc(list, func(a, b dispatcher.Minute) int { return a.At.Compare(b.At) }))
	for _, m := range list {
		n += m.Delivered
	}
	return n
}

// bars are those of a lane.
func (r *rig) bars(lane dispatcher.Lane) []dispatcher.Bar {
	r.Helper()
	found, err := r.Bars(r.Context(), []dispatcher.Lane{lane}, r.first)
	require.NoError(r, err)
	return found[lane]
}

// set changes what the store does.
func (r *rig) set(change func(s *shelf)) {
	r.store.mu.Lock()
	defer r.store.mu.Unlock()
	change(r.store)
}

// calls are the commands that the store got.
func (r *rig) calls() int {
	r.store.mu.Lock()
	defer r.store.mu.Unlock()
	return r.store.calls
}

func TestWhatMovedIsAddedOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		for range 3 {
			r.deliver("a")
		}
		r.deliver("b")
		r.Attempted(dispatcher.Attempted{
			ID:      dispatcher.DeliveryID{Lane: "b", Message: "m"},
			Attempt: dispatcher.Attempt{Number: 2, Verdict: dispatcher.Retry, Class: dispatcher.ClassTimeout, Duration: 15 * time.Second}, Late: time.Second,
		})
		r.Published(dispatcher.Published{Result: dispatcher.Accepted, Deliveries: make([]dispatcher.Delivery, 1)})
		for _, p := range []dispatcher.Published{{Result: dispatcher.Accepted}, {Result: dispatcher.Duplicate}, {Err: dispatcher.ErrFull}} {
			r.Published(p) // the first matched nothing
		}
		r.Died(dispatcher.Death{})
		r.TookOver(3)
		r.pass(57 * time.Second)
		require.Zero(t, r.calls())
		r.pass(time.Minute)
		require.Equal(t, 1, r.calls())
		require.Equal(t, []dispatcher.Minute{{At: r.first, Accepted: 1, Delivered: 4, Failed: 1, Dead: 1, Late: dispatcher.Durations{0: 4, 5: 1}}}, r.store.minutes)
		half := r.first.Truncate(dispatcher.HalfHour)
		require.ElementsMatch(t, []dispatcher.LaneBar{
			{Lane: "a", Bar: dispatcher.Bar{At: half, Delivered: 3, Took: dispatcher.Durations{1: 3}}},
			{Lane: "b", Bar: dispatcher.Bar{At: half, Delivered: 1, Failed: dispatcher.Failures{Timeout: 1}, Took: dispatcher.Durations{1: 1}}},
		}, r.store.lanes)

		r.pass(24 * time.Hour)
		require.Equal(t, 1, r.calls(), "an idle instance asks nothing")
		r.deliver("a")
		r.pass(2 * time.Minute)
		require.Equal(t, 2, r.calls())
	})
}

func TestInstancesAddAtMomentsOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		moments := map[time.Duration]bool{}
		for i := range 20 {
			ctx, cancel := context.WithCancel(t.Context())
			var added time.Time
			store := &shelf{heard: func(instance string, _ []dispatcher.MinuteCount) {
				require.Equal(t, fmt.Sprint("instance", i), instance)
				added = time.Now()
			}}
			g := observe.NewGauge(store, observe.GaugeOptions{Instance: fmt.Sprint("instance", i), Now: time.Now, Log: slog.New(slog.DiscardHandler)})
			go func() { _ = g.Run(ctx) }()
			g.Died(dispatcher.Death{})
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			moments[added.Sub(added.Truncate(time.Minute))] = true
			cancel()
			synctest.Wait()
		}
		require.Greater(t, len(moments), 15)
		for moment := range moments {
			require.Less(t, moment, 50*time.Second)
		}
	})
}

func TestWhatIsNotAddedYetIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		earlier := dispatcher.Minute{At: r.first.Add(-time.Hour), Delivered: 7}
		r.store.minutes = []dispatcher.Minute{earlier, {At: r.first, Delivered: 10}} // of others
		r.store.lanes = []dispatcher.LaneBar{{Lane: "a", Bar: dispatcher.Bar{At: r.first.Truncate(dispatcher.HalfHour), Delivered: 10}}}
		r.deliver("a")
		r.deliver("c")
		require.EqualValues(t, 12, r.delivered())
		require.EqualValues(t, 11, r.bars("a")[0].Delivered)
		require.EqualValues(t, 1, r.bars("c")[0].Delivered)
		require.Empty(t, r.bars("other"))

		r.pass(59 * time.Second) // it waits to be added
		r.deliver("c")
		require.EqualValues(t, 13, r.delivered())
		require.Len(t, r.bars("c"), 1)
		require.EqualValues(t, 2, r.bars("c")[0].Delivered)
		r.pass(2 * time.Minute)
		require.EqualValues(t, 13, r.delivered())
		require.EqualValues(t, 2, r.bars("c")[0].Delivered)

		all, err := r.Minutes(t.Context(), r.first.Add(-time.Hour), r.first)
		require.NoError(t, err)
		require.Equal(t, []dispatcher.Minute{earlier}, all, "until is not included")
	})
}

// An Add beside a read must not be shown twice, nor not at all.
func TestAReadBesideAnAddShowsItOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.deliver("a")
		r.pass(59 * time.Second)
		r.set(func(s *shelf) { s.within = func(string) { r.pass(time.Minute) } }) // it is added before the look at the store
		require.EqualValues(t, 1, r.delivered())
		require.Equal(t, 1, r.calls())

		r.deliver("a")
		r.pass(time.Minute)
		r.set(func(s *shelf) { s.within = func(string) { r.pass(time.Minute) } })
		require.EqualValues(t, 2, r.bars("a")[0].Delivered)
		require.Equal(t, 2, r.calls())

		r.deliver("a")
		during := int64(0)
		r.set(func(s *shelf) {
			s.within = func(what string) {
				require.Equal(t, "add", what)
				during = r.delivered()
			}
		})
		r.pass(2 * time.Minute)
		require.GreaterOrEqual(t, during, int64(3))
		require.EqualValues(t, 3, r.delivered())
	})
}

func TestTheEndAddsThePresentMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.deliver("a")
		r.stop()
		require.Len(t, r.store.minutes, 1)
		require.Empty(t, r.log.String())
	})
}

func TestTheEndDoesNotWaitForAStoreThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.set(func(s *shelf) { s.hangs = true })
		r.deliver("a")
		began := time.Now()
		r.stop()
		require.Equal(t, 2*time.Second, time.Since(began))
		require.Contains(t, r.log.String(), `msg="adding the figures of some minutes failed" minutes=1`)
	})
}

func TestAnHourIsKeptWhileTheStoreIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.set(func(s *shelf) { s.away = dispatcher.ErrUnavailable })
		for range 70 {
			r.deliver("a")
			r.pass(time.Minute)
		}
		_, err := r.Minutes(t.Context(), r.first, time.Now())
		require.ErrorIs(t, err, dispatcher.ErrUnavailable)
		require.Equal(t, 1, strings.Count(r.log.String(), "adding figures failed"))
		r.set(func(s *shelf) { s.away = nil })
		r.pass(2 * time.Minute)
		require.Len(t, r.store.minutes, 60)
		require.Equal(t, r.first.Add(10*time.Minute), r.store.minutes[0].At)
		require.Contains(t, r.log.String(), `msg="figures added again" minutes_dropped=10`)
		require.EqualValues(t, 60, r.delivered())
	})
}

func TestWhatIsLeftIsGivenAgainAsItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		var given [][]dispatcher.MinuteCount
		r.set(func(s *shelf) {
			s.heard = func(_ string, c []dispatcher.MinuteCount) { given = append(given, slices.Clone(c)) }
			s.taken = func(c *dispatcher.MinuteCount) bool {
				c.Minute = dispatcher.Minute{} // home has it
				return true
			}
		})
		r.deliver("a")
		r.pass(time.Minute)
		r.deliver("a")
		r.pass(118 * time.Second) // two moments of an instance
		r.set(func(s *shelf) { s.taken = nil })
		r.pass(time.Minute)
		require.Len(t, given, 3)
		require.Len(t, given[0], 1)
		require.Len(t, given[1], 2)
		require.Len(t, given[2], 2)
		require.Equal(t, given[0][0].Lanes, given[2][0].Lanes)
		require.Equal(t, given[0][0].Number, given[2][0].Number)
		require.Equal(t, given[0][0].Number+1, given[2][1].Number)
		require.False(t, given[1][0].Moved())
	})
}

// A clock that steps back names minutes that were, but their counts are new.
func TestEachCountIsNewWhateverTheClockSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		for range 3 {
			r.deliver("a")
			r.pass(time.Minute)
		}
		r.behind.Store(int64(time.Hour))
		for range 3 {
			r.deliver("a")
			r.pass(time.Minute)
		}
		r.stop()
		require.Len(t, r.store.minutes, 6)
		require.Equal(t, r.first.Add(-55*time.Minute), r.store.minutes[5].At)
	})
}

// Since is unknown of a store in memory.
func (s *shelf) Since(dispatcher.Lane) (began time.Time) { return began }

func TestOfTooManyLanesInAMinuteTheRestIsCountedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		for round := range 2 {
			for i := range 2100 {
				r.deliver(dispatcher.Lane(fmt.Sprintf("ep_%d", i)))
			}
			require.EqualValues(t, round+1, r.bars("ep_1999")[0].Delivered)
			r.pass(2 * time.Minute)
		}
		require.Len(t, r.store.minutes, 2)
		others := int64(0)
		lanes := map[dispatcher.Lane]bool{}
		for _, b := range r.store.lanes {
			lanes[b.Lane] = true
			if b.Lane == dispatcher.OtherLanes {
				others += b.Delivered
			}
		}
		require.Len(t, lanes, 2001)
		require.EqualValues(t, 200, others)
		require.EqualValues(t, 4200, r.delivered())
	})
}

// What a taker says has no lateness, and an end without an attempt is none.
func TestOnlyAttemptsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		taken := dispatcher.Attempted{ID: dispatcher.DeliveryID{Lane: "q_a"}, Taken: true, Late: time.Hour}
		taken.Attempt = dispatcher.Attempt{Number: 1, Verdict: dispatcher.Retry, Class: dispatcher.ClassHandler, Duration: time.Second}
		r.Attempted(taken)
		late := taken
		late.Attempt = dispatcher.Attempt{Number: 1, Verdict: dispatcher.Delivered}
		r.Attempted(late)
		expired := taken
		expired.Attempt = dispatcher.Attempt{Verdict: dispatcher.Dead, Class: dispatcher.ClassExpired}
		r.Attempted(expired)
		r.stop()
		require.Equal(t, []dispatcher.Minute{{At: r.first, Delivered: 1, Failed: 1}}, r.store.minutes)
		require.Equal(t, dispatcher.Bar{
			At: r.first.Truncate(dispatcher.HalfHour), Delivered: 1, Failed: dispatcher.Failures{Refused: 1}, Took: dispatcher.Durations{5: 1},
		}, r.store.lanes[0].Bar)
	})
}

func TestManyMayCountAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				for n := range 1000 {
					r.deliver(dispatcher.Lane(fmt.Sprintf("ep_%d", (i+n)%40)))
					r.Published(dispatcher.Published{})
					if n%100 == 0 {
						time.Sleep(17 * time.Second)
					}
				}
			})
			all.Go(func() {
				for range 20 {
					_, _ = r.Minutes(t.Context(), r.first, r.first.Add(time.Hour))
					_, _ = r.Bars(t.Context(), []dispatcher.Lane{"ep_1"}, r.first)
					time.Sleep(11 * time.Second)
				}
			})
		}
		all.Wait()
		r.stop()
		require.EqualValues(t, 8000, r.delivered())
	})
}

func TestAtTheEndNothingIsSaidToBeKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.set(func(s *shelf) { s.away = dispatcher.ErrDiskFull })
		r.deliver("a")
		r.stop()
		require.Contains(t, r.log.String(), `msg="adding the figures of some minutes failed" minutes=1 err="the disk of Redis is full"`)
		require.NotContains(t, r.log.String(), "kept for an hour")
	})
}
