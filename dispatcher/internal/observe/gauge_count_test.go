package observe_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

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
