package lanes

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/queuetest/rig"
	"github.com/hookladder/hookladder/dispatcher/internal/queuetest/stored"
)

func sweeps(r *rig.Rig, e ending) {
	r.Limit(rig.EpOne)
	r.Schedule(r.Entry("m1", rig.To(rig.EpOne), rig.Delay(time.Hour)), r.Entry("m2", rig.To("a"), rig.Delay(time.Hour)),
		r.Entry("m3", rig.To(rig.EpOne), rig.Keyed("k"), rig.Delay(time.Hour)), r.Entry("m4", rig.To(rig.EpOne), rig.Keyed("k")))
	r.Publish(rig.EpOne, "m5")
	require.Zero(r, sweep(r, rig.EpOne), "it goes on")
	r.MustLie(stored.PlaceDue, rig.EpOne, "m1", "m3")
	require.Equal(r, dispatcher.LaneCount{Waiting: 4}, end(r, e))
	sweep(r, rig.EpOne)
	r.Move()
	mustEnd(r, e, 0, "m1", "m3", "m4", "m5")
	r.MustLie(stored.PlaceDue, "a", "m2")
	require.Equal(r, rig.Start.Add(time.Hour), r.Move().Due)
	require.Zero(r, r.State().Lanes[rig.EpOne].Waiting)
	require.Zero(r, sweep(r, rig.EpOne))
}

func sweepsPages(r *rig.Rig, e ending) {
	const n = 700
	r.Limit(rig.EpOne)
	var batch []dispatcher.Entry
	for i := range n {
		id := fmt.Sprintf("m%03d", i)
		batch = append(batch, r.Entry(id, rig.To(rig.EpOne), rig.Delay(time.Hour)), r.Entry("o"+id, rig.To("a"), rig.Delay(time.Hour)))
	}
	r.Schedule(batch...)
	end(r, e)
	require.Equal(r, n, sweep(r, rig.EpOne))
	require.Equal(r, map[dispatcher.Status]int64{e.status: n, dispatcher.StatusScheduled: n}, r.Stats().Counts)
}

// sweep sweeps a lane to the end and returns the number of deliveries that it ended.
func sweep(r *rig.Rig, lane dispatcher.Lane) (ended int) {
	r.Helper()
	cursor := ""
	for range 10_000 {
		n, next, hints, err := r.Queue.Sweep(r.Ctx, rig.One, lane, cursor)
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
