package redisq_test

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// WeightCases are about windows, weights and turns, and the permits that they leave.
var WeightCases = []redisqtest.Case{
	{Name: "a lane never seen may have two in flight", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1", "m2", "m3")
		require.Len(r, r.Claim(redisqtest.One, 64), 2)
		r.MustClaimNothing(redisqtest.Two)
	}},
	{Name: "each success widens the window by one, up to the limit", Setup: redisqtest.Setup{LaneMaxInFlight: 5}, Run: func(r *redisqtest.Rig) {
		for n := 2; n <= 5; n++ {
			require.Equal(r, n, max(2, r.State().Lanes["a"].Window))
			r.Succeed("a")
		}
		require.Equal(r, 5, r.State().Lanes["a"].Window)
		r.Succeed("a")
		require.Equal(r, 5, r.State().Lanes["a"].Window)
		r.PublishMany("a", 9)
		require.Len(r, r.Claim(redisqtest.One, 64), 5)
	}},
	{Name: "the limit applies to the first window too", Setup: redisqtest.Setup{LaneMaxInFlight: 1}, Run: func(r *redisqtest.Rig) {
		r.PublishMany("a", 3)
		require.Len(r, r.Claim(redisqtest.One, 64), 1)
	}},
	{Name: "an attempt that returns no response halves the window, to one at least", Run: func(r *redisqtest.Rig) {
		for range 7 {
			r.Succeed("a")
		}
		for _, want := range []int{4, 2, 1, 1} {
			fallSilent(r, "a")
			require.Equal(r, want, r.State().Lanes["a"].Window)
		}
		r.PublishMany("a", 3)
		require.Len(r, r.Claim(redisqtest.One, 64), 1)
	}},
	{Name: "a failure with a response does not change the window", Run: func(r *redisqtest.Rig) {
		r.Succeed("a")
		for _, status := range []int{500, 404, 429, 301} {
			c := r.TakeNew("a")
			s := redisqtest.Failure(c, time.Hour)
			s.Attempt.Status = status
			r.MustSettle(redisqtest.One, s)
			require.Equal(r, 3, r.State().Lanes["a"].Window, "%d", status)
		}
	}},
	{Name: "a death with a response does not change the window, and one without halves it", Run: func(r *redisqtest.Rig) {
		for range 2 {
			r.Succeed("a")
		}
		r.MustSettle(redisqtest.One, redisqtest.Death(r.TakeNew("a"), dispatcher.ReasonGone))
		require.Equal(r, 4, r.State().Lanes["a"].Window)
		s := redisqtest.Death(r.TakeNew("a"), dispatcher.ReasonExhausted)
		s.Attempt.Status = 0
		r.MustSettle(redisqtest.One, s)
		require.Equal(r, 2, r.State().Lanes["a"].Window)
	}},
	{Name: "a delivery that is handed back does not change its lane", Run: func(r *redisqtest.Rig) {
		c := r.TakeNew("a")
		before := r.State().Lanes["a"]
		r.MustSettle(redisqtest.One, redisqtest.HandBack(c))
		after := r.State().Lanes["a"]
		require.Equal(r, before.Window, after.Window)
		require.Equal(r, before.Slow, after.Slow)
	}},
	{Name: "a delivery without an attempt does not change its lane", Run: func(r *redisqtest.Rig) {
		r.Succeed("a")
		s := redisqtest.Death(r.TakeNew("a"), dispatcher.ReasonRefused)
		s.Attempt = dispatcher.Attempt{}
		r.MustSettle(redisqtest.One, s)
		require.Equal(r, 3, r.State().Lanes["a"].Window)
		require.Equal(r, 0, r.State().Lanes["a"].Slow)
	}},
	{Name: "a lane's class depends on the time of its last response", Run: func(r *redisqtest.Rig) {
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
			s := redisqtest.Failure(r.TakeNew("a"), time.Hour)
			r.MustSettle(redisqtest.One, redisqtest.Took(s, c.took))
			require.Equal(r, c.slow, r.State().Lanes["a"].Slow, "%s", c.took)
		}
		s := redisqtest.Failure(r.TakeNew("a"), time.Hour)
		s.Attempt.Status = 0
		r.MustSettle(redisqtest.One, redisqtest.Took(s, time.Millisecond))
		require.Equal(r, 8, r.State().Lanes["a"].Slow, "no response, even a quick failure")
	}},
	{Name: "a quick failure does not make a lane heavy", Run: func(r *redisqtest.Rig) {
		for range 5 {
			r.MustSettle(redisqtest.One, redisqtest.Failure(r.TakeNew("a"), time.Hour))
		}
		r.Publish("a", "last")
		require.Len(r, r.ClaimWith(redisqtest.One, 1, 1), 1)
	}},
	{Name: "a lane that hangs cannot take the last eight permits", Run: func(r *redisqtest.Rig) {
		fallSilent(r, "a")
		r.PublishMany("a", 1)
		require.Empty(r, r.ClaimWith(redisqtest.One, 64, 8))
		require.Len(r, r.ClaimWith(redisqtest.One, 64, 9), 1)
	}},
	{Name: "a claim that found nothing is not repeated with the same permits", Run: func(r *redisqtest.Rig) {
		r.PublishMany("a", 200)
		free := r.Setup.Permits // the permits of attempts that are not settled yet are back
		for got := -1; got != 0; {
			claimed, err := r.Queue.Whole.Claim(r.Ctx, redisqtest.One, dispatcher.Claim{Wanted: 64, Free: free})
			require.NoError(r, err)
			got = len(claimed)
		}
		partitions, waiting := r.Queue.Claimable(free)
		require.Zero(r, partitions)
		require.True(r, waiting)
	}},
	{Name: "a slow lane cannot take the last two permits", Run: func(r *redisqtest.Rig) {
		r.MustSettle(redisqtest.One, redisqtest.Took(redisqtest.Success(r.TakeNew("a")), 200*time.Millisecond))
		r.PublishMany("a", 1)
		require.Empty(r, r.ClaimWith(redisqtest.One, 64, 2))
		require.Len(r, r.ClaimWith(redisqtest.One, 64, 3), 1)
	}},
	{Name: "the very last permit is for a quick lane with nothing in flight", Run: func(r *redisqtest.Rig) {
		r.Succeed("a")
		r.PublishMany("a", 2)
		require.Len(r, r.ClaimWith(redisqtest.One, 64, 1), 1)
		require.Empty(r, r.ClaimWith(redisqtest.One, 64, 1), "one delivery in flight has the weight of one free permit")
	}},
	{Name: "with more permits the classes grow in proportion", Setup: redisqtest.Setup{Permits: 512}, Run: func(r *redisqtest.Rig) {
		fallSilent(r, "a")
		r.PublishMany("a", 1)
		require.Empty(r, r.ClaimWith(redisqtest.One, 64, 32))
		require.Len(r, r.ClaimWith(redisqtest.One, 64, 33), 1)
	}},
	{Name: "a lane that hangs cannot take the last sixteenth of very many permits", Setup: redisqtest.Setup{Permits: 4096}, Run: func(r *redisqtest.Rig) {
		fallSilent(r, "a")
		r.PublishMany("a", 1)
		require.Empty(r, r.ClaimWith(redisqtest.One, 64, 256))
		require.Len(r, r.ClaimWith(redisqtest.One, 64, 258), 1, "a weight is as fine as two of them")
	}},
	{Name: "a quick lane can take the last of very many permits", Setup: redisqtest.Setup{Permits: 4096}, Run: func(r *redisqtest.Rig) {
		r.Succeed("a")
		r.PublishMany("a", 1)
		require.Len(r, r.ClaimWith(redisqtest.One, 64, 1), 1)
	}},
	{Name: "quick lanes that begin to hang leave a permit for another quick lane", Setup: redisqtest.Setup{Permits: 1024}, Run: func(r *redisqtest.Rig) {
		quick := []dispatcher.Lane{"q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7", "healthy"}
		for _, lane := range quick {
			for range 6 {
				r.Succeed(lane)
			}
		}
		fallSilent(r, "hung")
		r.PublishMany("hung", 1)
		free := 64 // lanes that hang use the rest
		require.Empty(r, r.ClaimWith(redisqtest.One, 64, free))
		for _, lane := range quick[:8] {
			r.PublishMany(lane, 64)
		}
		for got := -1; got != 0; free -= got { // they take all permits that they may have, and never respond
			got = len(r.ClaimWith(redisqtest.One, min(free, 64), free))
		}
		require.Positive(r, free)
		r.Publish("healthy", "m1")
		require.Equal(r, redisqtest.IDs("healthy", "m1"), redisqtest.ClaimedIDs(r.ClaimWith(redisqtest.One, 1, free)))
	}},
	{Name: "with few permits the classes shrink in proportion", Setup: redisqtest.Setup{Permits: 64}, Run: func(r *redisqtest.Rig) {
		fallSilent(r, "a")
		r.PublishMany("a", 1)
		require.Empty(r, r.ClaimWith(redisqtest.One, 64, 4))
		require.Len(r, r.ClaimWith(redisqtest.One, 64, 5), 1)
	}},
	{Name: "an idle instance takes the lightest lane, whatever its weight is", Setup: redisqtest.Setup{Permits: 1}, Run: func(r *redisqtest.Rig) {
		r.PublishMany("a", 1)
		require.Len(r, r.ClaimWith(redisqtest.One, 1, 1), 1)
	}},
	{Name: "an idle instance takes even from a lane that hangs", Setup: redisqtest.Setup{Permits: 1}, Run: func(r *redisqtest.Rig) {
		c := r.TakeNew("a")
		r.MustSettle(redisqtest.One, redisqtest.Silence(c, time.Hour))
		r.PublishMany("a", 1)
		require.Len(r, r.ClaimWith(redisqtest.One, 1, 1), 1)
	}},
	{Name: "with one permit a busy quick lane starves no other", Setup: redisqtest.Setup{Permits: 1}, Run: func(r *redisqtest.Rig) {
		mustReachAll(r)
	}},
	{Name: "with six permits a busy quick lane starves no other", Setup: redisqtest.Setup{Permits: 6}, Run: func(r *redisqtest.Rig) {
		mustReachAll(r)
	}},
	{Name: "with all permits a busy quick lane starves no other", Run: func(r *redisqtest.Rig) {
		mustReachAll(r)
	}},
	{Name: "one lane alone uses at most half of an instance's permits", Setup: redisqtest.Setup{Permits: 64}, Run: func(r *redisqtest.Rig) {
		for range 62 {
			r.Succeed("a")
		}
		r.PublishMany("a", 64)
		free := 64
		for {
			n := len(r.ClaimWith(redisqtest.One, free, free))
			if n == 0 {
				break
			}
			free -= n
		}
		require.Equal(r, 32, free)
	}},
	{Name: "one lane alone uses half of the permits of all instances", Setup: redisqtest.Setup{Permits: 64, Total: 256, LaneMaxInFlight: 256}, Run: func(r *redisqtest.Rig) {
		for range 254 {
			r.Succeed("a")
		}
		r.PublishMany("a", 256)
		leased := map[string]int{}
		for more := true; more; { // each takes a few in turn, because instances run at the same time
			more = false
			for _, name := range []string{redisqtest.One, redisqtest.Two, "three", "four"} {
				n := len(r.ClaimWith(name, min(4, 64-leased[name]), 64-leased[name]))
				leased[name] += n
				more = more || n > 0
			}
		}
		require.Equal(r, map[string]int{redisqtest.One: 32, redisqtest.Two: 32, "three": 32, "four": 32}, leased)
	}},
	{Name: "an instance with few permits takes by its own share of the free permits", Setup: redisqtest.Setup{Permits: 16, Total: 1040}, Run: func(r *redisqtest.Rig) {
		fallSilent(r, "hung")
		r.PublishMany("hung", 1)
		require.Empty(r, r.ClaimWith(redisqtest.One, 16, 1), "lanes that hang cannot take the last sixteenth of its permits")
		require.Len(r, r.ClaimWith(redisqtest.One, 16, 2), 1)
	}},
	{Name: "a lane that is first because of old shares does not hide a lighter one", Setup: redisqtest.Setup{Permits: 64, Total: 1024}, Run: func(r *redisqtest.Rig) {
		fallSilent(r, "b")
		for range 62 {
			r.Succeed("a")
		}
		r.PublishMany("a", 64)
		leased := len(r.ClaimWith(redisqtest.One, 30, 64))
		require.Equal(r, 30, leased)
		r.Publish("b", "m1")
		leaveOthers(r)
		require.Equal(r, redisqtest.IDs("b", "m1"), redisqtest.ClaimedIDs(r.ClaimWith(redisqtest.One, 1, 20)))
		require.Equal(r, r.Setup.Weight(0, leased), r.State().Lanes["a"].Weight, "it has a new place")
	}},
	{Name: "each call corrects the places of sixteen lanes that are first because of old shares", Setup: redisqtest.Setup{Permits: 64, Total: 4096}, Run: func(r *redisqtest.Rig) {
		lane := func(i int) dispatcher.Lane { return dispatcher.Lane(fmt.Sprintf("quick%02d", i)) }
		for i := range 17 {
			r.Succeed(lane(i))
			r.Succeed(lane(i))
		}
		for i := range 17 {
			r.PublishMany(lane(i), 3)
		}
		require.Len(r, r.ClaimWith(redisqtest.One, 64, 64), 51)
		for i := range 17 {
			r.PublishMany(lane(i), 1)
		}
		r.Publish("new", "m1")
		leaveOthers(r)
		got, hints, err := r.Queue.Claim(r.Ctx, redisqtest.One, r.All(), 1, 3)
		require.NoError(r, err)
		require.Empty(r, got)
		require.Equal(r, 16, hints[0].Placed, "the result reports that another claim may find more")
		require.Equal(r, redisqtest.IDs("new", "m1"), redisqtest.ClaimedIDs(r.ClaimWith(redisqtest.One, 1, 3)))
	}},
	{Name: "the permits of a dead instance do not count any more", Run: func(r *redisqtest.Rig) {
		r.Join(redisqtest.One, 128)
		r.Join("three", 896)
		r.Publish("a", "m1", "m2")
		require.Len(r, r.ClaimWith(redisqtest.One, 1, 64), 1)
		require.Equal(r, 2048*(1+8*8)/1024, r.State().Lanes["a"].Weight)
		r.Reap("three")
		r.Beat(redisqtest.One)
		require.Empty(r, r.ClaimWith(redisqtest.One, 1, 4))
		require.Equal(r, 2048*(1+8)/128, r.State().Lanes["a"].Weight)
	}},
	{Name: "lighter lanes come first", Run: func(r *redisqtest.Rig) {
		fallSilent(r, "a")
		r.MustSettle(redisqtest.One, redisqtest.Took(redisqtest.Success(r.TakeNew("b")), 80*time.Millisecond))
		r.Succeed("c")
		r.Publish("a", "ma")
		r.Publish("b", "mb")
		r.Publish("c", "mc")
		r.Publish("d", "md")
		want := []dispatcher.DeliveryID{redisqtest.Named("c", "mc"), redisqtest.Named("b", "mb"), redisqtest.Named("d", "md"), redisqtest.Named("a", "ma")}
		require.Equal(r, want, redisqtest.ClaimedIDs(r.Claim(redisqtest.One, 64)))
	}},
	{Name: "deliveries in flight make a lane heavier", Run: func(r *redisqtest.Rig) {
		r.Succeed("a")
		r.Succeed("b")
		r.Publish("a", "m1", "m2")
		r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))
		r.Publish("b", "m3")
		r.MustClaim(redisqtest.One, redisqtest.Named("b", "m3"))
	}},
	{Name: "the lane with the oldest turn comes first among equal lanes", Run: func(r *redisqtest.Rig) {
		for _, lane := range []dispatcher.Lane{"c", "a", "b"} {
			r.Pass(time.Second)
			r.Publish(lane, "1-"+string(lane), "2-"+string(lane), "3-"+string(lane))
		}
		want := []dispatcher.DeliveryID{redisqtest.Named("c", "1-c"), redisqtest.Named("a", "1-a"), redisqtest.Named("b", "1-b")}
		var got []dispatcher.DeliveryID
		for range 3 {
			r.Pass(time.Second)
			got = append(got, redisqtest.ClaimedIDs(r.Claim(redisqtest.One, 1))...)
		}
		require.Equal(r, want, got)
	}},
	{Name: "a turn takes eight, then the other lanes have their turn", Run: func(r *redisqtest.Rig) {
		for range 20 {
			r.Succeed("a")
			r.Succeed("b")
		}
		r.PublishMany("a", 20)
		r.Pass(time.Second)
		r.PublishMany("b", 20)
		var lanes string
		for _, id := range redisqtest.ClaimedIDs(r.Claim(redisqtest.One, 36)) {
			lanes += string(id.Lane)
		}
		require.Equal(r, "aaaaaaaabbbbbbbbaaaaaaaabbbbbbbbaaaa", lanes)
	}},
	{Name: "a lane with a full window does not block the others", Run: func(r *redisqtest.Rig) {
		r.PublishMany("a", 8)
		r.Pass(time.Second)
		r.PublishMany("b", 8)
		require.Len(r, r.Claim(redisqtest.One, 64), 4)
		state := r.State()
		require.False(r, state.Lanes["a"].Listed)
		require.False(r, state.Lanes["b"].Listed)
	}},
	{Name: "many lanes that wait for a window hide no other", Run: func(r *redisqtest.Rig) {
		for i := range 100 {
			r.PublishMany(dispatcher.Lane(fmt.Sprintf("hung%02d", i)), 4)
		}
		for len(r.Claim(redisqtest.One, 64)) > 0 {
		}
		r.Publish("fresh", "m1")
		r.MustClaim(redisqtest.One, redisqtest.Named("fresh", "m1"))
	}},
	{Name: "a settled delivery frees a slot of the window", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1", "m2", "m3")
		claimed := r.Claim(redisqtest.One, 64)
		require.Len(r, claimed, 2)
		r.MustSettle(redisqtest.One, redisqtest.Failure(claimed[0], time.Hour))
		r.MustClaim(redisqtest.Two, redisqtest.Named("a", "m3"))
	}},
}

// mustReachAll fails the case unless two lanes have their turn beside a quick
// lane that has more work than can be sent. One of them is new. The last attempt
// of the other one got no response. Each round ends the oldest attempt.
func mustReachAll(r *redisqtest.Rig) {
	r.Helper()
	for range 6 {
		r.Succeed("busy")
	}
	fallSilent(r, "hung")
	r.PublishMany("busy", 200)
	r.Pass(time.Second)
	r.Publish("hung", "h1")
	r.Publish("new", "n1")
	missing := map[dispatcher.Lane]bool{"hung": true, "new": true}
	var flying []dispatcher.Claimed
	for range 30 {
		free := r.Setup.Permits - len(flying)
		flying = append(flying, r.ClaimWith(redisqtest.One, min(free, 64), free)...)
		for _, c := range flying {
			delete(missing, c.ID.Lane)
		}
		require.NotEmpty(r, flying)
		r.Pass(10 * time.Millisecond)
		r.MustSettle(redisqtest.One, redisqtest.Success(flying[0]))
		flying = flying[1:]
	}
	require.Empty(r, missing, "these lanes never had their turn")
	require.NotEmpty(r, r.State().Ready["busy"], "the quick lane always had more work")
}

// leaveOthers lets the other instances leave with all their permits.
func leaveOthers(r *redisqtest.Rig) {
	r.Helper()
	require.NoError(r, r.Queue.Leave(r.Ctx, redisqtest.Others))
	r.Setup.Total = 0
	r.Beat(redisqtest.One)
}

// fallSilent settles an attempt of a new message that gets no response. The message
// then waits an hour for its retry.
func fallSilent(r *redisqtest.Rig, lane dispatcher.Lane) {
	r.Helper()
	r.MustSettle(redisqtest.One, redisqtest.Silence(r.TakeNew(lane), time.Hour))
}
