package queuetest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

// hintCases are about the hints that lanes give: lanes that wait for a time,
// and lanes that are resumed.
var hintCases = []testCase{
	{name: "a lane that waits for a time is due at that time", run: func(r *rig) {
		r.publish("a", "m1", "m2", "m3")
		r.schedule(r.entry("m4", to("b"), delay(time.Minute)))
		c := r.claim(one, 1)
		w := r.watch(two)
		_, hints, err := r.Queue.Settle(r.ctx, one, []dispatcher.Settlement{paused(c[0], time.Hour, 10*time.Second)})
		require.NoError(r, err)
		require.Equal(r, start.Add(10*time.Second), hints[0].Due)
		require.Equal(r, -1, hints[0].Weight)
		require.Equal(r, Hint{Now: start, Due: start.Add(10 * time.Second), Weight: -1}, w.next())
		peeked, err := r.Queue.ReadHints(r.ctx, r.all())
		require.NoError(r, err)
		require.Equal(r, hints[0].Due, peeked[0].Due)
		r.pass(10 * time.Second)
		h := r.move()
		require.Equal(r, start.Add(time.Minute), h.Due)
		require.Equal(r, 0, h.Weight)
		require.Equal(r, 0, w.next().Weight, "others are told that it may be claimed from")
	}},
	{name: "of a due delivery and a waiting lane the earlier time is told", run: func(r *rig) {
		r.limit("a", every(time.Minute))
		r.publish("a", "m1", "m2")
		r.claim(one, 1)
		parked := start.Add(time.Minute)
		for _, c := range []struct {
			id    string
			delay time.Duration
			want  time.Time
		}{{"m3", time.Hour, parked}, {"m4", time.Second, start.Add(time.Second)}} {
			_, hints, err := r.Queue.Schedule(r.ctx, one, 0, 0, []dispatcher.Entry{r.entry(c.id, to("b"), delay(c.delay))})
			require.NoError(r, err)
			require.Equal(r, c.want, hints[0].Due)
			peeked, err := r.Queue.ReadHints(r.ctx, r.all())
			require.NoError(r, err)
			require.Equal(r, c.want, peeked[0].Due)
		}
	}},
	{name: "a hint tells of a lane that is resumed", run: func(r *rig) {
		r.limit("a", held(dispatcher.HeldPaused))
		r.publish("a", "m1")
		w := r.watch(two)
		r.resume("a")
		require.Equal(r, r.setup.weight(4, 0), w.next().Weight)
	}},
	{name: "every partition has a hint when all lanes are resumed", setup: spread, run: func(r *rig) {
		want := map[int]bool{}
		for _, lane := range manyLanes(8) {
			r.publishMany(lane, 1)
			want[r.Partition(lane)] = true
		}
		r.holdAll()
		w := r.watch(two)
		r.resume(dispatcher.AllLanes)
		for len(want) > 0 {
			h := w.next()
			require.GreaterOrEqual(r, h.Weight, 0)
			delete(want, h.Partition)
		}
	}},
	{name: "work that came while all lanes were held is told when they are resumed", run: func(r *rig) {
		r.holdAll()
		w := r.watch(two)
		r.publish("a", "m1")
		r.resume(dispatcher.AllLanes)
		require.Equal(r, r.setup.weight(4, 0), w.next().Weight, "that it came was told to nobody")
	}},
	{name: "a hint tells of a breaker that is closed by hand", setup: threeFailures, run: func(r *rig) {
		r.openBreaker("a")
		r.publish("a", "m1")
		w := r.watch(two)
		r.resume("a")
		require.Equal(r, 0, w.next().Weight)
	}},
	{name: "a hint tells of a rate that is lifted", run: func(r *rig) {
		r.limit("a", every(time.Hour))
		r.publish("a", "m1", "m2")
		r.claim(one, 1)
		w := r.watch(two)
		r.limit("a")
		require.Equal(r, r.setup.weight(4, 1), w.next().Weight)
	}},
	{name: "a hint tells of the next one of a line", run: func(r *rig) {
		r.schedule(r.entry("m1", to("a"), keyed("k"), delay(time.Hour)))
		r.publishKeyed("a", "k", "m2")
		w := r.watch(two)
		r.cancel(named("a", "m1"))
		require.Equal(r, r.setup.weight(4, 0), w.next().Weight)
	}},
	{name: "one call places a batch of parked lanes, and its hint tells of the rest", run: func(r *rig) {
		const n = 300
		r.scheduleFor(one, 1024, n, r.entry("first", manyLanes(n)))
		require.Len(r, r.leases(one), n)
		r.schedule(r.entry("second", manyLanes(n)))
		var batch []dispatcher.Settlement
		for _, id := range r.leases(one) {
			batch = append(batch, paused(dispatcher.Claimed{ID: id, Attempt: 1}, time.Hour, time.Second))
		}
		r.settle(one, batch...)
		require.Empty(r, r.claimAll(one))
		r.pass(time.Second)
		calls := 0
		for h := r.move(); !h.Due.After(r.now); h = r.move() {
			calls++
			require.Less(r, calls, n, "it goes on moving")
		}
		require.Positive(r, calls)
		require.Len(r, r.claimAll(one), n)
	}},
	{name: "a lane that must wait again at its turn is not lost", setup: threeFailures, run: func(r *rig) {
		r.limit("a", every(time.Second))
		r.publishMany("a", 3)
		c := r.claim(one, 1)
		r.pass(time.Second)
		require.Equal(r, r.setup.weight(4, 1), r.move().Weight)
		r.mustSettle(one, paused(c[0], time.Hour, time.Minute))
		require.Equal(r, r.later(time.Minute), r.move().Due)
		r.pass(time.Minute)
		r.move()
		require.Len(r, r.claim(one, 64), 1)
	}},
}
