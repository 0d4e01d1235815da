package redisq_test

import (
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// fails settles a failure of a new delivery of a lane. A lane that has failed for a day
// is given up. fails reports whether this failure gave the lane up.
func fails(r *redisqtest.Rig, lane dispatcher.Lane, change ...func(*dispatcher.Settlement)) bool {
	r.Helper()
	s := redisqtest.Failure(r.TakeNew(lane), 48*time.Hour)
	s.Fails, s.DisableAfter = true, 24*time.Hour
	for _, f := range change {
		f(&s)
	}
	settled, hints := r.Queue.Settled(r.Ctx, redisqtest.One, []dispatcher.Settlement{s})
	require.NoError(r, settled[0].Err)
	r.MustBeCurrent(hints)
	return !settled[0].GivenUp.IsZero()
}

// mustFailSince requires that a lane reports this time as its first failure. Zero
// requires that the lane does not fail.
func mustFailSince(r *redisqtest.Rig, lane dispatcher.Lane, since time.Time) {
	r.Helper()
	require.Equal(r, since, r.LaneState(lane).Failing)
}

// FailingCases are about lanes whose receiver returns only failures.
var FailingCases = []redisqtest.Case{
	{Name: "a lane reports the time of its first failure until a success", Run: func(r *redisqtest.Rig) {
		r.Succeed("a")
		mustFailSince(r, "a", time.Time{})
		began := r.Now
		require.False(r, fails(r, "a"))
		mustFailSince(r, "a", began)
		r.Pass(time.Hour)
		require.False(r, fails(r, "a", func(s *dispatcher.Settlement) { s.Blame = true }))
		mustFailSince(r, "a", began)
		r.Succeed("a")
		mustFailSince(r, "a", time.Time{})
	}},
	{Name: "an outcome that is not the receiver's changes nothing in a lane", Setup: redisqtest.Setup{}, Run: func(r *redisqtest.Rig) {
		r.MustSettle(redisqtest.One, redisqtest.Failure(r.TakeNew("a"), time.Hour))
		r.MustSettle(redisqtest.One, redisqtest.Paused(r.TakeNew("a"), time.Hour, 0))
		r.MustSettle(redisqtest.One, redisqtest.Refusal(r.TakeNew("a")))
		mustFailSince(r, "a", time.Time{})
		began := r.Now
		fails(r, "a")
		r.Pass(time.Minute)
		r.MustSettle(redisqtest.One, redisqtest.Paused(r.TakeNew("a"), time.Hour, 0))
		r.MustSettle(redisqtest.One, redisqtest.Refusal(r.TakeNew("a")))
		mustFailSince(r, "a", began)
	}},
	{Name: "a lane keeps its last failed attempt, also if others succeed", Run: func(r *redisqtest.Rig) {
		r.Succeed("a")
		require.Nil(r, r.LaneState("a").LastFailure)
		long := strings.Repeat("x", 300)
		var failed []dispatcher.Claimed
		for n, answer := range []string{"no", long} {
			failed = append(failed, r.TakeNew("a"))
			s := redisqtest.Failure(failed[n], time.Hour)
			s.Attempt.Excerpt = []byte(answer)
			r.MustSettle(redisqtest.One, s)
			last := r.LaneState("a").LastFailure
			require.NotNil(r, last)
			require.Equal(r, []any{failed[n].ID.Message, 500, dispatcher.ClassStatus, "answered 500", answer[:min(len(answer), 200)], failed[n].Due},
				[]any{last.Message, last.Status, last.Class, last.Error, string(last.Excerpt), last.At})
		}
		last := r.LaneState("a").LastFailure
		r.Succeed("a")
		r.MustSettle(redisqtest.One, redisqtest.Snooze(r.TakeNew("a"), time.Minute))
		r.MustSettle(redisqtest.One, redisqtest.HandBack(r.TakeNew("a")))
		require.Equal(r, last, r.LaneState("a").LastFailure, "an outcome that is no failure changes nothing")
		r.Pass(time.Hour)
		r.Move()
		for _, c := range r.ClaimAll(redisqtest.One) {
			r.MustSettle(redisqtest.One, redisqtest.Success(c))
		}
		require.Equal(r, last, r.LaneState("a").LastFailure, "its delivery succeeded later")
		_, err := r.Queue.Queue().Erase(r.Ctx, redisqtest.One, []dispatcher.DeliveryID{failed[1].ID})
		require.NoError(r, err)
		require.Nil(r, r.LaneState("a").LastFailure, "it goes with its message")
		states, _, err := r.Queue.Lanes(r.Ctx, 10, "")
		require.NoError(r, err)
		require.Nil(r, states[0].LastFailure)
	}},
	{Name: "the failing lanes are those without a success since, the most waiting first", Setup: redisqtest.Setup{Partitions: 4, Breaker: 1, BreakerWait: time.Hour}, Run: func(r *redisqtest.Rig) {
		for _, lane := range redisqtest.To("a", "b", "c", "d") {
			fails(r, lane, func(s *dispatcher.Settlement) { s.Blame = lane == "a" })
		}
		r.Succeed("c")
		r.Succeed("e")
		r.Limit("d", redisqtest.Mode(dispatcher.LanePaused))
		r.Publish("b", "m1", "m2")
		list, err := r.Queue.FailingLanes(r.Ctx)
		require.NoError(r, err)
		var lanes []dispatcher.Lane
		for _, l := range list {
			lanes = append(lanes, l.Lane)
			require.NotNil(r, l.LastFailure)
			require.False(r, l.Failing.IsZero())
		}
		require.Equal(r, redisqtest.To("b", "a"), lanes)
		require.Equal(r, []int{3, 2}, []int{list[0].Waiting, list[0].Ready}, "one waits for its next attempt")
	}},
	{Name: "the first failure after the limit gives a lane up, time alone does not", Run: func(r *redisqtest.Rig) {
		for range 2 {
			require.False(r, fails(r, "a"))
			r.Pass(12 * time.Hour)
		}
		require.False(r, fails(r, "a", func(s *dispatcher.Settlement) { s.DisableAfter = 0 }), "never")
		require.False(r, fails(r, "a", func(s *dispatcher.Settlement) { s.DisableAfter = 25 * time.Hour }))
		require.True(r, fails(r, "a"))
		require.True(r, fails(r, "a"), "until a caller handles it")
	}},
	{Name: "the limit counts from the start after as long a time without an attempt", Run: func(r *redisqtest.Rig) {
		fails(r, "a")
		r.Pass(24 * time.Hour)
		require.False(r, fails(r, "a"))
		mustFailSince(r, "a", r.Now)
	}},
	{Name: "a resume restarts the count, other limits do not", Run: func(r *redisqtest.Rig) {
		began := r.Now
		r.Limit(redisqtest.EpOne)
		fails(r, redisqtest.EpOne)
		r.LimitAs(redisqtest.EpOne, r.NewLimits(redisqtest.EpOne, redisqtest.Most(5)), false)
		mustFailSince(r, redisqtest.EpOne, began)
		r.Resume(redisqtest.EpOne)
		mustFailSince(r, redisqtest.EpOne, time.Time{})
	}},
	{Name: "a late failure changes nothing in a lane", Run: func(r *redisqtest.Rig) {
		s := redisqtest.Blamed(redisqtest.Failure(r.TakeOver("a", "m"), time.Hour))
		s.Fails = true
		r.MustChangeNothing(func() { r.Settle(redisqtest.One, s) })
	}},
	{Name: "a failure and a stall of ours do not change each other's times", Run: func(r *redisqtest.Rig) {
		began := r.Now
		fails(r, "a")
		back := redisqtest.HandBack(r.TakeNew("a"))
		back.Pause, back.Stalled = 10*time.Second, dispatcher.WhySealed
		r.MustSettle(redisqtest.One, back)
		l := r.LaneState("a")
		require.Equal(r, []any{began, dispatcher.WhySealed, r.Later(10 * time.Second)}, []any{l.Failing, l.Limit, l.Until})
	}},
	{Name: "an attempt counts even if it reports nothing about the receiver", Run: func(r *redisqtest.Rig) {
		began := r.Now
		fails(r, "a")
		r.Pass(20 * time.Hour)
		r.MustSettle(redisqtest.One, redisqtest.Paused(r.TakeNew("a"), 0, 0))
		r.Pass(20 * time.Hour)
		require.True(r, fails(r, "a"))
		mustFailSince(r, "a", began)
	}},
	{Name: "time that a lane waits for a breaker or its receiver is not time without an attempt", Setup: redisqtest.Setup{Breaker: 1, BreakerWait: time.Hour}, Run: func(r *redisqtest.Rig) {
		began := r.Now
		short := func(s *dispatcher.Settlement) { s.DisableAfter, s.Blame = time.Minute, true }
		require.False(r, fails(r, "a", short))
		r.Pass(10 * time.Minute)
		require.True(r, fails(r, "a", short))
		require.False(r, fails(r, "b", short, func(s *dispatcher.Settlement) { s.Pause = 20 * time.Hour }))
		r.Pass(20 * time.Hour)
		require.True(r, fails(r, "b", short))
		mustFailSince(r, "a", began)
	}},
	{Name: "a success outside of a delivery ends the failing of a lane and keeps its receiver's pause", Run: func(r *redisqtest.Rig) {
		fails(r, "a", func(s *dispatcher.Settlement) { s.Pause = time.Hour })
		hints, err := r.Queue.Works(r.Ctx, redisqtest.One, "a")
		require.NoError(r, err)
		r.MustBeCurrent(hints)
		mustFailSince(r, "a", time.Time{})
		require.Equal(r, r.Later(time.Hour), r.LaneState("a").Until)
		r.Limit(redisqtest.EpOne, redisqtest.Mode(dispatcher.LanePaused))
		_, err = r.Queue.Works(r.Ctx, redisqtest.One, redisqtest.EpOne)
		require.NoError(r, err)
		require.Equal(r, dispatcher.LanePaused, r.LaneState(redisqtest.EpOne).Limits.Mode)
	}},
	{Name: "a success outside of a delivery closes a breaker", Setup: redisqtest.Setup{Breaker: 1, BreakerWait: time.Hour}, Run: func(r *redisqtest.Rig) {
		fails(r, "a", func(s *dispatcher.Settlement) { s.Blame = true })
		require.NotZero(r, r.LaneState("a").Opened)
		_, err := r.Queue.Works(r.Ctx, redisqtest.One, "a")
		require.NoError(r, err)
		require.Zero(r, r.LaneState("a").Opened)
		r.Publish("a", "m")
		r.MustClaim(redisqtest.One, redisqtest.Named("a", "m"))
	}},
	{Name: "a cut ends the deliveries accepted until then and no others", Run: func(r *redisqtest.Rig) {
		for range 8 {
			r.Succeed("a")
		}
		fails(r, "a")
		r.PublishMany("a", 100)
		r.Schedule(r.Entry("later", redisqtest.To("a"), redisqtest.Delay(time.Hour)))
		claimed := r.Claim(redisqtest.One, 2)
		r.Pass(time.Second)
		cut(r, "a")
		mustFailSince(r, "a", time.Time{})
		r.Pass(time.Second)
		r.Publish("a", "new")
		r.MustRefuse(dispatcher.ErrDisabled, redisqtest.Named("a", "later"))
		r.Settle(redisqtest.One, redisqtest.Failure(claimed[0], time.Hour), redisqtest.Success(claimed[1]))
		require.Equal(r, 100, sweep(r, "a"))
		require.Zero(r, sweep(r, "a"))
		require.NoError(r, r.Queue.Uncut(r.Ctx, redisqtest.One, "a"))
		require.Equal(r, map[dispatcher.Status]int64{dispatcher.StatusDead: 101, dispatcher.StatusDelivered: 9, dispatcher.StatusReady: 1}, r.Stats().Counts)
		require.Equal(r, dispatcher.ReasonDisabled, r.Inspect(redisqtest.Named("a", "later")).Reason)
		r.MustClaim(redisqtest.One, redisqtest.Named("a", "new"))
		require.Equal(r, []bool{true}, r.Retry(redisqtest.Named("a", "later")))
	}},
	{Name: "a cut ends older deliveries when they become ready, when their turn comes, and when their instance dies", Run: func(r *redisqtest.Rig) {
		fails(r, "a")
		r.Schedule(r.Entry("due", redisqtest.To("a"), redisqtest.Delay(time.Minute)))
		r.PublishKeyed("a", "k", "first", "second")
		r.MustClaim(redisqtest.One, redisqtest.Named("a", "first"))
		r.Pass(time.Second)
		cut(r, "a")
		r.Pass(time.Second)
		r.Publish("a", "new")
		r.Pass(time.Minute)
		r.Move()
		r.MustStand(redisqtest.Named("a", "due"), dispatcher.StatusDead)
		r.Reap(redisqtest.One)
		r.MustStand(redisqtest.Named("a", "first"), dispatcher.StatusDead)
		r.MustStand(redisqtest.Named("a", "second"), dispatcher.StatusDead)
		r.MustClaim(redisqtest.Two, redisqtest.Named("a", "new"))
	}},
	{Name: "a delivery that a cut ended can be retried at once, even while others are in flight", Run: func(r *redisqtest.Rig) {
		fails(r, "a")
		r.Publish("a", "m")
		old := r.MustClaim(redisqtest.One, redisqtest.Named("a", "m"))[0]
		r.Publish("a", "dead")
		r.Pass(time.Second)
		cut(r, "a")
		sweep(r, "a")
		require.Equal(r, dispatcher.ReasonDisabled, r.Inspect(redisqtest.Named("a", "dead")).Reason)
		require.Equal(r, []bool{true}, r.Retry(redisqtest.Named("a", "dead")))
		require.Equal(r, dispatcher.LaneNormal, r.LaneState("a").Limits.Mode)
		r.MustSettle(redisqtest.One, redisqtest.Success(old))
		r.MustClaim(redisqtest.Two, redisqtest.Named("a", "dead"))
	}},
	{Name: "a cut remains while a delivery in flight may be older", Run: func(r *redisqtest.Rig) {
		fails(r, "a")
		old := r.TakeNew("a")
		r.Pass(time.Second)
		cut(r, "a")
		sweep(r, "a")
		require.NoError(r, r.Queue.Uncut(r.Ctx, redisqtest.One, "a"))
		r.Settle(redisqtest.One, redisqtest.Failure(old, time.Hour))
		r.MustStand(old.ID, dispatcher.StatusDead)
		require.NoError(r, r.Queue.Uncut(r.Ctx, redisqtest.One, "a"))
		next := r.TakeNew("a")
		r.Settle(redisqtest.One, redisqtest.Failure(next, time.Hour))
		r.MustStand(next.ID, dispatcher.StatusRetrying)
	}},
	{Name: "a lane is cut once, and only while it reports the same first failure", Run: func(r *redisqtest.Rig) {
		fails(r, "a")
		since := r.LaneState("a").Failing
		require.False(r, cutSince(r, "a", since.Add(-time.Second)))
		require.True(r, cutSince(r, "a", since))
		r.Pass(time.Second)
		fails(r, "a")
		r.Publish("a", "m")
		require.False(r, cutSince(r, "a", since))
		require.Equal(r, 1, sweep(r, "a"))
	}},
	{Name: "a claim ends the deliveries that a sweep does not reach", Run: func(r *redisqtest.Rig) {
		fails(r, "a")
		r.Publish("a", "old")
		r.Pass(time.Second)
		cut(r, "a")
		r.Pass(time.Second)
		r.Publish("a", "new")
		require.Equal(r, redisqtest.IDs("a", "new"), redisqtest.ClaimedIDs(r.Claim(redisqtest.One, 64)))
		r.MustStand(redisqtest.Named("a", "old"), dispatcher.StatusDead)
	}},
	{Name: "a cut does not change a paused lane, and a pause replaces a cut", Run: func(r *redisqtest.Rig) {
		fails(r, "a")
		r.Publish("a", "m")
		r.Limit("a", redisqtest.Mode(dispatcher.LanePaused))
		require.False(r, cutSince(r, "a", r.LaneState("a").Failing))
		require.Equal(r, dispatcher.LanePaused, r.LaneState("a").Limits.Mode)
		r.Limit("a")
		cut(r, "a")
		r.Limit("a", redisqtest.Mode(dispatcher.LanePaused))
		require.Zero(r, sweep(r, "a"))
		r.MustStand(redisqtest.Named("a", "m"), dispatcher.StatusReady)
	}},
}

// cutSince gives up a lane without an endpoint if the lane has failed from this time on.
func cutSince(r *redisqtest.Rig, lane dispatcher.Lane, since time.Time) bool {
	r.Helper()
	_, cut, hints, err := r.Queue.Cut(r.Ctx, redisqtest.One, lane, since)
	require.NoError(r, err)
	r.MustBeCurrent(hints)
	return cut
}

// cut gives up a failing lane.
func cut(r *redisqtest.Rig, lane dispatcher.Lane) {
	r.Helper()
	require.True(r, cutSince(r, lane, r.LaneState(lane).Failing))
}
