package engine_test

import (
	"cmp"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/engine"
)

// fakeEngine stands for an engine. What it is and has depends on the time since the test
// began, which step says.
type fakeEngine struct {
	began  time.Time
	reads  int // of the queue
	roused int
	step   func(since time.Duration, e *fakeEngine)

	doing     engine.Doing
	upcoming  time.Duration // until something is due; 0: at once; negative: nothing is
	paced     time.Duration
	inFlight  map[string]int
	silent    []string
	err       error
	busyJobs  bool
	holders   []string
	notifying bool
	relaying  bool
}

func (e *fakeEngine) now() {
	if e.step != nil {
		e.step(time.Since(e.began), e)
	}
}

func (e *fakeEngine) rouse() { e.roused++ }

func (e *fakeEngine) does() engine.Doing {
	e.now()
	return e.doing
}

func (e *fakeEngine) next(context.Context) (u dispatcher.Upcoming, err error) {
	e.now()
	e.reads++
	if e.upcoming >= 0 {
		u.At, u.Wait = time.Now().Add(e.upcoming), e.upcoming
	}
	u.Paced = e.paced
	return u, e.err
}

func (e *fakeEngine) others(context.Context) (map[string]int, []string, error) {
	e.now()
	return e.inFlight, e.silent, nil
}

func (e *fakeEngine) ticker() *engine.Ticker {
	return engine.NewTicker(engine.TickerOptions{
		Permits: 1, Rouse: e.rouse, Doing: e.does, Upcoming: e.next, Others: e.others, Now: time.Now,
		Jobs: func() (bool, []string) { return e.busyJobs, e.holders }, Notices: func() bool { return e.notifying }, Outbox: func() bool { return e.relaying },
	})
}

// tick has a fake ticked, for at most as long as asked, and answers how long that took.
func (e *fakeEngine) tick(t *testing.T, within time.Duration) (tick dispatcher.Tick, took time.Duration, err error) {
	t.Helper()
	e.began = time.Now()
	tick, err = e.ticker().Tick(t.Context(), within)
	require.Equal(t, 1, e.roused)
	return tick, time.Since(e.began), err
}

func TestATickEndsWhenNothingIsLeftToDo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		step   func(since time.Duration, e *fakeEngine)
		within time.Duration // 0: a minute
		took   time.Duration // at most; it is more than half of it, or at once
		next   time.Duration // from its end; negative: none
	}{
		"at once where nothing is there":       {step: func(_ time.Duration, e *fakeEngine) { e.upcoming = -1 }, next: -1},
		"at once where something is for later": {step: func(_ time.Duration, e *fakeEngine) { e.upcoming = time.Hour }, next: time.Hour},
		"not while something is due": {step: func(since time.Duration, e *fakeEngine) {
			if e.upcoming = -1; since < 10*time.Second {
				e.upcoming = 0
			}
		}, took: 11 * time.Second, next: -1},
		"not while deliveries are in hand": {step: func(since time.Duration, e *fakeEngine) {
			e.upcoming, e.doing.Busy = time.Minute, since < 10*time.Second
		}, took: 11 * time.Second, next: time.Minute},
		"not while a job moves on":            {step: func(since time.Duration, e *fakeEngine) { e.upcoming, e.busyJobs = -1, since < 10*time.Second }, took: 11 * time.Second, next: -1},
		"not while the outbox has something":  {step: func(since time.Duration, e *fakeEngine) { e.upcoming, e.relaying = -1, since < 10*time.Second }, took: 11 * time.Second, next: -1},
		"not while there is a notice to tell": {step: func(since time.Duration, e *fakeEngine) { e.upcoming, e.notifying = -1, since < 10*time.Second }, took: 11 * time.Second, next: -1},
		"not while a rate spreads what is due": {step: func(since time.Duration, e *fakeEngine) {
			if e.upcoming, e.paced = -1, 0; since < 20*time.Second {
				e.upcoming, e.paced = 5*time.Second, 5*time.Second
			}
		}, took: 21 * time.Second, next: -1},
		"at once where a rate is slow":                   {step: func(_ time.Duration, e *fakeEngine) { e.upcoming, e.paced = 6*time.Second, 6*time.Second }, next: 6 * time.Second},
		"when the time is over":                          {step: func(_ time.Duration, e *fakeEngine) { e.upcoming = 0 }, within: 10 * time.Second, took: 10100 * time.Millisecond},
		"when the time is over, with deliveries in hand": {step: func(_ time.Duration, e *fakeEngine) { e.upcoming, e.doing.Busy = time.Hour, true }, within: 10 * time.Second, took: 10100 * time.Millisecond},
		"when it is known that another one lives": {step: func(since time.Duration, e *fakeEngine) {
			e.upcoming, e.inFlight = -1, map[string]int{"other": 3}
			if e.silent = nil; since < 2*time.Second {
				e.silent = []string{"other"}
			}
		}, took: 2100 * time.Millisecond, next: time.Minute},
		"before that where the other one holds nothing": {step: func(_ time.Duration, e *fakeEngine) {
			e.upcoming, e.inFlight, e.silent = -1, map[string]int{"other": 0}, []string{"other"}
		}, next: -1},
		"after a takeover, though it was to be shorter": {step: func(since time.Duration, e *fakeEngine) {
			e.upcoming, e.inFlight, e.silent = -1, map[string]int{"other": 3}, []string{"other"}
			if since >= 8*time.Second {
				e.inFlight, e.silent = nil, nil
			}
		}, within: time.Second, took: 8100 * time.Millisecond, next: -1},
		"after 10 s where a takeover does not come": {step: func(_ time.Duration, e *fakeEngine) {
			e.upcoming, e.inFlight, e.silent = -1, map[string]int{"other": 3}, []string{"other"}
		}, within: time.Second, took: 10100 * time.Millisecond},
		"after a takeover from one that holds a job": {step: func(since time.Duration, e *fakeEngine) {
			e.upcoming, e.inFlight, e.silent, e.holders = -1, map[string]int{"other": 0}, []string{"other"}, []string{"other"}
			if since >= 8*time.Second {
				e.inFlight, e.silent, e.holders = nil, nil, nil
			}
		}, within: time.Second, took: 8100 * time.Millisecond, next: -1},
		"with a minute at most where another one works": {step: func(_ time.Duration, e *fakeEngine) {
			e.upcoming, e.inFlight = time.Hour, map[string]int{"other": 3}
		}, next: time.Minute},
		"as soon as what it meets is due, where another one works": {step: func(_ time.Duration, e *fakeEngine) {
			e.upcoming, e.inFlight = time.Second, map[string]int{"other": 3}
		}, next: time.Second},
		"again after what it took meanwhile": {step: func(since time.Duration, e *fakeEngine) {
			if e.upcoming = -1; since < 10*time.Second {
				e.doing.Taken++ // no look finds it, but it has it in hand now and then
			}
		}, took: 11 * time.Second, next: -1},
		"when a part of the queue answers again": {step: func(since time.Duration, e *fakeEngine) {
			e.upcoming = -1
			if e.err = nil; since < 10*time.Second {
				e.err = &dispatcher.Degraded{Errs: []error{dispatcher.ErrUnavailable}, Failed: 1, Of: 2}
			}
		}, took: 11 * time.Second, next: -1},
		"when the time is over, where a part of the queue does not answer": {step: func(_ time.Duration, e *fakeEngine) {
			e.upcoming, e.err = time.Hour, &dispatcher.Degraded{Errs: []error{dispatcher.ErrUnavailable}, Failed: 1, Of: 2}
		}, within: 10 * time.Second, took: 10100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := &fakeEngine{step: c.step}
				tick, took, err := e.tick(t, cmp.Or(c.within, time.Minute))
				require.NoError(t, err)
				require.LessOrEqual(t, took, c.took)
				require.GreaterOrEqual(t, took, c.took*9/10)
				if c.next < 0 {
					require.Zero(t, tick.Next)
				} else {
					require.WithinDuration(t, time.Now().Add(c.next), tick.Next, time.Millisecond)
				}
				require.Less(t, e.reads, int(took/(50*time.Millisecond))+2, "the queue is not asked all the time")
			})
		})
	}
}

func TestATickCountsWhatWasDoneMeanwhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := &fakeEngine{doing: engine.Doing{Attempted: 100, Delivered: 50, Dead: 7}, step: func(since time.Duration, e *fakeEngine) {
			if e.upcoming = -1; since < time.Second {
				e.upcoming = 0
			} else {
				e.doing = engine.Doing{Attempted: 103, Delivered: 52, Dead: 8}
			}
		}}
		tick, _, err := e.tick(t, time.Minute)
		require.NoError(t, err)
		require.Equal(t, dispatcher.Tick{Attempted: 3, Delivered: 2, Dead: 1}, tick)
	})
}

func TestATickThatCanNotWorkSaysSo(t *testing.T) {
	t.Parallel()
	_, err := engine.NewTicker(engine.TickerOptions{}).Tick(t.Context(), time.Minute)
	require.ErrorIs(t, err, dispatcher.ErrAcceptsOnly)
	synctest.Test(t, func(t *testing.T) {
		e := &fakeEngine{err: dispatcher.ErrUnavailable}
		_, took, err := e.tick(t, 10*time.Second)
		require.ErrorIs(t, err, dispatcher.ErrUnavailable)
		require.GreaterOrEqual(t, took, 10*time.Second, "it may come back")

		e = &fakeEngine{step: func(since time.Duration, e *fakeEngine) {
			e.doing = engine.Doing{Busy: true, Stopping: since > 3*time.Second}
		}}
		_, took, err = e.tick(t, time.Minute)
		require.ErrorIs(t, err, dispatcher.ErrStopping)
		require.Less(t, took, 4*time.Second)
	})
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		e := &fakeEngine{doing: engine.Doing{Busy: true}, began: time.Now()}
		_, err := e.ticker().Tick(ctx, time.Minute)
		require.True(t, errors.Is(err, context.DeadlineExceeded))
	})
}
