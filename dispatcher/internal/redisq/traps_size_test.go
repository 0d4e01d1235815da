package redisq_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// calls counts the commands that Redis has run, those in scripts included.
func (r *trap) calls() (n int) {
	r.Helper()
	text, err := r.store.Client().Info(r.Context(), "commandstats").Result()
	require.NoError(r, err)
	for _, line := range strings.Split(text, "\n") {
		_, rest, ok := strings.Cut(line, ":calls=")
		if !ok || strings.HasPrefix(line, "cmdstat_info") {
			continue
		}
		number, _, _ := strings.Cut(rest, ",")
		count, err := strconv.Atoi(number)
		require.NoError(r, err)
		n += count
	}
	return n
}

// fill makes n messages of a hundred lanes due, one after another, so that each
// batch has all lanes.
func (r *trap) fill(n int) {
	r.Helper()
	batch := make([]dispatcher.Entry, 0, 2048)
	for i := range n {
		e := r.entry(laneOf(i%100), fmt.Sprintf("m%07d", i), 0)
		e.Message.DeliverAt = r.now.Add(time.Duration(i) * time.Millisecond).Add(time.Hour)
		if batch = append(batch, e); len(batch) == cap(batch) || i == n-1 {
			r.schedule(batch...)
			batch = batch[:0]
		}
	}
	r.setClock(r.now.Add(24 * time.Hour))
}

// However much is due at once, each call does one batch, with the same work as
// if nothing else were due.
func TestNoCallDoesMoreThanItsBatchHoweverMuchIsDue(t *testing.T) {
	costs := map[int][]int{}
	for _, n := range []int{1000, 20_000} {
		r := newTrap(t)
		r.fill(n)
		cost := func(act func()) {
			before := r.calls()
			act()
			costs[n] = append(costs[n], r.calls()-before)
		}
		cost(func() { r.move() })
		require.Equal(t, int64(128), r.state().Counts[dispatcher.StatusReady])
		var claimed []dispatcher.Claimed
		cost(func() { claimed = r.claim("one", 64) })
		require.Len(t, claimed, 64)
		var batch []dispatcher.Settlement
		for _, c := range claimed[:32] {
			batch = append(batch, ended(c, dispatcher.Delivered))
		}
		cost(func() { r.settle("one", batch...) })
		cost(func() {
			taken, _, err := r.store.Reap(t.Context(), "two", "one")
			require.NoError(t, err)
			require.Equal(t, 32, taken)
		})
		var ids []dispatcher.DeliveryID
		for i := 200; i < 300; i++ {
			ids = append(ids, dispatcher.DeliveryID{Lane: laneOf(i % 100), Message: fmt.Sprintf("m%07d", i)})
		}
		cost(func() {
			changes, _, err := r.store.Cancel(t.Context(), "one", ids)
			require.NoError(t, err)
			require.True(t, changes[99].Changed)
		})
		cost(func() {
			keep := dispatcher.Keep{Finished: time.Hour, FinishedMax: 1000, SeenMax: 1000, Dead: time.Hour, DeadMax: 1000}
			got, err := r.store.Trim(t.Context(), "one", []int{0}, keep, true)
			require.NoError(t, err)
			require.Equal(t, 32, got.Finished, "all of the delivered ones, which are older, and no cancelled one yet")
			got, err = r.store.Trim(t.Context(), "one", []int{0}, keep, true)
			require.NoError(t, err)
			require.Equal(t, 64, got.Finished)
		})
	}
	require.Equal(t, costs[1000], costs[20_000])
	for _, cost := range costs[1000] {
		require.Less(t, cost, 128*5, "each costs a few commands a delivery at most")
	}
}

// A script may unpack some thousand values and take a million. No batch of ours
// reaches either, with any real number of instances.
func TestBatchesFitWithThousandsOfInstances(t *testing.T) {
	r := newTrap(t)
	ctx := t.Context()
	names := map[string]any{}
	for n := range 2000 {
		names[fmt.Sprintf("host-%04d-01JC0000000000000000000001", n)] = 1
	}
	require.NoError(t, r.store.Client().HSet(ctx, instancesKey(t, r), names).Err())

	lanes := make([]dispatcher.Lane, 150)
	for i := range lanes {
		lanes[i] = laneOf(i)
	}
	fan := r.entry("", "fan", time.Hour)
	fan.Lanes, fan.Fan = lanes, true
	require.Equal(t, dispatcher.Accepted, r.schedule(fan)[0].Result)
	ids := make([]dispatcher.DeliveryID, len(lanes))
	for i, lane := range lanes {
		ids[i] = dispatcher.DeliveryID{Lane: lane, Message: "fan"}
	}
	for name, f := range map[string]func() ([]dispatcher.Change, []redisqtest.Hint, error){
		"retry":  func() ([]dispatcher.Change, []redisqtest.Hint, error) { return r.store.Retry(ctx, "one", ids, true) },
		"cancel": func() ([]dispatcher.Change, []redisqtest.Hint, error) { return r.store.Cancel(ctx, "one", ids) },
	} {
		changes, _, err := f()
		require.NoError(t, err, name)
		require.Len(t, changes, len(ids), name)
	}
	rec, err := r.store.Read(ctx, "fan")
	require.NoError(t, err)
	require.Len(t, rec.Deliveries, len(lanes))
	page, err := r.store.List(ctx, dispatcher.Filter{Limit: 500})
	require.NoError(t, err)
	require.NotEmpty(t, page.Deliveries)
	_, all, err := r.store.Beat(ctx, "one", 2)
	require.NoError(t, err)
	require.Len(t, all, 2002)
	r.mustBeSound()
}

func instancesKey(t *testing.T, r *trap) string {
	t.Helper()
	keys, err := r.store.Client().Keys(t.Context(), "*:instances").Result()
	require.NoError(t, err)
	require.Len(t, keys, 1)
	return keys[0]
}

// oddIDs are allowed and look like something else: a number, nothing, the sign
// of a lane that is gone.
var oddIDs = []string{
	"-", "--", "_", "0", "00", "-0", "1e5", "-1", "NaN", "inf", "nil", "false", "__index", "-a", "done",
	strings.Repeat("x", 128), strings.Repeat("-", 128), "01JC0000000000000000000001",
}

// oddLanes are the same for lanes: people name queues.
var oddLanes = []dispatcher.Lane{
	"u_0", "q_1e5", "q_-", "q_--", "q_nil", "q_%d", "q_%1", "q_a.b", "q_a_b", "q_(x)", "ep_-_-_-_-_-", "0123456789abcdef", "q_ümlaut",
}

// Odd names are used as names through the whole life of a delivery.
func TestOddNamesAreNames(t *testing.T) {
	r := newTrap(t)
	ctx := t.Context()
	_, _, err := r.store.Limit(ctx, "one", "ep_-_-_-_-_-", dispatcher.LaneLimits{Version: 1}, false)
	require.NoError(t, err)
	var want []dispatcher.DeliveryID
	for i, id := range oddIDs {
		e := r.entry("", id, time.Second)
		e.Lanes, e.Fan = oddLanes, true
		if i%3 == 0 {
			e.Message.OrderingKey = id
		}
		require.Equal(t, dispatcher.Accepted, r.schedule(e)[0].Result, id)
		require.Equal(t, dispatcher.Duplicate, r.schedule(e)[0].Result, id)
		for _, lane := range oddLanes {
			want = append(want, dispatcher.DeliveryID{Lane: lane, Message: id})
		}
	}
	r.setClock(r.now.Add(time.Second))
	r.mustLive(want, dispatcher.Retry)
	r.setClock(r.now.Add(time.Hour))
	r.mustLive(want, dispatcher.Dead)
	changes, _, err := r.store.Retry(ctx, "one", want, true)
	require.NoError(t, err)
	for _, c := range changes {
		require.True(t, c.Changed, "%s", c.ID)
	}
	r.mustLive(want, dispatcher.Delivered)
	for _, id := range oddIDs {
		rec, err := r.store.Read(ctx, id)
		require.NoError(t, err)
		require.Len(t, rec.Deliveries, len(oddLanes))
		require.Equal(t, 3, rec.Deliveries[0].Attempts, id)
	}
	r.trim()
	require.Empty(t, r.state().Messages)
	require.Empty(t, r.state().Found)
	r.mustBeSound()
}

// mustLive attempts all of these once, with the same outcome.
func (r *trap) mustLive(want []dispatcher.DeliveryID, v dispatcher.Verdict) {
	r.Helper()
	left := map[dispatcher.DeliveryID]bool{}
	var queues []dispatcher.Lane
	for _, id := range want {
		left[id] = true
		if id.Lane.IsQueue() && !slices.Contains(queues, id.Lane) {
			queues = append(queues, id.Lane)
		}
	}
	for range 10 * len(want) {
		if len(left) == 0 {
			break
		}
		r.move()
		taken, _, err := r.store.Take(r.Context(), "one", dispatcher.Take{Lanes: queues, Most: 64, Bytes: 1 << 20})
		require.NoError(r, err)
		for _, c := range append(r.claim("one", 64), taken.Claimed...) {
			require.True(r, left[c.ID], "%s", c.ID)
			delete(left, c.ID)
			s := ended(c, v)
			s.Attempt.Duration = 10 * time.Millisecond
			require.Equal(r, []dispatcher.SettleResult{dispatcher.SettledOK}, r.settle("one", s), "%s", c.ID)
		}
	}
	require.Empty(r, left)
	r.mustBeSound()
}

// A digest is sixteen bytes of any value. Only their equality counts.
func TestDigestsAreBytes(t *testing.T) {
	r := newTrap(t)
	digests := []dispatcher.Digest{
		{}, {0: 1}, {15: 1}, {0: '\n'}, {0: 0xff, 15: 0xff}, {0: ' ', 1: '-', 2: '%'},
	}
	for i, digest := range digests {
		for _, lanes := range [][]dispatcher.Lane{{"a"}, {"a", "b"}} {
			e := r.entry("", fmt.Sprintf("m%d-%d", i, len(lanes)), 0)
			e.Digest, e.Lanes = digest, lanes
			require.Equal(t, dispatcher.Accepted, r.schedule(e)[0].Result)
			require.Equal(t, dispatcher.Duplicate, r.schedule(e)[0].Result)
			for _, other := range digests {
				e.Digest = other
				if other != digest {
					require.Equal(t, dispatcher.Conflict, r.schedule(e)[0].Result, "%x and %x", digest, other)
				}
			}
		}
	}
	messages := maps.Clone(r.state().Messages)
	require.Len(t, messages, 2*len(digests))
	for id, m := range messages {
		require.Equal(t, redisqtest.Stored{Whole: true, Lanes: m.Lanes, At: r.now.UnixMilli()}, m, id)
	}
}
