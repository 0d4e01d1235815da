package redisq_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// LaneCases are about the queries of lanes.
var LaneCases = []redisqtest.Case{
	{Name: "an unknown lane reads as a new one", Run: func(r *redisqtest.Rig) {
		r.MustChangeNothing(func() {
			require.Equal(r, dispatcher.LaneState{Lane: "a", Window: 2}, r.LaneState("a"))
		})
	}},
	{Name: "a lane reports its limits, its work and its window", Setup: redisqtest.Setup{LaneMaxInFlight: 4}, Run: func(r *redisqtest.Rig) {
		limits := r.NewLimits(redisqtest.EpOne, redisqtest.Most(3), redisqtest.Every(time.Millisecond), redisqtest.Mode(dispatcher.LanePaused))
		r.Limit("a", redisqtest.Most(3))
		for range 3 {
			r.Succeed("a")
		}
		r.Publish("a", "m1", "m2")
		r.Schedule(r.Entry("m3", redisqtest.To("a"), redisqtest.Delay(time.Hour)))
		r.PublishKeyed("a", "k", "m4", "m5")
		r.Claim(redisqtest.One, 1)
		got := r.LaneState("a")
		got.URL, got.Tenant = "", ""
		require.Equal(r, dispatcher.LaneState{
			Lane: "a", Known: true, Window: 3, Limits: dispatcher.LaneLimits{MaxInFlight: 3},
			LaneCount: dispatcher.LaneCount{InFlight: 1, Waiting: 4}, Ready: 2,
		}, got)
		r.LimitAs(redisqtest.EpOne, limits, false)
		require.Equal(r, dispatcher.LaneState{Lane: redisqtest.EpOne, Known: true, Window: 2, Limits: limits, Since: r.Now, By: dispatcher.System}, r.LaneState(redisqtest.EpOne))
		require.Equal(r, dispatcher.StatePaused, stateWord(r.LaneState(redisqtest.EpOne)))
		since := r.Now
		r.Pass(time.Minute)
		r.LimitAs(redisqtest.EpOne, r.NewLimits(redisqtest.EpOne, redisqtest.Most(2), redisqtest.Mode(dispatcher.LanePaused)), false)
		require.Equal(r, since, r.LaneState(redisqtest.EpOne).Since, "it was paused before")
		r.LimitAs(redisqtest.EpOne, r.NewLimits(redisqtest.EpOne, redisqtest.Mode(dispatcher.LaneDisabled)), false)
		require.Equal(r, r.Now, r.LaneState(redisqtest.EpOne).Since, "for another reason")
		r.LimitAs(redisqtest.EpOne, r.NewLimits(redisqtest.EpOne), false)
		require.Zero(r, r.LaneState(redisqtest.EpOne).Since)
	}},
	{Name: "a query returns lanes in the order of their names, also a lane twice", Setup: redisqtest.Spread, Run: func(r *redisqtest.Rig) {
		r.Publish("b", "m1")
		got, err := r.Queue.LaneStates(r.Ctx, redisqtest.To("c", "b", "a", "b"))
		require.NoError(r, err)
		require.Equal(r, redisqtest.To("c", "b", "a", "b"), namesOf(got))
		require.Equal(r, []bool{false, true, false, true}, []bool{got[0].Known, got[1].Known, got[2].Known, got[3].Known})
		got, err = r.Queue.LaneStates(r.Ctx, nil)
		require.NoError(r, err)
		require.Empty(r, got)
	}},
	{Name: "a query of all lanes returns one state", Run: func(r *redisqtest.Rig) {
		require.Equal(r, dispatcher.StateActive, stateWord(r.LaneState(dispatcher.AllLanes)))
		holdAll(r)
		require.Equal(r, dispatcher.StatePaused, stateWord(r.LaneState(dispatcher.AllLanes)))
	}},
	{Name: "every known lane is listed once, the last made first", Run: listsLanes},
	{Name: "every known lane is listed once, the last made first, over several partitions", Setup: redisqtest.Spread, Run: listsLanes},
	{Name: "the list returns all lanes as its first entry while they are paused", Setup: redisqtest.Spread, Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		holdAll(r)
		got, _, err := r.Queue.Lanes(r.Ctx, 10, "")
		require.NoError(r, err)
		require.Equal(r, redisqtest.To(dispatcher.AllLanes, "a"), namesOf(got))
		require.Equal(r, dispatcher.LanePaused, got[0].Limits.Mode)
		r.Pass(time.Second)
		r.Publish("b", "m2")
		require.Equal(r, redisqtest.To(dispatcher.AllLanes, "b", "a"), namesOf(listLanes(r, 1)), "it is told once")
		r.Resume(dispatcher.AllLanes)
		require.Equal(r, redisqtest.To("b", "a"), namesOf(listLanes(r, 10)))
	}},
	{Name: "a paused lane is listed though nothing was published to it", Run: func(r *redisqtest.Rig) {
		r.Limit("a", redisqtest.Mode(dispatcher.LanePaused))
		got := listLanes(r, 10)
		require.Equal(r, redisqtest.To("a"), namesOf(got))
		require.True(r, got[0].Known)
		require.Equal(r, dispatcher.LanePaused, got[0].Limits.Mode)
	}},
	{Name: "lanes report the name and the time of their pause, or the pause of all lanes", Setup: redisqtest.Spread, Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		r.Limit("b", redisqtest.Mode(dispatcher.LanePaused), redisqtest.By("ops"))
		r.Pass(time.Minute)
		r.LimitAs(dispatcher.AllLanes, dispatcher.LaneLimits{Mode: dispatcher.LanePaused, By: "night"}, false)
		all := dispatcher.StoppedLane{Mode: dispatcher.LanePaused, Since: redisqtest.Start.Add(time.Minute), By: "night"}
		got := listLanes(r, 10)
		require.Equal(r, redisqtest.To(dispatcher.AllLanes, "b", "a"), namesOf(got))
		require.Equal(r, []string{"night", "ops", ""}, []string{got[0].By, got[1].By, got[2].By})
		require.Equal(r, []time.Time{all.Since, redisqtest.Start, {}}, []time.Time{got[0].Since, got[1].Since, got[2].Since})
		require.Equal(r, &all, got[2].All)
		state, why := got[2].Standing()
		require.Equal(r, dispatcher.StatePaused, state)
		require.Equal(r, dispatcher.WhyAll, why)
		r.Resume(dispatcher.AllLanes)
		require.Nil(r, r.LaneState("a").All)
		require.Equal(r, "ops", r.LaneState("b").By, "its own pause remains")
	}},
	{Name: "the list returns paused lanes first, the latest pause before the others", Setup: redisqtest.Spread, Run: func(r *redisqtest.Rig) {
		for n := range 30 {
			r.Pass(time.Millisecond)
			r.PublishMany(dispatcher.Lane(fmt.Sprintf("l%02d", n)), 1)
		}
		var want []dispatcher.Lane
		for n := range 10 {
			r.Pass(time.Millisecond)
			lane := dispatcher.Lane(fmt.Sprintf("l%02d", (n*7)%30))
			r.Limit(lane, redisqtest.Mode(dispatcher.LanePaused))
			want = append(redisqtest.To(lane), want...)
		}
		for _, most := range []int{0, 3, 50} {
			paused, total, err := r.Queue.PausedLanes(r.Ctx, most)
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
			require.Equal(r, want, namesOf(listLanes(r, limit)), "%d", limit)
		}
		holdAll(r)
		for _, limit := range []int{1, 10, 100} {
			require.Equal(r, append(redisqtest.To(dispatcher.AllLanes), want...), namesOf(listLanes(r, limit)), "%d", limit)
		}
		paused, total, err := r.Queue.PausedLanes(r.Ctx, 1)
		require.NoError(r, err)
		require.Equal(r, 11, total)
		require.Equal(r, append(redisqtest.To(dispatcher.AllLanes), want[0]), namesOf(paused))
	}},
	{Name: "a lane reports whether it waits for its receiver's pause or for its rate", Run: func(r *redisqtest.Rig) {
		r.Limit("a", redisqtest.Every(time.Minute))
		r.PublishMany("a", 3)
		r.Claim(redisqtest.One, 1)
		require.Equal(r, dispatcher.WhyRate, r.LaneState("a").Limit)
		r.MustSettle(redisqtest.One, redisqtest.Paused(r.TakeNew("b"), time.Hour, time.Minute))
		require.Equal(r, dispatcher.WhyRetryAfter, r.LaneState("b").Limit)
		r.Pass(2 * time.Minute)
		require.Empty(r, r.LaneState("a").Limit)
		require.Empty(r, r.LaneState("b").Limit)
	}},
	{Name: "a list returns the same state of a lane as a query by name", Setup: threeFailures, Run: func(r *redisqtest.Rig) {
		openBreaker(r, "a")
		r.Limit("b", redisqtest.Every(time.Minute))
		r.PublishMany("b", 3)
		r.Claim(redisqtest.One, 1)
		r.Limit(redisqtest.EpOne, redisqtest.Ordered)
		r.Publish(redisqtest.EpOne, "m1", "m2")
		for _, l := range listLanes(r, 2) {
			require.Equal(r, r.LaneState(l.Lane), l)
		}
	}},
	{Name: "a cursor of another list is refused", Run: func(r *redisqtest.Rig) {
		for _, cursor := range []string{"x", "!", "bm9wZQ"} {
			_, _, err := r.Queue.Lanes(r.Ctx, 10, cursor)
			require.ErrorIs(r, err, dispatcher.ErrCursor, cursor)
		}
	}},
}

func listsLanes(r *redisqtest.Rig) {
	require.Empty(r, listLanes(r, 10))
	var want []dispatcher.Lane
	for n := range 25 {
		r.Pass(time.Millisecond)
		lane := dispatcher.Lane(fmt.Sprintf("l%02d", (n*7)%25))
		want = append(want, lane)
		r.PublishMany(lane, 1)
	}
	slices.Reverse(want)
	for _, limit := range []int{1, 4, 24, 25, 100} {
		require.Equal(r, want, namesOf(listLanes(r, limit)), "%d", limit)
	}
}

// listLanes follows the cursor to the end and returns all lanes. No page may be longer
// than limit. Only the entry for all lanes may come in addition to a full page.
func listLanes(r *redisqtest.Rig, limit int) []dispatcher.LaneState {
	r.Helper()
	var all []dispatcher.LaneState
	cursor := ""
	for range 1000 {
		page, next, err := r.Queue.Lanes(r.Ctx, limit, cursor)
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

// WaitCases are about the reason that a query reports for a waiting delivery. If
// several reasons apply, it reports the first of them.
var WaitCases = []redisqtest.Case{
	{Name: "the turn in line comes first", Run: func(r *redisqtest.Rig) {
		r.PublishKeyed("a", "k", "m1", "m2")
		r.Limit("a", redisqtest.Mode(dispatcher.LanePaused))
		mustWaitFor(r, "order", "a", "m2")
		mustWaitFor(r, "paused", "a", "m1")
	}},
	{Name: "second comes a pause of its lane or of all lanes", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		r.Schedule(r.Entry("m2", redisqtest.To("a"), redisqtest.Delay(time.Hour)))
		r.Publish("b", "m3")
		r.Limit("a", redisqtest.Mode(dispatcher.LanePaused))
		mustWaitFor(r, "paused", "a", "m1", "m2")
		mustWaitFor(r, "permits", "b", "m3")
		r.Resume("a")
		holdAll(r)
		mustWaitFor(r, "paused", "a", "m1", "m2")
		mustWaitFor(r, "paused", "b", "m3")
	}},
	{Name: "third comes its due time", Setup: threeFailures, Run: func(r *redisqtest.Rig) {
		openBreaker(r, "a")
		r.Schedule(r.Entry("m1", redisqtest.To("a"), redisqtest.Delay(time.Hour)))
		mustWaitFor(r, "due", "a", "m1")
		mustWaitFor(r, "rung", "a", "n00001")
		r.Cancel(redisqtest.Named("a", "n00001"))
		r.PublishKeyed("a", "k", "m2")
		r.Retry(redisqtest.Named("a", "n00001"))
		mustWaitFor(r, "breaker", "a", "n00001", "m2")
	}},
	{Name: "fourth comes the breaker, also while its probe is in flight", Setup: threeFailures, Run: func(r *redisqtest.Rig) {
		openBreaker(r, "a")
		r.Publish("a", "m1", "m2")
		mustWaitFor(r, "breaker", "a", "m1")
		r.Pass(time.Minute)
		mustWaitFor(r, "breaker", "a", "m1")
		r.Move()
		r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))
		mustWaitFor(r, "breaker", "a", "m2")
		require.Empty(r, r.Inspect(redisqtest.Named("a", "m1")).WaitingFor)
	}},
	{Name: "then come the receiver's pause and the rate", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1", "m2", "m3")
		c := r.Claim(redisqtest.One, 2)
		mustWaitFor(r, "limit", "a", "m3")
		r.MustSettle(redisqtest.One, redisqtest.Paused(c[0], time.Hour, time.Minute))
		mustWaitFor(r, "retry_after", "a", "m3")
		r.Pass(time.Minute)
		mustWaitFor(r, "permits", "a", "m3")
		r.Limit("b", redisqtest.Every(time.Second))
		r.Publish("b", "m4", "m5", "m6")
		r.Pass(time.Second)
		r.MustClaim(redisqtest.One, redisqtest.Named("b", "m4"))
		mustWaitFor(r, "rate", "b", "m5")
		r.Pass(time.Second)
		mustWaitFor(r, "permits", "b", "m5")
	}},
	{Name: "last come the limit and a permit", Run: func(r *redisqtest.Rig) {
		r.Limit("a", redisqtest.Most(1))
		r.Publish("a", "m1", "m2")
		mustWaitFor(r, "permits", "a", "m1", "m2")
		r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))
		mustWaitFor(r, "limit", "a", "m2")
	}},
	{Name: "a query returns the end of the wait if it is known", Setup: threeFailures, Run: func(r *redisqtest.Rig) {
		until := func(lane dispatcher.Lane, message string) time.Time {
			d := r.Inspect(redisqtest.Named(lane, message))
			for _, listed := range r.ListAll(dispatcher.Filter{Lanes: redisqtest.To(lane)}, 100) {
				if listed.ID == d.ID {
					require.Equal(r, d.WaitingUntil, listed.WaitingUntil, "in a list")
				}
			}
			return d.WaitingUntil
		}
		r.Schedule(r.Entry("m1", redisqtest.To("a"), redisqtest.Delay(time.Hour)))
		require.Equal(r, redisqtest.Start.Add(time.Hour), until("a", "m1"))
		openBreaker(r, "b")
		r.Publish("b", "m2")
		require.Equal(r, "breaker", r.Inspect(redisqtest.Named("b", "m2")).WaitingFor)
		require.Equal(r, r.LaneState("b").Until, until("b", "m2"))
		r.Pass(time.Minute)
		require.Zero(r, until("b", "m2"), "the probe is next")
		r.Publish("c", "m3")
		r.MustSettle(redisqtest.One, redisqtest.Paused(mustClaimIn(r, "c", "m3"), time.Hour, 24*time.Hour))
		require.Equal(r, r.Inspect(redisqtest.Named("c", "m3")).Due, until("c", "m3"))
		r.Publish("c", "m4")
		require.Equal(r, r.Now.Add(24*time.Hour), until("c", "m4"))
		r.Limit("d", redisqtest.Every(time.Minute))
		r.Publish("d", "m5", "m6")
		mustClaimIn(r, "d", "m5")
		require.Equal(r, r.LaneState("d").Token, until("d", "m6"))
		r.Limit("d", redisqtest.Mode(dispatcher.LanePaused))
		require.Zero(r, until("d", "m6"), "until an operator resumes it")
	}},
	{Name: "a lane that waits for a fault of ours reports it, uses up no retry, and clears it", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1", "m2")
		stall := func(why dispatcher.LaneWhy) {
			s := redisqtest.HandBack(mustClaimIn(r, "a", "m1"))
			s.Pause, s.Stalled = 10*time.Second, why
			r.MustSettle(redisqtest.One, s)
		}
		for _, why := range []dispatcher.LaneWhy{dispatcher.WhySealed, dispatcher.WhyMissing} {
			stall(why)
			mustWaitFor(r, string(why), "a", "m1", "m2")
			require.Equal(r, r.Now.Add(10*time.Second), r.Inspect(redisqtest.Named("a", "m1")).WaitingUntil)
			require.Zero(r, r.Inspect(redisqtest.Named("a", "m1")).Attempts)
			l := r.LaneState("a")
			state, got := l.Standing()
			require.Equal(r, dispatcher.StateLimited, state)
			require.Equal(r, why, got)
			require.Zero(r, l.Fails)
			r.Pass(10 * time.Second)
			r.Move()
			mustWaitFor(r, "permits", "a", "m1", "m2")
		}
		stall(dispatcher.WhySealed)
		r.Pass(10 * time.Second)
		r.Move()
		r.MustSettle(redisqtest.One, redisqtest.Paused(mustClaimIn(r, "a", "m1"), time.Hour, time.Minute))
		mustWaitFor(r, "retry_after", "a", "m2")
		require.Equal(r, dispatcher.WhyRetryAfter, r.LaneState("a").Limit)
		r.Resume("a")
		r.Deliver(redisqtest.Named("a", "m2"))
	}},
	{Name: "a delivery that waits for a key waits alone: others of its lane continue, and it uses up no retry", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1", "m2")
		r.PublishKeyed("b", "k", "m3", "m4")
		alone := func(lane dispatcher.Lane, message string) {
			s := redisqtest.HandBack(mustClaimIn(r, lane, message))
			s.Wait, s.Stalled = 10*time.Second, dispatcher.WhySealed
			r.MustSettle(redisqtest.One, s)
		}
		began := r.Now
		for range 2 {
			alone("a", "m1")
			got := r.Inspect(redisqtest.Named("a", "m1"))
			require.Equal(r, []any{dispatcher.StatusScheduled, "sealed", 0}, []any{got.Status, got.WaitingFor, got.Attempts})
			require.Equal(r, r.Now.Add(10*time.Second), got.WaitingUntil)
			require.Equal(r, got.WaitingUntil, got.Due)
			l := r.LaneState("a")
			state, _ := l.Standing()
			require.Equal(r, dispatcher.StateActive, state)
			stats := r.Stats()
			require.EqualValues(r, 1, stats.Blocked[dispatcher.WhySealed])
			require.Equal(r, began, stats.BlockedSince)
			r.Pass(10 * time.Second)
			r.Move()
		}
		r.Deliver(redisqtest.Named("a", "m2"))
		alone("b", "m3")
		mustWaitFor(r, "order", "b", "m4")
		require.EqualValues(r, 2, r.Stats().Blocked[dispatcher.WhySealed])
		r.Deliver(redisqtest.Named("a", "m1"))
		require.EqualValues(r, 1, r.Stats().Blocked[dispatcher.WhySealed])
		r.Cancel(redisqtest.Named("b", "m3"))
		require.Zero(r, r.Stats().Blocked[dispatcher.WhySealed])
		r.Deliver(redisqtest.Named("b", "m4"))
	}},
	{Name: "an attempt shows that a delivery waits for no key any more", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		s := redisqtest.HandBack(mustClaimIn(r, "a", "m1"))
		s.Wait, s.Stalled = 10*time.Second, dispatcher.WhySealed
		r.MustSettle(redisqtest.One, s)
		r.Retry(redisqtest.Named("a", "m1"))
		require.EqualValues(r, 1, r.Stats().Blocked[dispatcher.WhySealed], "nobody has opened it yet")
		r.MustSettle(redisqtest.One, redisqtest.Failure(mustClaimIn(r, "a", "m1"), time.Minute))
		mustWaitFor(r, "due", "a", "m1") // an attempt that a person asked for is none of its ladder
		require.Zero(r, r.Stats().Blocked[dispatcher.WhySealed])
	}},
	{Name: "a receiver's pause is not hidden by a shorter fault of ours", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1", "m2", "m3")
		c := r.Claim(redisqtest.One, 2)
		r.MustSettle(redisqtest.One, redisqtest.Paused(c[0], time.Hour, time.Minute))
		s := redisqtest.HandBack(c[1])
		s.Pause, s.Stalled = 10*time.Second, dispatcher.WhySealed
		r.MustSettle(redisqtest.One, s)
		mustWaitFor(r, "retry_after", "a", "m2", "m3")
	}},
	{Name: "a delivery that has ended, is in flight or is cancelled waits for nothing", Run: func(r *redisqtest.Rig) {
		for id, status := range r.Populate() {
			waits := r.Inspect(id).WaitingFor
			require.Equal(r, status.Ended() || status == dispatcher.StatusInFlight, waits == "", "%s is %s", id, status)
		}
		r.Publish("a", "m1")
		r.Cancel(redisqtest.Named("a", "m1"))
		require.Empty(r, r.Inspect(redisqtest.Named("a", "m1")).WaitingFor)
	}},
}

// mustClaimIn claims deliveries and returns this one of a lane. It hands the
// others back.
func mustClaimIn(r *redisqtest.Rig, lane dispatcher.Lane, message string) (found dispatcher.Claimed) {
	r.Helper()
	for _, c := range r.Claim(redisqtest.One, 64) {
		if c.ID == redisqtest.Named(lane, message) {
			found = c
		} else {
			r.MustSettle(redisqtest.One, redisqtest.HandBack(c))
		}
	}
	require.Equal(r, redisqtest.Named(lane, message), found.ID)
	return found
}

// mustWaitFor fails the case unless Look and the list report that these deliveries
// wait for want.
func mustWaitFor(r *redisqtest.Rig, want string, lane dispatcher.Lane, messages ...string) {
	r.Helper()
	for _, d := range r.ListAll(dispatcher.Filter{Lanes: redisqtest.To(lane)}, 100) {
		if slices.Contains(messages, d.ID.Message) {
			require.Equal(r, want, d.WaitingFor, "%s in a list", d.ID)
		}
	}
	for _, id := range redisqtest.IDs(lane, messages...) {
		require.Equal(r, want, r.Inspect(id).WaitingFor, "%s", id)
	}
}
