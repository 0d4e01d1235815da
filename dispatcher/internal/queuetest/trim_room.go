package queuetest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

// roomLeaves is the age that a message must have before a trim for room takes
// it.
const roomLeaves = time.Minute

var roomCases = []testCase{
	{name: "room takes the oldest finished work a minute after it was published, and leaves its id", run: func(r *rig) {
		id := r.endOne("a")
		r.pass(roomLeaves - time.Millisecond)
		r.mustChangeNothing(func() { require.Zero(r, r.trimOnce(keepAll, true).Finished) })
		r.pass(time.Millisecond)
		dead := r.dieOne("a")
		r.publish("b", "m1")
		require.Equal(r, 1, r.trimOnce(keepAll, true).Finished)
		require.Empty(r, r.State().Found[id])
		require.Equal(r, dispatcher.Duplicate, r.schedule(r.entry(id.Message, to("a")))[0].Result, "it is not delivered again")
		require.Equal(r, dispatcher.Conflict, r.schedule(r.entry(id.Message, to("a"), body("other")))[0].Result)
		r.mustStand(dead, dispatcher.StatusDead)
		r.mustStand(named("b", "m1"), dispatcher.StatusReady)
	}},
	{name: "room takes ids as well", run: func(r *rig) {
		id := r.endOne("a")
		r.trim(keepDigests)
		require.Zero(r, r.trimOnce(keepAll, true).Seen, "young")
		r.pass(roomLeaves)
		require.Equal(r, 1, r.trimOnce(keepAll, true).Seen)
		require.Equal(r, dispatcher.Accepted, r.schedule(r.entry(id.Message, to("a"), body("other")))[0].Result)
	}},
	{name: "room takes ids only where nothing else goes", run: func(r *rig) {
		id := r.endOne("a")
		r.trim(keepDigests)
		r.endOne("a")
		r.pass(roomLeaves)
		young := r.endOne("a")
		got := r.trimOnce(keepAll, true)
		require.Equal(r, [2]int{1, 0}, [2]int{got.Finished, got.Seen})
		require.Equal(r, dispatcher.Duplicate, r.schedule(r.entry(id.Message, to("a")))[0].Result)
		got = r.trimOnce(keepAll, true)
		require.Equal(r, [2]int{0, 1}, [2]int{got.Finished, got.Seen})
		r.mustStand(young, dispatcher.StatusDelivered)
		require.Zero(r, r.trimOnce(keepAll, true))
	}},
	{name: "room takes a delivery that has just ended, if its message is old, and leaves young messages", run: func(r *rig) {
		r.publish("b", "old")
		r.schedule(r.entry("cancelled", to("b"), delay(time.Hour)))
		c := r.mustClaim(one, named("b", "old"))[0]
		r.pass(roomLeaves)
		young := r.endOne("a")
		r.pass(time.Millisecond)
		r.mustSettle(one, success(c))
		require.Equal(r, 1, r.trimOnce(keepAll, true).Finished)
		r.mustBeForgotten(named("b", "old"))
		r.cancel(named("b", "cancelled"))
		require.Equal(r, 1, r.trimOnce(keepAll, true).Finished, "though a delivered one ended before")
		r.mustStand(young, dispatcher.StatusDelivered)
	}},
	{name: "making room again and again comes to an end", run: func(r *rig) {
		r.succeedMany("a", 40)
		r.dieOne("a")
		r.pass(roomLeaves)
		for calls := 1; r.trimOnce(keepAll, true).More; calls++ {
			require.Less(r, calls, 100, "it never ends")
		}
		require.Equal(r, map[dispatcher.Status]int64{dispatcher.StatusDead: 1}, r.State().Counts)
	}},
}
