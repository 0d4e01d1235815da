package redisq_test

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// enablingCases are about lanes that are enabled again.
var enablingCases = []redisqtest.Case{
	{Name: "an enabled lane continues with the deliveries that have not ended yet", Run: func(r *redisqtest.Rig) {
		r.Limit(redisqtest.EpOne)
		r.Publish(redisqtest.EpOne, "m1")
		r.Schedule(r.Entry("m2", redisqtest.To(redisqtest.EpOne), redisqtest.Delay(time.Second)))
		r.Limit(redisqtest.EpOne, redisqtest.Mode(dispatcher.LaneDisabled))
		r.Limit(redisqtest.EpOne)
		r.MustClaim(redisqtest.One, redisqtest.Named(redisqtest.EpOne, "m1"))
		r.Pass(time.Second)
		r.Move()
		r.MustClaim(redisqtest.One, redisqtest.Named(redisqtest.EpOne, "m2"))
	}},
	{Name: "a delivery that died in a disabled lane can be retried when the lane is enabled", Run: func(r *redisqtest.Rig) {
		r.Limit(redisqtest.EpOne, redisqtest.Mode(dispatcher.LaneDisabled))
		r.Schedule(r.Entry("m1", redisqtest.To(redisqtest.EpOne)))
		r.Limit(redisqtest.EpOne)
		require.Equal(r, []bool{true}, r.Retry(redisqtest.Named(redisqtest.EpOne, "m1")))
		c := r.MustClaim(redisqtest.One, redisqtest.Named(redisqtest.EpOne, "m1"))[0]
		require.Equal(r, 1, c.Attempt)
		require.True(r, c.Asked)
		r.MustSettle(redisqtest.One, redisqtest.Success(c))
		require.Empty(r, r.Stats().Dead)
	}},
	{Name: "a parked lane ends at once if it is disabled", Setup: redisqtest.Setup{Breaker: 1}, Run: func(r *redisqtest.Rig) {
		r.Limit(redisqtest.EpOne)
		r.MustSettle(redisqtest.One, redisqtest.Blamed(redisqtest.Failure(r.TakeNew(redisqtest.EpOne), time.Hour)))
		r.Publish(redisqtest.EpOne, "m1")
		_, hints := r.LimitAs(redisqtest.EpOne, r.NewLimits(redisqtest.EpOne, redisqtest.Mode(dispatcher.LaneDisabled)), false)
		require.False(r, hints[0].Due.After(r.Now), "work is due now")
		r.Move()
		r.MustStand(redisqtest.Named(redisqtest.EpOne, "m1"), dispatcher.StatusDead)
	}},
	{Name: "a lane is disabled and then deleted", Run: func(r *redisqtest.Rig) {
		r.Limit(redisqtest.EpOne)
		r.Publish(redisqtest.EpOne, "m1")
		r.Limit(redisqtest.EpOne, redisqtest.Mode(dispatcher.LaneDisabled))
		r.Limit(redisqtest.EpOne, redisqtest.Mode(dispatcher.LaneDeleted))
		r.MustStand(redisqtest.Named(redisqtest.EpOne, "m1"), dispatcher.StatusCancelled)
		r.Move()
		r.MustLie(redisqtest.PlaceCancelled, redisqtest.EpOne, "m1")
	}},
	{Name: "a delivery in a disabled lane keeps its status until it is ended", Run: func(r *redisqtest.Rig) {
		r.Limit(redisqtest.EpOne)
		r.Publish(redisqtest.EpOne, "m1")
		r.Schedule(r.Entry("m2", redisqtest.To(redisqtest.EpOne), redisqtest.Delay(time.Hour)))
		r.PublishKeyed(redisqtest.EpOne, "k", "m3", "m4")
		r.Limit(redisqtest.EpOne, redisqtest.Mode(dispatcher.LaneDisabled))
		r.MustStand(redisqtest.Named(redisqtest.EpOne, "m1"), dispatcher.StatusReady)
		r.MustStand(redisqtest.Named(redisqtest.EpOne, "m2"), dispatcher.StatusScheduled)
		r.MustStand(redisqtest.Named(redisqtest.EpOne, "m4"), dispatcher.StatusScheduled)
	}},
	{Name: "a delivery that waits in a deleted lane reads as cancelled", Run: func(r *redisqtest.Rig) {
		r.Limit(redisqtest.EpOne)
		r.Publish(redisqtest.EpOne, "m1", "m2")
		r.Schedule(r.Entry("m3", redisqtest.To(redisqtest.EpOne), redisqtest.Delay(time.Hour)))
		r.PublishKeyed(redisqtest.EpOne, "k", "m4", "m5")
		r.MustClaim(redisqtest.One, redisqtest.Named(redisqtest.EpOne, "m1"))
		r.Publish("a", "m6")
		r.Limit(redisqtest.EpOne, redisqtest.Mode(dispatcher.LaneDeleted))
		want := map[dispatcher.DeliveryID]dispatcher.Status{
			redisqtest.Named(redisqtest.EpOne, "m1"): dispatcher.StatusInFlight, redisqtest.Named("a", "m6"): dispatcher.StatusReady,
		}
		for _, id := range redisqtest.IDs(redisqtest.EpOne, "m2", "m3", "m4", "m5") {
			want[id] = dispatcher.StatusCancelled
		}
		for id, status := range want {
			d := r.MustStand(id, status)
			require.Equal(r, status == dispatcher.StatusReady, d.WaitingFor != "", "%s", id)
		}
		redisqtest.RequireStatuses(r, want, r.ListAll(dispatcher.Filter{}, 2))
		for _, status := range dispatcher.Statuses() {
			some := map[dispatcher.DeliveryID]dispatcher.Status{}
			for id, s := range want {
				if s == status {
					some[id] = s
				}
			}
			redisqtest.RequireStatuses(r, some, r.ListAll(dispatcher.Filter{Statuses: []dispatcher.Status{status}}, 2))
		}
	}},
}
