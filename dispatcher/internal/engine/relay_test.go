package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/engine"
)

func TestWhatIsCommittedIsRelayed(t *testing.T) {
	r := relaying(t, func(r *relayRig) {
		r.engine.known["again"] = true
		r.engine.refuses["conflict"] = 409
		for _, id := range []string{"a", "again", "conflict", "b"} {
			r.outbox.put(id, map[string]any{"url": "https://a"})
		}
		r.outbox.put("stranger", map[string]any{"tenant": "unmatched"})
		r.outbox.put("bad", map[string]any{"bad": "x"})
	}, time.Second/2, none)
	require.Equal(t, []string{"a", "b", "stranger"}, r.engine.taken)
	require.Len(t, r.engine.batches, 1, "one call for all")
	require.Equal(t, map[string]string{"conflict": "conflict", "bad": "bad"}, r.outbox.rejected)
	require.Empty(t, r.left())
	require.Equal(t, map[string]int64{"accepted": 2, "duplicate": 1, "rejected": 2, "unmatched": 1, "waits": 0}, r.relay.Relayed())
	require.False(t, r.relay.Busy())
	require.Contains(t, r.log.String(), "rows of the outbox were rejected")
}

func TestRowsWithAnyNumberAreRelayed(t *testing.T) {
	r := relaying(t, func(r *relayRig) {
		for n, id := range []string{"zero", "negative", "largest"} {
			r.outbox.put(id, map[string]any{"url": "https://a"})
			r.outbox.rows[n].Seq = []int64{0, -1, math.MaxInt64}[n]
		}
	}, time.Second/2, none)
	require.ElementsMatch(t, []string{"zero", "negative", "largest"}, r.engine.taken)
	require.Empty(t, r.left())
}

func TestItSleepsAndIsWoken(t *testing.T) {
	var began time.Time
	r := relaying(t, none, 10*time.Second, func(r *relayRig) {
		require.True(t, r.outbox.asleep)
		began = time.Now()
		r.engine.during = func([]string) { require.Equal(t, began, time.Now(), "at once") }
		r.outbox.put("a", map[string]any{})
		r.pass(0)
		require.True(t, r.outbox.asleep, "one is not worth two writes")
		for n := range 20 {
			r.outbox.rows = append(r.outbox.rows, &fakeRow{OutboxRow: dispatcher.OutboxRow{Seq: int64(n + 9), ID: fmt.Sprint(n), Message: []byte(`{}`), Body: []byte(`1`)}, at: began})
		}
		r.outbox.notified <- struct{}{}
		r.pass(0)
		require.False(t, r.outbox.asleep, "callers that are so many need not notify")
		r.pass(time.Second)
		require.True(t, r.outbox.asleep)
	})
	require.Len(t, r.engine.taken, 21)
}

// A caller that published before the relay slept did not notify.
func TestItLooksOnceMoreBeforeItSleeps(t *testing.T) {
	r := relaying(t, func(r *relayRig) {}, 10*time.Second, func(r *relayRig) {
		r.outbox.asleep = false // as if others had woken it
		r.pass(1030 * time.Millisecond)
		require.True(t, r.outbox.asleep)
	})
	require.Empty(t, r.engine.taken)

	began := time.Time{}
	r = relaying(t, func(r *relayRig) {
		began = time.Now()
		slept := r.outbox
		r.engine.during = func([]string) { require.Less(t, time.Since(began), 100*time.Millisecond) }
		r.relay = engine.NewRelay(engine.RelayOptions{
			Outbox: &racing{slept}, Read: read, Publish: r.engine.Publish, Judge: judge, Retention: time.Hour, Log: slog.New(slog.DiscardHandler),
		})
	}, 500*time.Millisecond, none)
	require.Equal(t, []string{"raced"}, r.engine.taken)
}

// racing is an outbox into which a caller commits right before the relay sleeps.
type racing struct{ *fakeOutbox }

func (r *racing) Sleep(ctx context.Context) error {
	r.put("raced", map[string]any{}) // without a word
	return r.fakeOutbox.Sleep(ctx)
}

func TestAStoreThatIsAwayIsWaitedFor(t *testing.T) {
	r := relaying(t, func(r *relayRig) {
		r.engine.away = true
		for n := range 3 {
			r.outbox.put(fmt.Sprint(n), map[string]any{"ordering_key": "k"})
		}
	}, 120*time.Millisecond, func(r *relayRig) {
		require.Len(t, r.left(), 3)
		r.engine.away = false
		r.pass(300 * time.Millisecond)
		require.Empty(t, r.left(), "a short outage puts nothing off")
	})
	require.Equal(t, []string{"0", "1", "2"}, r.engine.taken)
	for _, ids := range r.engine.batches {
		require.Len(t, ids, 1)
	}
	require.NotContains(t, r.log.String(), "level=ERROR", "the engine tells of its store")
}

// One part of the store is away for long: what is for the others goes on, though more rows
// wait for it than a batch has.
func TestOneLostPartOfTheStoreHoldsUpNoOther(t *testing.T) {
	r := relaying(t, func(r *relayRig) {
		for n := range 1200 {
			id := fmt.Sprint("lost", n)
			r.engine.refuses[id] = 503
			r.outbox.put(id, map[string]any{"ordering_key": fmt.Sprint("k", n%700)})
		}
		r.outbox.put("good", map[string]any{})
	}, 20*time.Second, func(r *relayRig) {
		require.Equal(t, []string{"good"}, r.engine.taken)
		clear(r.engine.refuses)
		r.pass(2 * time.Minute)
	})
	require.Empty(t, r.left())
	require.Len(t, r.engine.taken, 1201)
	require.Less(t, slices.Index(r.engine.taken, "lost3"), slices.Index(r.engine.taken, "lost703"), "and keys keep their order")
}

// What the database refuses is found by halves, and is put off alone.
func TestABatchThatIsRefusedGoesInHalves(t *testing.T) {
	r := relaying(t, func(r *relayRig) {
		for n := range 100 {
			r.outbox.put(fmt.Sprint(n), map[string]any{})
		}
		r.outbox.refuses = func(fates []dispatcher.RowFate) bool {
			return slices.ContainsFunc(fates, func(f dispatcher.RowFate) bool { return f.Seq == 42 && f.Result != dispatcher.RowWaits })
		}
	}, 30*time.Second, none)
	require.Equal(t, []string{"41"}, r.left())
	require.Len(t, r.engine.taken, 100)
	require.Contains(t, r.log.String(), "bad data")
}

func TestAnotherRelayIsLeftAtWork(t *testing.T) {
	r := relaying(t, func(r *relayRig) {
		r.outbox.busy = true
		r.outbox.put("a", map[string]any{})
	}, time.Minute, func(r *relayRig) {
		require.Empty(t, r.engine.taken)
		_, up := r.relay.Lag()
		require.True(t, up)
		r.outbox.busy = false // it died
		r.pass(2 * time.Second)
	})
	require.Equal(t, []string{"a"}, r.engine.taken)
	require.Empty(t, r.log.String())
}

func TestALostOutboxIsToldOnce(t *testing.T) {
	for why, says := range map[error]string{
		errors.New("connection refused"): "outbox lost",
		dispatcher.ErrOutboxMissing:      "the database of OUTBOX_URL has no outbox",
	} {
		r := relaying(t, func(r *relayRig) { r.outbox.err = why }, time.Minute, func(r *relayRig) {
			_, up := r.relay.Lag()
			require.False(t, up)
			require.False(t, r.relay.Busy(), "a tick does not wait for it")
			r.outbox.put("a", map[string]any{})
			r.outbox.err = nil
			r.pass(3 * time.Second)
			_, up = r.relay.Lag()
			require.True(t, up)
		})
		require.Equal(t, []string{"a"}, r.engine.taken)
		require.Equal(t, 1, strings.Count(r.log.String(), says))
		require.Equal(t, 1, strings.Count(r.log.String(), "level=ERROR"))
		require.Contains(t, r.log.String(), "level=INFO", "and that it is back")
	}
}

// The database refuses listening, as some poolers do: it is looked each second.
func TestWithoutNotificationsItPolls(t *testing.T) {
	r := relaying(t, func(r *relayRig) {
		r.relay = engine.NewRelay(engine.RelayOptions{
			Outbox: deaf{r.outbox}, Read: read, Publish: r.engine.Publish, Judge: judge, Retention: time.Hour, Log: slog.New(slog.DiscardHandler),
		})
	}, time.Minute, func(r *relayRig) {
		r.outbox.put("a", map[string]any{})
		r.pass(time.Second)
	})
	require.Equal(t, []string{"a"}, r.engine.taken)
}

type deaf struct{ *fakeOutbox }

func (deaf) Wait(context.Context, time.Duration) error { return errors.New("not here") }

func TestTheBatchUnderWayEndsBeforeTheStop(t *testing.T) {
	r := relaying(t, func(r *relayRig) {
		r.outbox.put("a", map[string]any{})
		r.engine.during = func([]string) { time.Sleep(3 * time.Second) }
	}, time.Second, nil)
	require.Equal(t, []string{"a"}, r.engine.taken)
	require.Empty(t, r.left())
}

func TestFiguresAndWarnings(t *testing.T) {
	r := relaying(t, func(r *relayRig) {
		r.outbox.oldestAge = 1_000_000
		r.engine.refuses["full"] = 429
		r.outbox.put("full", map[string]any{})
		r.outbox.rows[0].at = time.Now().Add(-48 * time.Hour)
	}, 10*time.Minute, func(r *relayRig) {
		oldest, up := r.relay.Lag()
		require.True(t, up)
		require.InDelta(t, (48*time.Hour + 10*time.Minute).Seconds(), oldest.Seconds(), 2)
	})
	log := r.log.String()
	require.Contains(t, log, "older than RETENTION")
	require.Contains(t, log, "transactions=1000000 pid=7")
	require.LessOrEqual(t, strings.Count(log, "was left open"), 3, "not at each look")
	require.Equal(t, []string{"accepted", "duplicate", "rejected", "unmatched", "waits"}, slices.Sorted(maps.Keys(r.relay.Relayed())))
	var no *engine.Relay
	require.NoError(t, no.Run(t.Context()))
	require.False(t, no.Busy())
}
