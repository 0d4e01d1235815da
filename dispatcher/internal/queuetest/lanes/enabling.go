package lanes

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/queuetest/rig"
	"github.com/hookladder/hookladder/dispatcher/internal/queuetest/stored"
)

// enablingCases are about lanes that are enabled again.
var enablingCases = []rig.Case{
	{Name: "an enabled lane continues with the deliveries that have not ended yet", Run: func(r *rig.Rig) {
		r.Limit(rig.EpOne)
		r.Publish(rig.EpOne, "m1")
		r.Schedule(r.Entry("m2", rig.To(rig.EpOne), rig.Delay(time.Second)))
		r.Limit(rig.EpOne, rig.Mode(dispatcher.LaneDisabled))
		r.Limit(rig.EpOne)
		r.MustClaim(rig.One, rig.Named(rig.EpOne, "m1"))
		r.Pass(time.Second)
		r.Move()
		r.MustClaim(rig.One, rig.Named(rig.EpOne, "m2"))
	}},
	{Name: "a delivery that died in a disabled lane can be retried when the lane is enabled", Run: func(r *rig.Rig) {
		r.Limit(rig.EpOne, rig.Mode(dispatcher.LaneDisabled))
		r.Schedule(r.Entry("m1", rig.To(rig.EpOne)))
		r.Limit(rig.EpOne)
		require.Equal(r, []bool{true}, r.Retry(rig.Named(rig.EpOne, "m1")))
		c := r.MustClaim(rig.One, rig.Named(rig.EpOne, "m1"))[0]
		require.Equal(r, 1, c.Attempt)
		require.True(r, c.Asked)
		r.MustSettle(rig.One, rig.Success(c))
		require.Empty(r, r.Stats().Dead)
	}},
	{Name: "a parked lane ends at once if it is disabled", Setup: stored.Setup{Breaker: 1}, Run: func(r *rig.Rig) {
		r.Limit(rig.EpOne)
		r.MustSettle(rig.One, rig.Blamed(rig.Failure(r.TakeNew(rig.EpOne), time.Hour)))
		r.Publish(rig.EpOne, "m1")
		_, hints := r.LimitAs(rig.EpOne, r.NewLimits(rig.EpOne, rig.Mode(dispatcher.LaneDisabled)), false)
		require.False(r, hints[0].Due.After(r.Now), "work is due now")
		r.Move()
		r.MustStand(rig.Named(rig.EpOne, "m1"), dispatcher.StatusDead)
	}},
	{Name: "a lane is disabled and then deleted", Run: func(r *rig.Rig) {
		r.Limit(rig.EpOne)
		r.Publish(rig.EpOne, "m1")
		r.Limit(rig.EpOne, rig.Mode(dispatcher.LaneDisabled))
		r.Limit(rig.EpOne, rig.Mode(dispatcher.LaneDeleted))
		r.MustStand(rig.Named(rig.EpOne, "m1"), dispatcher.StatusCancelled)
		r.Move()
		r.MustLie(stored.PlaceCancelled, rig.EpOne, "m1")
	}},
	{Name: "a delivery in a disabled lane keeps its status until it is ended", Run: func(r *rig.Rig) {
		r.Limit(rig.EpOne)
		r.Publish(rig.EpOne, "m1")
		r.Schedule(r.Entry("m2", rig.To(rig.EpOne), rig.Delay(time.Hour)))
		r.PublishKeyed(rig.EpOne, "k", "m3", "m4")
		r.Limit(rig.EpOne, rig.Mode(dispatcher.LaneDisabled))
		r.MustStand(rig.Named(rig.EpOne, "m1"), dispatcher.StatusReady)
		r.MustStand(rig.Named(rig.EpOne, "m2"), dispatcher.StatusScheduled)
		r.MustStand(rig.Named(rig.EpOne, "m4"), dispatcher.StatusScheduled)
	}},
	{Name: "a delivery that waits in a deleted lane reads as cancelled", Run: func(r *rig.Rig) {
		r.Limit(rig.EpOne)
		r.Publish(rig.EpOne, "m1", "m2")
		r.Schedule(r.Entry("m3", rig.To(rig.EpOne), rig.Delay(time.Hour)))
		r.PublishKeyed(rig.EpOne, "k", "m4", "m5")
		r.MustClaim(rig.One, rig.Named(rig.EpOne, "m1"))
		r.Publish("a", "m6")
		r.Limit(rig.EpOne, rig.Mode(dispatcher.LaneDeleted))
		want := map[dispatcher.DeliveryID]dispatcher.Status{
			rig.Named(rig.EpOne, "m1"): dispatcher.StatusInFlight, rig.Named("a", "m6"): dispatcher.StatusReady,
		}
		for _, id := range rig.IDs(rig.EpOne, "m2", "m3", "m4", "m5") {
			want[id] = dispatcher.StatusCancelled
		}
		for id, status := range want {
			d := r.MustStand(id, status)
			require.Equal(r, status == dispatcher.StatusReady, d.WaitingFor != "", "%s", id)
		}
		rig.RequireStatuses(r, want, r.ListAll(dispatcher.Filter{}, 2))
		for _, status := range dispatcher.Statuses {
			some := map[dispatcher.DeliveryID]dispatcher.Status{}
			for id, s := range want {
				if s == status {
					some[id] = s
				}
			}
			rig.RequireStatuses(r, some, r.ListAll(dispatcher.Filter{Statuses: []dispatcher.Status{status}}, 2))
		}
	}},
}
