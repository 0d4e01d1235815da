package engine_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	d "github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/engine"
	"github.com/hookladder/hookladder/dispatcher/internal/wait"
)

// stillness is longer than the time without progress after which an instance is stuck.
const stillness = 30*time.Second + 2*wait.BeatEvery

// hangingObserver blocks in each call until it is closed.
type hangingObserver chan struct{}

func (o hangingObserver) Attempted(d.Attempted) { <-o }
func (o hangingObserver) Published(d.Published) {}
func (o hangingObserver) Died(d.Death)          { <-o }
func (o hangingObserver) TookOver(int)          {}

// Whatever a stage waits for, an instance that does not move is not alive.
func TestWhoDoesNotMoveHasNoHeartbeatUntilItMoves(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ stage, call string }{
		{"claim", "claim"}, {"settle", "settle"}, {"move", "move"}, {"schedule", "schedule"}, {"look", "peek"}, {"reap", "reap gone"}, {"beat", "beat"},
	} {
		t.Run(c.stage, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newTestRig(t, nil)
				moves := make(chan struct{})
				r.start(t)
				require.NoError(t, r.Alive())
				r.queue.set(func() {
					r.queue.hook = func(call string) error {
						if call == c.call {
							<-moves
						}
						return nil
					}
				})
				r.queue.other("gone", 7)
				r.queue.later("u_1", "later", time.Second)
				r.queue.fill(1)
				go func() { _, _ = r.Publish(t.Context(), messages("m", 1)) }()
				go r.Note()
				pass(stillness + 3*wait.BeatEvery)
				require.ErrorContains(t, r.Alive(), "stuck: "+c.stage)
				_, err := r.Ready(t.Context())
				require.ErrorIs(t, err, d.ErrUnavailable)
				require.Contains(t, r.log.String(), "stage="+c.stage)
				beaten := r.queue.count("beat")
				pass(time.Minute)
				require.Equal(t, beaten, r.queue.count("beat"))

				close(moves)
				pass(5 * wait.BeatEvery)
				require.NoError(t, r.Alive())
				require.Greater(t, r.queue.count("beat"), beaten)
				require.Equal(t, 1, strings.Count(r.log.String(), "no longer stuck"))
				pass(time.Minute)
				require.GreaterOrEqual(t, r.queue.verdicts()[d.Delivered], 2, "of what is stored nothing is lost")
				r.stop(t)
			})
		})
	}
}

// An observer hangs in the goroutine that records outcomes, or in those of the attempts.
func TestAnotherInstanceTakesOverFromOneThatDoesNotMove(t *testing.T) {
	t.Parallel()
	for name, status := range map[string]int{"after an attempt": 200, "after a death": 410} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				moves := make(hangingObserver)
				r := newTestRig(t, func(o *engine.Options, _ *testQueue, s *fakeSender) {
					o.Observer = moves
					s.answer = func(_ context.Context, c d.Call) d.Answer { return d.Answer{Status: status} }
				})
				r.queue.fill(1)
				r.start(t)
				pass(20 * time.Second)
				r.queue.fill(20)
				r.Note()
				o := newTestOptions(t, r.log)
				o.Instance = "there"
				sender := &fakeSender{}
				there := rig{instance: newTestInstance(t, connect(t, r.queue, o.MaxInFlight), sender, o), queue: r.queue, log: r.log}
				there.start(t)
				pass(stillness + 10*time.Second)
				require.Contains(t, r.log.String(), "instance=here")
				_, ready, leased := r.queue.places()
				require.Zero(t, ready+leased, "all are delivered")
				close(moves)
				pass(time.Minute)
				require.NoError(t, r.Alive())
				require.Equal(t, "here-2", r.Name())
				there.stop(t)
				r.stop(t)
			})
		})
	}
}

// None of these is stuck, however long it lasts.
func TestWhoHasNothingToMoveIsAlive(t *testing.T) {
	t.Parallel()
	hangs := func(call string) func(*engine.Options, *testQueue, *fakeSender) {
		return func(_ *engine.Options, q *testQueue, _ *fakeSender) { q.hangs = call }
	}
	for name, change := range map[string]func(*engine.Options, *testQueue, *fakeSender){
		"an idle one":           nil,
		"one that only accepts": func(o *engine.Options, _ *testQueue, _ *fakeSender) { o.MaxInFlight = 0 },
		"one with slow receivers": func(o *engine.Options, _ *testQueue, s *fakeSender) {
			o.Timeout, s.answer = time.Hour, takes(time.Hour)
		},
		"settles get no answer":   hangs("settle"),
		"claims get no answer":    hangs("claim"),
		"moves get no answer":     hangs("move"),
		"polls get no answer":     hangs("peek"),
		"schedules get no answer": hangs("schedule"),
		"takeovers get no answer": hangs("reap gone"),
		"beats get no answer":     hangs("beat"),
		"the store is unreachable": func(_ *engine.Options, q *testQueue, _ *fakeSender) {
			q.hook = func(string) error { return d.ErrUnavailable }
		},
		"the store is read-only": func(_ *engine.Options, q *testQueue, _ *fakeSender) {
			q.hook = func(string) error { return d.ErrReadOnly }
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newTestRig(t, change)
				r.queue.other("gone", 7)
				r.queue.later("u_1", "later", time.Second)
				r.queue.fill(5)
				r.start(t)
				go func() { _, _ = r.Publish(t.Context(), messages("m", 1)) }()
				for range 60 {
					pass(10 * time.Second)
					require.NoError(t, r.Alive())
				}
				require.NotContains(t, r.log.String(), "stuck")
				r.cancel()
				<-r.ended
			})
		})
	}
}
