package redisq_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// jobs is the lane of a queue.
const jobs = dispatcher.Lane("q_jobs")

// TakenCases are about leases with a timeout, which belong to no instance.
var TakenCases = []redisqtest.Case{
	{Name: "a taken delivery is in flight, and leased to no instance", Run: func(r *redisqtest.Rig) {
		r.Publish(jobs, "m1", "m2")
		at := r.Now
		r.MustTakeFor(time.Minute, redisqtest.Named(jobs, "m1"))
		r.Pass(time.Second)
		d := r.MustStand(redisqtest.Named(jobs, "m1"), dispatcher.StatusInFlight)
		require.Zero(r, d.Due)
		require.Empty(r, r.Leases(redisqtest.One))
		require.Equal(r, int64(1), r.Stats().Counts[dispatcher.StatusInFlight])
		require.Equal(r, redisqtest.Taken{Since: at.UnixMilli(), Until: at.Add(time.Minute).UnixMilli(), Token: redisqtest.Token, Owner: redisqtest.Owner, Attempt: 1},
			r.State().Taken[redisqtest.Named(jobs, "m1")])
		require.Equal(r, at.Add(time.Minute), r.Move().Due, "the hint reports the end of the lease to movers")
	}},
	{Name: "a taken delivery survives the instance that took it", Run: func(r *redisqtest.Rig) {
		r.Publish(jobs, "m1")
		r.MustTakeFor(time.Minute, redisqtest.Named(jobs, "m1"))
		_, hints, err := r.Queue.Reap(r.Ctx, redisqtest.Two, redisqtest.One)
		require.NoError(r, err)
		r.MustBeCurrent(hints)
		r.MustStand(redisqtest.Named(jobs, "m1"), dispatcher.StatusInFlight)
		c := r.MustAdopt(redisqtest.Two, redisqtest.Named(jobs, "m1"))
		r.MustSettle(redisqtest.Two, redisqtest.Success(c))
		r.MustStand(c.ID, dispatcher.StatusDelivered)
	}},
	{Name: "an adopted lease is like any other lease", Run: func(r *redisqtest.Rig) {
		r.Schedule(r.Entry("m1", redisqtest.To(jobs), redisqtest.Body(strings.Repeat("x", 1000)), func(m *dispatcher.Message) { m.MaxAttempts = 3 }))
		taken := r.MustTakeFor(time.Minute, redisqtest.Named(jobs, "m1"))[0]
		r.Pass(20 * time.Second)
		a := r.Adopt(redisqtest.Two, redisqtest.LeaseOf(taken.ID))[0]
		require.NoError(r, a.Err)
		require.Equal(r, r.Now.Add(-20*time.Second), a.Taken)
		require.Equal(r, r.Now, a.Claimed.Leased)
		require.Equal(r, 3, a.Claimed.Message.MaxAttempts, "the message is returned without its body")
		require.Empty(r, a.Claimed.Message.Body)
		require.Equal(r, []any{1, 1, true}, []any{a.Claimed.Attempt, a.Claimed.Rung, a.Claimed.First})
		require.Equal(r, redisqtest.IDs(jobs, "m1"), r.Leases(redisqtest.Two))
		require.Zero(r, r.State().Timer)
		r.MustSettle(redisqtest.Two, redisqtest.Failure(*a.Claimed, 15*time.Second))
		r.MustStand(taken.ID, dispatcher.StatusRetrying)

		r.Pass(15 * time.Second)
		r.Move()
		again := r.MustTakeFor(time.Minute, taken.ID)[0]
		require.Equal(r, 2, again.Attempt)
		r.MustSettle(redisqtest.Two, redisqtest.Success(r.MustAdopt(redisqtest.Two, again.ID)))
		r.MustStand(taken.ID, dispatcher.StatusDelivered)
	}},
	{Name: "a lease with another token is late, and a lease of another owner is not ours", Run: func(r *redisqtest.Rig) {
		r.Publish(jobs, "m1", "m2")
		r.MustTakeFor(time.Minute, redisqtest.IDs(jobs, "m1", "m2")...)
		id := redisqtest.Named(jobs, "m1")
		r.MustChangeNothing(func() {
			for _, lasts := range []time.Duration{0, time.Minute} {
				leases := []dispatcher.TakenLease{
					{ID: id, Token: "t0", Owner: redisqtest.Owner}, {ID: id, Token: redisqtest.Token, Owner: "o2"}, {ID: id, Token: "t0", Owner: "o2"},
					{ID: id, Owner: "o2"}, redisqtest.LeaseOf(redisqtest.Named(jobs, "m9")), redisqtest.LeaseOf(redisqtest.Named("q_other", "m1")),
				}
				var got []dispatcher.Adopted
				if lasts == 0 {
					got = r.Adopt(redisqtest.One, leases...)
				} else {
					got = r.Extend(lasts, leases...)
				}
				for i, want := range []error{
					dispatcher.ErrNotTaken, dispatcher.ErrNotYours, dispatcher.ErrNotTaken, dispatcher.ErrNotYours, dispatcher.ErrNotTaken, dispatcher.ErrNotTaken,
				} {
					require.ErrorIs(r, got[i].Err, want, "%d %+v", i, leases[i])
				}
			}
		})
		require.NoError(r, r.Adopt(redisqtest.One, dispatcher.TakenLease{ID: id, Owner: redisqtest.Owner})[0].Err, "the owner may omit the token")
	}},
	{Name: "a second adoption of a lease changes nothing", Run: func(r *redisqtest.Rig) {
		r.Publish(jobs, "m1", "m2")
		r.MustTakeFor(time.Minute, redisqtest.IDs(jobs, "m1", "m2")...)
		one, two := redisqtest.LeaseOf(redisqtest.Named(jobs, "m1")), redisqtest.LeaseOf(redisqtest.Named(jobs, "m2"))
		got := r.Adopt(redisqtest.One, one, two, one)
		require.NoError(r, got[0].Err)
		require.NoError(r, got[1].Err)
		require.ErrorIs(r, got[2].Err, dispatcher.ErrNotTaken)
		r.MustChangeNothing(func() {
			for _, by := range []string{redisqtest.One, redisqtest.Two} {
				require.ErrorIs(r, r.Adopt(by, one)[0].Err, dispatcher.ErrNotTaken)
			}
		})
		require.Equal(r, redisqtest.IDs(jobs, "m1", "m2"), r.Leases(redisqtest.One))
	}},
	{Name: "an instance that was declared dead gets no lease", Run: func(r *redisqtest.Rig) {
		r.Publish(jobs, "m1")
		r.MustTakeFor(time.Minute, redisqtest.Named(jobs, "m1"))
		_, _, err := r.Queue.Reap(r.Ctx, redisqtest.Two, redisqtest.One)
		require.NoError(r, err)
		r.MustChangeNothing(func() {
			require.ErrorIs(r, r.Adopt(redisqtest.One, redisqtest.LeaseOf(redisqtest.Named(jobs, "m1")))[0].Err, dispatcher.ErrFenced)
		})
		r.Pass(time.Minute)
		r.MustChangeNothing(func() {
			_, _, err := r.Queue.Move(r.Ctx, redisqtest.One, r.All())
			require.ErrorIs(r, err, dispatcher.ErrFenced)
		})
		require.Len(r, r.End(redisqtest.Two), 1)
	}},
	{Name: "a lease that reaches its timeout goes to the mover, which reports a failure", Run: func(r *redisqtest.Rig) {
		r.Publish(jobs, "m1", "m2", "m3")
		at := r.Now
		r.MustTakeFor(time.Minute, redisqtest.Named(jobs, "m1"))
		r.MustTakeFor(10*time.Second, redisqtest.Named(jobs, "m2"))
		require.Equal(r, at.Add(10*time.Second), r.Move().Due)
		r.SetNow(at.Add(10*time.Second - time.Microsecond))
		require.Empty(r, r.End(redisqtest.Two))
		r.SetNow(at.Add(10 * time.Second))
		ended := r.End(redisqtest.Two)
		require.Equal(r, redisqtest.IDs(jobs, "m2"), redisqtest.ClaimedIDs(ended))
		require.Equal(r, []any{at, r.Now}, []any{ended[0].Due, ended[0].Leased}, "the times of the take and of the lease's end")
		require.Equal(r, "payment.paid", ended[0].Message.Topic)
		r.MustStand(redisqtest.Named(jobs, "m2"), dispatcher.StatusInFlight)
		require.Equal(r, redisqtest.IDs(jobs, "m2"), r.Leases(redisqtest.Two))
		require.Equal(r, at.Add(time.Minute), r.Move().Due)

		failed := redisqtest.Failure(ended[0], 15*time.Second)
		failed.Attempt.Status, failed.Attempt.Class, failed.Attempt.Error = 0, dispatcher.ClassLease, "its lease ended"
		r.MustSettle(redisqtest.Two, failed)
		d := r.MustStand(redisqtest.Named(jobs, "m2"), dispatcher.StatusRetrying)
		require.Equal(r, []any{1, "its lease ended", dispatcher.ClassLease}, []any{d.Attempts, d.LastError, d.History[0].Class})
		require.ErrorIs(r, r.Adopt(redisqtest.One, redisqtest.LeaseOf(d.ID))[0].Err, dispatcher.ErrNotTaken, "the adoption is too late")
	}},
	{Name: "a batch of leases ends at once, and the hint reports the rest", Run: func(r *redisqtest.Rig) {
		r.Queue.Limit(r.Ctx, redisqtest.One, jobs, dispatcher.LaneLimits{MaxInFlight: 128}, false)
		const n = 100
		for i := range n {
			r.Publish(jobs, fmt.Sprintf("m%03d", i))
		}
		for got := 0; got < n; {
			c := r.TakeFor(64, time.Second, jobs)
			require.NotEmpty(r, c)
			got += len(c)
		}
		r.Pass(time.Second)
		require.Len(r, r.End(redisqtest.One), 64)
		require.Equal(r, redisqtest.Start.Add(time.Second), r.Hints[0].Due)
		require.Len(r, r.End(redisqtest.Two), n-64)
		require.Zero(r, r.Hints[0].Due)
		require.Empty(r, r.State().Taken)
	}},
	{Name: "a lease that lasts longer ends later", Run: func(r *redisqtest.Rig) {
		r.Publish(jobs, "m1", "m2")
		r.MustTakeFor(10*time.Second, redisqtest.IDs(jobs, "m1", "m2")...)
		r.Pass(9 * time.Second)
		got := r.Extend(time.Hour, redisqtest.LeaseOf(redisqtest.Named(jobs, "m1")))
		require.NoError(r, got[0].Err)
		require.Equal(r, r.Later(time.Hour), got[0].Until)
		r.Pass(time.Second)
		require.Equal(r, redisqtest.IDs(jobs, "m2"), redisqtest.ClaimedIDs(r.End(redisqtest.Two)))
		require.Equal(r, got[0].Until, r.Hints[0].Due)
		r.Extend(time.Second, redisqtest.LeaseOf(redisqtest.Named(jobs, "m1")))
		require.Equal(r, r.Later(time.Second), r.Move().Due, "the lease may end earlier")
	}},
	{Name: "an expired lease stays valid until a mover polls it", Run: func(r *redisqtest.Rig) {
		r.Publish(jobs, "m1", "m2")
		r.MustTakeFor(10*time.Second, redisqtest.IDs(jobs, "m1", "m2")...)
		r.Pass(time.Minute)
		require.NoError(r, r.Extend(time.Minute, redisqtest.LeaseOf(redisqtest.Named(jobs, "m1")))[0].Err)
		r.MustAdopt(redisqtest.One, redisqtest.Named(jobs, "m2"))
		require.Empty(r, r.End(redisqtest.Two))
		r.Pass(time.Minute)
		require.Len(r, r.End(redisqtest.Two), 1)
		require.ErrorIs(r, r.Extend(time.Minute, redisqtest.LeaseOf(redisqtest.Named(jobs, "m1")))[0].Err, dispatcher.ErrNotTaken)
	}},
	{Name: "a lease ends after the clock stepped back, and hints report later leases again", Run: func(r *redisqtest.Rig) {
		r.Publish(jobs, "m1", "m2")
		r.MustTakeFor(time.Hour, redisqtest.Named(jobs, "m1"))
		r.Pass(-time.Minute)
		require.Empty(r, r.End(redisqtest.Two), "a step of one minute ends no lease of an hour")
		r.Pass(-time.Minute)
		keep := dispatcher.Keep{Finished: time.Hour, Dead: time.Hour, DeadMax: 10, SeenMax: 10}
		trimmed, err := r.Queue.Trim(r.Ctx, redisqtest.One, r.All(), keep, false)
		require.NoError(r, err)
		require.Equal(r, r.Now, trimmed.Hints[0].Due, "movers come now")
		require.Equal(r, redisqtest.IDs(jobs, "m1"), redisqtest.ClaimedIDs(r.End(redisqtest.Two)))
		r.MustTakeFor(time.Minute, redisqtest.Named(jobs, "m2"))
	}},
	{Name: "a mover that comes after the clock stepped back ends a lease though nobody called it", Run: func(r *redisqtest.Rig) {
		r.Publish(jobs, "m1")
		r.MustTakeFor(time.Hour, redisqtest.Named(jobs, "m1"))
		r.Pass(-2 * time.Minute)
		require.Equal(r, redisqtest.IDs(jobs, "m1"), redisqtest.ClaimedIDs(r.End(redisqtest.Two)))
	}},
	{Name: "a lease ends early if the clock steps forward", Run: func(r *redisqtest.Rig) {
		r.Publish(jobs, "m1")
		r.MustTakeFor(time.Hour, redisqtest.Named(jobs, "m1"))
		r.Pass(24 * time.Hour)
		require.Len(r, r.End(redisqtest.Two), 1)
	}},
	{Name: "a taken delivery that is cancelled ends with its lease", Run: func(r *redisqtest.Rig) {
		r.Publish(jobs, "m1", "m2", "m3")
		ids := redisqtest.IDs(jobs, "m1", "m2", "m3")
		r.MustTakeFor(time.Minute, ids...)
		require.Equal(r, []bool{true, true, true}, r.Cancel(ids...))
		r.MustStand(ids[0], dispatcher.StatusCancelled)
		r.MustSettle(redisqtest.One, redisqtest.Success(r.MustAdopt(redisqtest.One, ids[0])))
		r.MustStand(ids[0], dispatcher.StatusDelivered)
		require.Equal(r, []dispatcher.SettleResult{dispatcher.SettledEnd}, r.Settle(redisqtest.One, redisqtest.Failure(r.MustAdopt(redisqtest.One, ids[1]), time.Second)))
		r.Pass(time.Minute)
		ended := r.End(redisqtest.Two)
		require.Equal(r, []dispatcher.SettleResult{dispatcher.SettledEnd}, r.Settle(redisqtest.Two, redisqtest.Failure(ended[0], time.Second)))
		for _, id := range ids[1:] {
			require.Equal(r, redisqtest.PlaceCancelled, r.State().At(id).Place)
		}
	}},
	{Name: "a taken delivery can't be retried, and its cancel can be undone", Run: func(r *redisqtest.Rig) {
		r.Publish(jobs, "m1")
		id := redisqtest.Named(jobs, "m1")
		r.MustTakeFor(time.Minute, id)
		r.MustChangeNothing(func() {
			require.ErrorIs(r, r.Change(r.Resend, id)[0].Err, dispatcher.ErrInFlight)
		})
		r.Cancel(id)
		require.NoError(r, r.Change(r.Resend, id)[0].Err)
		r.MustStand(id, dispatcher.StatusInFlight)
		require.Equal(r, redisqtest.PlaceTaken, r.State().At(id).Place)
	}},
	{Name: "a success after the timeout counts", Run: func(r *redisqtest.Rig) {
		r.Publish(jobs, "m1")
		id := redisqtest.Named(jobs, "m1")
		first := r.MustTakeFor(time.Second, id)[0]
		r.Pass(time.Second)
		ended := r.End(redisqtest.Two)
		r.MustSettle(redisqtest.Two, redisqtest.Failure(ended[0], 0))
		r.Pass(time.Second)
		r.Move()
		r.MustTakeFor(time.Minute, id)
		require.Equal(r, []dispatcher.SettleResult{dispatcher.SettledDone}, r.Settle(redisqtest.One, redisqtest.Success(first)))
		r.MustStand(id, dispatcher.StatusDelivered)
		require.Equal(r, redisqtest.PlaceTaken, r.State().At(id).Place, "the delivery stays taken until its lease ends")
		again := r.MustAdopt(redisqtest.One, id)
		require.Equal(r, []dispatcher.SettleResult{dispatcher.SettledEnd}, r.Settle(redisqtest.One, redisqtest.Failure(again, time.Second)))
		require.Equal(r, redisqtest.PlaceDone, r.State().At(id).Place)
	}},
	{Name: "a taken delivery keeps its place in its line", Run: func(r *redisqtest.Rig) {
		keyed := func(m *dispatcher.Message) { m.OrderingKey = "k" }
		for _, id := range []string{"m1", "m2"} {
			r.Schedule(r.Entry(id, redisqtest.To(jobs), keyed))
		}
		r.MustTakeFor(time.Second, redisqtest.Named(jobs, "m1"))
		require.Empty(r, r.TakeFor(2, time.Second, jobs))
		r.Pass(time.Second)
		ended := r.End(redisqtest.Two)
		require.Empty(r, r.TakeFor(2, time.Second, jobs), "its turn ends only when the outcome is recorded")
		r.MustSettle(redisqtest.Two, redisqtest.Death(ended[0], dispatcher.ReasonExhausted))
		r.MustTakeFor(time.Second, redisqtest.Named(jobs, "m2"))
	}},
	{Name: "a delivery taken from a deleted lane ends with its lease", Run: func(r *redisqtest.Rig) {
		r.Publish(jobs, "m1", "m2")
		r.MustTakeFor(time.Second, redisqtest.IDs(jobs, "m1", "m2")...)
		for _, mode := range []dispatcher.LaneMode{dispatcher.LanePaused, dispatcher.LaneDeleted} {
			_, _, err := r.Queue.Limit(r.Ctx, redisqtest.One, jobs, dispatcher.LaneLimits{Mode: mode}, false)
			require.NoError(r, err)
			r.MustStand(redisqtest.Named(jobs, "m1"), dispatcher.StatusInFlight)
		}
		r.MustSettle(redisqtest.One, redisqtest.Success(r.MustAdopt(redisqtest.One, redisqtest.Named(jobs, "m1"))))
		r.Pass(time.Second)
		require.Equal(r, []dispatcher.SettleResult{dispatcher.SettledEnd}, r.Settle(redisqtest.Two, redisqtest.Failure(r.End(redisqtest.Two)[0], time.Second)))
		r.MustStand(redisqtest.Named(jobs, "m2"), dispatcher.StatusCancelled)
	}},
	{Name: "a query returns taken deliveries in the order of their leases' ends", Run: func(r *redisqtest.Rig) {
		want := map[dispatcher.DeliveryID]dispatcher.Status{}
		r.Publish("a", "m0")
		r.MustClaim(redisqtest.One, redisqtest.Named("a", "m0"))
		want[redisqtest.Named("a", "m0")] = dispatcher.StatusInFlight
		for i := range 5 {
			id := redisqtest.Named(jobs, fmt.Sprintf("t%d", i))
			r.Publish(jobs, id.Message)
			r.MustTakeFor(time.Duration(50-i)*time.Minute, id)
			want[id] = dispatcher.StatusInFlight
			r.Pass(time.Second)
		}
		r.Publish(jobs, "m9")
		inFlight := dispatcher.Filter{Statuses: []dispatcher.Status{dispatcher.StatusInFlight}}
		for _, limit := range []int{1, 2, 100} {
			redisqtest.RequireStatuses(r, want, r.ListAll(inFlight, limit))
		}
		inFlight.Since, inFlight.Until = redisqtest.Start.Add(time.Second), redisqtest.Start.Add(3*time.Second)
		require.Len(r, r.ListAll(inFlight, 1), 2, "a period applies to the time of the take")
		want[redisqtest.Named(jobs, "m9")] = dispatcher.StatusReady
		redisqtest.RequireStatuses(r, want, r.ListAll(dispatcher.Filter{}, 2))
	}},
	{Name: "leases can be adopted and can end while memory is full", Run: func(r *redisqtest.Rig) {
		if r.Fill == nil {
			return
		}
		r.Publish(jobs, "m1", "m2", "m3")
		r.MustTakeFor(time.Second, redisqtest.IDs(jobs, "m1", "m2", "m3")...)
		r.Fill(true)
		defer r.Fill(false)
		r.MustSettle(redisqtest.One, redisqtest.Success(r.MustAdopt(redisqtest.One, redisqtest.Named(jobs, "m1"))))
		require.NoError(r, r.Extend(time.Minute, redisqtest.LeaseOf(redisqtest.Named(jobs, "m2")))[0].Err)
		r.Pass(time.Second)
		ended := r.End(redisqtest.Two)
		require.Equal(r, redisqtest.IDs(jobs, "m3"), redisqtest.ClaimedIDs(ended))
		r.MustSettle(redisqtest.Two, redisqtest.Failure(ended[0], time.Second))
	}},
	{Name: "headers that are too large for one reply are returned in several", Run: func(r *redisqtest.Rig) {
		r.Queue.Limit(r.Ctx, redisqtest.One, jobs, dispatcher.LaneLimits{MaxInFlight: 128}, false)
		const n, half = 60, 30 // half of them have more than 1 MiB of headers
		var leases []dispatcher.TakenLease
		for i := range n {
			id := redisqtest.Named(jobs, fmt.Sprintf("m%02d", i))
			r.Schedule(r.Entry(id.Message, redisqtest.To(jobs), func(m *dispatcher.Message) {
				for h := range 6 {
					m.Headers = append(m.Headers, dispatcher.Header{Name: fmt.Sprintf("X-%d", h), Value: strings.Repeat("v", 8000)})
				}
			}))
			leases = append(leases, redisqtest.LeaseOf(id))
		}
		for got := 0; got < n; {
			c := r.TakeFor(8, time.Second, jobs)
			require.NotEmpty(r, c)
			got += len(c)
		}
		for i, a := range r.Adopt(redisqtest.One, leases[:half]...) {
			require.NoError(r, a.Err, "%d", i)
			require.Len(r, a.Claimed.Message.Headers, 6)
		}
		r.Pass(time.Second)
		ended := len(r.End(redisqtest.Two))
		require.Less(r, ended, half)
		for calls := 1; ended < half; calls++ {
			ended += len(r.End(redisqtest.Two))
			require.LessOrEqual(r, calls, n)
		}
	}},
	{Name: "a queue's success has no status", Run: func(r *redisqtest.Rig) {
		r.Publish(jobs, "m1", "m2")
		r.MustTakeFor(time.Minute, redisqtest.IDs(jobs, "m1", "m2")...)
		s := redisqtest.Answered(r.MustAdopt(redisqtest.One, redisqtest.Named(jobs, "m1")), dispatcher.Delivered, 0)
		r.MustSettle(redisqtest.One, s)
		d := r.MustStand(redisqtest.Named(jobs, "m1"), dispatcher.StatusDelivered)
		require.Equal(r, []any{0, 1}, []any{d.LastStatus, d.Attempts})
		require.NotContains(r, r.State().Progress, d.ID, "the record of the most common end is empty")
		for _, a := range d.History {
			require.Zero(r, a.Status)
		}
		r.Retry(d.ID)
		r.MustTakeFor(time.Minute, d.ID)
		r.MustSettle(redisqtest.One, redisqtest.Answered(r.MustAdopt(redisqtest.One, d.ID), dispatcher.Delivered, 0))
		d = r.MustStand(d.ID, dispatcher.StatusDelivered)
		require.Equal(r, []any{0, 2}, []any{d.LastStatus, d.Attempts})
		require.Len(r, d.History, 2)
		for _, a := range d.History {
			require.Zero(r, a.Status)
		}
	}},
	{Name: "one call adopts leases in several partitions", Setup: redisqtest.Setup{Partitions: 4}, Run: func(r *redisqtest.Rig) {
		var leases []dispatcher.TakenLease
		for i := range 8 {
			lane := dispatcher.Lane(fmt.Sprintf("q_%d", i))
			r.Publish(lane, fmt.Sprintf("m%d", i))
			r.MustTakeFor(time.Minute, redisqtest.Named(lane, fmt.Sprintf("m%d", i)))
			leases = append(leases, redisqtest.LeaseOf(redisqtest.Named(lane, fmt.Sprintf("m%d", i))))
		}
		for i, a := range r.Adopt(redisqtest.One, leases[:4]...) {
			require.NoError(r, a.Err)
			require.Equal(r, leases[i].ID, a.Claimed.ID)
		}
		r.Pass(time.Minute)
		require.Len(r, r.End(redisqtest.Two), 4)
	}},
}
