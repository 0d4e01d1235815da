package queuetest

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

var claimCases = []testCase{
	{name: "an empty store has nothing to claim", run: func(r *rig) {
		r.mustChangeNothing(func() { r.mustClaimNothing(one) })
	}},
	{name: "what is claimed brings all that an attempt takes", run: func(r *rig) {
		e := r.entry("m1", to("a"))
		r.schedule(e)
		r.pass(time.Second)
		got := r.mustClaim(one, named("a", "m1"))
		requireMessage(r, e.Message, got[0].Message)
		require.Equal(r, start, got[0].Due)
		require.Equal(r, 1, got[0].Attempt)
		require.Equal(r, 1, got[0].Rung)
		require.False(r, got[0].Asked)
		require.True(r, got[0].First)
		r.mustStand(named("a", "m1"), dispatcher.StatusInFlight)
	}},
	{name: "a lane is served in the order of publishing", run: func(r *rig) {
		r.publish("a", "m2", "m1", "m3")
		require.Equal(r, ids("a", "m2", "m1"), claimedIDs(r.claim(one, 64)))
	}},
	{name: "no more than wanted is claimed", run: func(r *rig) {
		r.publish("a", "m1", "m2")
		r.publish("b", "m3", "m4")
		require.Len(r, r.claim(one, 3), 3)
		require.Len(r, r.claim(one, 64), 1)
	}},
	{name: "nothing is claimed with no free permit", run: func(r *rig) {
		r.publish("a", "m1")
		r.mustChangeNothing(func() { require.Empty(r, r.claimWith(one, 64, 0)) })
	}},
	{name: "a claim never takes more than the free permits", setup: Setup{Permits: 4}, run: func(r *rig) {
		for i := range 8 {
			r.publish(dispatcher.Lane(fmt.Sprintf("l%d", i)), fmt.Sprintf("m%d", i))
		}
		require.LessOrEqual(r, len(r.claimWith(one, 64, 3)), 3)
		require.LessOrEqual(r, len(r.claimWith(two, 64, 4)), 4)
	}},
	{name: "each is claimed once, by whoever comes first", run: func(r *rig) {
		r.publish("a", "m1")
		r.mustClaim(one, named("a", "m1"))
		r.mustClaimNothing(two)
		r.mustClaimNothing(one)
		require.Equal(r, ids("a", "m1"), r.leases(one))
		require.Empty(r, r.leases(two))
	}},
	{name: "all instances share a lane's window", run: func(r *rig) {
		r.publish("a", "m1", "m2", "m3")
		r.mustClaim(one, named("a", "m1"))
		require.Equal(r, ids("a", "m2"), claimedIDs(r.claim(two, 64)))
		r.mustClaimNothing(one)
	}},
	{name: "a fenced instance claims nothing and is told", run: func(r *rig) {
		r.publish("a", "m1")
		_, _, err := r.Queue.Reap(r.ctx, two, one)
		require.NoError(r, err)
		r.mustChangeNothing(func() {
			got, _, err := r.Queue.Claim(r.ctx, one, r.all(), 64, 512)
			require.ErrorIs(r, err, dispatcher.ErrFenced)
			require.Empty(r, got)
		})
	}},
	{name: "leases are named by instance, the oldest first", run: func(r *rig) {
		r.publish("a", "m1")
		r.publish("b", "m2", "m3")
		r.mustClaim(one, named("a", "m1"))
		r.pass(time.Millisecond)
		r.mustClaim(two, named("b", "m2"))
		r.pass(time.Millisecond)
		r.mustClaim(one, named("b", "m3"))
		require.Equal(r, []dispatcher.DeliveryID{named("a", "m1"), named("b", "m3")}, r.leases(one))
		require.Equal(r, ids("b", "m2"), r.leases(two))
		require.Empty(r, r.leases("nobody"))
	}},
	{name: "what has expired dies unattempted", run: func(r *rig) {
		r.schedule(
			r.entry("m1", to("a"), expires(start.Add(time.Second))),
			r.entry("m2", to("a"), expires(start.Add(time.Second+time.Millisecond))),
		)
		r.pass(time.Second)
		got, hints, err := r.Queue.Claim(r.ctx, one, r.all(), 64, 512)
		require.NoError(r, err)
		require.Equal(r, ids("a", "m2"), claimedIDs(got))
		require.Equal(r, 1, hints[0].Ended)
		d := r.mustStand(named("a", "m1"), dispatcher.StatusDead)
		require.Equal(r, dispatcher.ReasonExpired, d.Reason)
		require.Zero(r, d.Attempts)
		require.Empty(r, d.History)
		require.Equal(r, start.Add(time.Second), d.Ended)
		require.Equal(r, int64(1), r.stats().Dead[dispatcher.ReasonExpired])
	}},
	{name: "one that expires between two attempts keeps its history", run: func(r *rig) {
		r.schedule(r.entry("m1", to("a"), expires(start.Add(time.Minute))))
		r.mustSettle(one, failure(r.mustClaim(one, named("a", "m1"))[0], time.Minute))
		r.pass(time.Minute)
		r.move()
		r.mustClaimNothing(one)
		d := r.mustStand(named("a", "m1"), dispatcher.StatusDead)
		require.Equal(r, dispatcher.ReasonExpired, d.Reason)
		require.Equal(r, 1, d.Attempts)
		require.Len(r, d.History, 1)
	}},
	{name: "one whose record was deleted by hand stops nothing and stays nowhere", run: func(r *rig) {
		r.publish("a", "m1", "m2")
		r.Lose("m1")
		got, hints, err := r.Queue.Claim(r.ctx, one, r.all(), 64, 512)
		require.NoError(r, err)
		require.Equal(r, ids("a", "m2"), claimedIDs(got))
		require.Equal(r, 1, hints[0].Lost)
		require.Equal(r, ids("a", "m2"), r.leases(one))
		_, err = r.Queue.Read(r.ctx, "m1")
		require.ErrorIs(r, err, dispatcher.ErrNotFound)
	}},
	{name: "a lost record takes all that is known of its delivery with it", run: func(r *rig) {
		r.schedule(r.entry("m1", to("a", "b")))
		for _, c := range r.claim(one, 2) {
			r.mustSettle(one, failure(c, time.Second))
		}
		r.Lose("m1")
		r.pass(time.Second)
		r.move()
		r.mustClaimNothing(one)
		r.mustClaimNothing(one)
	}},
	{name: "a lost record that is cancelled stays nowhere either", run: func(r *rig) {
		r.publish("a", "m1")
		r.cancel(named("a", "m1"))
		r.Lose("m1")
		r.mustClaimNothing(one)
	}},
	{name: "a settled one whose record was deleted by hand does no harm", run: func(r *rig) {
		r.publish("a", "m1")
		c := r.mustClaim(one, named("a", "m1"))[0]
		r.Lose("m1")
		r.settle(one, failure(c, time.Second))
		r.pass(time.Second)
		r.move()
		r.mustClaimNothing(one)
		r.trim(keepNothing)
	}},
	{name: "attempts and rungs are counted on", run: func(r *rig) {
		r.publish("a", "m1")
		for n := 1; n <= 4; n++ {
			c := r.mustClaim(one, named("a", "m1"))[0]
			require.Equal(r, n, c.Attempt)
			require.Equal(r, n, c.Rung)
			require.Equal(r, n == 1, c.First)
			r.mustSettle(one, failure(c, time.Second))
			r.pass(time.Second)
			r.move()
		}
	}},
}
