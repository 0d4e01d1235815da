package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// accepted publishes through an instance that accepts only, and has stopped when this
// returns.
func (w *world) accepted(messages ...wire.Message) {
	w.t.Helper()
	i := w.serve("MAX_IN_FLIGHT=0")
	for _, m := range messages {
		i.publish(m)
	}
	require.Zero(w.t, i.stop())
}

// tick runs hookladder tick to its end, with more settings.
func (w *world) tick(settings ...string) wire.Tick {
	w.t.Helper()
	r := mustRun(w.t.(*testing.T), w.ticks(settings...), "", "tick", "--json")
	require.Zero(w.t, r.code, r.err)
	var t wire.Tick
	require.NoError(w.t, json.Unmarshal([]byte(r.out), &t), r.out)
	return t
}

// ticks is the environment of hookladder tick.
func (w *world) ticks(settings ...string) []string {
	return kit.Environ("", w.secret, slices.Concat(w.settings, settings)...)
}

// A scheduler of the test's own: it ticks again and again, and nothing runs in between. Each
// rung is climbed by the first tick after its time.
func TestTicksAloneClimbEveryRung(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.settings = append(w.settings, "LADDER=300ms,1s,300ms")
	w.receiver.answers(func(rw http.ResponseWriter, _ *http.Request, id string, n int) {
		if id == "never" || n < 3 {
			rw.WriteHeader(http.StatusInternalServerError)
		}
	})
	w.accepted(
		wire.Message{ID: "third", URL: w.receiver.URL(1)}, wire.Message{ID: "never", URL: w.receiver.URL(2)},
		wire.Message{ID: "later", URL: w.receiver.URL(3), Delay: wire.Duration(2 * time.Second)},
	)
	var sum wire.Tick
	for sum.NextDueAt = new(wire.Time); sum.NextDueAt != nil; {
		kit.Rest(t.Context(), time.Until(sum.NextDueAt.Time)) // as a scheduler does
		due, before := sum.NextDueAt.Time, w.times()
		one := w.tick()
		require.NotEmpty(t, w.since(before), "what was due at %s was attempted at once", due)
		for _, at := range w.since(before) {
			require.False(t, at.Before(due), "never early")
		}
		require.Equal(t, one.Attempted, len(w.since(before)))
		if one.NextDueAt != nil {
			require.True(t, one.NextDueAt.After(due))
		}
		sum.Attempted, sum.Delivered, sum.Dead = sum.Attempted+one.Attempted, sum.Delivered+one.Delivered, sum.Dead+one.Dead
		sum.NextDueAt = one.NextDueAt
		require.Empty(t, w.names(), "nothing is left running")
	}
	require.Equal(t, wire.Tick{Attempted: 3 + 4 + 3, Delivered: 2, Dead: 1}, sum)
	for id, want := range map[string]int{"third": 3, "never": 4, "later": 3} {
		require.Len(t, w.receiver.arrivals(id), want, id)
	}
	require.Equal(t, wire.Tick{}, w.tick())
}

// times are how many callbacks came of each message.
func (w *world) times() map[string]int {
	w.receiver.mu.Lock()
	defer w.receiver.mu.Unlock()
	counts := map[string]int{}
	for id, list := range w.receiver.got {
		counts[id] = len(list)
	}
	return counts
}

// since are the times of those that came since then.
func (w *world) since(before map[string]int) (all []time.Time) {
	w.receiver.mu.Lock()
	defer w.receiver.mu.Unlock()
	for id, list := range w.receiver.got {
		for _, a := range list[before[id]:] {
			all = append(all, a.at)
		}
	}
	return all
}

// What a tick had in hand when it was killed is finished by the next ones, though none of them
// stays longer than it has to, and nothing runs in between.
func TestATickThatIsKilledLosesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := newBarrier()
	w.receiver.answers(func(_ http.ResponseWriter, r *http.Request, id string, n int) {
		if strings.HasPrefix(id, "held") && n == 1 {
			h.wait(r)
		}
	})
	var messages []wire.Message
	for n, id := range named("held", 5) {
		messages = append(messages, wire.Message{ID: id, URL: w.receiver.URL(n + 1)})
	}
	w.accepted(messages...)
	p, err := kit.Start(kit.Command{Name: "hookladder tick", Path: w.binary, Args: []string{"tick"}, Env: w.ticks("ATTEMPT_TIMEOUT=60s")})
	require.NoError(t, err)
	w.receiver.waitAll(named("held", 5)...)
	p.Kill()
	close(h.release)

	require.Equal(t, wire.Tick{Attempted: 5, Delivered: 5}, w.tick("ATTEMPT_TIMEOUT=60s"))
	for _, id := range named("held", 5) {
		require.Len(t, w.receiver.arrivals(id), 2, id)
	}
	require.Empty(t, w.names())
	require.Equal(t, []string{"delivered"}, w.rdb.HKeys(t.Context(), "{default:0}:counts").Val())
}

// Several ticks at once share the work, beside an instance that serves.
func TestSeveralTicksAtOnceShareTheWork(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.serve("MAX_IN_FLIGHT=0")
	for n := range 200 {
		i.publish(wire.Message{ID: fmt.Sprint("m", n), URL: w.receiver.URL(n % 7)})
	}
	var ticks []*kit.Process
	for range 3 {
		p, err := kit.Start(kit.Command{Name: "hookladder tick", Path: w.binary, Args: []string{"tick", "--json"}, Env: w.ticks()})
		require.NoError(t, err)
		ticks = append(ticks, p)
	}
	for _, p := range ticks {
		require.Zero(t, p.ExitCode(), p.Output.Tail())
	}
	i.counts("all are delivered", func(s wire.Stats) bool { return s.Counts["delivered"] == 200 })
	w.receiver.once()
	distinct, _ := w.receiver.ids()
	require.Equal(t, 200, distinct)
	res, body := i.call(http.MethodPost, "/v1/tick", "", nil)
	require.Equal(t, http.StatusConflict, res.StatusCode, body)
}

// A process that stood still, as on a platform that freezes it between requests, works at the
// first tick, though another took it for dead meanwhile.
func TestAFrozenInstanceWorksAtItsNextTick(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	frozen := w.serve("GUARD_INTERVAL=1h")
	frozen.troubled = true // a call to Redis that was frozen too has timed out afterwards
	require.NoError(t, frozen.Signal(syscall.SIGSTOP))
	w.accepted(wire.Message{ID: "a", URL: w.receiver.URL(1), Delay: hour}) // it says that it is there
	w.makeDue(0)
	require.Equal(t, wire.Tick{Attempted: 1, Delivered: 1}, w.tick("MAX_IN_FLIGHT=1"))
	other := w.serve("MAX_IN_FLIGHT=0")
	eventually(t, "it is taken for dead", func() bool { // by this instance, or by the tick if that was slow
		s, err := other.Stats(t.Context())
		return err == nil && s.Instances == 1
	})
	other.publish(wire.Message{ID: "b", URL: w.receiver.URL(1), Delay: hour})
	require.Zero(t, other.stop())
	w.makeDue(0)
	require.NoError(t, frozen.Signal(syscall.SIGCONT))
	_, err := frozen.Tick(t.Context(), time.Minute)
	require.NoError(t, err)
	require.Len(t, w.receiver.arrivals("b"), 1)
}
