package queuetest

import (
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

// threeFailures is the breaker of most cases: it opens for 30 s.
var threeFailures = Setup{Breaker: 3, BreakerWait: 30 * time.Second}

// breakerStates is the breaker as a table. Each row is a series of events in
// one lane, whose breaker opens at the third failure, and the state afterwards.
var breakerStates = []struct {
	name   string
	happen string // f: blamed failure, u: failure without blame, s: success, d: blamed death, b: handed back, w: wait until the next attempt is allowed, .: one second
	fails  int
	opened int
	until  time.Duration // after the last event; 0: none, or it has passed
}{
	{"it is closed at first", "", 0, 0, 0},
	{"two failures leave it closed", "ff", 2, 0, 0},
	{"the third opens it", "fff", 3, 1, 30 * time.Second},
	{"a success between begins the count anew", "ffsff", 2, 0, 0},
	{"a failure that blames nobody neither counts nor begins anew", "ffuf", 3, 1, 30 * time.Second},
	{"what is handed back says nothing", "ffbf", 3, 1, 30 * time.Second},
	{"a death that is to blame counts", "ffd", 3, 1, 30 * time.Second},
	{"failures that are old do not open it again", "fff.f.f", 5, 1, 28 * time.Second},
	{"the probe's failure doubles the wait", "fffwf", 4, 2, time.Minute},
	{"and so does each one after it", "fffwfwfwf", 6, 4, 4 * time.Minute},
	{"up to ten minutes", "fffwfwfwfwfwf", 8, 6, 10 * time.Minute},
	{"and no more", "fffwfwfwfwfwfwf", 9, 7, 10 * time.Minute},
	{"a probe that is not to blame leaves all as it is", "fffwu", 3, 1, 0},
	{"and the next one decides", "fffwuf", 4, 2, time.Minute},
	{"a probe that is handed back leaves all as it is", "fffwb", 3, 1, 0},
	{"the probe's success closes it", "fffws", 0, 0, 0},
	{"a closed one begins with the first wait again", "fffwfwsfff", 3, 1, 30 * time.Second},
	{"a success of before closes it at once", "fff.s", 0, 0, 0},
}

var breakerCases = append(func() []testCase {
	cases := make([]testCase, len(breakerStates))
	for i, c := range breakerStates {
		cases[i] = testCase{name: "states: " + c.name, setup: threeFailures, run: func(r *rig) {
			for range 15 { // enough deliveries are in flight to settle while the lane is open
				r.succeed("a")
			}
			r.publishMany("a", 12)
			claimed := r.claim(one, 12)
			require.Len(r, claimed, 12)
			for _, what := range strings.Split(c.happen, "") {
				r.happen("a", what, &claimed)
			}
			lane := r.State().Lanes["a"]
			require.Equal(r, c.fails, lane.Fails)
			require.Equal(r, c.opened, lane.Opened)
			if c.until == 0 {
				require.LessOrEqual(r, lane.Until, r.now.UnixMilli())
			} else {
				require.Equal(r, r.later(c.until).UnixMilli(), lane.Until)
			}
			require.Equal(r, c.opened > 0, lane.window(r.setup) == 1)
		}}
	}
	return cases
}(), append(openCases, pauseCases...)...)

// happen lets one event of the breaker's table happen in a lane.
func (r *rig) happen(lane dispatcher.Lane, what string, claimed *[]dispatcher.Claimed) {
	r.Helper()
	c := (*claimed)[0]
	settle := func(s dispatcher.Settlement) {
		r.mustSettle(one, s)
		*claimed = (*claimed)[1:]
	}
	switch what {
	case "f":
		settle(blamed(failure(c, time.Hour)))
	case "u":
		settle(failure(c, time.Hour))
	case "d":
		settle(blamed(death(c, dispatcher.ReasonExhausted)))
	case "s":
		settle(success(c))
	case "b":
		settle(handBack(c))
	case "w":
		r.setClock(time.UnixMilli(r.State().Lanes[lane].Until).UTC())
	case ".":
		r.pass(time.Second)
	default:
		r.Fatalf("%q can't happen", what)
	}
}

// openCases are about lanes whose breaker is open.
var openCases = []testCase{
	{name: "a lane with an open breaker waits until its time and uses no rung", setup: threeFailures, run: func(r *rig) {
		r.openBreaker("a")
		until := r.later(30 * time.Second)
		r.publish("a", "m1", "m2")
		require.Empty(r, r.scheduleFor(one, 512, 64, r.entry("m3", to("a")))[0].Leased)
		require.Equal(r, "breaker", r.look(named("a", "m1")).WaitingFor)
		for range 2 {
			h := r.move()
			require.Equal(r, until, h.Due)
			require.Equal(r, -1, h.Weight)
			r.mustClaimNothing(one)
			r.setClock(until.Add(-time.Microsecond))
		}
		r.setClock(until)
		require.Equal(r, 0, r.move().Weight)
		require.Equal(r, 1, r.mustClaim(one, named("a", "m1"))[0].Attempt)
	}},
	{name: "one probe is let through at a time", setup: threeFailures, run: func(r *rig) {
		for range 6 {
			r.succeed("a")
		}
		r.openBreaker("a")
		r.publishMany("a", 5)
		r.pass(30 * time.Second)
		r.move()
		probe := r.claim(one, 64)
		require.Len(r, probe, 1)
		r.mustClaimNothing(two)
		require.Equal(r, "breaker", r.look(named("a", "n00013")).WaitingFor)
		r.mustSettle(one, success(probe[0]))
		require.Len(r, r.claim(two, 64), 4, "its window is what it was")
	}},
	{name: "a probe may be leased directly", setup: threeFailures, run: func(r *rig) {
		r.openBreaker("a")
		r.pass(30 * time.Second)
		got := r.scheduleFor(one, 512, 64, r.entry("m1", to("a")), r.entry("m2", to("a")))
		require.Equal(r, to("a"), got[0].Leased)
		require.Equal(r, to("a"), got[1].Ready)
	}},
	{name: "when the holder of the probe dies the next delivery is the probe", setup: threeFailures, run: func(r *rig) {
		r.openBreaker("a")
		r.publishMany("a", 2)
		r.pass(30 * time.Second)
		r.move()
		require.Len(r, r.claim(one, 64), 1)
		require.Equal(r, 1, r.reap(one))
		require.Len(r, r.claim(two, 64), 1)
		r.mustClaimNothing(two)
	}},
	{name: "attempts in flight when a breaker opens go on, and no others begin", setup: threeFailures, run: func(r *rig) {
		for range 6 {
			r.succeed("a")
		}
		r.publishMany("a", 8)
		c := r.claim(one, 6)
		for _, failed := range c[:3] {
			r.mustSettle(one, blamed(failure(failed, time.Hour)))
		}
		r.pass(30 * time.Second)
		require.Equal(r, -1, r.move().Weight, "three are in flight")
		r.mustClaimNothing(two)
		r.settle(one, failure(c[3], time.Hour), failure(c[4], time.Hour))
		r.mustClaimNothing(two)
		r.settle(one, failure(c[5], time.Hour))
		require.Len(r, r.claim(two, 64), 1)
	}},
	{name: "a settle that opens a breaker tells so, and one that closes it", setup: threeFailures, run: func(r *rig) {
		until := r.later(30 * time.Second)
		for n := 1; n <= 2; n++ {
			opened, closed := r.settleTold(one, blamed(failure(r.takeNew("a"), time.Hour)))
			require.Empty(r, opened)
			require.Empty(r, closed)
		}
		opened, closed := r.settleTold(one, blamed(failure(r.takeNew("a"), time.Hour)))
		require.Equal(r, []dispatcher.Opening{{Lane: "a", Until: until}}, opened)
		require.Empty(r, closed)
		r.pass(30 * time.Second)
		opened, _ = r.settleTold(one, blamed(failure(r.takeNew("a"), time.Hour)))
		require.Equal(r, []dispatcher.Opening{{Lane: "a", Until: r.later(time.Minute)}}, opened)
		r.pass(time.Minute)
		opened, closed = r.settleTold(one, success(r.takeNew("a")))
		require.Empty(r, opened)
		require.Equal(r, to("a"), closed)
		_, closed = r.settleTold(one, success(r.takeNew("a")))
		require.Empty(r, closed)
	}},
	{name: "many failures in one batch open a breaker once", setup: threeFailures, run: func(r *rig) {
		for range 30 {
			r.succeed("a")
		}
		r.publishMany("a", 20)
		var batch []dispatcher.Settlement
		for _, c := range r.claim(one, 20) {
			batch = append(batch, blamed(failure(c, time.Hour)))
		}
		opened, _ := r.settleTold(one, batch...)
		require.Len(r, opened, 1)
		require.Equal(r, 1, r.State().Lanes["a"].Opened)
	}},
	{name: "without a breaker no lane is paused", run: func(r *rig) {
		for range 30 {
			r.mustSettle(one, blamed(failure(r.takeNew("a"), time.Hour)))
		}
		require.Zero(r, r.State().Lanes["a"].Opened)
		require.Equal(r, 30, r.State().Lanes["a"].Fails)
	}},
	{name: "a failure of a delivery that was cancelled meanwhile counts", setup: threeFailures, run: func(r *rig) {
		for range 3 {
			c := r.takeNew("a")
			r.cancel(c.ID)
			r.settle(one, blamed(failure(c, time.Hour)))
		}
		require.Equal(r, 1, r.State().Lanes["a"].Opened)
	}},
	{name: "an outcome without the lease neither opens nor closes a breaker", setup: threeFailures, run: func(r *rig) {
		c := r.takeOver("a", "m1")
		for range 5 {
			s := blamed(failure(c, time.Hour))
			s.Pause = time.Hour
			r.mustChangeNothing(func() { r.settle(one, s) })
		}
		r.mustSettle(two, success(r.mustClaim(two, c.ID)[0]))
		c = r.takeOver("a", "m2")
		r.mustSettle(two, failure(r.mustClaim(two, c.ID)[0], time.Hour))
		r.openBreaker("a")
		before := r.State().Lanes["a"]
		require.Equal(r, []dispatcher.Settled{dispatcher.SettledDone}, r.settle(one, success(c)))
		after := r.State().Lanes["a"]
		require.Equal(r, before.Opened, after.Opened)
		require.Equal(r, before.Fails, after.Fails)
		require.Equal(r, before.Until, after.Until)
	}},
	{name: "a resume closes a breaker and tells so, other limits do not", setup: threeFailures, run: func(r *rig) {
		r.limit(epOne)
		r.openBreaker(epOne)
		r.publish(epOne, "m1")
		_, hints := r.limitAs(epOne, r.newLimits(epOne, most(5)), false)
		require.Empty(r, hints[0].Closed)
		r.mustClaimNothing(one)
		_, hints = r.limitAs(epOne, r.newLimits(epOne, most(5)), true)
		require.Equal(r, to(epOne), hints[0].Closed)
		lane := r.State().Lanes[epOne]
		require.Equal(r, []int{0, 0, 0}, []int{lane.Fails, lane.Opened, int(lane.Until)})
		r.mustClaim(one, named(epOne, "m1"))
		_, hints = r.limitAs(epOne, r.newLimits(epOne, most(5)), true)
		require.Empty(r, hints[0].Closed, "it was closed")
	}},
	{name: "each lane has its own breaker", setup: threeFailures, run: func(r *rig) {
		r.openBreaker("a")
		r.publish("a", "m1")
		r.publish("b", "m2")
		require.Equal(r, ids("b", "m2"), claimedIDs(r.claim(one, 64)))
	}},
	{name: "a lane tells how its breaker stands", setup: threeFailures, run: func(r *rig) {
		r.openBreaker("a")
		l := r.laneState("a")
		require.Equal(r, dispatcher.StateOpen, l.State())
		require.Equal(r, []int{3, 1, 1}, []int{l.Fails, l.Opened, l.Window})
		require.Equal(r, r.later(30*time.Second), l.Until)
	}},
}

// pauseCases are about receivers that ask for a pause.
var pauseCases = []testCase{
	{name: "a receiver that asks for a pause is left alone by its whole lane", setup: threeFailures, run: func(r *rig) {
		r.publish("a", "m1", "m2", "m3")
		c := r.mustClaim(one, named("a", "m1"))[0]
		r.mustSettle(one, paused(c, time.Minute, 10*time.Second))
		h := r.move()
		require.Equal(r, start.Add(10*time.Second), h.Due)
		require.Equal(r, -1, h.Weight)
		r.mustClaimNothing(one)
		require.Equal(r, "retry_after", r.look(named("a", "m2")).WaitingFor)
		require.Equal(r, start.Add(10*time.Second), r.look(named("a", "m2")).WaitingUntil)
		require.Empty(r, r.scheduleFor(one, 512, 64, r.entry("m4", to("a")))[0].Leased)
		lane := r.laneState("a")
		require.Equal(r, dispatcher.StateActive, lane.State())
		require.Equal(r, start.Add(10*time.Second), lane.Until)
		require.Zero(r, lane.Fails)
		r.pass(10 * time.Second)
		r.move()
		require.Equal(r, ids("a", "m2", "m3"), claimedIDs(r.claim(one, 64)), "the window is what it was")
	}},
	{name: "an empty lane can be paused too", run: func(r *rig) {
		r.mustSettle(one, paused(r.takeNew("a"), time.Hour, 10*time.Second))
		require.Empty(r, r.scheduleFor(one, 512, 64, r.entry("m1", to("a")))[0].Leased)
		require.Equal(r, start.Add(10*time.Second), r.move().Due)
		r.mustClaimNothing(one)
	}},
	{name: "of two pauses the later end counts", run: func(r *rig) {
		for range 3 {
			r.succeed("a")
		}
		r.publishMany("a", 3)
		c := r.claim(one, 3)
		r.mustSettle(one, paused(c[0], time.Hour, 10*time.Second))
		r.mustSettle(one, paused(c[1], time.Hour, time.Second))
		require.Equal(r, r.later(10*time.Second).UnixMilli(), r.State().Lanes["a"].Until)
		r.mustSettle(one, paused(c[2], time.Hour, time.Minute))
		require.Equal(r, r.later(time.Minute).UnixMilli(), r.State().Lanes["a"].Until)
	}},
	{name: "a success that was under way does not end a pause", run: func(r *rig) {
		r.publishMany("a", 3)
		c := r.claim(one, 2)
		r.mustSettle(one, paused(c[0], time.Hour, 10*time.Second))
		r.mustSettle(one, success(c[1]))
		require.Equal(r, start.Add(10*time.Second).UnixMilli(), r.State().Lanes["a"].Until)
		r.mustClaimNothing(one)
	}},
	{name: "a success that was under way does not end a pause that came with a blamed failure", setup: threeFailures, run: func(r *rig) {
		r.publishMany("a", 2)
		c := r.claim(one, 2)
		r.mustSettle(one, blamed(paused(c[0], time.Hour, 10*time.Second)))
		r.mustSettle(one, success(c[1]))
		lane := r.State().Lanes["a"]
		require.Zero(r, lane.Fails)
		require.Equal(r, start.Add(10*time.Second).UnixMilli(), lane.Until)
	}},
	{name: "of a pause and a breaker the later end counts", setup: Setup{Breaker: 1}, run: func(r *rig) {
		long := blamed(paused(r.takeNew("a"), time.Hour, 10*time.Minute))
		r.mustSettle(one, long)
		lane := r.State().Lanes["a"]
		require.Equal(r, 1, lane.Opened)
		require.Equal(r, r.later(10*time.Minute).UnixMilli(), lane.Until)
		short := blamed(paused(r.takeNew("b"), time.Hour, time.Second))
		r.mustSettle(one, short)
		require.Equal(r, r.later(30*time.Second).UnixMilli(), r.State().Lanes["b"].Until)
	}},
	{name: "a failure opens the breaker also while a pause lasts", setup: Setup{Breaker: 1}, run: func(r *rig) {
		r.publishMany("a", 2)
		c := r.claim(one, 2)
		r.mustSettle(one, paused(c[0], time.Hour, time.Minute))
		r.mustSettle(one, blamed(failure(c[1], time.Hour)))
		lane := r.State().Lanes["a"]
		require.Equal(r, 1, lane.Opened)
		require.Equal(r, r.later(time.Minute).UnixMilli(), lane.Until)
	}},
	{name: "a resume ends a pause, and tells of no breaker", run: func(r *rig) {
		r.mustSettle(one, paused(r.takeNew("a"), time.Hour, time.Minute))
		r.publish("a", "m1")
		hints := r.resume("a")
		require.Empty(r, hints[0].Closed)
		require.Equal(r, 0, hints[0].Weight)
		r.mustClaim(one, named("a", "m1"))
	}},
	{name: "a pause of a fraction of a ms is not shortened", run: func(r *rig) {
		r.mustSettle(one, paused(r.takeNew("a"), time.Hour, 1500*time.Microsecond))
		require.Equal(r, start.Add(2*time.Millisecond).UnixMilli(), r.State().Lanes["a"].Until)
	}},
	{name: "a pause beside a death counts too", run: func(r *rig) {
		s := death(r.takeNew("a"), dispatcher.ReasonExhausted)
		s.Pause = time.Minute
		r.mustSettle(one, s)
		require.Equal(r, start.Add(time.Minute).UnixMilli(), r.State().Lanes["a"].Until)
	}},
	{name: "of a pause and a rate the later end counts", run: func(r *rig) {
		r.limit("a", every(time.Minute))
		r.publishMany("a", 3)
		c := r.claim(one, 1)
		r.mustSettle(one, paused(c[0], time.Hour, 10*time.Second))
		require.Equal(r, start.Add(time.Minute), r.move().Due)
		r.resume("a")
		require.Len(r, r.claim(one, 1), 1)
	}},
}

// openBreaker makes attempts in an empty lane fail until its breaker opens.
func (r *rig) openBreaker(lane dispatcher.Lane) {
	r.Helper()
	for range r.setup.Breaker {
		r.mustSettle(one, blamed(failure(r.takeNew(lane), time.Hour)))
	}
	require.Equal(r, 1, r.State().Lanes[lane].Opened)
}
