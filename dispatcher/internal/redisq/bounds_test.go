package redisq_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// fanned publishes a message to n lanes, due in an hour.
func (r *trap) fanned(id string, n int) (ids []dispatcher.DeliveryID) {
	r.Helper()
	e := r.entry("", id, time.Hour)
	e.Lanes, e.Fan = make([]dispatcher.Lane, n), true
	for i := range e.Lanes {
		e.Lanes[i] = laneOf(i)
		ids = append(ids, dispatcher.DeliveryID{Lane: e.Lanes[i], Message: id})
	}
	require.Equal(r, dispatcher.Accepted, r.schedule(e)[0].Result)
	return ids
}

// A message of a thousand lanes with thirty attempts each is read a MiB at a
// time. In one answer it would hold up all other calls, or miss its time.
func TestAMessageOfAThousandLanesIsReadAMiBAtATime(t *testing.T) {
	const n, kept = 1000, 32
	r := newTrap(t)
	ids := r.fanned("fan", n)
	meta := `{"n":1}`
	entry := fmt.Sprintf("0 %d %s%s", len(meta), meta, strings.Repeat("x", 256))
	history := make([]any, kept)
	for i := range history {
		history[i] = entry
	}
	for _, id := range ids {
		key := r.store.Conn().Tag(0) + ":history:" + id.String()
		require.NoError(t, r.store.Client().RPush(t.Context(), key, history...).Err())
	}
	g := measured(r.store)
	rec, err := r.store.Read(t.Context(), "fan")
	require.NoError(t, err)
	require.Equal(t, "fan", rec.Message.ID)
	require.Len(t, rec.Deliveries, n)
	for i, d := range rec.Deliveries {
		require.Equal(t, ids[i], d.ID)
		require.Len(t, d.History, kept)
	}
	answers := g.Of("look")
	require.NotEmpty(t, answers)
	one := kept * (len(entry) + 64)
	for _, a := range answers {
		require.LessOrEqual(t, a.Bytes, 1<<20+one)
		require.LessOrEqual(t, a.Bytes, 64*one, "of 64 lanes")
	}
}

// Lanes that go while a message is read do not shift the others. Each lane that
// stays is told.
func TestALookSkipsNoLaneWhileOthersGo(t *testing.T) {
	const n = 200
	r := newTrap(t)
	ids := r.fanned("fan", n)
	_, _, err := r.store.Cancel(t.Context(), "one", ids[:40])
	require.NoError(t, err)
	r.setClock(r.now.Add(time.Minute))
	then := sync.OnceFunc(r.trim)
	r.store.Client().AddHook(&afterwards{name: "look", do: then})
	rec, err := r.store.Read(t.Context(), "fan")
	require.NoError(t, err)
	reported := map[dispatcher.DeliveryID]bool{}
	for _, d := range rec.Deliveries {
		require.False(t, reported[d.ID], "%s is reported twice", d.ID)
		reported[d.ID] = true
	}
	for _, id := range ids[40:] {
		require.True(t, reported[id], "%s is not told", id)
	}
	fan, err := r.store.Client().HGet(t.Context(), r.store.Conn().Tag(0)+":fan", "fan").Result()
	require.NoError(t, err)
	require.Equal(t, 40, strings.Count(fan, "-"), "the others are gone by now")
}

// A thousand deliveries of one message are changed some at a time. Its lanes
// are read once for all of a call, not once for each.
func TestAThousandDeliveriesOfAMessageAreChangedSomeAtATime(t *testing.T) {
	const n = 1000
	r := newTrap(t)
	ids := r.fanned("fan", n)
	g := measured(r.store)
	retryAll := func(ctx context.Context, by string, ids []dispatcher.DeliveryID) ([]dispatcher.Change, []redisqtest.Hint, error) {
		return r.store.Retry(ctx, by, ids, true)
	}
	for _, change := range []struct {
		name string
		do   func(context.Context, string, []dispatcher.DeliveryID) ([]dispatcher.Change, []redisqtest.Hint, error)
	}{{"cancel", r.store.Cancel}, {"retry", retryAll}, {"cancel", r.store.Cancel}} {
		before := r.stat("hget")
		changes, _, err := change.do(t.Context(), "one", ids)
		require.NoError(t, err)
		for i, c := range changes {
			require.Equal(t, dispatcher.Change{ID: ids[i], Changed: true}, c)
		}
		calls := g.Of(change.name)
		require.Len(t, calls, 8)
		for _, c := range calls {
			require.LessOrEqual(t, c.Args, 128+8)
		}
		require.LessOrEqual(t, r.stat("hget")-before, 3*n+4*8, "the record and the lanes once a call")
	}
	r.mustBeSound()
}

// The instances are asked once a call for attempts under way. There may be many
// deliveries and many instances.
func TestARetryAsksEachInstanceOnce(t *testing.T) {
	const n = 200
	r := newTrap(t)
	e := r.entry("", "fan", 0)
	e.Lanes, e.Fan = make([]dispatcher.Lane, n), true
	ids := make([]dispatcher.DeliveryID, n)
	for i := range e.Lanes {
		e.Lanes[i] = laneOf(i)
		ids[i] = dispatcher.DeliveryID{Lane: e.Lanes[i], Message: "fan"}
	}
	r.schedule(e)
	under := map[dispatcher.DeliveryID]bool{}
	for _, by := range []string{"one", "two"} {
		for _, c := range r.claim(by, 16) {
			under[c.ID] = true
		}
	}
	require.Len(t, under, 32)
	before := r.stat("zscore")
	changes, _, err := r.store.Retry(t.Context(), "one", ids, true)
	require.NoError(t, err)
	for _, c := range changes {
		require.Equal(t, under[c.ID], c.Err != nil, "%s: %v", c.ID, c.Err)
	}
	require.Equal(t, before, r.stat("zscore"))
}

// A trim reads and writes a message's lanes once for all of its deliveries. No
// trim goes through more lanes than take a millisecond.
func TestATrimGoesThroughSomeThousandLanesAtMost(t *testing.T) {
	const n = 1000
	one := newTrap(t)
	_, _, err := one.store.Cancel(t.Context(), "one", one.fanned("fan", n))
	require.NoError(t, err)
	one.setClock(one.now.Add(time.Minute))
	before := one.stat("hset")
	got, err := one.store.Trim(t.Context(), "one", []int{0}, dispatcher.Keep{}, false)
	require.NoError(t, err)
	require.Equal(t, 64, got.Finished-64, "of what is old, and of what is too much")
	require.LessOrEqual(t, one.stat("hset")-before, 4)
	one.trim()
	require.Empty(t, one.state().Messages)

	const messages = 32
	many := newTrap(t)
	for i := range messages {
		ids := many.fanned(fmt.Sprintf("fan%d", i), n)
		_, _, err := many.store.Cancel(t.Context(), "one", ids[:1])
		require.NoError(t, err)
	}
	many.setClock(many.now.Add(time.Minute))
	got, err = many.store.Trim(t.Context(), "one", []int{0}, dispatcher.Keep{}, false)
	require.NoError(t, err)
	require.Less(t, got.Finished, messages/2)
	require.Positive(t, got.Finished)
	require.True(t, got.More)
	for got.More {
		got, err = many.store.Trim(t.Context(), "one", []int{0}, dispatcher.Keep{}, false)
		require.NoError(t, err)
		require.True(t, !got.More || got.Finished > 0, "it goes on")
	}
	require.Zero(t, many.state().Counts[dispatcher.StatusCancelled])
	many.mustBeSound()
}

// The leases of an instance are read a page at a time. Each is told once, the
// oldest first.
func TestManyLeasesAreReadAPageAtATime(t *testing.T) {
	const n = 5000
	r := newTrap(t)
	key := r.store.Conn().Tag(0) + ":leases:one"
	leases := make([]redis.Z, n)
	for i := range leases {
		leases[i] = redis.Z{Score: float64(n - i), Member: fmt.Sprintf("a:m%05d", i)}
	}
	require.NoError(t, r.store.Client().ZAdd(t.Context(), key, leases...).Err())
	g := measured(r.store)
	got, err := r.store.Leases(t.Context(), "one")
	require.NoError(t, err)
	require.Len(t, got, n)
	for i, l := range got {
		require.Equal(t, leases[n-1-i].Member, l.ID.String())
		require.Equal(t, int64(i+1), l.At.UnixMilli())
	}
	pages := g.Of("zscan")
	require.Greater(t, len(pages), 2)
	for _, p := range pages {
		require.LessOrEqual(t, p.Bytes, 1200*16)
	}
}

// A sweep ends when the scan of Redis ends, also if a page had few deliveries
// of the lane. Each of its calls ends a batch at most.
func TestASweepEndsWhereRedisSaysSo(t *testing.T) {
	r := newTrap(t)
	limits := dispatcher.LaneLimits{Version: 1}
	_, _, err := r.store.Limit(t.Context(), "one", "ep_000000001", limits, false)
	require.NoError(t, err)
	var batch []dispatcher.Entry
	for i := range 4000 {
		lane := laneOf(i % 50)
		if i%4 == 0 {
			lane = "ep_000000001"
		}
		batch = append(batch, r.entry(lane, fmt.Sprintf("m%04d", i), time.Hour))
	}
	r.schedule(batch...)
	limits.Version, limits.Mode = 2, dispatcher.LaneDisabled
	_, _, err = r.store.Limit(t.Context(), "one", "ep_000000001", limits, false)
	require.NoError(t, err)
	g := measured(r.store)
	total, calls := 0, 0
	for cursor := ""; ; calls++ {
		ended, next, _, err := r.store.Sweep(t.Context(), "one", "ep_000000001", cursor)
		require.NoError(t, err)
		total += ended
		if cursor = next; cursor == "" {
			break
		}
	}
	require.Equal(t, 1000, total)
	require.Greater(t, calls, 1)
	for _, c := range g.Of("sweep") {
		require.LessOrEqual(t, c.Args, 64+4)
	}
	r.mustBeSound()
}

// The digests of many messages are read some ids at a time, since each may have
// a record of 16 KiB.
func TestDigestsAreReadSomeAtATime(t *testing.T) {
	const n = 300
	f := newTestStores(redistest.Start(t))(t, redisqtest.Setup{Partitions: 2, LaneMaxInFlight: 128, Permits: 1024})
	f.SetClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	store := f.Queue
	lanes := make([]dispatcher.Lane, 0, 2)
	for i := 0; len(lanes) < 2; i++ {
		if len(lanes) == 0 || f.Partition(laneOf(i)) != f.Partition(lanes[0]) {
			lanes = append(lanes, laneOf(i))
		}
	}
	var batch []dispatcher.Entry
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("m%03d", i)
		m := &dispatcher.Message{ID: ids[i], Topic: "a.b", Body: []byte("{}"), Delay: time.Hour}
		batch = append(batch, dispatcher.Entry{Message: m, Digest: m.Digest(), Lanes: lanes, Fan: true})
	}
	g := measured(store)
	got, _, err := store.Schedule(t.Context(), "one", 0, 0, batch)
	require.NoError(t, err)
	for _, s := range got {
		require.NoError(t, s.Err)
		require.Equal(t, dispatcher.Accepted, s.Result)
	}
	known, err := store.Known(t.Context(), ids)
	require.NoError(t, err)
	require.NotContains(t, known, false)
	calls := g.Of("digests")
	require.Len(t, calls, 4*((n+63)/64))
	for _, c := range calls {
		require.LessOrEqual(t, c.Args, 64+2)
	}
}

// A page of lanes reads about as many lanes as it tells, however many
// partitions there are. It tells the newest lanes first also if most of them
// lie in one partition.
func TestAPageOfLanesReadsFewMoreThanItTells(t *testing.T) {
	t.Parallel()
	const partitions, n, limit = 16, 1600, 100
	f := newTestStores(redistest.Start(t))(t, redisqtest.Setup{Partitions: partitions, LaneMaxInFlight: 128, Permits: 1024})
	store, now := f.Queue, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var want []dispatcher.Lane
	publish := func(lane dispatcher.Lane) {
		now = now.Add(time.Second)
		f.SetClock(now)
		m := &dispatcher.Message{ID: "m", Topic: "a.b", Delay: time.Hour}
		_, _, err := store.Schedule(t.Context(), "one", 0, 0, []dispatcher.Entry{{Message: m, Digest: m.Digest(), Lanes: []dispatcher.Lane{lane}}})
		require.NoError(t, err)
		want = append(want, lane)
	}
	later := []dispatcher.Lane{}
	for i := range n {
		if lane := laneOf(i); f.Partition(lane) == 0 && len(later) < 60 {
			later = append(later, lane)
		} else {
			publish(lane)
		}
	}
	for _, lane := range later {
		publish(lane)
	}
	slices.Reverse(want)
	g := measured(store)
	var reported []dispatcher.Lane
	for cursor := ""; ; {
		page, next, err := store.Lanes(t.Context(), limit, cursor)
		require.NoError(t, err)
		for _, l := range page {
			reported = append(reported, l.Lane)
		}
		read := 0
		for _, a := range g.Of("lanes") {
			read += (a.Size - 5) / 13
			require.LessOrEqual(t, a.Size, 5+13*256)
		}
		require.LessOrEqual(t, read, 2*limit+2*8*partitions)
		if cursor = next; cursor == "" {
			break
		}
		require.Len(t, page, limit)
	}
	require.Equal(t, want, reported)
}

// The versions of endpoints are read some at a time, since Redis goes through
// their whole records.
func TestVersionsOfEndpointsAreReadSomeAtATime(t *testing.T) {
	r := newTrap(t)
	ids := make([]string, 200)
	for i := range ids {
		ids[i] = string(endpointLane(i + 1))
	}
	g := measured(r.store)
	versions, err := r.store.EndpointVersions(t.Context(), ids)
	require.NoError(t, err)
	require.Len(t, versions, len(ids))
	asked := 0
	for _, s := range g.All() {
		if s.Name == "" || strings.HasPrefix(s.Name, "eval") {
			asked += s.Args
			require.LessOrEqual(t, s.Args, 32+3)
		}
	}
	require.GreaterOrEqual(t, asked, len(ids))
}
