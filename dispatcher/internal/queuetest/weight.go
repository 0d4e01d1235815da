package queuetest

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

// weightCases are about windows, weights, turns and the permits they leave.
var weightCases = []testCase{
	{name: "a lane never seen may have two in flight", run: func(r *rig) {
		r.publish("a", "m1", "m2", "m3")
		require.Len(r, r.claim(one, 64), 2)
		r.mustClaimNothing(two)
	}},
	{name: "each success widens the window by one, up to the most", setup: Setup{LaneMaxInFlight: 5}, run: func(r *rig) {
		for n := 2; n <= 5; n++ {
			require.Equal(r, n, max(2, r.State().Lanes["a"].Window))
			r.succeed("a")
		}
		require.Equal(r, 5, r.State().Lanes["a"].Window)
		r.succeed("a")
		require.Equal(r, 5, r.State().Lanes["a"].Window)
		r.publishMany("a", 9)
		require.Len(r, r.claim(one, 64), 5)
	}},
	{name: "the most holds for the first window too", setup: Setup{LaneMaxInFlight: 1}, run: func(r *rig) {
		r.publishMany("a", 3)
		require.Len(r, r.claim(one, 64), 1)
	}},
	{name: "an attempt without an answer halves the window, to one at least", run: func(r *rig) {
		for range 7 {
			r.succeed("a")
		}
		for _, want := range []int{4, 2, 1, 1} {
			r.fallSilent("a")
			require.Equal(r, want, r.State().Lanes["a"].Window)
		}
		r.publishMany("a", 3)
		require.Len(r, r.claim(one, 64), 1)
	}},
	{name: "an answer that is no success leaves the window", run: func(r *rig) {
		r.succeed("a")
		for _, status := range []int{500, 404, 429, 301} {
			c := r.takeNew("a")
			s := failure(c, time.Hour)
			s.Attempt.Status = status
			r.mustSettle(one, s)
			require.Equal(r, 3, r.State().Lanes["a"].Window, "%d", status)
		}
	}},
	{name: "dead with an answer leaves the window, dead without one halves it", run: func(r *rig) {
		for range 2 {
			r.succeed("a")
		}
		r.mustSettle(one, death(r.takeNew("a"), dispatcher.ReasonGone))
		require.Equal(r, 4, r.State().Lanes["a"].Window)
		s := death(r.takeNew("a"), dispatcher.ReasonExhausted)
		s.Attempt.Status = 0
		r.mustSettle(one, s)
		require.Equal(r, 2, r.State().Lanes["a"].Window)
	}},
	{name: "what is handed back says nothing of its lane", run: func(r *rig) {
		c := r.takeNew("a")
		before := r.State().Lanes["a"]
		r.mustSettle(one, handBack(c))
		after := r.State().Lanes["a"]
		require.Equal(r, before.Window, after.Window)
		require.Equal(r, before.Slow, after.Slow)
	}},
	{name: "what was never attempted says nothing of its lane", run: func(r *rig) {
		r.succeed("a")
		s := death(r.takeNew("a"), dispatcher.ReasonRefused)
		s.Attempt = dispatcher.Attempt{}
		r.mustSettle(one, s)
		require.Equal(r, 3, r.State().Lanes["a"].Window)
		require.Equal(r, 0, r.State().Lanes["a"].Slow)
	}},
	{name: "a lane's class is how long its last answer took", run: func(r *rig) {
		for _, c := range []struct {
			took time.Duration
			slow int
		}{
			{0, 0},
			{50 * time.Millisecond, 0}, {51 * time.Millisecond, 1},
			{100 * time.Millisecond, 1}, {101 * time.Millisecond, 2},
			{250 * time.Millisecond, 2}, {251 * time.Millisecond, 4},
			{time.Second, 4}, {1001 * time.Millisecond, 8},
		} {
			s := failure(r.takeNew("a"), time.Hour)
			r.mustSettle(one, took(s, c.took))
			require.Equal(r, c.slow, r.State().Lanes["a"].Slow, "%s", c.took)
		}
		s := failure(r.takeNew("a"), time.Hour)
		s.Attempt.Status = 0
		r.mustSettle(one, took(s, time.Millisecond))
		require.Equal(r, 8, r.State().Lanes["a"].Slow, "no answer, however quickly")
	}},
	{name: "a quick failure does not make a lane heavy", run: func(r *rig) {
		for range 5 {
			r.mustSettle(one, failure(r.takeNew("a"), time.Hour))
		}
		r.publish("a", "last")
		require.Len(r, r.claimWith(one, 1, 1), 1)
	}},
	{name: "the last eight permits are not for a lane that hangs", run: func(r *rig) {
		r.fallSilent("a")
		r.publishMany("a", 1)
		require.Empty(r, r.claimWith(one, 64, 8))
		require.Len(r, r.claimWith(one, 64, 9), 1)
	}},
	{name: "the last four permits are not for a lane never seen", run: func(r *rig) {
		r.publishMany("a", 1)
		require.Empty(r, r.claimWith(one, 64, 4))
		require.Len(r, r.claimWith(one, 64, 5), 1)
	}},
	{name: "the last two permits are not for a slow lane", run: func(r *rig) {
		r.mustSettle(one, took(success(r.takeNew("a")), 200*time.Millisecond))
		r.publishMany("a", 1)
		require.Empty(r, r.claimWith(one, 64, 2))
		require.Len(r, r.claimWith(one, 64, 3), 1)
	}},
	{name: "the very last permit is for a quick lane with nothing in flight", run: func(r *rig) {
		r.succeed("a")
		r.publishMany("a", 2)
		require.Len(r, r.claimWith(one, 64, 1), 1)
		require.Empty(r, r.claimWith(one, 64, 1), "one in flight weighs as much as one free permit")
	}},
	{name: "with more permits the classes grow in proportion", setup: Setup{Permits: 512}, run: func(r *rig) {
		r.fallSilent("a")
		r.publishMany("a", 1)
		require.Empty(r, r.claimWith(one, 64, 32))
		require.Len(r, r.claimWith(one, 64, 33), 1)
	}},
	{name: "the last sixteenth of very many permits is not for a lane that hangs", setup: Setup{Permits: 4096}, run: func(r *rig) {
		r.fallSilent("a")
		r.publishMany("a", 1)
		require.Empty(r, r.claimWith(one, 64, 256))
		require.Len(r, r.claimWith(one, 64, 258), 1, "a weight is as fine as two of them")
	}},
	{name: "the very last of very many permits is for a quick lane", setup: Setup{Permits: 4096}, run: func(r *rig) {
		r.succeed("a")
		r.publishMany("a", 1)
		require.Len(r, r.claimWith(one, 64, 1), 1)
	}},
	{name: "quick lanes that begin to hang leave a permit to another quick one", setup: Setup{Permits: 1024}, run: func(r *rig) {
		quick := []dispatcher.Lane{"q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7", "healthy"}
		for _, lane := range quick {
			for range 6 {
				r.succeed(lane)
			}
		}
		r.fallSilent("hung")
		r.publishMany("hung", 1)
		free := 64 // lanes that hang hold the rest
		require.Empty(r, r.claimWith(one, 64, free))
		for _, lane := range quick[:8] {
			r.publishMany(lane, 64)
		}
		for got := -1; got != 0; free -= got { // they take what they may, and never answer
			got = len(r.claimWith(one, min(free, 64), free))
		}
		require.Positive(r, free)
		r.publish("healthy", "m1")
		require.Equal(r, ids("healthy", "m1"), claimedIDs(r.claimWith(one, 1, free)))
	}},
	{name: "with few permits the classes shrink in proportion", setup: Setup{Permits: 64}, run: func(r *rig) {
		r.fallSilent("a")
		r.publishMany("a", 1)
		require.Empty(r, r.claimWith(one, 64, 4))
		require.Len(r, r.claimWith(one, 64, 5), 1)
	}},
	{name: "an instance that holds nothing takes the lightest lane, whatever it weighs", setup: Setup{Permits: 1}, run: func(r *rig) {
		r.publishMany("a", 1)
		require.Len(r, r.claimWith(one, 1, 1), 1)
	}},
	{name: "an instance that holds nothing takes even from a lane that hangs", setup: Setup{Permits: 1}, run: func(r *rig) {
		c := r.takeNew("a")
		r.mustSettle(one, silence(c, time.Hour))
		r.publishMany("a", 1)
		require.Len(r, r.claimWith(one, 1, 1), 1)
	}},
	{name: "with one permit a busy quick lane starves no other", setup: Setup{Permits: 1}, run: func(r *rig) {
		r.mustReachAll()
	}},
	{name: "with six permits a busy quick lane starves no other", setup: Setup{Permits: 6}, run: func(r *rig) {
		r.mustReachAll()
	}},
	{name: "with all permits a busy quick lane starves no other", run: func(r *rig) {
		r.mustReachAll()
	}},
	{name: "one lane alone holds half of an instance's permits at most", setup: Setup{Permits: 64}, run: func(r *rig) {
		for range 62 {
			r.succeed("a")
		}
		r.publishMany("a", 64)
		free := 64
		for {
			n := len(r.claimWith(one, free, free))
			if n == 0 {
				break
			}
			free -= n
		}
		require.Equal(r, 32, free)
	}},
	{name: "one lane alone holds half of all instances' permits", setup: Setup{Permits: 64, Total: 256, LaneMaxInFlight: 256}, run: func(r *rig) {
		for range 254 {
			r.succeed("a")
		}
		r.publishMany("a", 256)
		held := map[string]int{}
		for more := true; more; { // each takes a few in turn, as instances that run side by side do
			more = false
			for _, name := range []string{one, two, "three", "four"} {
				n := len(r.claimWith(name, min(4, 64-held[name]), 64-held[name]))
				held[name] += n
				more = more || n > 0
			}
		}
		require.Equal(r, map[string]int{one: 32, two: 32, "three": 32, "four": 32}, held)
	}},
	{name: "an instance with few permits takes by its own part of what is free", setup: Setup{Permits: 16, Total: 1040}, run: func(r *rig) {
		r.fallSilent("hung")
		r.publishMany("hung", 1)
		require.Empty(r, r.claimWith(one, 16, 1), "a sixteenth of its permits is not for what hangs")
		require.Len(r, r.claimWith(one, 16, 2), 1)
	}},
	{name: "a lane that is first by outdated shares does not hide a lighter one", setup: Setup{Permits: 64, Total: 1024}, run: func(r *rig) {
		r.fallSilent("b")
		for range 62 {
			r.succeed("a")
		}
		r.publishMany("a", 64)
		held := len(r.claimWith(one, 30, 64))
		require.Equal(r, 30, held)
		r.publish("b", "m1")
		r.leaveOthers()
		require.Equal(r, ids("b", "m1"), claimedIDs(r.claimWith(one, 1, 20)))
		require.Equal(r, r.setup.weight(0, held), r.State().Lanes["a"].Weight, "it was placed anew")
	}},
	{name: "each call places sixteen lanes anew that are first by outdated shares", setup: Setup{Permits: 64, Total: 4096}, run: func(r *rig) {
		lane := func(i int) dispatcher.Lane { return dispatcher.Lane(fmt.Sprintf("quick%02d", i)) }
		for i := range 17 {
			r.succeed(lane(i))
			r.succeed(lane(i))
		}
		for i := range 17 {
			r.publishMany(lane(i), 3)
		}
		require.Len(r, r.claimWith(one, 64, 64), 51)
		for i := range 17 {
			r.publishMany(lane(i), 1)
		}
		r.publish("new", "m1")
		r.leaveOthers()
		got, hints, err := r.Queue.Claim(r.ctx, one, r.all(), 1, 3)
		require.NoError(r, err)
		require.Empty(r, got)
		require.Equal(r, 16, hints[0].Placed, "which says that another claim may find more")
		require.Equal(r, ids("new", "m1"), claimedIDs(r.claimWith(one, 1, 3)))
	}},
	{name: "the permits of a dead instance do not count any more", run: func(r *rig) {
		r.join(one, 128)
		r.join("three", 896)
		r.publish("a", "m1", "m2")
		require.Len(r, r.claimWith(one, 1, 64), 1)
		require.Equal(r, 2048*(1+4*8)/1024, r.State().Lanes["a"].Weight)
		r.reap("three")
		r.beat(one)
		require.Empty(r, r.claimWith(one, 1, 4))
		require.Equal(r, 2048*(1+4)/128, r.State().Lanes["a"].Weight)
	}},
	{name: "lighter lanes come first", run: func(r *rig) {
		r.fallSilent("a")
		r.mustSettle(one, took(success(r.takeNew("b")), 80*time.Millisecond))
		r.succeed("c")
		r.publish("a", "ma")
		r.publish("b", "mb")
		r.publish("c", "mc")
		r.publish("d", "md")
		want := []dispatcher.DeliveryID{named("c", "mc"), named("b", "mb"), named("d", "md"), named("a", "ma")}
		require.Equal(r, want, claimedIDs(r.claim(one, 64)))
	}},
	{name: "what is in flight makes a lane heavier", run: func(r *rig) {
		r.succeed("a")
		r.succeed("b")
		r.publish("a", "m1", "m2")
		r.mustClaim(one, named("a", "m1"))
		r.publish("b", "m3")
		r.mustClaim(one, named("b", "m3"))
	}},
	{name: "among equal lanes the one with the oldest turn comes first", run: func(r *rig) {
		for _, lane := range []dispatcher.Lane{"c", "a", "b"} {
			r.pass(time.Second)
			r.publish(lane, "1-"+string(lane), "2-"+string(lane), "3-"+string(lane))
		}
		want := []dispatcher.DeliveryID{named("c", "1-c"), named("a", "1-a"), named("b", "1-b")}
		var got []dispatcher.DeliveryID
		for range 3 {
			r.pass(time.Second)
			got = append(got, claimedIDs(r.claim(one, 1))...)
		}
		require.Equal(r, want, got)
	}},
	{name: "a turn takes eight, then the others have theirs", run: func(r *rig) {
		for range 20 {
			r.succeed("a")
			r.succeed("b")
		}
		r.publishMany("a", 20)
		r.pass(time.Second)
		r.publishMany("b", 20)
		var lanes string
		for _, id := range claimedIDs(r.claim(one, 36)) {
			lanes += string(id.Lane)
		}
		require.Equal(r, "aaaaaaaabbbbbbbbaaaaaaaabbbbbbbbaaaa", lanes)
	}},
	{name: "a lane with a full window does not hold the others", run: func(r *rig) {
		r.publishMany("a", 8)
		r.pass(time.Second)
		r.publishMany("b", 8)
		require.Len(r, r.claim(one, 64), 4)
		state := r.State()
		require.False(r, state.Lanes["a"].Listed)
		require.False(r, state.Lanes["b"].Listed)
	}},
	{name: "many lanes that wait for a window hide no other", run: func(r *rig) {
		for i := range 100 {
			r.publishMany(dispatcher.Lane(fmt.Sprintf("hung%02d", i)), 4)
		}
		for len(r.claim(one, 64)) > 0 {
		}
		r.publish("fresh", "m1")
		r.mustClaim(one, named("fresh", "m1"))
	}},
	{name: "a settled delivery frees a slot of the window", run: func(r *rig) {
		r.publish("a", "m1", "m2", "m3")
		claimed := r.claim(one, 64)
		require.Len(r, claimed, 2)
		r.mustSettle(one, failure(claimed[0], time.Hour))
		r.mustClaim(two, named("a", "m3"))
	}},
}
