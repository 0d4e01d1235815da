package redisq_test

import (
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// threeFailures opens the breaker at the third failure, for 30 s. Most cases use it.
var threeFailures = redisqtest.Setup{Breaker: 3, BreakerWait: 30 * time.Second}

// breakerStates is a table of the breaker's states. Each row is a series of events in
// one lane and the state after them. The breaker opens at the third failure.
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
	{"a success resets the count of failures", "ffsff", 2, 0, 0},
	{"a failure without blame does not change the count", "ffuf", 3, 1, 30 * time.Second},
	{"a delivery that is handed back does not change the count", "ffbf", 3, 1, 30 * time.Second},
	{"a blamed death counts as a failure", "ffd", 3, 1, 30 * time.Second},
	{"failures of earlier attempts do not reopen it", "fff.f.f", 5, 1, 28 * time.Second},
	{"the probe's failure doubles the wait", "fffwf", 4, 2, time.Minute},
	{"and so does each one after it", "fffwfwfwf", 6, 4, 4 * time.Minute},
	{"up to ten minutes", "fffwfwfwfwfwf", 8, 6, 10 * time.Minute},
	{"and no more", "fffwfwfwfwfwfwf", 9, 7, 10 * time.Minute},
	{"a probe that fails without blame changes nothing", "fffwu", 3, 1, 0},
	{"and the next one decides", "fffwuf", 4, 2, time.Minute},
	{"a probe that is handed back changes nothing", "fffwb", 3, 1, 0},
	{"the probe's success closes it", "fffws", 0, 0, 0},
	{"a closed breaker starts with the first wait again", "fffwfwsfff", 3, 1, 30 * time.Second},
	{"a success of an earlier attempt closes it at once", "fff.s", 0, 0, 0},
}

// BreakerCases are about breakers, open lanes and pauses.
var BreakerCases = append(func() []redisqtest.Case {
	cases := make([]redisqtest.Case, len(breakerStates))
	for i, c := range breakerStates {
		cases[i] = redisqtest.Case{Name: "states: " + c.name, Setup: threeFailures, Run: func(r *redisqtest.Rig) {
			for range 15 { // the case settles this many deliveries while the lane is open
				r.Succeed("a")
			}
			r.PublishMany("a", 12)
			claimed := r.Claim(redisqtest.One, 12)
			require.Len(r, claimed, 12)
			for _, what := range strings.Split(c.happen, "") {
				happen(r, "a", what, &claimed)
			}
			lane := r.State().Lanes["a"]
			require.Equal(r, c.fails, lane.Fails)
			require.Equal(r, c.opened, lane.Opened)
			if c.until == 0 {
				require.LessOrEqual(r, lane.Until, r.Now.UnixMilli())
			} else {
				require.Equal(r, r.Later(c.until).UnixMilli(), lane.Until)
			}
			require.Equal(r, c.opened > 0, lane.Slots(r.Setup) == 1)
		}}
	}
	return cases
}(), append(openCases, pauseCases...)...)

// happen runs one event of the breaker's table in a lane.
func happen(r *redisqtest.Rig, lane dispatcher.Lane, what string, claimed *[]dispatcher.Claimed) {
	r.Helper()
	c := (*claimed)[0]
	settle := func(s dispatcher.Settlement) {
		r.MustSettle(redisqtest.One, s)
		*claimed = (*claimed)[1:]
	}
	switch what {
	case "f":
		settle(redisqtest.Blamed(redisqtest.Failure(c, time.Hour)))
	case "u":
		settle(redisqtest.Failure(c, time.Hour))
	case "d":
		settle(redisqtest.Blamed(redisqtest.Death(c, dispatcher.ReasonExhausted)))
	case "s":
		settle(redisqtest.Success(c))
	case "b":
		settle(redisqtest.HandBack(c))
	case "w":
		r.SetNow(time.UnixMilli(r.State().Lanes[lane].Until).UTC())
	case ".":
		r.Pass(time.Second)
	default:
		r.Fatalf("%q can't happen", what)
	}
}

// openCases are about lanes whose breaker is open.
var openCases = []redisqtest.Case{
	{Name: "a person may have an open breaker allow its one attempt at once, and the others follow its success", Setup: threeFailures, Run: func(r *redisqtest.Rig) {
		openBreaker(r, "a")
		r.PublishMany("a", 5)
		tryNow := func() {
			hints, err := r.Queue.TryNow(r.Ctx, redisqtest.Two, []dispatcher.Lane{"a", "unknown"})
			require.NoError(r, err)
			r.MustBeCurrent(hints)
		}
		r.MustClaimNothing(redisqtest.One)
		tryNow()
		first := r.Claim(redisqtest.One, 10)
		require.Len(r, first, 1)
		tryNow()
		r.MustClaimNothing(redisqtest.One)
		r.MustSettle(redisqtest.One, redisqtest.Blamed(redisqtest.Failure(first[0], time.Hour)))
		require.Equal(r, 2, r.LaneState("a").Opened, "it failed, so the breaker waits on")
		r.MustClaimNothing(redisqtest.One)
		tryNow()
		second := r.Claim(redisqtest.One, 10)
		require.Len(r, second, 1)
		r.MustSettle(redisqtest.One, redisqtest.Success(second[0]))
		require.Zero(r, r.LaneState("a").Opened)
		require.Greater(r, len(r.Claim(redisqtest.One, 10)), 1)
	}},
	{Name: "a lane with an open breaker waits until its time and uses up no retry", Setup: threeFailures, Run: func(r *redisqtest.Rig) {
		openBreaker(r, "a")
		until := r.Later(30 * time.Second)
		r.Publish("a", "m1", "m2")
		require.Empty(r, redisqtest.Leased(r.ScheduleFor(redisqtest.One, 512, 64, r.Entry("m3", redisqtest.To("a")))[0]))
		require.Equal(r, "breaker", r.Inspect(redisqtest.Named("a", "m1")).WaitingFor)
		for range 2 {
			h := r.Move()
			require.Equal(r, until, h.Due)
			require.Equal(r, -1, h.Weight)
			r.MustClaimNothing(redisqtest.One)
			r.SetNow(until.Add(-time.Microsecond))
		}
		r.SetNow(until)
		require.Equal(r, 0, r.Move().Weight)
		require.Equal(r, 1, r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0].Attempt)
	}},
	{Name: "an open breaker lets one probe through at a time", Setup: threeFailures, Run: func(r *redisqtest.Rig) {
		for range 6 {
			r.Succeed("a")
		}
		openBreaker(r, "a")
		r.PublishMany("a", 5)
		r.Pass(30 * time.Second)
		r.Move()
		probe := r.Claim(redisqtest.One, 64)
		require.Len(r, probe, 1)
		r.MustClaimNothing(redisqtest.Two)
		require.Equal(r, "breaker", r.Inspect(redisqtest.Named("a", "n00013")).WaitingFor)
		r.MustSettle(redisqtest.One, redisqtest.Success(probe[0]))
		require.Len(r, r.Claim(redisqtest.Two, 64), 4, "the window has not changed")
	}},
	{Name: "a probe may be leased directly", Setup: threeFailures, Run: func(r *redisqtest.Rig) {
		openBreaker(r, "a")
		r.Pass(30 * time.Second)
		got := r.ScheduleFor(redisqtest.One, 512, 64, r.Entry("m1", redisqtest.To("a")), r.Entry("m2", redisqtest.To("a")))
		require.Equal(r, redisqtest.To("a"), redisqtest.Leased(got[0]))
		require.Equal(r, redisqtest.To("a"), redisqtest.Ready(got[1]))
	}},
	{Name: "the next delivery is the probe if the instance that leased the probe dies", Setup: threeFailures, Run: func(r *redisqtest.Rig) {
		openBreaker(r, "a")
		r.PublishMany("a", 2)
		r.Pass(30 * time.Second)
		r.Move()
		require.Len(r, r.Claim(redisqtest.One, 64), 1)
		require.Equal(r, 1, r.Reap(redisqtest.One))
		require.Len(r, r.Claim(redisqtest.Two, 64), 1)
		r.MustClaimNothing(redisqtest.Two)
	}},
	{Name: "attempts in flight continue when a breaker opens, and no others begin", Setup: threeFailures, Run: func(r *redisqtest.Rig) {
		for range 6 {
			r.Succeed("a")
		}
		r.PublishMany("a", 8)
		c := r.Claim(redisqtest.One, 6)
		for _, failed := range c[:3] {
			r.MustSettle(redisqtest.One, redisqtest.Blamed(redisqtest.Failure(failed, time.Hour)))
		}
		r.Pass(30 * time.Second)
		require.Equal(r, -1, r.Move().Weight, "three are in flight")
		r.MustClaimNothing(redisqtest.Two)
		r.Settle(redisqtest.One, redisqtest.Failure(c[3], time.Hour), redisqtest.Failure(c[4], time.Hour))
		r.MustClaimNothing(redisqtest.Two)
		r.Settle(redisqtest.One, redisqtest.Failure(c[5], time.Hour))
		require.Len(r, r.Claim(redisqtest.Two, 64), 1)
	}},
	{Name: "a settle reports that it opens or closes a breaker", Setup: threeFailures, Run: func(r *redisqtest.Rig) {
		until := r.Later(30 * time.Second)
		for n := 1; n <= 2; n++ {
			opened, closed := r.SettleBreakers(redisqtest.One, redisqtest.Blamed(redisqtest.Failure(r.TakeNew("a"), time.Hour)))
			require.Empty(r, opened)
			require.Empty(r, closed)
		}
		opened, closed := r.SettleBreakers(redisqtest.One, redisqtest.Blamed(redisqtest.Failure(r.TakeNew("a"), time.Hour)))
		require.Equal(r, []dispatcher.Opening{{Lane: "a", Until: until}}, opened)
		require.Empty(r, closed)
		r.Pass(30 * time.Second)
		opened, _ = r.SettleBreakers(redisqtest.One, redisqtest.Blamed(redisqtest.Failure(r.TakeNew("a"), time.Hour)))
		require.Equal(r, []dispatcher.Opening{{Lane: "a", Until: r.Later(time.Minute)}}, opened)
		r.Pass(time.Minute)
		opened, closed = r.SettleBreakers(redisqtest.One, redisqtest.Success(r.TakeNew("a")))
		require.Empty(r, opened)
		require.Equal(r, redisqtest.To("a"), closed)
		_, closed = r.SettleBreakers(redisqtest.One, redisqtest.Success(r.TakeNew("a")))
		require.Empty(r, closed)
	}},
	{Name: "many failures in one batch open a breaker once", Setup: threeFailures, Run: func(r *redisqtest.Rig) {
		for range 30 {
			r.Succeed("a")
		}
		r.PublishMany("a", 20)
		var batch []dispatcher.Settlement
		for _, c := range r.Claim(redisqtest.One, 20) {
			batch = append(batch, redisqtest.Blamed(redisqtest.Failure(c, time.Hour)))
		}
		opened, _ := r.SettleBreakers(redisqtest.One, batch...)
		require.Len(r, opened, 1)
		require.Equal(r, 1, r.State().Lanes["a"].Opened)
	}},
	{Name: "without a breaker no lane is paused", Run: func(r *redisqtest.Rig) {
		for range 30 {
			r.MustSettle(redisqtest.One, redisqtest.Blamed(redisqtest.Failure(r.TakeNew("a"), time.Hour)))
		}
		require.Zero(r, r.State().Lanes["a"].Opened)
		require.Equal(r, 30, r.State().Lanes["a"].Fails)
	}},
	{Name: "a failure counts even if its delivery was cancelled during the attempt", Setup: threeFailures, Run: func(r *redisqtest.Rig) {
		for range 3 {
			c := r.TakeNew("a")
			r.Cancel(c.ID)
			r.Settle(redisqtest.One, redisqtest.Blamed(redisqtest.Failure(c, time.Hour)))
		}
		require.Equal(r, 1, r.State().Lanes["a"].Opened)
	}},
	{Name: "an outcome without the lease neither opens nor closes a breaker", Setup: threeFailures, Run: func(r *redisqtest.Rig) {
		c := r.TakeOver("a", "m1")
		for range 5 {
			s := redisqtest.Blamed(redisqtest.Failure(c, time.Hour))
			s.Pause = time.Hour
			r.MustChangeNothing(func() { r.Settle(redisqtest.One, s) })
		}
		r.MustSettle(redisqtest.Two, redisqtest.Success(r.MustClaim(redisqtest.Two, c.ID)[0]))
		c = r.TakeOver("a", "m2")
		r.MustSettle(redisqtest.Two, redisqtest.Failure(r.MustClaim(redisqtest.Two, c.ID)[0], time.Hour))
		openBreaker(r, "a")
		before := r.State().Lanes["a"]
		require.Equal(r, []dispatcher.SettleResult{dispatcher.SettledDone}, r.Settle(redisqtest.One, redisqtest.Success(c)))
		after := r.State().Lanes["a"]
		require.Equal(r, before.Opened, after.Opened)
		require.Equal(r, before.Fails, after.Fails)
		require.Equal(r, before.Until, after.Until)
	}},
	{Name: "a resume closes a breaker and reports it, other limits do not", Setup: threeFailures, Run: func(r *redisqtest.Rig) {
		r.Limit(redisqtest.EpOne)
		openBreaker(r, redisqtest.EpOne)
		r.Publish(redisqtest.EpOne, "m1")
		_, hints := r.LimitAs(redisqtest.EpOne, r.NewLimits(redisqtest.EpOne, redisqtest.Most(5)), false)
		require.Empty(r, hints[0].Closed)
		r.MustClaimNothing(redisqtest.One)
		_, hints = r.LimitAs(redisqtest.EpOne, r.NewLimits(redisqtest.EpOne, redisqtest.Most(5)), true)
		require.Equal(r, redisqtest.To(redisqtest.EpOne), hints[0].Closed)
		lane := r.State().Lanes[redisqtest.EpOne]
		require.Equal(r, []int{0, 0, 0}, []int{lane.Fails, lane.Opened, int(lane.Until)})
		r.MustClaim(redisqtest.One, redisqtest.Named(redisqtest.EpOne, "m1"))
		_, hints = r.LimitAs(redisqtest.EpOne, r.NewLimits(redisqtest.EpOne, redisqtest.Most(5)), true)
		require.Empty(r, hints[0].Closed, "it was closed")
	}},
	{Name: "each lane has its own breaker", Setup: threeFailures, Run: func(r *redisqtest.Rig) {
		openBreaker(r, "a")
		r.Publish("a", "m1")
		r.Publish("b", "m2")
		require.Equal(r, redisqtest.IDs("b", "m2"), redisqtest.ClaimedIDs(r.Claim(redisqtest.One, 64)))
	}},
	{Name: "a lane reports the state of its breaker", Setup: threeFailures, Run: func(r *redisqtest.Rig) {
		openBreaker(r, "a")
		l := r.LaneState("a")
		require.Equal(r, dispatcher.StateOpen, l.State())
		require.Equal(r, []int{3, 1, 1}, []int{l.Fails, l.Opened, l.Window})
		require.Equal(r, r.Later(30*time.Second), l.Until)
	}},
}

// pauseCases are about receivers that ask for a pause.
var pauseCases = []redisqtest.Case{
	{Name: "the whole lane pauses if its receiver asks for a pause", Setup: threeFailures, Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1", "m2", "m3")
		c := r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0]
		r.MustSettle(redisqtest.One, redisqtest.Paused(c, time.Minute, 10*time.Second))
		h := r.Move()
		require.Equal(r, redisqtest.Start.Add(10*time.Second), h.Due)
		require.Equal(r, -1, h.Weight)
		r.MustClaimNothing(redisqtest.One)
		require.Equal(r, "retry_after", r.Inspect(redisqtest.Named("a", "m2")).WaitingFor)
		require.Equal(r, redisqtest.Start.Add(10*time.Second), r.Inspect(redisqtest.Named("a", "m2")).WaitingUntil)
		require.Empty(r, redisqtest.Leased(r.ScheduleFor(redisqtest.One, 512, 64, r.Entry("m4", redisqtest.To("a")))[0]))
		lane := r.LaneState("a")
		require.Equal(r, dispatcher.StateActive, lane.State())
		require.Equal(r, redisqtest.Start.Add(10*time.Second), lane.Until)
		require.Zero(r, lane.Fails)
		r.Pass(10 * time.Second)
		r.Move()
		require.Equal(r, redisqtest.IDs("a", "m2", "m3"), redisqtest.ClaimedIDs(r.Claim(redisqtest.One, 64)), "the window has not changed")
	}},
	{Name: "an empty lane can be paused too", Run: func(r *redisqtest.Rig) {
		r.MustSettle(redisqtest.One, redisqtest.Paused(r.TakeNew("a"), time.Hour, 10*time.Second))
		require.Empty(r, redisqtest.Leased(r.ScheduleFor(redisqtest.One, 512, 64, r.Entry("m1", redisqtest.To("a")))[0]))
		require.Equal(r, redisqtest.Start.Add(10*time.Second), r.Move().Due)
		r.MustClaimNothing(redisqtest.One)
	}},
	{Name: "the later end of two pauses counts", Run: func(r *redisqtest.Rig) {
		for range 3 {
			r.Succeed("a")
		}
		r.PublishMany("a", 3)
		c := r.Claim(redisqtest.One, 3)
		r.MustSettle(redisqtest.One, redisqtest.Paused(c[0], time.Hour, 10*time.Second))
		r.MustSettle(redisqtest.One, redisqtest.Paused(c[1], time.Hour, time.Second))
		require.Equal(r, r.Later(10*time.Second).UnixMilli(), r.State().Lanes["a"].Until)
		r.MustSettle(redisqtest.One, redisqtest.Paused(c[2], time.Hour, time.Minute))
		require.Equal(r, r.Later(time.Minute).UnixMilli(), r.State().Lanes["a"].Until)
	}},
	{Name: "a success of an earlier attempt does not end a pause", Run: func(r *redisqtest.Rig) {
		r.PublishMany("a", 3)
		c := r.Claim(redisqtest.One, 2)
		r.MustSettle(redisqtest.One, redisqtest.Paused(c[0], time.Hour, 10*time.Second))
		r.MustSettle(redisqtest.One, redisqtest.Success(c[1]))
		require.Equal(r, redisqtest.Start.Add(10*time.Second).UnixMilli(), r.State().Lanes["a"].Until)
		r.MustClaimNothing(redisqtest.One)
	}},
	{Name: "a success of an earlier attempt does not end a pause that a blamed failure set", Setup: threeFailures, Run: func(r *redisqtest.Rig) {
		r.PublishMany("a", 2)
		c := r.Claim(redisqtest.One, 2)
		r.MustSettle(redisqtest.One, redisqtest.Blamed(redisqtest.Paused(c[0], time.Hour, 10*time.Second)))
		r.MustSettle(redisqtest.One, redisqtest.Success(c[1]))
		lane := r.State().Lanes["a"]
		require.Zero(r, lane.Fails)
		require.Equal(r, redisqtest.Start.Add(10*time.Second).UnixMilli(), lane.Until)
	}},
	{Name: "the later end of a pause and a breaker counts", Setup: redisqtest.Setup{Breaker: 1}, Run: func(r *redisqtest.Rig) {
		long := redisqtest.Blamed(redisqtest.Paused(r.TakeNew("a"), time.Hour, 10*time.Minute))
		r.MustSettle(redisqtest.One, long)
		lane := r.State().Lanes["a"]
		require.Equal(r, 1, lane.Opened)
		require.Equal(r, r.Later(10*time.Minute).UnixMilli(), lane.Until)
		short := redisqtest.Blamed(redisqtest.Paused(r.TakeNew("b"), time.Hour, time.Second))
		r.MustSettle(redisqtest.One, short)
		require.Equal(r, r.Later(30*time.Second).UnixMilli(), r.State().Lanes["b"].Until)
	}},
	{Name: "a failure opens the breaker also during a pause", Setup: redisqtest.Setup{Breaker: 1}, Run: func(r *redisqtest.Rig) {
		r.PublishMany("a", 2)
		c := r.Claim(redisqtest.One, 2)
		r.MustSettle(redisqtest.One, redisqtest.Paused(c[0], time.Hour, time.Minute))
		r.MustSettle(redisqtest.One, redisqtest.Blamed(redisqtest.Failure(c[1], time.Hour)))
		lane := r.State().Lanes["a"]
		require.Equal(r, 1, lane.Opened)
		require.Equal(r, r.Later(time.Minute).UnixMilli(), lane.Until)
	}},
	{Name: "a resume ends a pause and reports no breaker", Run: func(r *redisqtest.Rig) {
		r.MustSettle(redisqtest.One, redisqtest.Paused(r.TakeNew("a"), time.Hour, time.Minute))
		r.Publish("a", "m1")
		hints := r.Resume("a")
		require.Empty(r, hints[0].Closed)
		require.Equal(r, 0, hints[0].Weight)
		r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))
	}},
	{Name: "a pause of a fraction of a ms is not shortened", Run: func(r *redisqtest.Rig) {
		r.MustSettle(redisqtest.One, redisqtest.Paused(r.TakeNew("a"), time.Hour, 1500*time.Microsecond))
		require.Equal(r, redisqtest.Start.Add(2*time.Millisecond).UnixMilli(), r.State().Lanes["a"].Until)
	}},
	{Name: "a pause in a settle with a death counts too", Run: func(r *redisqtest.Rig) {
		s := redisqtest.Death(r.TakeNew("a"), dispatcher.ReasonExhausted)
		s.Pause = time.Minute
		r.MustSettle(redisqtest.One, s)
		require.Equal(r, redisqtest.Start.Add(time.Minute).UnixMilli(), r.State().Lanes["a"].Until)
	}},
	{Name: "the later end of a pause and a rate counts", Run: func(r *redisqtest.Rig) {
		r.Limit("a", redisqtest.Every(time.Minute))
		r.PublishMany("a", 3)
		c := r.Claim(redisqtest.One, 1)
		r.MustSettle(redisqtest.One, redisqtest.Paused(c[0], time.Hour, 10*time.Second))
		require.Equal(r, redisqtest.Start.Add(time.Minute), r.Move().Due)
		r.Resume("a")
		require.Len(r, r.Claim(redisqtest.One, 1), 1)
	}},
}

// openBreaker makes attempts in an empty lane fail until its breaker opens.
func openBreaker(r *redisqtest.Rig, lane dispatcher.Lane) {
	r.Helper()
	for range r.Setup.Breaker {
		r.MustSettle(redisqtest.One, redisqtest.Blamed(redisqtest.Failure(r.TakeNew(lane), time.Hour)))
	}
	require.Equal(r, 1, r.State().Lanes[lane].Opened)
}
