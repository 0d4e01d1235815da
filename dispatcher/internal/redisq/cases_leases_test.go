package redisq_test

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// LeaseCases are about the lease of an outcome. An instance may lease a delivery
// again before it receives the reply to the return of the first lease.
var LeaseCases = []redisqtest.Case{
	{Name: "a claim returns the time of the lease", Run: func(r *redisqtest.Rig) {
		r.Pass(1234567 * time.Nanosecond)
		at := r.Now.Truncate(time.Millisecond)
		got := r.ScheduleFor(redisqtest.One, r.Setup.Permits/2, 64, r.Entry("m1", redisqtest.To("a")), r.Entry("m2", redisqtest.To("a", "b")))
		require.Equal(r, redisqtest.To("a"), redisqtest.Leased(got[0]))
		require.Equal(r, redisqtest.To("a", "b"), redisqtest.Leased(got[1]))
		for _, p := range append(got[0].Placed, got[1].Placed...) {
			require.Equal(r, at, p.At)
		}
		r.Publish("c", "m3")
		r.Pass(time.Second)
		c := r.MustClaim(redisqtest.One, redisqtest.Named("c", "m3"))[0]
		require.Equal(r, at.Add(time.Second), c.Leased)
		leases, err := r.Queue.Leases(r.Ctx, redisqtest.One)
		require.NoError(r, err)
		require.ElementsMatch(r, []dispatcher.Lease{
			{ID: redisqtest.Named("a", "m1"), At: at}, {ID: redisqtest.Named("a", "m2"), At: at}, {ID: redisqtest.Named("b", "m2"), At: at},
			{ID: redisqtest.Named("c", "m3"), At: c.Leased},
		}, leases)
	}},
	{Name: "a repeated outcome without an attempt does not end a later lease", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		c := r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0]
		r.MustSettle(redisqtest.One, redisqtest.HandBack(c))
		r.Pass(time.Millisecond)
		again := r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0]
		refused := redisqtest.Death(c, dispatcher.ReasonRefused)
		refused.Attempt = dispatcher.Attempt{}
		r.MustChangeNothing(func() {
			for _, s := range []dispatcher.Settlement{redisqtest.HandBack(c), refused} {
				require.Equal(r, []dispatcher.SettleResult{dispatcher.SettledLate}, r.Settle(redisqtest.One, s))
			}
		})
		r.MustSettle(redisqtest.One, redisqtest.Success(again))
		r.MustStand(c.ID, dispatcher.StatusDelivered)
	}},
	{Name: "an instance can return a lease of unknown time too", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		c := r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0]
		c.Leased = time.Time{}
		r.MustSettle(redisqtest.One, redisqtest.HandBack(c))
		r.MustStand(c.ID, dispatcher.StatusReady)
	}},
}

// InstanceCases are about queries of the instances.
var InstanceCases = []redisqtest.Case{
	{Name: "a query returns the instances with their leases, the latest start first", Run: func(r *redisqtest.Rig) {
		r.Pass(time.Second)
		r.Join("three", 7)
		r.Beat("untold")
		r.Publish("a", "m1", "m2")
		r.Publish("b", "m3")
		r.Publish("c", "m4")
		partitions := map[int]bool{}
		for _, lane := range redisqtest.To("a", "b", "c") {
			partitions[r.Partition(lane)] = true
		}
		require.Len(r, r.Claim("three", 64), 4)
		list, next, err := r.Queue.Instances(r.Ctx, 0, "")
		require.NoError(r, err)
		require.Empty(r, next)
		require.Equal(r, dispatcher.InstanceState{
			Name: "three", Instance: dispatcher.Instance{Permits: 7, Version: "1.0", StartedAt: r.Now.Truncate(time.Millisecond)},
			InFlight: 4, Partitions: len(partitions),
		}, list[0])
		require.Contains(r, list[1:], dispatcher.InstanceState{Name: "untold"}, "it reported nothing about itself")
		var names, paged []string
		for _, one := range list {
			names = append(names, one.Name)
		}
		require.Subset(r, names, []string{redisqtest.One, redisqtest.Two})
		for cursor := ""; cursor != "" || paged == nil; {
			page, next, err := r.Queue.Instances(r.Ctx, 1, cursor)
			require.NoError(r, err)
			require.Len(r, page, 1)
			paged, cursor = append(paged, page[0].Name), next
		}
		require.Equal(r, names, paged)
	}},
	{Name: "a query returns no instance that left, and refuses a cursor of another list", Run: func(r *redisqtest.Rig) {
		r.Join("three", 7)
		require.NoError(r, r.Queue.Leave(r.Ctx, "three"))
		list, _, err := r.Queue.Instances(r.Ctx, 500, "")
		require.NoError(r, err)
		for _, one := range list {
			require.NotEqual(r, "three", one.Name)
		}
		for _, cursor := range []string{"x", "-", "1", "1-", "x-three"} {
			_, _, err := r.Queue.Instances(r.Ctx, 1, cursor)
			require.ErrorIs(r, err, dispatcher.ErrCursor, cursor)
		}
	}},
}

// lastOf returns the last lease of an owner for a delivery, without its token.
func lastOf(id dispatcher.DeliveryID, owner string) dispatcher.TakenLease {
	return dispatcher.TakenLease{ID: id, Owner: owner}
}

// mustRunOut lets the lease of a delivery expire. The delivery is ready for its next attempt at once.
func mustRunOut(r *redisqtest.Rig, id dispatcher.DeliveryID) {
	r.Helper()
	ended := r.End(redisqtest.Two)
	require.Equal(r, []dispatcher.DeliveryID{id}, redisqtest.ClaimedIDs(ended))
	r.MustSettle(redisqtest.Two, redisqtest.Failure(ended[0], 0))
	r.Pass(time.Second)
	r.Move()
}

// LastLeaseCases are about the last lease of a delivery, which the store keeps after its end.
var LastLeaseCases = []redisqtest.Case{
	{Name: "a call returns the last lease of a delivery to its owner after the lease's end", Run: func(r *redisqtest.Rig) {
		r.Publish(jobs, "m1")
		id := redisqtest.Named(jobs, "m1")
		for attempt := range 2 {
			r.MustTakeFor(time.Second, id)
			r.Pass(time.Second)
			mustRunOut(r, id)
			r.MustChangeNothing(func() {
				for _, got := range [][]dispatcher.Adopted{r.Adopt(redisqtest.One, lastOf(id, redisqtest.Owner)), r.Extend(time.Minute, lastOf(id, redisqtest.Owner))} {
					require.ErrorIs(r, got[0].Err, dispatcher.ErrNotTaken)
					require.Equal(r, attempt+1, got[0].Attempt)
				}
				other := r.Adopt(redisqtest.One, lastOf(id, "o2"), lastOf(redisqtest.Named(jobs, "m2"), redisqtest.Owner))
				require.ErrorIs(r, other[0].Err, dispatcher.ErrNotYours)
				require.ErrorIs(r, other[1].Err, dispatcher.ErrNotTaken)
				require.Zero(r, other[1].Attempt, "the delivery was never taken")
			})
		}
	}},
	{Name: "a call returns the last lease of a delivery that waits for a retry", Run: func(r *redisqtest.Rig) {
		r.Publish(jobs, "m1")
		id := redisqtest.Named(jobs, "m1")
		r.MustTakeFor(time.Minute, id)
		r.MustSettle(redisqtest.One, redisqtest.Failure(r.MustAdopt(redisqtest.One, id), time.Minute))
		require.Equal(r, 1, r.Adopt(redisqtest.One, lastOf(id, redisqtest.Owner))[0].Attempt)
	}},
	{Name: "the last lease of a delivery is deleted when the delivery ends", Run: func(r *redisqtest.Rig) {
		r.Publish(jobs, "m1", "m2", "m3")
		done, dead, cancelled := redisqtest.Named(jobs, "m1"), redisqtest.Named(jobs, "m2"), redisqtest.Named(jobs, "m3")
		r.MustTakeFor(time.Minute, done, dead, cancelled)
		r.MustSettle(redisqtest.One, redisqtest.Success(r.MustAdopt(redisqtest.One, done)))
		r.MustSettle(redisqtest.One, redisqtest.Death(r.MustAdopt(redisqtest.One, dead), dispatcher.ReasonExhausted))
		r.MustSettle(redisqtest.One, redisqtest.Failure(r.MustAdopt(redisqtest.One, cancelled), time.Minute))
		require.Len(r, r.State().Last, 1)
		r.Cancel(cancelled)
		require.Empty(r, r.State().Last)
		for _, id := range []dispatcher.DeliveryID{done, dead, cancelled} {
			got := r.Adopt(redisqtest.One, lastOf(id, redisqtest.Owner))[0]
			require.ErrorIs(r, got.Err, dispatcher.ErrNotTaken)
			require.Zero(r, got.Attempt)
		}
	}},
	{Name: "the last lease belongs to the last taker of a delivery", Run: func(r *redisqtest.Rig) {
		r.Publish(jobs, "m1")
		id := redisqtest.Named(jobs, "m1")
		r.MustTakeFor(time.Second, id)
		r.Pass(time.Second)
		mustRunOut(r, id)
		taken, _, err := r.Queue.Take(r.Ctx, redisqtest.One, dispatcher.Take{Lanes: []dispatcher.Lane{jobs}, Most: 1, Bytes: 1 << 20, For: time.Second, Token: "t2", Owner: "o2"})
		require.NoError(r, err)
		require.Len(r, taken.Claimed, 1)
		require.ErrorIs(r, r.Adopt(redisqtest.One, lastOf(id, redisqtest.Owner))[0].Err, dispatcher.ErrNotYours)
		require.ErrorIs(r, r.Adopt(redisqtest.One, redisqtest.LeaseOf(id))[0].Err, dispatcher.ErrNotTaken, "a call reports a named lease as late, even if another owner has the delivery now")
		r.Pass(time.Second)
		mustRunOut(r, id)
		next, _, err := r.Queue.Take(r.Ctx, redisqtest.One, dispatcher.Take{Lanes: []dispatcher.Lane{jobs}, Most: 1, Bytes: 1 << 20})
		require.NoError(r, err)
		require.Len(r, next.Claimed, 1)
		require.Empty(r, r.State().Last, "an instance leased the delivery last")
	}},
	{Name: "the last lease of a delivery is kept for a day", Run: func(r *redisqtest.Rig) {
		r.Publish(jobs, "m1")
		id := redisqtest.Named(jobs, "m1")
		r.MustTakeFor(time.Minute, id)
		r.MustSettle(redisqtest.One, redisqtest.Failure(r.MustAdopt(redisqtest.One, id), 48*time.Hour))
		r.Pass(24 * time.Hour)
		require.Equal(r, 1, r.Adopt(redisqtest.One, lastOf(id, redisqtest.Owner))[0].Attempt)
		r.Pass(time.Millisecond)
		require.Zero(r, r.Adopt(redisqtest.One, lastOf(id, redisqtest.Owner))[0].Attempt)
	}},
	{Name: "a lease that was never returned to its taker leaves no last lease", Run: func(r *redisqtest.Rig) {
		r.Publish(jobs, "m1")
		id := redisqtest.Named(jobs, "m1")
		r.MustTakeFor(time.Minute, id)
		lease := redisqtest.LeaseOf(id)
		lease.NotReceived = true
		c := r.Adopt(redisqtest.One, lease)[0].Claimed
		require.NotNil(r, c)
		r.MustSettle(redisqtest.One, dispatcher.Settlement{ID: id, Verdict: dispatcher.Back, Due: c.Due})
		require.Equal(r, redisqtest.PlaceReady, r.State().At(id).Place)
		require.Empty(r, r.State().Last)
	}},
	{Name: "a lease that was never returned to its taker is not its own for the rest of the call", Run: func(r *redisqtest.Rig) {
		r.Publish(jobs, "m1")
		id := redisqtest.Named(jobs, "m1")
		r.MustTakeFor(time.Minute, id)
		lease := redisqtest.LeaseOf(id)
		lease.NotReceived = true
		got := r.Adopt(redisqtest.One, lease, lastOf(id, redisqtest.Owner), lastOf(id, "other"))
		require.NoError(r, got[0].Err)
		for _, again := range got[1:] {
			require.ErrorIs(r, again.Err, dispatcher.ErrNotTaken)
			require.Zero(r, again.Attempt)
		}
	}},
}
