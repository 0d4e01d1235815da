package engine_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	d "github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/engine"
	"github.com/hookladder/hookladder/dispatcher/internal/wait"
)

func TestWhoDoesNotBeatInThreePunctualReadingsIsReaped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, nil)
		r.queue.other("gone", 7)
		r.queue.lease("gone", claimed(message("a")))
		r.queue.lease("gone", claimed(message("b")))
		r.start(t) // the first reading
		pass((wait.DeadReadings - 1) * wait.BeatEvery)
		require.Zero(t, r.queue.count("reap gone"))
		pass(wait.BeatEvery)
		require.Equal(t, 1, r.queue.count("reap gone"))
		require.Len(t, r.sender.sent(), 2, "what it held is attempted")
		require.Contains(t, r.log.String(), "takeover")
		require.GreaterOrEqual(t, r.queue.count("peek"), 2, "its hints are lost with it")
		pass(time.Minute)
		require.Equal(t, 1, r.queue.count("reap gone"))
		r.stop(t)
	})
}

func TestWhoBeatsIsNotReaped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, nil)
		r.queue.other("slow", 1)
		r.start(t)
		pass(wait.BeatEvery / 2)
		for i := range 20 { // it grows before each third reading
			r.queue.other("slow", int64(2+i))
			pass(3 * wait.BeatEvery)
		}
		require.Zero(t, r.queue.count("reap slow"))
		r.stop(t)
	})
}

func TestALateReadingProvesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, nil)
		r.queue.other("other", 7)
		r.start(t)
		for range 20 { // two readings, then a hole that this instance may have slept in
			pass(2 * wait.BeatEvery)
			r.queue.set(func() { r.queue.hook = failing("beat", d.ErrUnavailable) })
			pass(2 * wait.BeatEvery)
			r.queue.set(func() { r.queue.hook = nil })
		}
		require.Zero(t, r.queue.count("reap other"))
		pass(4 * wait.BeatEvery)
		require.Equal(t, 1, r.queue.count("reap other"))
		r.stop(t)
	})
}

func TestAReapThatFailsIsRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, nil)
		r.queue.other("gone", 7)
		r.queue.hook = failing("reap gone", d.ErrUnavailable)
		r.start(t)
		pass(5 * wait.BeatEvery)
		require.Equal(t, 3, r.queue.count("reap gone"))
		require.NotContains(t, r.log.String(), "takeover")
		r.queue.set(func() { r.queue.hook = nil })
		pass(wait.BeatEvery)
		require.Contains(t, r.log.String(), "takeover")
		r.stop(t)
	})
}

func TestAReapThatHangsDoesNotStopTheHeart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, nil)
		r.queue.other("gone", 7)
		r.queue.hangs = "reap gone"
		r.start(t)
		pass(time.Minute)
		require.Equal(t, 31, r.queue.count("beat"))
		r.stop(t)
	})
}

func TestWhoIsFreshAfterItsFirstBeatGoesOnUnderAnotherName(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, nil)
		r.start(t)
		pass(4 * wait.BeatEvery)
		require.Equal(t, "here", r.Name())
		r.queue.forget("here") // others declared it dead
		pass(wait.BeatEvery)
		require.Equal(t, "here-2", r.Name())
		seen := r.queue.seen("beat")
		last := seen[len(seen)-1]
		require.Equal(t, "here-2", last.by)
		require.Equal(t, 1<<10, last.n, "the first beat under it")
		require.Equal(t, seen[len(seen)-2].at, last.at, "at once, since nobody knows that name yet")
		r.queue.fill(1)
		r.Note()
		synctest.Wait()
		require.Equal(t, map[d.Verdict]int{d.Delivered: 1}, r.queue.verdicts())
		pass(time.Minute)
		require.Equal(t, "here-2", r.Name())
		r.queue.forget("here-2")
		pass(wait.BeatEvery)
		require.Equal(t, "here-3", r.Name())
		r.stop(t)
		require.Equal(t, "here-3", r.queue.seen("leave")[0].by)
	})
}

// A node that takes over may bring back leases of instances that are gone, whose
// numbers are not read any more.
func TestLeasesOfTheDepartedAreTakenOverWhenAnotherNodeMayHaveTakenOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, nil)
		r.start(t)
		pass(time.Minute)
		asked := r.queue.count("strays")
		require.NoError(t, r.queue.still().Leave(t.Context(), "gone"))
		r.queue.lease("gone", claimed(message("a")))
		r.queue.set(func() { r.queue.hook = failing("strays", d.ErrUnavailable) })
		pass(time.Minute)
		require.Equal(t, asked, r.queue.count("strays"), "it is not asked all the time")
		r.queue.ears.OnGap()
		pass(10 * time.Second)
		require.Zero(t, r.queue.count("reap gone"))
		require.Contains(t, r.log.String(), "stage=strays")
		r.queue.set(func() { r.queue.hook = nil })
		pass(10 * time.Second)
		require.Equal(t, 1, r.queue.count("reap gone"))
		require.Len(t, r.sender.sent(), 1)
		r.stop(t)
	})
}

// Of a queue on several nodes one knows which instances are alive. While only that one
// is down no instance can be declared dead, and all go on.
func TestAnInstanceThatNobodyHearsGoesOnWhereOtherNodesAnswer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		nodes int
		err   error
		want  int
	}{
		{"several nodes", 3, d.ErrUnavailable, 1},
		{"one node", 1, d.ErrUnavailable, 0},
		{"another fault", 3, errors.New("a beat that can't be read"), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newTestRig(t, func(_ *engine.Options, q *testQueue, _ *fakeSender) { q.nodes = c.nodes })
				r.start(t)
				r.queue.set(func() { r.queue.hook = failing("beat", c.err) })
				pass(5 * wait.BeatOld)
				r.queue.fill(1)
				r.Note()
				synctest.Wait()
				require.Len(t, r.sender.sent(), c.want)
				r.queue.set(func() { r.queue.hook = nil })
				pass(wait.BeatEvery)
				require.Len(t, r.sender.sent(), 1)
				r.stop(t)
			})
		})
	}
}

// Fences are forgotten after a week, so no instance goes on for that long without an
// answer to its beats.
func TestAnInstanceThatNobodyHearsForADayLeasesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newSleepyRig(t)
		r.queue.nodes = 3
		r.start(t)
		r.queue.set(func() { r.queue.hook = failing("beat", d.ErrUnavailable) })
		pass(time.Hour)
		r.queue.fill(1)
		r.Note()
		synctest.Wait()
		require.Len(t, r.sender.sent(), 1, "it may go on for a day")
		r.sleep(23 * time.Hour) // of which it need not see each second
		pass(3 * wait.BeatEvery)
		r.queue.fill(1)
		r.Note()
		synctest.Wait()
		require.Len(t, r.sender.sent(), 1)
		r.stop(t)
	})
}

func TestAFirstBeatThatFailedIsNotADeath(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, nil)
		r.queue.hook = failing("beat", d.ErrUnavailable)
		r.start(t)
		pass(3 * wait.BeatEvery)
		r.queue.set(func() { r.queue.hook = nil })
		pass(3 * wait.BeatEvery)
		require.Equal(t, "here", r.Name())
		r.stop(t)
	})
}

// Its supervisor starts it anew, or tells a person that it can't be.
func TestAnInstanceWhoseQueueChangedUnderItEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, nil)
		r.start(t)
		pass(wait.BeatEvery)
		r.queue.set(func() { r.queue.hook = failing("beat", d.ErrMoved) })
		pass(wait.BeatEvery)
		require.ErrorIs(t, <-r.ended, d.ErrMoved)
	})
}

func TestLeasesOfAnAnswerThatWasLostAreHandedBack(t *testing.T) {
	t.Parallel()
	for _, stage := range []string{"claim", "schedule"} {
		t.Run(stage, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newTestRig(t, nil)
				r.queue.direct = true
				r.sender.answer = takes(10 * time.Second)
				r.start(t)
				r.queue.fill(2)
				r.Note()
				pass(time.Millisecond) // answers of one instant have no order
				require.Equal(t, 2, r.Leases(), "known ones, which stay")
				lost := false
				r.queue.set(func() {
					r.queue.after = func(call string) error {
						if call != stage || lost {
							return nil
						}
						lost = true
						return d.ErrUnavailable
					}
				})
				if stage == "claim" {
					r.queue.fill(3)
					r.Note()
				} else {
					out, err := r.Publish(t.Context(), messages("m", 3))
					require.NoError(t, err)
					require.ErrorIs(t, out[0].Err, d.ErrUnavailable)
				}
				pass(wait.BeatEvery)
				require.Equal(t, 3, r.queue.verdicts()[d.Back], "at the next beat")
				pass(time.Minute)
				require.Equal(t, map[d.Verdict]int{d.Back: 3, d.Delivered: 5}, r.queue.verdicts())
				require.Len(t, r.sender.sent(), 5)
				require.Equal(t, 1024, r.FreePermits())
				require.Zero(t, r.Leases())
				r.stop(t)
			})
		})
	}
}

func TestALeaseSettledWhileLeasesAreComparedIsNotHandedBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, nil)
		answer := make(chan struct{})
		r.sender.answer = func(context.Context, d.Call) d.Answer {
			<-answer
			return d.Answer{Status: 200}
		}
		r.queue.fill(1)
		r.queue.leasesRead = sync.OnceFunc(func() {
			close(answer)
			for r.Leases() > 0 { // no time goes by until it is settled
				runtime.Gosched()
			}
		})
		r.start(t)
		pass(2 * time.Minute)
		require.Positive(t, r.queue.count("leases"))
		require.Equal(t, map[d.Verdict]int{d.Delivered: 1}, r.queue.verdicts())
		for _, c := range r.queue.seen("settle") {
			require.Equal(t, 1, c.n)
		}
		require.Equal(t, 1, r.queue.count("settle"), "no hand-back follows")
		r.stop(t)
	})
}

func TestAnIdleHourIsQuiet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, nil)
		r.start(t)
		pass(time.Hour)
		counts := map[string]int{}
		for _, c := range r.queue.seen("") {
			counts[c.name]++
		}
		require.Equal(t, map[string]int{
			"beat":  1 + int(time.Hour/wait.BeatEvery),
			"join":  1,
			"watch": 1,
			"peek":  1 + 60, // at the start, and the guard's
			"trim":  60,     // age goes on without work
		}, counts)
		r.stop(t)
	})
}

func TestInstancesTellWhenThisOneSawThemLast(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, nil)
		r.queue.other("peer", 7)
		r.start(t)
		pass(wait.BeatEvery / 2)
		seen := func() (own, peer time.Time) {
			list, next, err := r.Engine.Instances(t.Context(), 0, "")
			require.NoError(t, err)
			require.Empty(t, next)
			require.Len(t, list, 2)
			for _, one := range list {
				if one.Name == "peer" {
					peer = one.SeenAt
				} else {
					own = one.SeenAt
					require.NotZero(t, one.Permits)
				}
			}
			return own, peer
		}
		first, peer := seen()
		require.WithinDuration(t, r.Now(), first, wait.BeatEvery)
		require.Zero(t, peer, "it may be dead for long")
		r.queue.other("peer", 8)
		pass(wait.BeatEvery)
		own, beat := seen()
		require.Equal(t, own, beat)
		require.WithinDuration(t, first.Add(wait.BeatEvery), beat, wait.BeatEvery/2)
		pass(wait.BeatEvery)
		own, peer = seen()
		require.Equal(t, beat, peer, "it stands still")
		require.WithinDuration(t, beat.Add(wait.BeatEvery), own, wait.BeatEvery/2)
		r.stop(t)
	})
}
