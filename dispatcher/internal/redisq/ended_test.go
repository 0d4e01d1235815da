package redisq_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// ends puts ends of a lane into one of the end sets, one each so many ms.
func (r *trap) ends(set string, lane dispatcher.Lane, n int, from, step time.Duration) {
	r.Helper()
	all := make([]redis.Z, n)
	for i := range all {
		at := r.now.Add(from + time.Duration(i)*step)
		all[i] = redis.Z{Score: float64(at.UnixMilli()), Member: fmt.Sprintf("%s:%s%d", lane, set, at.UnixMilli())}
	}
	require.NoError(r, r.store.Client().ZAdd(r.Context(), r.store.Conn().Tag(0)+":"+set, all...).Err())
}

// A destination that few deliveries go to is found among the ends of all others, in
// scripts that look at some names each, and in an order that all end sets share.
func TestWhatEndedIsFoundAmongTheEndsOfOthers(t *testing.T) {
	r := newTrap(t)
	r.ends("done", "others", 9000, -time.Hour, 100*time.Millisecond)
	r.ends("dead", "a", 700, -time.Hour, time.Second)
	r.ends("cancelled", "a", 300, -50*time.Minute, 2*time.Second)
	r.ends("cancelled", "b", 3000, -40*time.Minute, 10*time.Millisecond)
	before, records := r.stat("evalsha"), r.stat("hget")
	f := dispatcher.EndedFilter{Lane: "a", Limit: 500}
	var reported []dispatcher.Delivery
	looked, pages := 0, 0
	for more := true; more; pages++ {
		page, err := r.store.Ended(t.Context(), f)
		require.NoError(t, err)
		reported, looked = append(reported, page.Deliveries...), looked+page.LookedAt
		f.Cursor, more = page.Resume, page.More
	}
	require.Len(t, reported, 1000)
	for i, d := range reported[1:] {
		require.False(t, d.Ended.Before(reported[i].Ended), "%s", d.ID)
	}
	require.GreaterOrEqual(t, looked, 13_000)
	require.GreaterOrEqual(t, r.stat("evalsha")-before, 13_000/2048)
	require.Less(t, r.stat("evalsha")-before, 40)
	require.LessOrEqual(t, r.stat("hget")-records, 1010, "the others cost no record")

	page, err := r.store.Ended(t.Context(), dispatcher.EndedFilter{Lane: "never", Limit: 500})
	require.NoError(t, err)
	require.Empty(t, page.Deliveries)
}

// A page ends where it has cost enough, and its cursor goes on.
func TestAPageOfWhatEndedThatFindsNothingSaysHowFarItLooked(t *testing.T) {
	r := newTrap(t)
	r.ends("done", "others", 60_000, -time.Hour, 10*time.Millisecond)
	page, err := r.store.Ended(t.Context(), dispatcher.EndedFilter{Lane: "a", Limit: 10})
	require.NoError(t, err)
	require.Empty(t, page.Deliveries)
	require.True(t, page.More)
	require.Less(t, page.LookedAt, 30_000)
	rest, err := r.store.Ended(t.Context(), dispatcher.EndedFilter{Lane: "a", Limit: 10, Cursor: page.Resume})
	require.NoError(t, err)
	require.Positive(t, rest.LookedAt)
}

// What was forgotten is told for all partitions, and which deliveries are still there.
func TestAReaderOfTwoPlacesIsToldWhatIsForgotten(t *testing.T) {
	r := newTrap(t)
	f, err := r.store.Forgotten(t.Context())
	require.NoError(t, err)
	require.Equal(t, dispatcher.Forgotten{}, f)
	tag := r.store.Conn().Tag(0)
	require.NoError(t, r.store.Client().HSet(t.Context(), tag+":archive", "ended", "1700000000000", "dead", "1600000000000").Err())
	f, err = r.store.Forgotten(t.Context())
	require.NoError(t, err)
	done, dead := time.UnixMilli(1_700_000_000_000).UTC(), time.UnixMilli(1_600_000_000_000).UTC()
	require.Equal(t, dispatcher.Forgotten{Finished: done, Dead: dead}, f)
	require.Equal(t, done.Add(time.Millisecond), f.Since(nil))
	require.Equal(t, dead.Add(time.Millisecond), f.Since([]dispatcher.Status{dispatcher.StatusDead}))
	require.Zero(t, f.Since([]dispatcher.Status{dispatcher.StatusReady}))

	fan := r.entry("a", "fan", time.Hour)
	fan.Lanes = []dispatcher.Lane{"a", "b"}
	r.schedule(r.entry("a", "one", time.Hour), fan)
	require.NoError(t, r.store.Client().HSet(t.Context(), tag+":fan", "fan", "a -b").Err())
	require.NoError(t, r.store.Client().HSet(t.Context(), tag+":messages", "cut", "0123456789abcdef").Err())
	has, err := r.store.Has(t.Context(), []dispatcher.DeliveryID{
		{Lane: "a", Message: "one"}, {Lane: "a", Message: "fan"}, {Lane: "b", Message: "fan"}, {Lane: "a", Message: "cut"}, {Lane: "a", Message: "none"},
	})
	require.NoError(t, err)
	require.Equal(t, []bool{true, true, false, false, false}, has)
	has, err = r.store.Has(t.Context(), nil)
	require.NoError(t, err)
	require.Empty(t, has)
}

// Of a lane whose last deliveries lost their messages, only the counts are left.
func TestATrimRemovesTheCountsOfALaneThatHasNothing(t *testing.T) {
	r := newTrap(t)
	client, tag := r.store.Client(), r.store.Conn().Tag(0)
	require.NoError(t, client.HSet(t.Context(), tag+":in", "a", "0 0", "b", "0 1").Err())
	require.NoError(t, client.ZAdd(t.Context(), tag+":known", redis.Z{Score: 1, Member: "a"}, redis.Z{Score: 1, Member: "b"}).Err())
	_, err := r.store.Trim(t.Context(), "one", []int{0}, redisqtest.KeepAll, false)
	require.NoError(t, err)
	require.Equal(t, []string{"b"}, client.HKeys(t.Context(), tag+":in").Val())
}
