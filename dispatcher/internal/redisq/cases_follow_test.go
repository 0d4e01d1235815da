package redisq_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// FollowCases are about followers of the log.
var FollowCases = []redisqtest.Case{
	{Name: "a follower returns the lines that are logged from now on, with their messages", Run: func(r *redisqtest.Rig) {
		r.EndOne("a")
		at := mustEnd(r)
		require.Empty(r, mustFollowLog(r, &at, nil))
		r.Publish("a", "m1")
		r.MustSettle(redisqtest.One, proven(r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0]))
		lines := mustFollowLog(r, &at, nil)
		require.Len(r, lines, 1)
		require.Equal(r, redisqtest.Named("a", "m1"), lines[0].ID)
		require.Equal(r, "payment.paid", lines[0].Topic)
		require.Equal(r, "thanks", string(lines[0].Attempt.Excerpt))
		require.Empty(r, mustFollowLog(r, &at, nil), "once")
	}},
	{Name: "a failed attempt is logged with the head of its response and the due time of its history", Run: func(r *redisqtest.Rig) {
		r.Pass(300 * time.Microsecond) // waits are rounded up to a ms
		at := mustEnd(r)
		r.Publish("a", "m1")
		failed := func(excerpt string, wait time.Duration) dispatcher.Logged {
			s := redisqtest.Failure(r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0], wait)
			s.Attempt.Excerpt = []byte(excerpt)
			r.MustSettle(redisqtest.One, s)
			lines := mustFollowLog(r, &at, nil)
			last := lines[len(lines)-1]
			history := r.MustStand(redisqtest.Named("a", "m1"), dispatcher.StatusRetrying).History
			require.Equal(r, history[len(history)-1].Next, last.Attempt.Next)
			return last
		}
		require.Equal(r, "sorry it broke", string(failed("sorry it broke", time.Minute).Attempt.Excerpt))
		due := r.Now.Add(time.Minute)
		require.Equal(r, []bool{true}, r.Retry(redisqtest.Named("a", "m1")))
		got := failed(strings.Repeat("x", 1000), time.Second)
		require.WithinDuration(r, due, got.Attempt.Next, time.Millisecond, "the due time that the requested retry interrupted")
		require.Len(r, got.Attempt.Excerpt, dispatcher.ProofBytes)
	}},
	{Name: "a follower of an empty log reports no gap", Setup: redisqtest.Setup{Partitions: 3}, Run: func(r *redisqtest.Rig) {
		at := mustEnd(r)
		for _, lane := range []dispatcher.Lane{"lane0", "lane1", "lane2", "lane3"} {
			r.EndOne(lane)
		}
		require.Len(r, mustFollowLog(r, &at, nil), 4)
	}},
	{Name: "a follower continues after each line, within an entry too, over all partitions", Setup: redisqtest.Setup{Partitions: 3}, Run: func(r *redisqtest.Rig) {
		begin := mustEnd(r)
		for round := range 4 {
			for lane := range 5 {
				r.Publish(dispatcher.Lane(fmt.Sprintf("lane%d", lane)), fmt.Sprintf("m%d-%d", round, lane))
			}
			var batch []dispatcher.Settlement
			for _, c := range r.ClaimAll(redisqtest.One) {
				batch = append(batch, proven(c))
			}
			r.Settle(redisqtest.One, batch...)
			r.Pass(time.Second)
		}
		at := begin.Clone()
		all := mustFollowLog(r, &at, nil)
		require.Len(r, all, 20)
		require.True(r, slices.IsSortedFunc(all, func(a, b dispatcher.Logged) int { return a.Place.Compare(b.Place) }))
		at = begin.Clone()
		for k := range all {
			at.Pass(all[k].Place)
			behind := mustAt(r, at)
			require.Equal(r, all[k+1:], append([]dispatcher.Logged{}, mustFollowLog(r, &behind, nil)...), "after line %d", k)
		}
		since := r.Queue.LogSince(redisqtest.Start.Add(3 * time.Second))
		require.Len(r, mustFollowLog(r, &since, func(l *dispatcher.Logged) bool { return !l.Attempt.At.Before(redisqtest.Start.Add(3 * time.Second)) }), 5)
	}},
	{Name: "a follower returns a part of the log at a time", Run: func(r *redisqtest.Rig) {
		at := mustEnd(r)
		for range 40 {
			r.EndOne("a")
		}
		step, err := r.Queue.FollowLog(r.Ctx, &at, nil)
		require.NoError(r, err)
		require.True(r, step.More)
		require.Len(r, step.Lines, 16)
		require.Len(r, mustFollowLog(r, &at, nil), 24)
	}},
	{Name: "a follower reports a gap once if the log was cut while it was away", Run: func(r *redisqtest.Rig) {
		const some = 120 // Redis cuts whole nodes, of a hundred entries at most
		begin := mustEnd(r)
		here := begin.Clone()
		for range some {
			r.EndOne("a")
		}
		require.Len(r, mustFollowLog(r, &here, nil), some)
		r.Pass(time.Hour)
		require.Empty(r, mustFollowLog(r, &here, nil))
		r.EndOne("a")
		r.Trim(redisqtest.KeepAnHour)
		for name, away := range map[string]dispatcher.LogPosition{"kept": begin.Clone(), "told": mustAt(r, begin)} {
			step, err := r.Queue.FollowLog(r.Ctx, &away, nil)
			require.NoError(r, err)
			require.False(r, step.Gap.IsZero(), name)
			require.False(r, step.Gap.After(r.Now), name)
			require.NotEmpty(r, step.Lines, name)
			mustFollowLog(r, &away, nil)
		}
		require.Len(r, mustFollowLog(r, &here, nil), 1, "a follower that read everything misses nothing")
		reported := mustAt(r, here)
		r.EndOne("a")
		require.Len(r, mustFollowLog(r, &reported, nil), 1)
	}},
	{Name: "a follower at a position of another number of partitions reports a gap and continues", Setup: redisqtest.Setup{Partitions: 2}, Run: func(r *redisqtest.Rig) {
		at := mustEnd(r)
		old := dispatcher.LogPositionAt(at.Store, 7, r.Now.UnixMilli())
		r.EndOne("lane0")
		r.EndOne("lane1")
		old = mustAt(r, old)
		step, err := r.Queue.FollowLog(r.Ctx, &old, nil)
		require.NoError(r, err)
		require.False(r, step.Gap.IsZero())
		require.Len(r, step.Lines, 2)
		require.Len(r, old.Marks, 2)
		require.Empty(r, mustFollowLog(r, &old, nil))
	}},
	{Name: "a follower refuses a position of another store", Run: func(r *redisqtest.Rig) {
		at := mustEnd(r)
		at.Store++
		for _, text := range []string{"", "x", at.String()} {
			_, err := r.Queue.LogAt(text)
			require.ErrorIs(r, err, dispatcher.ErrCursor, text)
		}
	}},
}

func mustEnd(r *redisqtest.Rig) dispatcher.LogPosition {
	r.Helper()
	at, err := r.Queue.LogEnd(r.Ctx)
	require.NoError(r, err)
	return at
}

// mustAt returns a position after its conversion to an event's id and back.
func mustAt(r *redisqtest.Rig, p dispatcher.LogPosition) dispatcher.LogPosition {
	r.Helper()
	at, err := r.Queue.LogAt(p.String())
	require.NoError(r, err)
	return at
}

// mustFollowLog reads to the end of the log and returns its lines. The log must have no gap.
func mustFollowLog(r *redisqtest.Rig, at *dispatcher.LogPosition, wanted func(*dispatcher.Logged) bool) (lines []dispatcher.Logged) {
	r.Helper()
	for range 1000 {
		step, err := r.Queue.FollowLog(r.Ctx, at, wanted)
		require.NoError(r, err)
		require.Zero(r, step.Gap)
		lines = append(lines, step.Lines...)
		if !step.More {
			return lines
		}
	}
	r.Fatal("the log never ends")
	return nil
}
