package admin_test

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// waitingCases are of jobs that send what waits for its time.
var waitingCases = []jobCase{
	{name: "a job sends what waits for its rung, each once, and what fails waits on until the same time", run: func(b *bench) { b.sendsWaiting() }},
	{name: "with a destination it reads only what that one has", run: func(b *bench) { b.sendsWaiting("a") }},
	{name: "what was accepted since the job began is left, and what is scheduled is sent where it is named", run: func(b *bench) {
		old := b.fail("a", 1)[0]
		b.Schedule(b.Entry("later", redisqtest.To("a"), redisqtest.Delay(time.Hour)))
		j, _ := b.add(dispatcher.JobRetry, dispatcher.Filter{Statuses: []dispatcher.Status{dispatcher.StatusRetrying, dispatcher.StatusScheduled}})
		b.Pass(time.Millisecond)
		young := b.fail("a", 1)[0]
		later := redisqtest.Named("a", "later")
		require.Equal(b, 1, b.step(j, dispatcher.StatusRetrying, old, young).Done)
		require.Equal(b, 1, b.step(j, dispatcher.StatusScheduled, later).Done)
		b.MustStand(young, dispatcher.StatusRetrying)
		read := b.read(j)
		require.Equal(b, counts(2, 2, 0), read.JobCounts)
	}},
	{name: "what was accepted by a clock that was ahead is sent and cancelled, though it seems to be accepted since the job began", run: func(b *bench) {
		b.Pass(25 * time.Hour)
		b.Schedule(b.Entry("m1", redisqtest.To("a"), redisqtest.Delay(time.Hour)), b.Entry("m2", redisqtest.To("a"), redisqtest.Delay(time.Hour)))
		b.Pass(-25 * time.Hour)
		j, _ := b.add(dispatcher.JobRetry, dispatcher.Filter{Statuses: []dispatcher.Status{dispatcher.StatusScheduled}})
		require.Equal(b, 1, b.step(j, dispatcher.StatusScheduled, redisqtest.Named("a", "m1")).Done)
		b.MustStand(redisqtest.Named("a", "m1"), dispatcher.StatusReady)
		j, _ = b.add(dispatcher.JobCancel, dispatcher.Filter{})
		require.Equal(b, 1, b.step(j, "", redisqtest.Named("a", "m2")).Done)
		b.MustStand(redisqtest.Named("a", "m2"), dispatcher.StatusCancelled)
	}},
	{name: "a second job takes over what waits for the first", run: func(b *bench) {
		id := b.die("a", 1)[0]
		first, _ := b.add(dispatcher.JobRetry, dispatcher.Filter{})
		b.step(first, dispatcher.StatusDead, id)
		b.MustSettle(redisqtest.One, redisqtest.Failure(b.MustClaim(redisqtest.One, id)[0], time.Hour))
		second, _ := b.add(dispatcher.JobRetry, dispatcher.Filter{Statuses: []dispatcher.Status{dispatcher.StatusRetrying}})
		require.Equal(b, []dispatcher.DeliveryID{id}, b.page(second))
		require.Equal(b, 1, b.step(second, dispatcher.StatusRetrying, id).Done)
		b.Deliver(id)
		require.Zero(b, b.ended(first, dispatcher.JobEnds{TakenOver: 1}))
		require.Zero(b, b.ended(second, dispatcher.JobEnds{Delivered: 1}))
	}},
	{name: "what waits in a lane that is paused is passed by, and what is not there any more is left", run: func(b *bench) {
		ids := b.fail("a", 2)
		j, _ := b.add(dispatcher.JobRetry, dispatcher.Filter{Statuses: []dispatcher.Status{dispatcher.StatusRetrying}, Lanes: []dispatcher.Lane{"a", "a", "b"}})
		b.Limit("a", redisqtest.Mode(dispatcher.LanePaused))
		require.Equal(b, ids, b.step(j, dispatcher.StatusRetrying, ids...).Full)
		require.Empty(b, b.page(j, "a"))
		b.Limit("a")
		b.Retry(ids[0])
		require.Equal(b, counts(2, 1, 0, 1), b.step(j, dispatcher.StatusRetrying, ids...).JobCounts)
	}},
}

// fail has messages of a lane wait for their next attempt.
func (b *bench) fail(lane dispatcher.Lane, n int) (ids []dispatcher.DeliveryID) {
	b.Helper()
	for range n {
		c := b.TakeNew(lane)
		b.MustSettle(redisqtest.One, redisqtest.Failure(c, time.Hour))
		ids = append(ids, c.ID)
		b.Pass(time.Millisecond)
	}
	return ids
}

// sendsWaiting has a job send what waits in one lane.
func (b *bench) sendsWaiting(lanes ...dispatcher.Lane) {
	b.Helper()
	ids := b.fail("a", 70)
	b.Schedule(b.Entry(b.NewID(), redisqtest.To("a"), redisqtest.Delay(time.Hour)))
	strangers := b.fail("b", 3)
	j, _ := b.add(dispatcher.JobRetry, dispatcher.Filter{Statuses: []dispatcher.Status{dispatcher.StatusRetrying}, Lanes: lanes})
	want := ids
	if lanes == nil {
		want = append(want, strangers...)
	}
	require.ElementsMatch(b, want, b.page(j))
	before := b.Inspect(ids[0])
	out := b.step(j, dispatcher.StatusRetrying, ids...)
	require.Equal(b, []int{64, 6}, []int{out.Done, len(out.Full)}, "as many as a lane takes")
	for sent := 0; sent < 64; {
		for _, c := range b.ClaimAll(redisqtest.One) {
			require.True(b, c.Asked)
			b.MustSettle(redisqtest.One, redisqtest.Failure(c, time.Minute))
			sent++
		}
	}
	require.Equal(b, 6, b.step(j, dispatcher.StatusRetrying, out.Full...).Done)
	b.ClaimAll(redisqtest.One)
	after := b.Inspect(ids[0])
	require.Equal(b, before.Due, after.Due)
	require.Equal(b, []int{before.Climbed, before.Attempts + 1}, []int{after.Climbed, after.Attempts}, "it spent no rung")
	require.NotContains(b, b.page(j), ids[0], "it is attempted once by one job")
	require.Zero(b, b.step(j, dispatcher.StatusRetrying, ids[0]).Done)
	require.Equal(b, 70, b.ended(j, dispatcher.JobEnds{}))
}
