package deliveries

import (
	"fmt"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/queuetest/rig"
	"github.com/hookladder/hookladder/dispatcher/internal/queuetest/stored"
)

// jobs is the lane of a queue.
const jobs = dispatcher.Lane("q_jobs")

// TakenCases are about leases with a timeout, which belong to no instance.
var TakenCases = []rig.Case{
	{Name: "a taken delivery is in flight, and leased to no instance", Run: func(r *rig.Rig) {
		r.Publish(jobs, "m1", "m2")
		at := r.Now
		r.MustTakeFor(time.Minute, rig.Named(jobs, "m1"))
		r.Pass(time.Second)
		d := r.MustStand(rig.Named(jobs, "m1"), dispatcher.StatusInFlight)
		require.Zero(r, d.Due)
		require.Empty(r, r.Leases(rig.One))
		require.Equal(r, int64(1), r.Stats().Counts[dispatcher.StatusInFlight])
		require.Equal(r, stored.Taken{Since: at.UnixMilli(), Until: at.Add(time.Minute).UnixMilli(), Token: rig.Token, Owner: rig.Owner, Attempt: 1},
			r.State().Taken[rig.Named(jobs, "m1")])
		require.Equal(r, at.Add(time.Minute), r.Move().Due, "the hint reports the end of the lease to movers")
	}},
	{Name: "a taken delivery survives the instance that took it", Run: func(r *rig.Rig) {
		r.Publish(jobs, "m1")
		r.MustTakeFor(time.Minute, rig.Named(jobs, "m1"))
		_, hints, err := r.Queue.Reap(r.Ctx, rig.Two, rig.One)
		require.NoError(r, err)
		r.MustBeCurrent(hints)
		r.MustStand(rig.Named(jobs, "m1"), dispatcher.StatusInFlight)
		c := r.MustAdopt(rig.Two, rig.Named(jobs, "m1"))
		r.MustSettle(rig.Two, rig.Success(c))
		r.MustStand(c.ID, dispatcher.StatusDelivered)
	}},
	{Name: "an adopted lease is like any other lease", Run: func(r *rig.Rig) {
		r.Schedule(r.Entry("m1", rig.To(jobs), rig.Body(strings.Repeat("x", 1000)), func(m *dispatcher.Message) { m.MaxAttempts = 3 }))
		taken := r.MustTakeFor(time.Minute, rig.Named(jobs, "m1"))[0]
		r.Pass(20 * time.Second)
		a := r.Adopt(rig.Two, rig.LeaseOf(taken.ID))[0]
		require.NoError(r, a.Err)
		require.Equal(r, r.Now.Add(-20*time.Second), a.Taken)
		require.Equal(r, r.Now, a.Claimed.Leased)
		require.Equal(r, 3, a.Claimed.Message.MaxAttempts, "the message is returned without its body")
		require.Empty(r, a.Claimed.Message.Body)
		require.Equal(r, []any{1, 1, true}, []any{a.Claimed.Attempt, a.Claimed.Rung, a.Claimed.First})
		require.Equal(r, rig.IDs(jobs, "m1"), r.Leases(rig.Two))
		require.Zero(r, r.State().Timer)
		r.MustSettle(rig.Two, rig.Failure(*a.Claimed, 15*time.Second))
		r.MustStand(taken.ID, dispatcher.StatusRetrying)

		r.Pass(15 * time.Second)
		r.Move()
		again := r.MustTakeFor(time.Minute, taken.ID)[0]
		require.Equal(r, 2, again.Attempt)
		r.MustSettle(rig.Two, rig.Success(r.MustAdopt(rig.Two, again.ID)))
		r.MustStand(taken.ID, dispatcher.StatusDelivered)
	}},
	{Name: "a lease with another token is late, and a lease of another owner is not ours", Run: func(r *rig.Rig) {
		r.Publish(jobs, "m1", "m2")
		r.MustTakeFor(time.Minute, rig.IDs(jobs, "m1", "m2")...)
		id := rig.Named(jobs, "m1")
		r.MustChangeNothing(func() {
			for _, lasts := range []time.Duration{0, time.Minute} {
				leases := []dispatcher.TakenLease{
					{ID: id, Token: "t0", Owner: rig.Owner}, {ID: id, Token: rig.Token, Owner: "o2"}, {ID: id, Token: "t0", Owner: "o2"},
					{ID: id, Owner: "o2"}, rig.LeaseOf(rig.Named(jobs, "m9")), rig.LeaseOf(rig.Named("q_other", "m1")),
				}
				var got []dispatcher.Adopted
				if lasts == 0 {
					got = r.Adopt(rig.One, leases...)
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
		require.NoError(r, r.Adopt(rig.One, dispatcher.TakenLease{ID: id, Owner: rig.Owner})[0].Err, "the owner may omit the token")
	}},
	{Name: "a second adoption of a lease changes nothing", Run: func(r *rig.Rig) {
		r.Publish(jobs, "m1", "m2")
		r.MustTakeFor(time.Minute, rig.IDs(jobs, "m1", "m2")...)
		one, two := rig.LeaseOf(rig.Named(jobs, "m1")), rig.LeaseOf(rig.Named(jobs, "m2"))
		got := r.Adopt(rig.One, one, two, one)
		require.NoError(r, got[0].Err)
		require.NoError(r, got[1].Err)
		require.ErrorIs(r, got[2].Err, dispatcher.ErrNotTaken)
		r.MustChangeNothing(func() {
			for _, by := range []string{rig.One, rig.Two} {
				require.ErrorIs(r, r.Adopt(by, one)[0].Err, dispatcher.ErrNotTaken)
			}
		})
		require.Equal(r, rig.IDs(jobs, "m1", "m2"), r.Leases(rig.One))
	}},
	{Name: "an instance that was declared dead gets no lease", Run: func(r *rig.Rig) {
		r.Publish(jobs, "m1")
		r.MustTakeFor(time.Minute, rig.Named(jobs, "m1"))
		_, _, err := r.Queue.Reap(r.Ctx, rig.Two, rig.One)
		require.NoError(r, err)
		r.MustChangeNothing(func() {
			require.ErrorIs(r, r.Adopt(rig.One, rig.LeaseOf(rig.Named(jobs, "m1")))[0].Err, dispatcher.ErrFenced)
		})
		r.Pass(time.Minute)
		r.MustChangeNothing(func() {
			_, _, err := r.Queue.Move(r.Ctx, rig.One, r.All())
			require.ErrorIs(r, err, dispatcher.ErrFenced)
		})
		require.Len(r, r.End(rig.Two), 1)
	}},
	{Name: "a lease that reaches its timeout goes to the mover, which reports a failure", Run: func(r *rig.Rig) {
		r.Publish(jobs, "m1", "m2", "m3")
		at := r.Now
		r.MustTakeFor(time.Minute, rig.Named(jobs, "m1"))
		r.MustTakeFor(10*time.Second, rig.Named(jobs, "m2"))
		require.Equal(r, at.Add(10*time.Second), r.Move().Due)
		r.SetNow(at.Add(10*time.Second - time.Microsecond))
		require.Empty(r, r.End(rig.Two))
		r.SetNow(at.Add(10 * time.Second))
		ended := r.End(rig.Two)
		require.Equal(r, rig.IDs(jobs, "m2"), rig.ClaimedIDs(ended))
		require.Equal(r, []any{at, r.Now}, []any{ended[0].Due, ended[0].Leased}, "the times of the take and of the lease's end")
		require.Equal(r, "payment.paid", ended[0].Message.Topic)
		r.MustStand(rig.Named(jobs, "m2"), dispatcher.StatusInFlight)
		require.Equal(r, rig.IDs(jobs, "m2"), r.Leases(rig.Two))
		require.Equal(r, at.Add(time.Minute), r.Move().Due)

		failed := rig.Failure(ended[0], 15*time.Second)
		failed.Attempt.Status, failed.Attempt.Class, failed.Attempt.Error = 0, dispatcher.ClassLease, "its lease ended"
		r.MustSettle(rig.Two, failed)
		d := r.MustStand(rig.Named(jobs, "m2"), dispatcher.StatusRetrying)
		require.Equal(r, []any{1, "its lease ended", dispatcher.ClassLease}, []any{d.Attempts, d.LastError, d.History[0].Class})
		require.ErrorIs(r, r.Adopt(rig.One, rig.LeaseOf(d.ID))[0].Err, dispatcher.ErrNotTaken, "the adoption is too late")
	}},
	{Name: "a batch of leases ends at once, and the hint reports the rest", Run: func(r *rig.Rig) {
		r.Queue.Limit(r.Ctx, rig.One, jobs, dispatcher.LaneLimits{MaxInFlight: 128}, false)
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
		require.Len(r, r.End(rig.One), 64)
		require.Equal(r, rig.Start.Add(time.Second), r.Hints[0].Due)
		require.Len(r, r.End(rig.Two), n-64)
		require.Zero(r, r.Hints[0].Due)
		require.Empty(r, r.State().Taken)
	}},
	{Name: "a lease that lasts longer ends later", Run: func(r *rig.Rig) {
		r.Publish(jobs, "m1", "m2")
		r.MustTakeFor(10*time.Second, rig.IDs(jobs, "m1", "m2")...)
		r.Pass(9 * time.Second)
		got := r.Extend(time.Hour, rig.LeaseOf(rig.Named(jobs, "m1")))
		require.NoError(r, got[0].Err)
		require.Equal(r, r.Later(time.Hour), got[0].Until)
		r.Pass(time.Second)
		require.Equal(r, rig.IDs(jobs, "m2"), rig.ClaimedIDs(r.End(rig.Two)))
		require.Equal(r, got[0].Until, r.Hints[0].Due)
		r.Extend(time.Second, rig.LeaseOf(rig.Named(jobs, "m1")))
		require.Equal(r, r.Later(time.Second), r.Move().Due, "the lease may end earlier")
	}},
	{Name: "an expired lease stays valid until a mover polls it", Run: func(r *rig.Rig) {
		r.Publish(jobs, "m1", "m2")
		r.MustTakeFor(10*time.Second, rig.IDs(jobs, "m1", "m2")...)
		r.Pass(time.Minute)
		require.NoError(r, r.Extend(time.Minute, rig.LeaseOf(rig.Named(jobs, "m1")))[0].Err)
		r.MustAdopt(rig.One, rig.Named(jobs, "m2"))
		require.Empty(r, r.End(rig.Two))
		r.Pass(time.Minute)
		require.Len(r, r.End(rig.Two), 1)
		require.ErrorIs(r, r.Extend(time.Minute, rig.LeaseOf(rig.Named(jobs, "m1")))[0].Err, dispatcher.ErrNotTaken)
	}},
	{Name: "a lease ends after the clock stepped back, and hints report later leases again", Run: func(r *rig.Rig) {
		r.Publish(jobs, "m1", "m2")
		r.MustTakeFor(time.Hour, rig.Named(jobs, "m1"))
		r.Pass(-time.Minute)
		require.Empty(r, r.End(rig.Two), "a step of one minute ends no lease of an hour")
		r.Pass(-time.Minute)
		keep := dispatcher.Keep{Finished: time.Hour, Dead: time.Hour, DeadMax: 10, SeenMax: 10}
		_, err := r.Queue.Trim(r.Ctx, rig.One, r.All(), keep, false)
		require.NoError(r, err)
		require.Equal(r, rig.IDs(jobs, "m1"), rig.ClaimedIDs(r.End(rig.Two)))
		r.MustTakeFor(time.Minute, rig.Named(jobs, "m2"))
	}},
	{Name: "a lease ends early if the clock steps forward", Run: func(r *rig.Rig) {
		r.Publish(jobs, "m1")
		r.MustTakeFor(time.Hour, rig.Named(jobs, "m1"))
		r.Pass(24 * time.Hour)
		require.Len(r, r.End(rig.Two), 1)
	}},
	{Name: "a taken delivery that is cancelled ends with its lease", Run: func(r *rig.Rig) {
		r.Publish(jobs, "m1", "m2", "m3")
		ids := rig.IDs(jobs, "m1", "m2", "m3")
		r.MustTakeFor(time.Minute, ids...)
		require.Equal(r, []bool{true, true, true}, r.Cancel(ids...))
		r.MustStand(ids[0], dispatcher.StatusCancelled)
		r.MustSettle(rig.One, rig.Success(r.MustAdopt(rig.One, ids[0])))
		r.MustStand(ids[0], dispatcher.StatusDelivered)
		require.Equal(r, []dispatcher.SettleResult{dispatcher.SettledEnd}, r.Settle(rig.One, rig.Failure(r.MustAdopt(rig.One, ids[1]), time.Second)))
		r.Pass(time.Minute)
		ended := r.End(rig.Two)
		require.Equal(r, []dispatcher.SettleResult{dispatcher.SettledEnd}, r.Settle(rig.Two, rig.Failure(ended[0], time.Second)))
		for _, id := range ids[1:] {
			require.Equal(r, stored.PlaceCancelled, r.State().At(id).Place)
		}
	}},
	{Name: "a taken delivery can't be retried, and its cancel can be undone", Run: func(r *rig.Rig) {
		r.Publish(jobs, "m1")
		id := rig.Named(jobs, "m1")
		r.MustTakeFor(time.Minute, id)
		r.MustChangeNothing(func() {
			require.ErrorIs(r, r.Change(r.Resend, id)[0].Err, dispatcher.ErrInFlight)
		})
		r.Cancel(id)
		require.NoError(r, r.Change(r.Resend, id)[0].Err)
		r.MustStand(id, dispatcher.StatusInFlight)
		require.Equal(r, stored.PlaceTaken, r.State().At(id).Place)
	}},
	{Name: "a success after the timeout counts", Run: func(r *rig.Rig) {
		r.Publish(jobs, "m1")
		id := rig.Named(jobs, "m1")
		first := r.MustTakeFor(time.Second, id)[0]
		r.Pass(time.Second)
		ended := r.End(rig.Two)
		r.MustSettle(rig.Two, rig.Failure(ended[0], 0))
		r.Pass(time.Second)
		r.Move()
		r.MustTakeFor(time.Minute, id)
		require.Equal(r, []dispatcher.SettleResult{dispatcher.SettledDone}, r.Settle(rig.One, rig.Success(first)))
		r.MustStand(id, dispatcher.StatusDelivered)
		require.Equal(r, stored.PlaceTaken, r.State().At(id).Place, "the delivery stays taken until its lease ends")
		again := r.MustAdopt(rig.One, id)
		require.Equal(r, []dispatcher.SettleResult{dispatcher.SettledEnd}, r.Settle(rig.One, rig.Failure(again, time.Second)))
		require.Equal(r, stored.PlaceDone, r.State().At(id).Place)
	}},
	{Name: "a taken delivery keeps its place in its line", Run: func(r *rig.Rig) {
		keyed := func(m *dispatcher.Message) { m.OrderingKey = "k" }
		for _, id := range []string{"m1", "m2"} {
			r.Schedule(r.Entry(id, rig.To(jobs), keyed))
		}
		r.MustTakeFor(time.Second, rig.Named(jobs, "m1"))
		require.Empty(r, r.TakeFor(2, time.Second, jobs))
		r.Pass(time.Second)
		ended := r.End(rig.Two)
		require.Empty(r, r.TakeFor(2, time.Second, jobs), "its turn ends only when the outcome is recorded")
		r.MustSettle(rig.Two, rig.Death(ended[0], dispatcher.ReasonExhausted))
		r.MustTakeFor(time.Second, rig.Named(jobs, "m2"))
	}},
	{Name: "a delivery taken from a deleted lane ends with its lease", Run: func(r *rig.Rig) {
		r.Publish(jobs, "m1", "m2")
		r.MustTakeFor(time.Second, rig.IDs(jobs, "m1", "m2")...)
		for _, mode := range []dispatcher.LaneMode{dispatcher.LanePaused, dispatcher.LaneDeleted} {
			_, _, err := r.Queue.Limit(r.Ctx, rig.One, jobs, dispatcher.LaneLimits{Mode: mode}, false)
			require.NoError(r, err)
			r.MustStand(rig.Named(jobs, "m1"), dispatcher.StatusInFlight)
		}
		r.MustSettle(rig.One, rig.Success(r.MustAdopt(rig.One, rig.Named(jobs, "m1"))))
		r.Pass(time.Second)
		require.Equal(r, []dispatcher.SettleResult{dispatcher.SettledEnd}, r.Settle(rig.Two, rig.Failure(r.End(rig.Two)[0], time.Second)))
		r.MustStand(rig.Named(jobs, "m2"), dispatcher.StatusCancelled)
	}},
	{Name: "a query returns taken deliveries in the order of their leases' ends", Run: func(r *rig.Rig) {
		want := map[dispatcher.DeliveryID]dispatcher.Status{}
		r.Publish("a", "m0")
		r.MustClaim(rig.One, rig.Named("a", "m0"))
		want[rig.Named("a", "m0")] = dispatcher.StatusInFlight
		for i := range 5 {
			id := rig.Named(jobs, fmt.Sprintf("t%d", i))
			r.Publish(jobs, id.Message)
			r.MustTakeFor(time.Duration(50-i)*time.Minute, id)
			want[id] = dispatcher.StatusInFlight
			r.Pass(time.Second)
		}
		r.Publish(jobs, "m9")
		inFlight := dispatcher.Filter{Statuses: []dispatcher.Status{dispatcher.StatusInFlight}}
		for _, limit := range []int{1, 2, 100} {
			rig.RequireStatuses(r, want, r.ListAll(inFlight, limit))
		}
		inFlight.Since, inFlight.Until = rig.Start.Add(time.Second), rig.Start.Add(3*time.Second)
		require.Len(r, r.ListAll(inFlight, 1), 2, "a period applies to the time of the take")
		want[rig.Named(jobs, "m9")] = dispatcher.StatusReady
		rig.RequireStatuses(r, want, r.ListAll(dispatcher.Filter{}, 2))
	}},
	{Name: "leases can be adopted and can end while memory is full", Run: func(r *rig.Rig) {
		if r.Fill == nil {
			return
		}
		r.Publish(jobs, "m1", "m2", "m3")
		r.MustTakeFor(time.Second, rig.IDs(jobs, "m1", "m2", "m3")...)
		r.Fill(true)
		defer r.Fill(false)
		r.MustSettle(rig.One, rig.Success(r.MustAdopt(rig.One, rig.Named(jobs, "m1"))))
		require.NoError(r, r.Extend(time.Minute, rig.LeaseOf(rig.Named(jobs, "m2")))[0].Err)
		r.Pass(time.Second)
		ended := r.End(rig.Two)
		require.Equal(r, rig.IDs(jobs, "m3"), rig.ClaimedIDs(ended))
		r.MustSettle(rig.Two, rig.Failure(ended[0], time.Second))
	}},
	{Name: "headers that are too large for one reply are returned in several", Run: func(r *rig.Rig) {
		r.Queue.Limit(r.Ctx, rig.One, jobs, dispatcher.LaneLimits{MaxInFlight: 128}, false)
		const n = 40
		var leases []dispatcher.TakenLease
		for i := range n {
			id := rig.Named(jobs, fmt.Sprintf("m%02d", i))
			r.Schedule(r.Entry(id.Message, rig.To(jobs), func(m *dispatcher.Message) {
				for h := range 6 {
					m.Headers = append(m.Headers, dispatcher.Header{Name: fmt.Sprintf("X-%d", h), Value: strings.Repeat("v", 8000)})
				}
			}))
			leases = append(leases, rig.LeaseOf(id))
		}
		for got := 0; got < n; {
			c := r.TakeFor(8, time.Second, jobs)
			require.NotEmpty(r, c)
			got += len(c)
		}
		for i, a := range r.Adopt(rig.One, leases[:n/2+4]...) {
			require.NoError(r, a.Err, "%d", i)
			require.Len(r, a.Claimed.Message.Headers, 6)
		}
		r.Pass(time.Second)
		ended := 0
		for calls := 1; ended < n/2-4; calls++ {
			ended += len(r.End(rig.Two))
			require.LessOrEqual(r, calls, n)
		}
	}},
	{Name: "a queue's success has no status", Run: func(r *rig.Rig) {
		r.Publish(jobs, "m1", "m2")
		r.MustTakeFor(time.Minute, rig.IDs(jobs, "m1", "m2")...)
		s := rig.Answered(r.MustAdopt(rig.One, rig.Named(jobs, "m1")), dispatcher.Delivered, 0)
		r.MustSettle(rig.One, s)
		d := r.MustStand(rig.Named(jobs, "m1"), dispatcher.StatusDelivered)
		require.Equal(r, []any{0, 1}, []any{d.LastStatus, d.Attempts})
		require.NotContains(r, r.State().Progress, d.ID, "the record of the most common end is empty")
		for _, a := range d.History {
			require.Zero(r, a.Status)
		}
		r.Retry(d.ID)
		r.MustTakeFor(time.Minute, d.ID)
		r.MustSettle(rig.One, rig.Answered(r.MustAdopt(rig.One, d.ID), dispatcher.Delivered, 0))
		d = r.MustStand(d.ID, dispatcher.StatusDelivered)
		require.Equal(r, []any{0, 2}, []any{d.LastStatus, d.Attempts})
		require.Len(r, d.History, 2)
		for _, a := range d.History {
			require.Zero(r, a.Status)
		}
	}},
	{Name: "one call adopts leases in several partitions", Setup: stored.Setup{Partitions: 4}, Run: func(r *rig.Rig) {
		var leases []dispatcher.TakenLease
		for i := range 8 {
			lane := dispatcher.Lane(fmt.Sprintf("q_%d", i))
			r.Publish(lane, fmt.Sprintf("m%d", i))
			r.MustTakeFor(time.Minute, rig.Named(lane, fmt.Sprintf("m%d", i)))
			leases = append(leases, rig.LeaseOf(rig.Named(lane, fmt.Sprintf("m%d", i))))
		}
		for i, a := range r.Adopt(rig.One, leases[:4]...) {
			require.NoError(r, a.Err)
			require.Equal(r, leases[i].ID, a.Claimed.ID)
		}
		r.Pass(time.Minute)
		require.Len(r, r.End(rig.Two), 4)
	}},
}
