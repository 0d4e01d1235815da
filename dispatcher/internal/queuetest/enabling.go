package queuetest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

// enablingCases are about lanes that are enabled again.
var enablingCases = []testCase{
	{name: "an enabled lane goes on with the deliveries that have not ended yet", run: func(r *rig) {
		r.limit(epOne)
		r.publish(epOne, "m1")
		r.schedule(r.entry("m2", to(epOne), delay(time.Second)))
		r.limit(epOne, held(dispatcher.HeldDisabled))
		r.limit(epOne)
		r.mustClaim(one, named(epOne, "m1"))
		r.pass(time.Second)
		r.move()
		r.mustClaim(one, named(epOne, "m2"))
	}},
	{name: "what died of a disabled lane is retried once it is enabled", run: func(r *rig) {
		r.limit(epOne, held(dispatcher.HeldDisabled))
		r.schedule(r.entry("m1", to(epOne)))
		r.limit(epOne)
		require.Equal(r, []bool{true}, r.retry(named(epOne, "m1")))
		c := r.mustClaim(one, named(epOne, "m1"))[0]
		require.Equal(r, 1, c.Attempt)
		require.True(r, c.Asked)
		r.mustSettle(one, success(c))
		require.Empty(r, r.stats().Dead)
	}},
	{name: "a lane that is disabled while it is parked is ended at once", setup: Setup{Breaker: 1}, run: func(r *rig) {
		r.limit(epOne)
		r.mustSettle(one, blamed(failure(r.takeNew(epOne), time.Hour)))
		r.publish(epOne, "m1")
		_, hints := r.limitAs(epOne, r.newLimits(epOne, held(dispatcher.HeldDisabled)), false)
		require.False(r, hints[0].Due.After(r.now), "there is something to do now")
		r.move()
		r.mustStand(named(epOne, "m1"), dispatcher.StatusDead)
	}},
	{name: "a lane is disabled and then deleted", run: func(r *rig) {
		r.limit(epOne)
		r.publish(epOne, "m1")
		r.limit(epOne, held(dispatcher.HeldDisabled))
		r.limit(epOne, held(dispatcher.HeldDeleted))
		r.mustStand(named(epOne, "m1"), dispatcher.StatusCancelled)
		r.move()
		r.mustLie(PlaceCancelled, epOne, "m1")
	}},
	{name: "a delivery in a disabled lane keeps its status until it is ended", run: func(r *rig) {
		r.limit(epOne)
		r.publish(epOne, "m1")
		r.schedule(r.entry("m2", to(epOne), delay(time.Hour)))
		r.publishKeyed(epOne, "k", "m3", "m4")
		r.limit(epOne, held(dispatcher.HeldDisabled))
		r.mustStand(named(epOne, "m1"), dispatcher.StatusReady)
		r.mustStand(named(epOne, "m2"), dispatcher.StatusScheduled)
		r.mustStand(named(epOne, "m4"), dispatcher.StatusScheduled)
	}},
	{name: "a delivery that waits in a deleted lane reads as cancelled", run: func(r *rig) {
		r.limit(epOne)
		r.publish(epOne, "m1", "m2")
		r.schedule(r.entry("m3", to(epOne), delay(time.Hour)))
		r.publishKeyed(epOne, "k", "m4", "m5")
		r.mustClaim(one, named(epOne, "m1"))
		r.publish("a", "m6")
		r.limit(epOne, held(dispatcher.HeldDeleted))
		want := map[dispatcher.DeliveryID]dispatcher.Status{
			named(epOne, "m1"): dispatcher.StatusInFlight, named("a", "m6"): dispatcher.StatusReady,
		}
		for _, id := range ids(epOne, "m2", "m3", "m4", "m5") {
			want[id] = dispatcher.StatusCancelled
		}
		for id, status := range want {
			d := r.mustStand(id, status)
			require.Equal(r, status == dispatcher.StatusReady, d.WaitingFor != "", "%s", id)
		}
		requireStatuses(r, want, r.listAll(dispatcher.Filter{}, 2))
		for _, status := range dispatcher.Statuses {
			some := map[dispatcher.DeliveryID]dispatcher.Status{}
			for id, s := range want {
				if s == status {
					some[id] = s
				}
			}
			requireStatuses(r, some, r.listAll(dispatcher.Filter{Statuses: []dispatcher.Status{status}}, 2))
		}
	}},
}
