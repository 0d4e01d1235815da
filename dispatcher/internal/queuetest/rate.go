package queuetest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

// rateCases are about lanes with a rate.
var rateCases = append([]testCase{
	{name: "a rated lane waits between two attempts, and is not looked at before", run: func(r *rig) {
		r.limit("a", every(time.Second))
		r.publish("a", "m1", "m2", "m3")
		r.deliver(named("a", "m1"))
		next := start.Add(time.Second)
		for _, id := range []string{"m2", "m3"} {
			h := r.move()
			require.Equal(r, next, h.Due)
			require.Equal(r, -1, h.Weight)
			r.setClock(next.Add(-time.Microsecond))
			r.move()
			r.mustClaimNothing(two)
			r.setClock(next)
			require.Equal(r, 0, r.move().Weight)
			r.deliver(named("a", id))
			next = next.Add(time.Second)
		}
		require.Zero(r, r.move().Due, "nothing waits any more")
	}},
	{name: "twenty a second are twenty in each second", run: func(r *rig) {
		r.limit("a", every(50*time.Millisecond))
		r.publishMany("a", 100)
		require.Equal(r, []int{20, 20, 20}, r.attemptsBySecond("a", 3, 0))
	}},
	{name: "a late timer does not lower a rate", run: func(r *rig) {
		r.limit("a", every(10*time.Millisecond))
		r.publishMany("a", 400)
		got := r.attemptsBySecond("a", 3, 45*time.Millisecond)
		for _, n := range got[1:] {
			require.InDelta(r, 100, n, 5, "%v", got)
		}
	}},
	{name: "a rate that was not used is not saved up", run: func(r *rig) {
		r.limit("a", every(20*time.Millisecond))
		for range 8 {
			r.succeed("a")
			r.pass(time.Minute)
		}
		r.publishMany("a", 20)
		require.Len(r, r.claim(one, 64), 1)
	}},
	{name: "a rated lane in use makes up for 50 ms, and an idle one begins anew", run: func(r *rig) {
		for range 8 {
			r.succeed("a")
		}
		r.limit("a", every(20*time.Millisecond))
		for _, c := range []struct {
			idle time.Duration
			want int
		}{{20 * time.Millisecond, 1}, {40 * time.Millisecond, 2}, {time.Second, 3}, {1021 * time.Millisecond, 1}} {
			r.succeed("a")
			r.pass(c.idle)
			r.publishMany("a", 8)
			claimed := r.claim(one, 64)
			require.Len(r, claimed, c.want, "%s", c.idle)
			for ; len(claimed) > 0; claimed = r.claim(one, 64) {
				for _, c := range claimed {
					r.mustSettle(one, success(c))
				}
				r.pass(20 * time.Millisecond)
				r.move()
			}
			require.Zero(r, r.laneState("a").Waiting)
			r.pass(time.Minute)
		}
	}},
	{name: "a turn takes as many as there are tokens", run: func(r *rig) {
		for range 20 {
			r.succeed("a")
		}
		r.limit("a", every(5*time.Millisecond))
		r.succeed("a")
		r.pass(200 * time.Millisecond)
		r.publishMany("a", 20)
		require.Len(r, r.claim(one, 64), 11, "two turns")
		r.mustClaimNothing(two)
		r.pass(5 * time.Millisecond)
		r.move()
		require.Len(r, r.claim(two, 64), 1)
	}},
	{name: "a fraction of a ms makes a turn later, never earlier", run: func(r *rig) {
		r.limit("a", every(333*time.Microsecond+100*time.Millisecond))
		r.publish("a", "m1", "m2")
		r.mustClaim(one, named("a", "m1"))
		lane := r.State().Lanes["a"]
		require.Equal(r, start.Add(100333*time.Microsecond).UnixMicro(), lane.Tat)
		require.Equal(r, start.Add(101*time.Millisecond).UnixMilli(), lane.Parked)
		require.Equal(r, start.Add(101*time.Millisecond), r.move().Due)
	}},
	{name: "a direct lease takes a token, and needs one", run: func(r *rig) {
		r.limit("a", every(time.Second))
		got := r.scheduleFor(one, 512, 64, r.entry("m1", to("a")), r.entry("m2", to("a")))
		require.Equal(r, to("a"), got[0].Leased)
		require.Equal(r, to("a"), got[1].Ready)
		r.mustClaimNothing(two)
		require.Equal(r, "rate", r.look(named("a", "m2")).WaitingFor)
		r.pass(time.Second)
		r.move()
		r.deliver(named("a", "m2"))
		got = r.scheduleFor(one, 512, 64, r.entry("m3", to("a")))
		require.Equal(r, to("a"), got[0].Ready, "the token was taken by the claim")
	}},
	{name: "a rate holds over all instances", run: func(r *rig) {
		r.limit("a", every(time.Second))
		r.publishMany("a", 3)
		require.Len(r, r.claim(one, 64), 1)
		r.mustClaimNothing(two)
		require.Empty(r, r.scheduleFor(two, 512, 64, r.entry("m1", to("a")))[0].Leased)
	}},
	{name: "a lane that waits for its rate does not hold others", run: func(r *rig) {
		r.limit("a", every(time.Hour))
		r.publishMany("a", 5)
		r.publishMany("b", 2)
		require.Len(r, r.claim(one, 64), 3)
		require.Equal(r, -1, r.move().Weight)
	}},
	{name: "more messages do not change the time that a rated lane waits for", run: func(r *rig) {
		r.limit("a", every(time.Second))
		r.publishMany("a", 2)
		require.Len(r, r.claim(one, 64), 1)
		before := r.State().Lanes["a"].Parked
		r.pass(time.Millisecond)
		r.publishMany("a", 2)
		require.Equal(r, before, r.State().Lanes["a"].Parked)
		r.mustClaimNothing(one)
	}},
	{name: "another rate counts from where the old one stood", run: func(r *rig) {
		r.limit("a", every(time.Minute))
		r.publishMany("a", 3)
		require.Len(r, r.claim(one, 64), 1)
		r.limit("a", every(10*time.Second))
		require.Equal(r, start.Add(time.Minute), r.move().Due)
		r.mustClaimNothing(one)
		_, hints := r.limitAs("a", dispatcher.LaneLimits{}, false)
		require.Equal(r, r.setup.weight(4, 1), hints[0].Weight, "with no rate there is nothing to wait for")
		require.Len(r, r.claim(one, 64), 1)
		r.limit("a", every(10*time.Second))
		require.Equal(r, start.Add(time.Minute).UnixMicro(), r.State().Lanes["a"].Tat)
	}},
	{name: "a rate that is much quicker counts from now", run: func(r *rig) {
		r.limit("a", every(time.Minute))
		r.publishMany("a", 3)
		require.Len(r, r.claim(one, 64), 1)
		r.limit("a", every(time.Millisecond)) // as if the old time came from another clock
		require.Len(r, r.claim(one, 1), 1)
	}},
	{name: "a lane tells when its rate allows the next", run: func(r *rig) {
		r.limit("a", every(time.Second))
		r.publishMany("a", 2)
		require.Zero(r, r.laneState("a").Token)
		r.claim(one, 1)
		require.Equal(r, start.Add(time.Second), r.laneState("a").Token)
		r.pass(time.Minute)
		require.Zero(r, r.laneState("a").Token)
	}},
}, tokenCases...)

// tokenCases are about the tokens of attempts that were not made.
var tokenCases = []testCase{
	{name: "a delivery that is handed back returns its token", run: func(r *rig) {
		r.limit("a", every(time.Second))
		r.publish("a", "m1", "m2")
		c := r.mustClaim(one, named("a", "m1"))[0]
		r.mustSettle(one, handBack(c))
		r.mustClaim(two, named("a", "m1"))
		r.mustClaimNothing(two)
	}},
	{name: "a delivery that is handed back returns its token though it was cancelled or delivered meanwhile", run: func(r *rig) {
		for _, lane := range []dispatcher.Lane{"a", "b"} {
			r.limit(lane, every(time.Second))
			c := r.takeOver(lane, "m1-"+string(lane))
			r.pass(time.Minute)
			r.move()
			again := r.mustClaim(two, c.ID)[0]
			if lane == "a" {
				r.cancel(c.ID)
			} else {
				r.settle(one, success(c))
			}
			require.Equal(r, []dispatcher.Settled{dispatcher.SettledEnd}, r.settle(two, handBack(again)))
			r.mustHaveToken(lane)
		}
	}},
	{name: "a marked delivery returns its token when it is claimed", run: func(r *rig) {
		r.limit("a", every(time.Second))
		r.publish("a", "m1", "m2")
		r.cancel(named("a", "m1"))
		r.mustClaimNothing(one)
		r.mustStand(named("a", "m1"), dispatcher.StatusCancelled)
		r.deliver(named("a", "m2"))
		r.mustHaveNoToken("a")
	}},
	{name: "an expired delivery returns its token when it is claimed", run: func(r *rig) {
		r.limit("a", every(time.Second))
		r.schedule(r.entry("m1", to("a"), expires(start)), r.entry("m2", to("a")))
		r.mustClaimNothing(one)
		r.deliver(named("a", "m2"))
		r.mustHaveNoToken("a")
	}},
	{name: "a delivery without a record returns its token when it is claimed", run: func(r *rig) {
		r.limit("a", every(time.Second))
		r.publish("a", "m1", "m2")
		r.Lose("m1")
		r.mustClaimNothing(one)
		r.deliver(named("a", "m2"))
		r.mustHaveNoToken("a")
	}},
	{name: "a delivery that is settled without an attempt returns its token", run: func(r *rig) {
		r.limit("a", every(time.Second))
		r.mustSettle(one, refusal(r.takeNew("a")))
		r.mustHaveToken("a")
	}},
	{name: "an attempt has used its token, whatever its result", run: func(r *rig) {
		for i, outcome := range []func(dispatcher.Claimed) dispatcher.Settlement{
			success,
			func(c dispatcher.Claimed) dispatcher.Settlement { return failure(c, time.Hour) },
			func(c dispatcher.Claimed) dispatcher.Settlement { return silence(c, time.Hour) },
			func(c dispatcher.Claimed) dispatcher.Settlement { return death(c, dispatcher.ReasonGone) },
		} {
			lane := manyLanes(4)[i]
			r.limit(lane, every(time.Second))
			r.mustSettle(one, outcome(r.takeNew(lane)))
			r.mustHaveNoToken(lane)
		}
	}},
	{name: "the leases of a dead instance return no tokens", run: func(r *rig) {
		r.limit("a", every(time.Second))
		r.publish("a", "m1")
		r.mustClaim(one, named("a", "m1"))
		r.reap(one)
		r.mustClaimNothing(two)
		r.mustHaveNoToken("a")
	}},
	{name: "a delivery that was claimed before there was a rate has no token to return", run: func(r *rig) {
		c := r.takeNew("a")
		r.limit("a", every(time.Hour))
		r.mustSettle(one, handBack(c))
		require.GreaterOrEqual(r, r.State().Lanes["a"].Tat, int64(0))
		r.mustClaim(one, c.ID)
	}},
	{name: "a delivery that is handed back after the rate is gone returns no token", run: func(r *rig) {
		r.limit("a", every(time.Second))
		c := r.takeNew("a")
		tat := r.State().Lanes["a"].Tat
		r.limit("a")
		r.mustSettle(one, handBack(c))
		require.Equal(r, tat, r.State().Lanes["a"].Tat)
	}},
}

// attemptsBySecond delivers one lane's messages for some seconds. It claims at
// the times of the hints, and late after each. It answers how many attempts
// began in each second.
func (r *rig) attemptsBySecond(lane dispatcher.Lane, seconds int, late time.Duration) []int {
	r.Helper()
	counts := make([]int, seconds)
	for looks := 0; ; looks++ {
		require.Less(r, looks, 1000, "it looks again and again")
		h := r.move()
		for h.Weight >= 0 {
			claimed := r.claim(one, 64)
			require.NotEmpty(r, claimed)
			for _, c := range claimed {
				counts[int(r.now.Sub(start)/time.Second)]++
				r.mustSettle(one, success(c))
			}
			h = r.move()
		}
		require.True(r, h.Due.After(r.now), "%s has nothing ready, or is looked at too early", lane)
		if h.Due.Add(late).Sub(start) >= time.Duration(seconds)*time.Second {
			return counts
		}
		r.setClock(h.Due.Add(late))
	}
}

// mustHaveToken fails the case unless an empty rated lane may be attempted now.
func (r *rig) mustHaveToken(lane dispatcher.Lane) {
	r.Helper()
	got := r.scheduleFor(two, 512, 64, r.entry(r.newID(), to(lane)))
	require.Equal(r, to(lane), got[0].Leased, "its token was not returned")
}

// mustHaveNoToken fails the case if a rated lane may be attempted now.
func (r *rig) mustHaveNoToken(lane dispatcher.Lane) {
	r.Helper()
	got := r.scheduleFor(two, 512, 64, r.entry(r.newID(), to(lane)))
	require.Empty(r, got[0].Leased, "it has a token more than its rate allows")
	r.mustClaimNothing(two)
}
