package queuetest

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

var reapCases = []testCase{
	{name: "a beat tells the numbers of all", run: func(r *rig) {
		fresh, all, err := r.Queue.Beat(r.ctx, one, 7)
		require.NoError(r, err)
		require.False(r, fresh)
		require.Equal(r, map[string]int64{one: 7, two: 1}, all)
		fresh, all, err = r.Queue.Beat(r.ctx, "three", 1<<40)
		require.NoError(r, err)
		require.True(r, fresh)
		require.Equal(r, map[string]int64{one: 7, two: 1, "three": 1 << 40}, all)
	}},
	{name: "an instance that was declared dead learns it from its next beat", run: func(r *rig) {
		r.reap(one)
		_, all, err := r.Queue.Beat(r.ctx, two, 2)
		require.NoError(r, err)
		require.Equal(r, map[string]int64{two: 2}, all)
		fresh, _, err := r.Queue.Beat(r.ctx, one, 2)
		require.NoError(r, err)
		require.True(r, fresh)
	}},
	{name: "an instance that leaves is forgotten and not fenced", run: func(r *rig) {
		require.NoError(r, r.Queue.Leave(r.ctx, one))
		_, all, err := r.Queue.Beat(r.ctx, two, 2)
		require.NoError(r, err)
		require.Equal(r, map[string]int64{two: 2}, all)
		require.Empty(r, r.State().Fenced)
		require.NoError(r, r.Queue.Leave(r.ctx, one))
	}},
	{name: "an instance that is gone and holds leases is told", setup: Setup{Partitions: 4}, run: func(r *rig) {
		strays := func() []string {
			names, err := r.Queue.Orphans(r.ctx)
			require.NoError(r, err)
			return names
		}
		r.publish("a", "m1")
		require.Len(r, r.claim(one, 64), 1)
		require.Empty(r, strays(), "who is there is none")
		r.publish("b", "m2")
		require.NoError(r, r.Queue.Leave(r.ctx, two))
		require.Empty(r, strays(), "nor is who holds nothing")
		require.Len(r, r.claim(two, 64), 1) // as if a node that takes over had lost the record of the leases
		require.Equal(r, []string{two}, strays())
		require.Equal(r, 1, r.reap(two))
		require.Empty(r, strays())
		require.Len(r, r.claim("three", 64), 1)
		require.NoError(r, r.Queue.Leave(r.ctx, one))
		require.Equal(r, []string{one}, strays())
		for n := range 1000 { // the names before those are forgotten
			require.NoError(r, r.Queue.Leave(r.ctx, fmt.Sprint("later", n)))
		}
		require.Empty(r, strays())
	}},
	{name: "the leases of a dead instance are first again, in the old order", run: func(r *rig) {
		for range 4 {
			r.succeed("a")
		}
		r.publish("a", "m3", "m1", "m2", "m4", "m5")
		for range 3 {
			r.claim(one, 1)
			r.pass(time.Millisecond)
		}
		require.Equal(r, 3, r.reap(one))
		require.Equal(r, ids("a", "m3", "m1", "m2", "m4", "m5"), r.State().Ready["a"])
		require.Empty(r, r.leases(one))
		c := r.claim(two, 1)[0]
		require.Equal(r, named("a", "m3"), c.ID)
		require.Equal(r, 1, c.Attempt, "an attempt whose holder died is not counted")
	}},
	{name: "deliveries that were claimed at once come back in the order of their ids", run: func(r *rig) {
		r.publish("a", "m1", "m2", "m3")
		r.claim(one, 64)
		r.reap(one)
		require.Equal(r, ids("a", "m1", "m2", "m3"), r.State().Ready["a"])
	}},
	{name: "a direct lease is taken over too", run: func(r *rig) {
		r.scheduleFor(one, 512, 1, r.entry("m1", to("a")))
		require.Equal(r, 1, r.reap(one))
		r.mustClaim(two, named("a", "m1"))
	}},
	{name: "a takeover may be repeated", run: func(r *rig) {
		r.publish("a", "m1")
		r.claim(one, 64)
		require.Equal(r, 1, r.reap(one))
		before := r.State()
		require.Zero(r, r.reap(one))
		after := r.State()
		require.Equal(r, before.String(), after.String())
	}},
	{name: "nothing is taken from the living", run: func(r *rig) {
		r.publish("a", "m1")
		r.publish("b", "m2")
		r.mustClaim(one, named("a", "m1"))
		r.mustClaim(two, named("b", "m2"))
		require.Equal(r, 1, r.reap(one))
		require.Equal(r, ids("b", "m2"), r.leases(two))
	}},
	{name: "one that held nothing, or never was, is only fenced", run: func(r *rig) {
		require.Zero(r, r.reap("nobody"))
		require.Equal(r, []string{"nobody"}, r.State().Fenced)
	}},
	{name: "more than one batch is taken in one call", run: func(r *rig) {
		const lanes = 300
		for i := range lanes {
			r.publishMany(dispatcher.Lane(fmt.Sprintf("l%03d", i)), 2)
		}
		held := 0
		for {
			n := len(r.claim(one, 64))
			if n == 0 {
				break
			}
			held += n
		}
		require.Equal(r, 2*lanes, held)
		require.Equal(r, held, r.reap(one))
		require.Empty(r, r.leases(one))
	}},
	{name: "a delivery that was cancelled meanwhile ends", run: func(r *rig) {
		r.publish("a", "m1")
		r.claim(one, 1)
		r.cancel(named("a", "m1"))
		r.reap(one)
		r.mustStand(named("a", "m1"), dispatcher.StatusCancelled)
		require.Empty(r, r.State().Marks)
		r.mustClaimNothing(two)
	}},
	{name: "a delivery that another instance delivered meanwhile ends", run: func(r *rig) {
		c := r.takeOver("a", "m1")
		r.mustClaim(one, c.ID)
		require.Equal(r, []dispatcher.Settled{dispatcher.SettledDone}, r.settle(two, success(c)))
		r.reap(one)
		r.mustStand(c.ID, dispatcher.StatusDelivered)
		r.mustClaimNothing(two)
	}},
	{name: "a delivery dies with its third holder", run: func(r *rig) {
		r.publish("a", "m1")
		for n := 1; n <= 3; n++ {
			victim := fmt.Sprintf("victim%d", n)
			r.mustClaim(victim, named("a", "m1"))
			_, hints, err := r.Queue.Reap(r.ctx, two, victim)
			require.NoError(r, err)
			require.Len(r, hints, 1)
			if n == 3 {
				require.Equal(r, []dispatcher.Death{{ID: named("a", "m1"), Reason: dispatcher.ReasonPoison, Attempts: 3}}, hints[0].Dead)
			} else {
				require.Empty(r, hints[0].Dead)
				r.mustStand(named("a", "m1"), dispatcher.StatusReady)
			}
		}
		d := r.mustStand(named("a", "m1"), dispatcher.StatusDead)
		require.Equal(r, dispatcher.ReasonPoison, d.Reason)
		require.Equal(r, 3, d.Attempts, "each of them may have called the receiver")
		require.Equal(r, "the last 3 instances that held it died before they had an answer", d.LastError)
		require.Zero(r, d.LastStatus)
		require.Equal(r, r.now, d.Ended)
		require.Equal(r, int64(1), r.stats().Dead[dispatcher.ReasonPoison])
		r.mustClaimNothing(two)
	}},
	{name: "a settled attempt between two deaths begins a new count", run: func(r *rig) {
		r.publish("a", "m1")
		die := func(victim string) {
			r.mustClaim(victim, named("a", "m1"))
			r.reap(victim)
		}
		die("victim1")
		die("victim2")
		r.mustSettle(two, failure(r.mustClaim(two, named("a", "m1"))[0], 0))
		r.move()
		die("victim3")
		die("victim4")
		r.mustStand(named("a", "m1"), dispatcher.StatusReady)
		die("victim5")
		r.mustStand(named("a", "m1"), dispatcher.StatusDead)
	}},
	{name: "a retried poison delivery may kill three holders again", run: func(r *rig) {
		r.publish("a", "m1")
		for n := range 5 {
			victim := fmt.Sprintf("victim%d", n)
			if n == 3 {
				r.retry(named("a", "m1"))
			}
			r.mustClaim(victim, named("a", "m1"))
			r.reap(victim)
		}
		r.mustStand(named("a", "m1"), dispatcher.StatusReady)
	}},
	{name: "the request of a person survives the death of the holder", run: func(r *rig) {
		r.schedule(r.entry("m1", to("a"), delay(time.Hour)))
		r.retry(named("a", "m1"))
		r.mustClaim(one, named("a", "m1"))
		r.reap(one)
		require.True(r, r.mustClaim(two, named("a", "m1"))[0].Asked)
	}},
	{name: "a delivery whose record was deleted by hand is dropped by the next claim", run: func(r *rig) {
		r.publish("a", "m1")
		r.mustClaim(one, named("a", "m1"))
		r.Lose("m1")
		r.reap(one)
		r.mustClaimNothing(two)
	}},
}

// reap declares an instance dead and answers how many deliveries it took over.
func (r *rig) reap(dead string) int {
	r.Helper()
	taken, hints, err := r.Queue.Reap(r.ctx, two, dead)
	require.NoError(r, err)
	r.mustBeCurrent(hints)
	return taken
}
