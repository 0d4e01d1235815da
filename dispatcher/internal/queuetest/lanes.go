package queuetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

// laneCases are about reading lanes.
var laneCases = []testCase{
	{name: "an unknown lane reads as a new one", run: func(r *rig) {
		r.mustChangeNothing(func() {
			require.Equal(r, dispatcher.LaneState{Lane: "a", Window: 2}, r.laneState("a"))
		})
	}},
	{name: "a lane tells its limits, its work and its window", setup: Setup{LaneMaxInFlight: 4}, run: func(r *rig) {
		limits := r.newLimits(epOne, most(3), every(time.Millisecond), held(dispatcher.HeldPaused))
		r.limit("a", most(3))
		for range 3 {
			r.succeed("a")
		}
		r.publish("a", "m1", "m2")
		r.schedule(r.entry("m3", to("a"), delay(time.Hour)))
		r.publishKeyed("a", "k", "m4", "m5")
		r.claim(one, 1)
		got := r.laneState("a")
		got.URL, got.Tenant = "", ""
		require.Equal(r, dispatcher.LaneState{
			Lane: "a", Known: true, Window: 3, Limits: dispatcher.LaneLimits{MaxInFlight: 3},
			LaneCount: dispatcher.LaneCount{InFlight: 1, Waiting: 4},
		}, got)
		r.limitAs(epOne, limits, false)
		require.Equal(r, dispatcher.LaneState{Lane: epOne, Known: true, Window: 2, Limits: limits, Since: r.now, By: dispatcher.System}, r.laneState(epOne))
		require.Equal(r, dispatcher.StatePaused, stateWord(r.laneState(epOne)))
		since := r.now
		r.pass(time.Minute)
		r.limitAs(epOne, r.newLimits(epOne, most(2), held(dispatcher.HeldPaused)), false)
		require.Equal(r, since, r.laneState(epOne).Since, "it was held before")
		r.limitAs(epOne, r.newLimits(epOne, held(dispatcher.HeldDisabled)), false)
		require.Equal(r, r.now, r.laneState(epOne).Since, "for another reason")
		r.limitAs(epOne, r.newLimits(epOne), false)
		require.Zero(r, r.laneState(epOne).Since)
	}},
	{name: "lanes are told in the order asked for, also twice", setup: spread, run: func(r *rig) {
		r.publish("b", "m1")
		got, err := r.Queue.LaneStates(r.ctx, to("c", "b", "a", "b"))
		require.NoError(r, err)
		require.Equal(r, to("c", "b", "a", "b"), namesOf(got))
		require.Equal(r, []bool{false, true, false, true}, []bool{got[0].Known, got[1].Known, got[2].Known, got[3].Known})
		got, err = r.Queue.LaneStates(r.ctx, nil)
		require.NoError(r, err)
		require.Empty(r, got)
	}},
	{name: "all lanes can be asked for as one", run: func(r *rig) {
		require.Equal(r, dispatcher.StateActive, stateWord(r.laneState(dispatcher.AllLanes)))
		r.holdAll()
		require.Equal(r, dispatcher.StatePaused, stateWord(r.laneState(dispatcher.AllLanes)))
	}},
	{name: "every known lane is listed once, the last made first", run: listsLanes},
	{name: "every known lane is listed once, the last made first, over several partitions", setup: spread, run: listsLanes},
	{name: "all lanes come first while they are held", setup: spread, run: func(r *rig) {
		r.publish("a", "m1")
		r.holdAll()
		got, _, err := r.Queue.Lanes(r.ctx, 10, "")
		require.NoError(r, err)
		require.Equal(r, to(dispatcher.AllLanes, "a"), namesOf(got))
		require.Equal(r, dispatcher.HeldPaused, got[0].Limits.Held)
		r.pass(time.Second)
		r.publish("b", "m2")
		require.Equal(r, to(dispatcher.AllLanes, "b", "a"), namesOf(r.listLanes(1)), "and once")
		r.resume(dispatcher.AllLanes)
		require.Equal(r, to("b", "a"), namesOf(r.listLanes(10)))
	}},
	{name: "a paused lane is listed though nothing was published to it", run: func(r *rig) {
		r.limit("a", held(dispatcher.HeldPaused))
		got := r.listLanes(10)
		require.Equal(r, to("a"), namesOf(got))
		require.True(r, got[0].Known)
		require.Equal(r, dispatcher.HeldPaused, got[0].Limits.Held)
	}},
	{name: "lanes tell who paused them and since when, or that all are paused", setup: spread, run: func(r *rig) {
		r.publish("a", "m1")
		r.limit("b", held(dispatcher.HeldPaused), by("ops"))
		r.pass(time.Minute)
		r.limitAs(dispatcher.AllLanes, dispatcher.LaneLimits{Held: dispatcher.HeldPaused, By: "night"}, false)
		all := dispatcher.HeldLane{Held: dispatcher.HeldPaused, Since: start.Add(time.Minute), By: "night"}
		got := r.listLanes(10)
		require.Equal(r, to(dispatcher.AllLanes, "b", "a"), namesOf(got))
		require.Equal(r, []string{"night", "ops", ""}, []string{got[0].By, got[1].By, got[2].By})
		require.Equal(r, []time.Time{all.Since, start, {}}, []time.Time{got[0].Since, got[1].Since, got[2].Since})
		require.Equal(r, &all, got[2].All)
		state, why := got[2].Standing()
		require.Equal(r, dispatcher.StatePaused, state)
		require.Equal(r, dispatcher.WhyAll, why)
		r.resume(dispatcher.AllLanes)
		require.Nil(r, r.laneState("a").All)
		require.Equal(r, "ops", r.laneState("b").By, "its own pause stays")
	}},
	{name: "what is paused is listed first, those that were paused last before the others", setup: spread, run: func(r *rig) {
		for n := range 30 {
			r.pass(time.Millisecond)
			r.publishMany(dispatcher.Lane(fmt.Sprintf("l%02d", n)), 1)
		}
		var want []dispatcher.Lane
		for n := range 10 {
			r.pass(time.Millisecond)
			lane := dispatcher.Lane(fmt.Sprintf("l%02d", (n*7)%30))
			r.limit(lane, held(dispatcher.HeldPaused))
			want = append(to(lane), want...)
		}
		for _, most := range []int{0, 3, 50} {
			paused, total, err := r.Queue.PausedLanes(r.ctx, most)
			require.NoError(r, err)
			require.Equal(r, 10, total)
			require.Equal(r, want[:min(most, 10)], append([]dispatcher.Lane{}, namesOf(paused)...))
		}
		for n := 29; n >= 0; n-- {
			if lane := dispatcher.Lane(fmt.Sprintf("l%02d", n)); !slices.Contains(want, lane) {
				want = append(want, lane)
			}
		}
		for _, limit := range []int{1, 3, 9, 10, 11, 30, 100} {
			require.Equal(r, want, namesOf(r.listLanes(limit)), "%d", limit)
		}
		r.holdAll()
		for _, limit := range []int{1, 10, 100} {
			require.Equal(r, append(to(dispatcher.AllLanes), want...), namesOf(r.listLanes(limit)), "%d", limit)
		}
		paused, total, err := r.Queue.PausedLanes(r.ctx, 1)
		require.NoError(r, err)
		require.Equal(r, 11, total)
		require.Equal(r, append(to(dispatcher.AllLanes), want[0]), namesOf(paused))
	}},
	{name: "a lane tells whether it waits for its receiver's pause or for its rate", run: func(r *rig) {
		r.limit("a", every(time.Minute))
		r.publishMany("a", 3)
		r.claim(one, 1)
		require.Equal(r, dispatcher.WhyRate, r.laneState("a").Limit)
		r.mustSettle(one, paused(r.takeNew("b"), time.Hour, time.Minute))
		require.Equal(r, dispatcher.WhyRetryAfter, r.laneState("b").Limit)
		r.pass(2 * time.Minute)
		require.Empty(r, r.laneState("a").Limit)
		require.Empty(r, r.laneState("b").Limit)
	}},
	{name: "a listed lane tells the same as one that is read by name", setup: threeFailures, run: func(r *rig) {
		r.openBreaker("a")
		r.limit("b", every(time.Minute))
		r.publishMany("b", 3)
		r.claim(one, 1)
		r.limit(epOne, ordered)
		r.publish(epOne, "m1", "m2")
		for _, l := range r.listLanes(2) {
			require.Equal(r, r.laneState(l.Lane), l)
		}
	}},
	{name: "a cursor of another list is refused", run: func(r *rig) {
		for _, cursor := range []string{"x", "!", "bm9wZQ"} {
			_, _, err := r.Queue.Lanes(r.ctx, 10, cursor)
			require.ErrorIs(r, err, dispatcher.ErrCursor, cursor)
		}
	}},
}

func listsLanes(r *rig) {
	require.Empty(r, r.listLanes(10))
	var want []dispatcher.Lane
	for n := range 25 {
		r.pass(time.Millisecond)
		lane := dispatcher.Lane(fmt.Sprintf("l%02d", (n*7)%25))
		want = append(want, lane)
		r.publishMany(lane, 1)
	}
	slices.Reverse(want)
	for _, limit := range []int{1, 4, 24, 25, 100} {
		require.Equal(r, want, namesOf(r.listLanes(limit)), "%d", limit)
	}
}

// listLanes follows the cursor to the end. No page may be longer than limit,
// except that the entry for all lanes may come in addition to a full page.
func (r *rig) listLanes(limit int) []dispatcher.LaneState {
	r.Helper()
	var all []dispatcher.LaneState
	cursor := ""
	for range 1000 {
		page, next, err := r.Queue.Lanes(r.ctx, limit, cursor)
		require.NoError(r, err)
		require.LessOrEqual(r, len(page), limit+1)
		all = append(all, page...)
		if next == "" {
			return all
		}
		cursor = next
	}
	r.Fatal("the list never ends")
	return nil
}

func namesOf(states []dispatcher.LaneState) []dispatcher.Lane {
	names := make([]dispatcher.Lane, len(states))
	for i, l := range states {
		names[i] = l.Lane
	}
	return names
}

func stateWord(l dispatcher.LaneState) dispatcher.EndpointState { return l.State() }

// waitCases are about the reason that a delivery waits for: the first one that
// holds.
var waitCases = []testCase{
	{name: "the turn in line comes first", run: func(r *rig) {
		r.publishKeyed("a", "k", "m1", "m2")
		r.limit("a", held(dispatcher.HeldPaused))
		r.mustWaitFor("order", "a", "m2")
		r.mustWaitFor("paused", "a", "m1")
	}},
	{name: "second comes a pause of its lane or of all lanes", run: func(r *rig) {
		r.publish("a", "m1")
		r.schedule(r.entry("m2", to("a"), delay(time.Hour)))
		r.publish("b", "m3")
		r.limit("a", held(dispatcher.HeldPaused))
		r.mustWaitFor("paused", "a", "m1", "m2")
		r.mustWaitFor("permits", "b", "m3")
		r.resume("a")
		r.holdAll()
		r.mustWaitFor("paused", "a", "m1", "m2")
		r.mustWaitFor("paused", "b", "m3")
	}},
	{name: "third comes its due time", setup: threeFailures, run: func(r *rig) {
		r.openBreaker("a")
		r.schedule(r.entry("m1", to("a"), delay(time.Hour)))
		r.mustWaitFor("due", "a", "m1")
		r.mustWaitFor("rung", "a", "n00001")
		r.cancel(named("a", "n00001"))
		r.publishKeyed("a", "k", "m2")
		r.retry(named("a", "n00001"))
		r.mustWaitFor("breaker", "a", "n00001", "m2")
	}},
	{name: "fourth comes the breaker, also while its probe is under way", setup: threeFailures, run: func(r *rig) {
		r.openBreaker("a")
		r.publish("a", "m1", "m2")
		r.mustWaitFor("breaker", "a", "m1")
		r.pass(time.Minute)
		r.mustWaitFor("breaker", "a", "m1")
		r.move()
		r.mustClaim(one, named("a", "m1"))
		r.mustWaitFor("breaker", "a", "m2")
		require.Empty(r, r.look(named("a", "m1")).WaitingFor)
	}},
	{name: "then come the receiver's pause and the rate", run: func(r *rig) {
		r.publish("a", "m1", "m2", "m3")
		c := r.claim(one, 2)
		r.mustWaitFor("limit", "a", "m3")
		r.mustSettle(one, paused(c[0], time.Hour, time.Minute))
		r.mustWaitFor("retry_after", "a", "m3")
		r.pass(time.Minute)
		r.mustWaitFor("permits", "a", "m3")
		r.limit("b", every(time.Second))
		r.publish("b", "m4", "m5", "m6")
		r.pass(time.Second)
		r.mustClaim(one, named("b", "m4"))
		r.mustWaitFor("rate", "b", "m5")
		r.pass(time.Second)
		r.mustWaitFor("permits", "b", "m5")
	}},
	{name: "last come the limit and a permit", run: func(r *rig) {
		r.limit("a", most(1))
		r.publish("a", "m1", "m2")
		r.mustWaitFor("permits", "a", "m1", "m2")
		r.mustClaim(one, named("a", "m1"))
		r.mustWaitFor("limit", "a", "m2")
	}},
	{name: "the end of the wait is told where it is known", setup: threeFailures, run: func(r *rig) {
		until := func(lane dispatcher.Lane, message string) time.Time {
			d := r.look(named(lane, message))
			for _, listed := range r.listAll(dispatcher.Filter{Lanes: to(lane)}, 100) {
				if listed.ID == d.ID {
					require.Equal(r, d.WaitingUntil, listed.WaitingUntil, "in a list")
				}
			}
			return d.WaitingUntil
		}
		r.schedule(r.entry("m1", to("a"), delay(time.Hour)))
		require.Equal(r, start.Add(time.Hour), until("a", "m1"))
		r.openBreaker("b")
		r.publish("b", "m2")
		require.Equal(r, "breaker", r.look(named("b", "m2")).WaitingFor)
		require.Equal(r, r.laneState("b").Until, until("b", "m2"))
		r.pass(time.Minute)
		require.Zero(r, until("b", "m2"), "the probe is next")
		r.publish("c", "m3")
		r.mustSettle(one, paused(r.mustClaimIn("c", "m3"), time.Hour, 24*time.Hour))
		require.Equal(r, r.look(named("c", "m3")).Due, until("c", "m3"))
		r.publish("c", "m4")
		require.Equal(r, r.now.Add(24*time.Hour), until("c", "m4"))
		r.limit("d", every(time.Minute))
		r.publish("d", "m5", "m6")
		r.mustClaimIn("d", "m5")
		require.Equal(r, r.laneState("d").Token, until("d", "m6"))
		r.limit("d", held(dispatcher.HeldPaused))
		require.Zero(r, until("d", "m6"), "until somebody resumes it")
	}},
	{name: "a lane that waits for a fault of ours says so, uses no rung, and forgets it", run: func(r *rig) {
		r.publish("a", "m1", "m2")
		stall := func(why dispatcher.LaneWhy) {
			s := handBack(r.mustClaimIn("a", "m1"))
			s.Pause, s.Stalled = 10*time.Second, why
			r.mustSettle(one, s)
		}
		for _, why := range []dispatcher.LaneWhy{dispatcher.WhySealed, dispatcher.WhyMissing} {
			stall(why)
			r.mustWaitFor(string(why), "a", "m1", "m2")
			require.Equal(r, r.now.Add(10*time.Second), r.look(named("a", "m1")).WaitingUntil)
			require.Zero(r, r.look(named("a", "m1")).Attempts)
			l := r.laneState("a")
			state, told := l.Standing()
			require.Equal(r, dispatcher.StateLimited, state)
			require.Equal(r, why, told)
			require.Zero(r, l.Fails)
			r.pass(10 * time.Second)
			r.move()
			r.mustWaitFor("permits", "a", "m1", "m2")
		}
		stall(dispatcher.WhySealed)
		r.pass(10 * time.Second)
		r.move()
		r.mustSettle(one, paused(r.mustClaimIn("a", "m1"), time.Hour, time.Minute))
		r.mustWaitFor("retry_after", "a", "m2")
		require.Equal(r, dispatcher.WhyRetryAfter, r.laneState("a").Limit)
		r.resume("a")
		r.deliver(named("a", "m2"))
	}},
	{name: "a receiver's pause is not hidden by a shorter fault of ours", run: func(r *rig) {
		r.publish("a", "m1", "m2", "m3")
		c := r.claim(one, 2)
		r.mustSettle(one, paused(c[0], time.Hour, time.Minute))
		s := handBack(c[1])
		s.Pause, s.Stalled = 10*time.Second, dispatcher.WhySealed
		r.mustSettle(one, s)
		r.mustWaitFor("retry_after", "a", "m2", "m3")
	}},
	{name: "a delivery that has ended, is under way or is cancelled waits for nothing", run: func(r *rig) {
		for id, status := range r.populate() {
			waits := r.look(id).WaitingFor
			require.Equal(r, status.Ended() || status == dispatcher.StatusInFlight, waits == "", "%s is %s", id, status)
		}
		r.publish("a", "m1")
		r.cancel(named("a", "m1"))
		require.Empty(r, r.look(named("a", "m1")).WaitingFor)
	}},
}

// mustClaimIn claims from a lane and answers this delivery. It hands the others
// back.
func (r *rig) mustClaimIn(lane dispatcher.Lane, message string) (found dispatcher.Claimed) {
	r.Helper()
	for _, c := range r.claim(one, 64) {
		if c.ID == named(lane, message) {
			found = c
		} else {
			r.mustSettle(one, handBack(c))
		}
	}
	require.Equal(r, named(lane, message), found.ID)
	return found
}

// mustWaitFor fails the case unless look and list tell that these deliveries
// wait for want.
func (r *rig) mustWaitFor(want string, lane dispatcher.Lane, messages ...string) {
	r.Helper()
	for _, d := range r.listAll(dispatcher.Filter{Lanes: to(lane)}, 100) {
		if slices.Contains(messages, d.ID.Message) {
			require.Equal(r, want, d.WaitingFor, "%s in a list", d.ID)
		}
	}
	for _, id := range ids(lane, messages...) {
		require.Equal(r, want, r.look(id).WaitingFor, "%s", id)
	}
}
