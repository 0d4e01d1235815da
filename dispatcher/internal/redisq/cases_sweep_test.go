package redisq_test

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

func sweeps(r *redisqtest.Rig, e ending) {
	r.Limit(redisqtest.EpOne)
	r.Schedule(r.Entry("m1", redisqtest.To(redisqtest.EpOne), redisqtest.Delay(time.Hour)), r.Entry("m2", redisqtest.To("a"), redisqtest.Delay(time.Hour)),
		r.Entry("m3", redisqtest.To(redisqtest.EpOne), redisqtest.Keyed("k"), redisqtest.Delay(time.Hour)), r.Entry("m4", redisqtest.To(redisqtest.EpOne), redisqtest.Keyed("k")))
	r.Publish(redisqtest.EpOne, "m5")
	require.Zero(r, sweep(r, redisqtest.EpOne), "it goes on")
	r.MustLie(redisqtest.PlaceDue, redisqtest.EpOne, "m1", "m3")
	require.Equal(r, dispatcher.LaneCount{Waiting: 4}, end(r, e))
	sweep(r, redisqtest.EpOne)
	r.Move()
	mustEndIn(r, e, 0, "m1", "m3", "m4", "m5")
	r.MustLie(redisqtest.PlaceDue, "a", "m2")
	require.Equal(r, redisqtest.Start.Add(time.Hour), r.Move().Due)
	require.Zero(r, r.State().Lanes[redisqtest.EpOne].Waiting)
	require.Zero(r, sweep(r, redisqtest.EpOne))
}

func sweepsPages(r *redisqtest.Rig, e ending) {
	const n = 700
	r.Limit(redisqtest.EpOne)
	var batch []dispatcher.Entry
	for i := range n {
		id := fmt.Sprintf("m%03d", i)
		batch = append(batch, r.Entry(id, redisqtest.To(redisqtest.EpOne), redisqtest.Delay(time.Hour)), r.Entry("o"+id, redisqtest.To("a"), redisqtest.Delay(time.Hour)))
	}
	r.Schedule(batch...)
	end(r, e)
	require.Equal(r, n, sweep(r, redisqtest.EpOne))
	require.Equal(r, map[dispatcher.Status]int64{e.status: n, dispatcher.StatusScheduled: n}, r.Stats().Counts)
}

// sweep sweeps a lane to the end and returns the number of deliveries that it ended.
func sweep(r *redisqtest.Rig, lane dispatcher.Lane) (ended int) {
	r.Helper()
	cursor := ""
	for range 10_000 {
		n, next, hints, err := r.Queue.Sweep(r.Ctx, redisqtest.One, lane, cursor)
		require.NoError(r, err)
		r.MustBeCurrent(hints)
		ended += n
		if next == "" {
			return ended
		}
		cursor = next
	}
	r.Fatal("the sweep never ends")
	return ended
}
