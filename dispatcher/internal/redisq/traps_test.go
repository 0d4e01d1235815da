package redisq_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// Tests of the faults that other delay queues on Redis had.

// trap is a store with a clock of its own, on a Redis of its own.
type trap struct {
	testing.TB
	store   *redisqtest.Raw
	fixture redisqtest.Fixture
	now     time.Time
}

func newTrap(t testing.TB) *trap {
	t.Helper()
	f := newTestStores(redistest.Start(t))(t, redisqtest.Setup{Partitions: 1, LaneMaxInFlight: 128, Permits: 1024})
	r := &trap{TB: t, fixture: f, store: f.Queue}
	r.setClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	for _, name := range []string{"one", "two"} {
		_, _, err := r.store.Beat(t.Context(), name, 1)
		require.NoError(t, err)
	}
	return r
}

func (r *trap) setClock(now time.Time) {
	r.now = now
	r.fixture.SetClock(now)
}

// entry is a message to one lane, due after a delay.
func (r *trap) entry(lane dispatcher.Lane, id string, delay time.Duration) dispatcher.Entry {
	m := &dispatcher.Message{ID: id, Topic: "a.b", Body: []byte("{}"), Delay: delay, CreatedAt: r.now}
	return dispatcher.Entry{Message: m, Digest: m.Digest(), Lanes: []dispatcher.Lane{lane}}
}

func (r *trap) schedule(batch ...dispatcher.Entry) []dispatcher.ScheduleResult {
	r.Helper()
	got, _, err := r.store.Schedule(r.Context(), "one", 0, 0, batch)
	require.NoError(r, err)
	for _, s := range got {
		require.NoError(r, s.Err)
	}
	return got
}

func (r *trap) move() redisqtest.Hint {
	r.Helper()
	_, hints, err := r.store.Move(r.Context(), "one", []int{0})
	require.NoError(r, err)
	return hints[0]
}

func (r *trap) claim(by string, wanted int) []dispatcher.Claimed {
	r.Helper()
	got, _, err := r.store.Claim(r.Context(), by, []int{0}, wanted, 512)
	require.NoError(r, err)
	return got
}

func (r *trap) settle(by string, batch ...dispatcher.Settlement) []dispatcher.SettleResult {
	r.Helper()
	got, _, err := r.store.Settle(r.Context(), by, batch)
	require.NoError(r, err)
	return got
}

func (r *trap) trim() {
	r.Helper()
	for more := true; more; {
		got, err := r.store.Trim(r.Context(), "one", []int{0}, dispatcher.Keep{}, false)
		require.NoError(r, err)
		more = got.More
	}
}

func (r *trap) state() redisqtest.State { return r.fixture.States()[0] }

func (r *trap) mustBeSound() {
	r.Helper()
	require.Empty(r, r.state().Faults(redisqtest.Setup{Partitions: 1, LaneMaxInFlight: 128, Permits: 1024}))
}

// ended is an outcome of a claim.
func ended(c dispatcher.Claimed, v dispatcher.Verdict) dispatcher.Settlement {
	wait := time.Hour
	if v == dispatcher.Back {
		wait = 0 // it is ready again, and does not wait for a key
	}
	return dispatcher.Settlement{
		ID: c.ID, Verdict: v, Wait: wait, Due: c.Due, First: c.Attempt == 1, Reason: dispatcher.ReasonGone,
		Attempt: dispatcher.Attempt{Number: c.Attempt, At: c.Due, Status: 500, Verdict: v, Duration: time.Millisecond},
	}
}

// A clock that went back lets the mover read the expiry of a delivery too early. The delivery
// still expires at its time.
func TestAnExpiryThatIsReadTooEarlyIsKept(t *testing.T) {
	r := newTrap(t)
	_, _, err := r.store.Limit(t.Context(), "one", "a", dispatcher.LaneLimits{Mode: dispatcher.LanePaused}, false)
	require.NoError(t, err)
	e := r.entry("a", "m1", 0)
	e.Message.ExpiresAt = r.now.Add(time.Minute)
	r.schedule(e)
	key := r.store.Conn().Tag(0) + keys.Expiring
	require.NoError(t, r.store.Client().ZAdd(t.Context(), key, redis.Z{Score: float64(r.now.UnixMilli()), Member: "a:m1"}).Err())
	require.NoError(t, r.store.Client().ZAdd(t.Context(), r.store.Conn().Tag(0)+keys.Parked, redis.Z{Score: 1, Member: "~expiring"}).Err())
	r.move()
	require.Equal(t, redisqtest.PlaceReady, r.state().At(dispatcher.DeliveryID{Lane: "a", Message: "m1"}).Place)
	r.setClock(e.Message.ExpiresAt)
	r.move()
	require.Equal(t, redisqtest.PlaceDead, r.state().At(dispatcher.DeliveryID{Lane: "a", Message: "m1"}).Place)
}

// A due time that no clock gives is due. Each hint reports it, so that no instance rests.
func TestATimeBelowAllTimesIsReportedAsDue(t *testing.T) {
	r := newTrap(t)
	r.schedule(r.entry("a", "m1", time.Hour))
	due := r.store.Conn().Tag(0) + keys.Due
	for _, score := range []float64{0, -5} {
		require.NoError(t, r.store.Client().ZAdd(t.Context(), due, redis.Z{Score: score, Member: "a:m1"}).Err())
		_, hints, err := r.store.Claim(t.Context(), "one", []int{0}, 8, 512)
		require.NoError(t, err)
		require.Equal(t, time.UnixMilli(1).UTC(), hints[0].Due.UTC())
	}
	r.move()
	require.Len(t, r.claim("one", 8), 1)
}

// A record that was deleted by hand must stop no script, whatever place its
// delivery was in. The others of its batch go on.
func TestALostRecordStopsNothing(t *testing.T) {
	for name, bring := range map[string]func(r *trap){
		"due":   func(r *trap) { r.schedule(r.entry("a", "lost", time.Minute)) },
		"ready": func(r *trap) { r.schedule(r.entry("a", "lost", 0)) },
		"leased": func(r *trap) {
			r.schedule(r.entry("a", "lost", 0))
			require.Len(r, r.claim("one", 8), 1)
		},
		"retrying": func(r *trap) {
			r.schedule(r.entry("a", "lost", 0))
			r.settle("one", ended(r.claim("one", 8)[0], dispatcher.Retry))
		},
		"behind": func(r *trap) {
			first, lost := r.entry("a", "first", 0), r.entry("a", "lost", 0)
			first.Message.OrderingKey, lost.Message.OrderingKey = "k", "k"
			r.schedule(first, lost)
			r.settle("one", ended(r.claim("one", 8)[0], dispatcher.Back))
		},
		"marked": func(r *trap) {
			r.schedule(r.entry("a", "lost", 0))
			_, _, err := r.store.Cancel(r.Context(), "one", []dispatcher.DeliveryID{{Lane: "a", Message: "lost"}})
			require.NoError(r, err)
		},
		"done": func(r *trap) {
			r.schedule(r.entry("a", "lost", 0))
			r.settle("one", ended(r.claim("one", 8)[0], dispatcher.Delivered))
		},
		"dead": func(r *trap) {
			r.schedule(r.entry("a", "lost", 0))
			r.settle("one", ended(r.claim("one", 8)[0], dispatcher.Dead))
		},
		"one lane of a fan-out": func(r *trap) {
			fan := r.entry("a", "lost", 0)
			fan.Lanes, fan.Fan = []dispatcher.Lane{"a", "b", "c"}, true
			r.schedule(fan)
			r.settle("one", ended(r.claim("one", 1)[0], dispatcher.Retry))
			r.claim("one", 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTrap(t)
			bring(r)
			r.fixture.Lose("lost")
			r.schedule(r.entry("a", "good1", 0), r.entry("a", "good2", time.Minute))
			r.goOn()
			state := r.state()
			for _, lane := range state.Lanes {
				require.Zero(t, lane.InFlight+lane.Waiting)
			}
			state.Lanes, state.Fenced, state.Reported, state.Now, state.Ends = nil, nil, nil, 0, nil
			want := redisqtest.NewState()
			want.Lanes, want.Reported, want.Ends = nil, nil, nil // the counts of ends stay
			require.Equal(t, want.String(), state.String(), "nothing is left of it")
		})
	}
}

// goOn makes all calls that may find a lost record, until the others are
// delivered and forgotten.
func (r *trap) goOn() {
	r.Helper()
	ctx, lost := r.Context(), dispatcher.DeliveryID{Lane: "a", Message: "lost"}
	_, err := r.store.Read(ctx, "lost")
	require.ErrorIs(r, err, dispatcher.ErrNotFound)
	_, err = r.store.List(ctx, dispatcher.Filter{Limit: 100})
	require.NoError(r, err)
	_, _, err = r.store.Cancel(ctx, "two", []dispatcher.DeliveryID{lost, {Lane: "a", Message: "never"}})
	require.NoError(r, err)
	_, _, err = r.store.Retry(ctx, "two", []dispatcher.DeliveryID{lost}, true)
	require.NoError(r, err)
	late := dispatcher.Claimed{ID: lost, Attempt: 1}
	r.settle("two", ended(late, dispatcher.Delivered), ended(late, dispatcher.Retry))
	_, _, err = r.store.Reap(ctx, "two", "one")
	require.NoError(r, err)
	var delivered []string
	for range 4 {
		r.setClock(r.now.Add(2 * time.Hour))
		r.move()
		for _, c := range r.claim("two", 8) {
			delivered = append(delivered, c.ID.Message)
			require.Equal(r, []dispatcher.SettleResult{dispatcher.SettledOK}, r.settle("two", ended(c, dispatcher.Delivered)))
		}
	}
	delivered = slices.DeleteFunc(delivered, func(id string) bool { return id == "first" })
	require.Equal(r, []string{"good1", "good2"}, delivered)
	r.trim()
}

// Nothing that waits or is under way expires by itself: neither a lease nor a
// record, however long the backlog is.
func TestABacklogMayBeLongerThanAnyLease(t *testing.T) {
	r := newTrap(t)
	for n := range 300 {
		r.schedule(r.entry("a", fmt.Sprintf("m%03d", n), 0))
	}
	claimed := r.claim("one", 2)
	require.Len(t, claimed, 2)
	for range 12 {
		r.setClock(r.now.Add(30 * 24 * time.Hour))
		r.move()
		require.Empty(t, r.claim("two", 8), "the lane's window is full: nobody takes over from who lives")
		r.trim()
	}
	keys, err := r.store.Client().Keys(t.Context(), "*").Result()
	require.NoError(t, err)
	require.Greater(t, len(keys), 5)
	for _, key := range keys {
		ttl, err := r.store.Client().TTL(t.Context(), key).Result()
		require.NoError(t, err)
		require.Equal(t, time.Duration(-1), ttl, "%s", key)
	}
	delivered := 0
	for len(claimed) > 0 {
		for _, c := range claimed {
			require.Equal(t, fmt.Sprintf("m%03d", delivered), c.ID.Message)
			require.Equal(t, []dispatcher.SettleResult{dispatcher.SettledOK}, r.settle("one", ended(c, dispatcher.Delivered)))
			delivered++
			r.setClock(r.now.Add(time.Hour))
		}
		claimed = r.claim("one", 4)
	}
	require.Equal(t, 300, delivered)
	r.mustBeSound()
}

// Two messages of one ms are two messages. With an ordering key they go in the
// order in which they came, whatever their names, and also if the clock goes
// back.
func TestManyMessagesInOneMillisecondAreAllKept(t *testing.T) {
	r := newTrap(t)
	var want []string
	for n := 9; n >= 0; n-- {
		id := fmt.Sprintf("m%d", n)
		want = append(want, id)
		e := r.entry("a", id, time.Second)
		e.Message.OrderingKey = "k"
		r.schedule(e, r.entry("b", "x"+id, time.Second))
		if n == 5 {
			r.setClock(r.now.Add(-time.Hour))
		}
	}
	r.setClock(r.now.Add(2 * time.Hour))
	r.move()
	var got []string
	for range 30 {
		for _, c := range r.claim("one", 8) {
			r.settle("one", ended(c, dispatcher.Delivered))
			if c.ID.Lane == "a" {
				got = append(got, c.ID.Message)
			}
		}
	}
	require.Equal(t, want, got)
	require.Equal(t, map[dispatcher.Status]int64{dispatcher.StatusDelivered: 20}, r.state().Counts)
	r.mustBeSound()
}

// The clocks of callers and instances decide nothing. Due times are counted by
// the clock of Redis.
func TestASkewedHostMakesNothingEarlyOrLate(t *testing.T) {
	r := newTrap(t)
	for i, skew := range []time.Duration{-time.Hour, time.Hour, -365 * 24 * time.Hour} {
		e := r.entry("a", fmt.Sprintf("m%d", i), 10*time.Second)
		e.Message.CreatedAt = r.now.Add(skew)
		require.Equal(t, r.now.Add(10*time.Second), r.schedule(e)[0].Placed[0].Due.UTC())
	}
	r.setClock(r.now.Add(10*time.Second - time.Microsecond))
	require.Equal(t, -1, r.move().Weight)
	require.Empty(t, r.claim("one", 8))
	r.setClock(r.now.Add(time.Microsecond))
	r.move()
	require.Len(t, r.claim("one", 2), 2)
	r.mustBeSound()
}

// Messages that come while others are made ready are neither lost nor made
// twice, since a move is one script.
func TestPublishingDuringMovesLosesNothing(t *testing.T) {
	const publishers, each = 3, 150
	ctx := t.Context()
	store := openTestStore(t, redisq.Options{
		URL: redisqtest.PatientURL(redistest.Start(t)), Project: "moves", Partitions: 2, LaneMaxInFlight: 128, Permits: 1024,
		Log: slog.New(slog.DiscardHandler),
	})
	var all errgroup.Group
	for p := range publishers {
		all.Go(func() error {
			for n := range each {
				m := &dispatcher.Message{
					ID: fmt.Sprintf("p%d-%d", p, n), Topic: "a.b", Body: []byte("{}"),
					Delay: time.Duration(n%4) * time.Millisecond, CreatedAt: time.Now(),
				}
				e := dispatcher.Entry{Message: m, Digest: m.Digest(), Lanes: []dispatcher.Lane{laneOf(n % 5)}}
				got, _, err := store.Schedule(ctx, "one", 0, 0, []dispatcher.Entry{e})
				if err != nil || got[0].Err != nil || got[0].Result != dispatcher.Accepted {
					return fmt.Errorf("schedule %s: %w, %+v", m.ID, err, got[0])
				}
			}
			return nil
		})
	}
	seen := make(chan string, publishers*each*2)
	for _, by := range []string{"one", "two"} {
		all.Go(func() error { return deliverUntil(ctx, store, by, publishers*each, seen) })
	}
	require.NoError(t, all.Wait())
	close(seen)
	times := map[string]int{}
	for id := range seen {
		times[id]++
		require.Equal(t, 1, times[id], "%s", id)
	}
	require.Len(t, times, publishers*each)
}

// deliverUntil moves, claims and settles until so many are delivered, by all
// together.
func deliverUntil(ctx context.Context, store *redisqtest.Raw, by string, n int, seen chan<- string) error {
	for {
		if _, _, err := store.Move(ctx, by, []int{0, 1}); err != nil {
			return fmt.Errorf("move: %w", err)
		}
		claimed, _, err := store.Claim(ctx, by, []int{0, 1}, 16, 512)
		if err != nil {
			return fmt.Errorf("claim: %w", err)
		}
		batch := make([]dispatcher.Settlement, len(claimed))
		for i, c := range claimed {
			seen <- c.ID.Message
			batch[i] = ended(c, dispatcher.Delivered)
		}
		if _, _, err := store.Settle(ctx, by, batch); err != nil {
			return fmt.Errorf("settle: %w", err)
		}
		stats, err := store.Stats(ctx)
		if err != nil || stats.Counts[dispatcher.StatusDelivered] >= int64(n) {
			return err
		}
	}
}
