package queuetest

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

func sweeps(r *rig, e ending) {
	r.limit(epOne)
	r.schedule(r.entry("m1", to(epOne), delay(time.Hour)), r.entry("m2", to("a"), delay(time.Hour)),
		r.entry("m3", to(epOne), keyed("k"), delay(time.Hour)), r.entry("m4", to(epOne), keyed("k")))
	r.publish(epOne, "m5")
	require.Zero(r, r.sweep(epOne), "it goes on")
	r.mustLie(PlaceDue, epOne, "m1", "m3")
	require.Equal(r, dispatcher.LaneCount{Waiting: 4}, r.end(e))
	r.sweep(epOne)
	r.move()
	r.mustEnd(e, 0, "m1", "m3", "m4", "m5")
	r.mustLie(PlaceDue, "a", "m2")
	require.Equal(r, start.Add(time.Hour), r.move().Due)
	require.Zero(r, r.State().Lanes[epOne].Waiting)
	require.Zero(r, r.sweep(epOne))
}

func sweepsPages(r *rig, e ending) {
	const n = 700
	r.limit(epOne)
	var batch []dispatcher.Entry
	for i := range n {
		id := fmt.Sprintf("m%03d", i)
		batch = append(batch, r.entry(id, to(epOne), delay(time.Hour)), r.entry("o"+id, to("a"), delay(time.Hour)))
	}
	r.schedule(batch...)
	r.end(e)
	require.Equal(r, n, r.sweep(epOne))
	require.Equal(r, map[dispatcher.Status]int64{e.status: n, dispatcher.StatusScheduled: n}, r.stats().Counts)
}

// sweep sweeps a lane to the end and answers how many deliveries it ended.
func (r *rig) sweep(lane dispatcher.Lane) (ended int) {
	r.Helper()
	cursor := ""
	for range 10_000 {
		n, next, hints, err := r.Queue.Sweep(r.ctx, one, lane, cursor)
		require.NoError(r, err)
		r.mustBeCurrent(hints)
		ended += n
		if next == "" {
			return ended
		}
		cursor = next
	}
	r.Fatal("the sweep never ends")
	return ended
}
