package redisq_test

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// OrderCases are about ordering keys. The deliveries of one key in one lane go one
// at a time and in order. Other deliveries do not wait for them.
var OrderCases = append([]redisqtest.Case{
	{Name: "the first of a key goes and the others wait behind it", Run: func(r *redisqtest.Rig) {
		got := r.Schedule(r.Entry("m1", redisqtest.To("a"), redisqtest.Keyed("k")), r.Entry("m2", redisqtest.To("a"), redisqtest.Keyed("k")))
		require.Equal(r, redisqtest.To("a"), redisqtest.Ready(got[0]))
		require.Equal(r, dispatcher.ScheduleResult{
			Result: dispatcher.Accepted, CreatedAt: redisqtest.Start, Placed: []dispatcher.Placed{{Lane: "a", Status: dispatcher.StatusScheduled}},
		}, got[1])
		r.PublishKeyed("a", "k", "m3")
		r.MustLie(redisqtest.PlaceReady, "a", "m1")
		r.MustLie(redisqtest.PlaceBehind, "a", "m2", "m3")
		d := r.MustStand(redisqtest.Named("a", "m2"), dispatcher.StatusScheduled)
		require.Equal(r, "order", d.WaitingFor)
		require.Equal(r, 1, d.WaitingBehind)
		require.Equal(r, map[dispatcher.Status]int64{dispatcher.StatusReady: 1, dispatcher.StatusScheduled: 2}, r.Stats().Counts)
		require.Equal(r, redisqtest.IDs("a", "m1"), redisqtest.ClaimedIDs(r.Claim(redisqtest.One, 64)))
		r.MustClaimNothing(redisqtest.Two)
	}},
	{Name: "a delivery that waits for its turn reports the number before it, also in lists", Run: func(r *redisqtest.Rig) {
		r.PublishKeyed("a", "k", "m0", "m1", "m2", "m3", "m4")
		r.PublishKeyed("a", "l", "n0", "n1")
		behind := map[string]int{"m0": 0, "m1": 1, "m2": 2, "m3": 3, "m4": 4, "n0": 0, "n1": 1}
		mustWaitBehind(r, "a", behind)
		c := r.Claim(redisqtest.One, 64)
		mustWaitBehind(r, "a", behind)
		require.Equal(r, []bool{true}, r.Cancel(redisqtest.Named("a", "m2")))
		mustWaitBehind(r, "a", map[string]int{"m0": 0, "m1": 1, "m2": 0, "m3": 2, "m4": 3, "n1": 1})
		r.MustSettle(redisqtest.One, redisqtest.Success(c[0]))
		mustWaitBehind(r, "a", map[string]int{"m1": 0, "m3": 1, "m4": 2, "n1": 1})
	}},
	{Name: "other keys, other lanes and messages without a key continue", Run: func(r *redisqtest.Rig) {
		r.PublishKeyed("a", "k", "m1", "m2")
		r.PublishKeyed("a", "l", "m3")
		r.PublishKeyed("b", "k", "m4")
		r.Publish("b", "m5")
		require.ElementsMatch(r, append(redisqtest.IDs("a", "m1", "m3"), redisqtest.IDs("b", "m4", "m5")...), redisqtest.ClaimedIDs(r.Claim(redisqtest.One, 64)))
	}},
	{Name: "the next one can go after each end", Run: func(r *redisqtest.Rig) {
		ends := []func(dispatcher.Claimed) dispatcher.Settlement{
			redisqtest.Success, func(c dispatcher.Claimed) dispatcher.Settlement { return redisqtest.Death(c, dispatcher.ReasonGone) }, redisqtest.Refusal,
		}
		r.PublishKeyed("a", "k", "m0", "m1", "m2", "m3")
		for n, end := range ends {
			c := r.MustClaim(redisqtest.One, redisqtest.Named("a", fmt.Sprintf("m%d", n)))[0]
			r.MustClaimNothing(redisqtest.One)
			_, hints, err := r.Queue.Settle(r.Ctx, redisqtest.One, []dispatcher.Settlement{end(c)})
			require.NoError(r, err)
			require.GreaterOrEqual(r, hints[0].Weight, 0, "the next one may be claimed")
		}
		r.Deliver(redisqtest.Named("a", "m3"))
		require.Empty(r, r.State().Behind)
		require.Zero(r, r.State().Lanes["a"].Keys)
	}},
	{Name: "the next one goes to the end of the ready list", Run: func(r *redisqtest.Rig) {
		r.PublishKeyed("a", "k", "m1", "m2")
		r.Publish("a", "m3")
		r.Deliver(redisqtest.Named("a", "m1"))
		require.Equal(r, redisqtest.IDs("a", "m3", "m2"), r.State().Ready["a"])
		claimed := r.Claim(redisqtest.One, 64)
		require.Equal(r, redisqtest.Start, claimed[1].Due)
		require.Equal(r, 1, claimed[1].Attempt)
	}},
	{Name: "a delivery that waits for a retry blocks its own key, and no other", Run: func(r *redisqtest.Rig) {
		r.PublishKeyed("a", "k", "m1", "m2")
		r.PublishKeyed("a", "l", "m3", "m4")
		c := r.Claim(redisqtest.One, 64)
		r.Settle(redisqtest.One, redisqtest.Failure(c[0], time.Minute), redisqtest.Success(c[1]))
		require.Equal(r, redisqtest.IDs("a", "m4"), redisqtest.ClaimedIDs(r.Claim(redisqtest.One, 64)))
		r.MustLie(redisqtest.PlaceBehind, "a", "m2")
		r.Pass(time.Minute)
		r.Move()
		r.Deliver(redisqtest.Named("a", "m1"))
		r.MustClaim(redisqtest.One, redisqtest.Named("a", "m2"))
	}},
	{Name: "a delivery that is handed back or taken over is still the first", Run: func(r *redisqtest.Rig) {
		r.PublishKeyed("a", "k", "m1", "m2")
		r.MustSettle(redisqtest.One, redisqtest.HandBack(r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0]))
		r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))
		r.Reap(redisqtest.One)
		require.Equal(r, redisqtest.IDs("a", "m1"), redisqtest.ClaimedIDs(r.Claim(redisqtest.Two, 64)))
	}},
	{Name: "a delivery does not block its line after three instances died with it", Run: func(r *redisqtest.Rig) {
		r.PublishKeyed("a", "k", "m1", "m2")
		for n := range 3 {
			r.DieWith(fmt.Sprintf("victim%d", n), redisqtest.Named("a", "m1"))
		}
		r.MustStand(redisqtest.Named("a", "m1"), dispatcher.StatusDead)
		r.MustClaim(redisqtest.Two, redisqtest.Named("a", "m2"))
	}},
	{Name: "a scheduled delivery blocks the deliveries behind it", Run: func(r *redisqtest.Rig) {
		r.Schedule(r.Entry("m1", redisqtest.To("a"), redisqtest.Keyed("k"), redisqtest.Delay(time.Minute)))
		r.PublishKeyed("a", "k", "m2")
		r.MustClaimNothing(redisqtest.One)
		r.Pass(time.Minute)
		r.Move()
		r.Deliver(redisqtest.Named("a", "m1"))
		r.MustClaim(redisqtest.One, redisqtest.Named("a", "m2"))
	}},
	{Name: "the next one keeps its own time", Run: func(r *redisqtest.Rig) {
		r.PublishKeyed("a", "k", "m1")
		r.Schedule(r.Entry("m2", redisqtest.To("a"), redisqtest.Keyed("k"), redisqtest.Delay(time.Minute)),
			r.Entry("m3", redisqtest.To("a"), redisqtest.Keyed("k"), redisqtest.DeliverAt(redisqtest.Start.Add(time.Second))))
		_, hints, err := r.Queue.Settle(r.Ctx, redisqtest.One, []dispatcher.Settlement{redisqtest.Success(r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0])})
		require.NoError(r, err)
		require.Equal(r, redisqtest.Start.Add(time.Minute), hints[0].Due)
		require.Equal(r, redisqtest.Start.Add(time.Minute), r.MustStand(redisqtest.Named("a", "m2"), dispatcher.StatusScheduled).Due)
		require.Equal(r, "due", r.Inspect(redisqtest.Named("a", "m2")).WaitingFor)
		r.Pass(time.Minute)
		r.Move()
		r.Deliver(redisqtest.Named("a", "m2"))
		require.Equal(r, redisqtest.Start.Add(time.Second), r.MustClaim(redisqtest.One, redisqtest.Named("a", "m3"))[0].Due)
	}},
	{Name: "messages of the same ms go in the order in which they arrived", Run: func(r *redisqtest.Rig) {
		order := []string{"m5", "m1", "m9", "m3", "m2"}
		batch := make([]dispatcher.Entry, len(order))
		for i, id := range order {
			batch[i] = r.Entry(id, redisqtest.To("a"), redisqtest.Keyed("k"))
		}
		r.Schedule(batch[:3]...)
		r.Schedule(batch[3:]...)
		for _, id := range order {
			r.Deliver(redisqtest.Named("a", id))
		}
	}},
	{Name: "messages that come after the clock went back come last", Run: func(r *redisqtest.Rig) {
		r.PublishKeyed("a", "k", "m1", "m2")
		r.Pass(-time.Second)
		r.PublishKeyed("a", "k", "m0")
		r.Pass(time.Second)
		for _, id := range []string{"m1", "m2", "m0"} {
			r.Deliver(redisqtest.Named("a", id))
		}
	}},
	{Name: "the first gets a direct lease, and those behind it do not", Run: func(r *redisqtest.Rig) {
		got := r.ScheduleFor(redisqtest.One, 512, 64, r.Entry("m1", redisqtest.To("a"), redisqtest.Keyed("k")), r.Entry("m2", redisqtest.To("a"), redisqtest.Keyed("k")),
			r.Entry("m3", redisqtest.To("a"), redisqtest.Keyed("l")))
		require.Equal(r, redisqtest.To("a"), redisqtest.Leased(got[0]))
		require.Equal(r, redisqtest.To("a"), redisqtest.Behind(got[1]))
		require.Equal(r, redisqtest.To("a"), redisqtest.Leased(got[2]))
		r.MustSettle(redisqtest.One, redisqtest.Success(dispatcher.Claimed{ID: redisqtest.Named("a", "m1"), Attempt: 1}))
		r.MustClaim(redisqtest.One, redisqtest.Named("a", "m2"))
	}},
	{Name: "a repeated message is in the line once", Run: func(r *redisqtest.Rig) {
		r.PublishKeyed("a", "k", "m1", "m2")
		r.MustChangeNothing(func() {
			for _, id := range []string{"m1", "m2"} {
				require.Equal(r, dispatcher.Duplicate, r.Schedule(r.Entry(id, redisqtest.To("a"), redisqtest.Keyed("k")))[0].Result)
			}
		})
	}},
	{Name: "a fan-out is in the line of each of its lanes", Run: func(r *redisqtest.Rig) {
		r.Schedule(redisqtest.Fan(r.Entry("m1", redisqtest.To("a", "b"), redisqtest.Keyed("k"))), redisqtest.Fan(r.Entry("m2", redisqtest.To("a", "b"), redisqtest.Keyed("k"))))
		claimed := r.Claim(redisqtest.One, 64)
		require.Len(r, claimed, 2)
		for _, c := range claimed {
			if c.ID.Lane == "a" {
				r.MustSettle(redisqtest.One, redisqtest.Success(c))
			}
		}
		require.Equal(r, redisqtest.IDs("a", "m2"), redisqtest.ClaimedIDs(r.Claim(redisqtest.One, 64)))
		r.MustLie(redisqtest.PlaceBehind, "b", "m2")
	}},
	{Name: "a list returns the deliveries that wait behind others", Run: func(r *redisqtest.Rig) {
		r.PublishKeyed("a", "k", "m1", "m2", "m3")
		r.PublishKeyed("a", "l", "m4", "m5")
		r.Schedule(r.Entry("m6", redisqtest.To("b"), redisqtest.Keyed("k"), redisqtest.Delay(time.Hour)))
		r.PublishKeyed("b", "k", "m7")
		r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))
		want := map[dispatcher.DeliveryID]dispatcher.Status{
			redisqtest.Named("a", "m1"): dispatcher.StatusInFlight, redisqtest.Named("a", "m4"): dispatcher.StatusReady,
		}
		for _, id := range append(redisqtest.IDs("a", "m2", "m3", "m5"), redisqtest.IDs("b", "m6", "m7")...) {
			want[id] = dispatcher.StatusScheduled
		}
		for _, limit := range []int{1, 2, 100} {
			redisqtest.RequireStatuses(r, want, r.ListAll(dispatcher.Filter{}, limit))
		}
		r.MustList(dispatcher.Filter{Statuses: []dispatcher.Status{dispatcher.StatusScheduled}}, want,
			func(_ dispatcher.DeliveryID, s dispatcher.Status) bool { return s == dispatcher.StatusScheduled })
		r.MustList(dispatcher.Filter{Lanes: redisqtest.To("b")}, want,
			func(id dispatcher.DeliveryID, _ dispatcher.Status) bool { return id.Lane == "b" })
	}},
	{Name: "a set leaves nothing when its deliveries have ended", Run: func(r *redisqtest.Rig) {
		r.PublishKeyed("a", "k", "m1", "m2")
		r.Deliver(redisqtest.Named("a", "m1"))
		r.Deliver(redisqtest.Named("a", "m2"))
		r.Pass(2 * time.Hour)
		r.Trim(redisqtest.KeepNothing)
		state := r.State()
		state.Now, state.Reported = 0, nil
		require.Equal(r, redisqtest.NewState().String(), state.String())
	}},
}, lineCases...)

// lineCases are about cancels, retries and losses of deliveries in a line.
var lineCases = []redisqtest.Case{
	{Name: "the next one can go when the first is cancelled", Run: func(r *redisqtest.Rig) {
		r.Schedule(r.Entry("m1", redisqtest.To("a"), redisqtest.Keyed("k"), redisqtest.Delay(time.Hour)))
		r.PublishKeyed("a", "k", "m2", "m3")
		require.Equal(r, []bool{true}, r.Cancel(redisqtest.Named("a", "m1"))) // due
		r.MustLie(redisqtest.PlaceReady, "a", "m2")
		require.Equal(r, []bool{true}, r.Cancel(redisqtest.Named("a", "m2"))) // ready
		r.MustLie(redisqtest.PlaceCancelled, "a", "m2")
		r.MustLie(redisqtest.PlaceReady, "a", "m3")
		c := r.MustClaim(redisqtest.One, redisqtest.Named("a", "m3"))[0]
		r.PublishKeyed("a", "k", "m4")
		r.Cancel(c.ID) // it is leased, so the store only marks it
		r.Settle(redisqtest.One, redisqtest.Failure(c, time.Minute))
		r.MustClaim(redisqtest.One, redisqtest.Named("a", "m4"))
	}},
	{Name: "a delivery that is cancelled behind another leaves the line at once", Run: func(r *redisqtest.Rig) {
		r.PublishKeyed("a", "k", "m1", "m2", "m3")
		require.Equal(r, []bool{true, false}, r.Cancel(redisqtest.Named("a", "m2"), redisqtest.Named("a", "m2")))
		d := r.MustStand(redisqtest.Named("a", "m2"), dispatcher.StatusCancelled)
		require.Equal(r, r.Now, d.Ended)
		require.Equal(r, []string{"cancelled -"}, r.State().Reported[d.ID])
		r.MustLie(redisqtest.PlaceCancelled, "a", "m2")
		r.MustLie(redisqtest.PlaceBehind, "a", "m3")
		r.Deliver(redisqtest.Named("a", "m1"))
		r.Deliver(redisqtest.Named("a", "m3"))
	}},
	{Name: "the next one can go when the first has expired", Run: func(r *redisqtest.Rig) {
		r.Schedule(r.Entry("m1", redisqtest.To("a"), redisqtest.Keyed("k"), redisqtest.Expires(redisqtest.Start)))
		r.PublishKeyed("a", "k", "m2")
		r.MustClaimNothing(redisqtest.One)
		r.MustStand(redisqtest.Named("a", "m1"), dispatcher.StatusDead)
		r.MustClaim(redisqtest.One, redisqtest.Named("a", "m2"))
	}},
	{Name: "a delivery that expired behind another dies at its turn", Run: func(r *redisqtest.Rig) {
		r.PublishKeyed("a", "k", "m1")
		r.Schedule(r.Entry("m2", redisqtest.To("a"), redisqtest.Keyed("k"), redisqtest.Expires(redisqtest.Start.Add(time.Second))))
		r.PublishKeyed("a", "k", "m3")
		r.Pass(time.Minute)
		r.Deliver(redisqtest.Named("a", "m1"))
		r.MustClaimNothing(redisqtest.One)
		require.Equal(r, dispatcher.ReasonExpired, r.MustStand(redisqtest.Named("a", "m2"), dispatcher.StatusDead).Reason)
		r.MustClaim(redisqtest.One, redisqtest.Named("a", "m3"))
	}},
	{Name: "the next one can go after a late success of the first", Run: func(r *redisqtest.Rig) {
		c := takeOverKeyed(r, "a", "k", "m1")
		r.PublishKeyed("a", "k", "m2")
		r.MustSettle(redisqtest.Two, redisqtest.Failure(r.MustClaim(redisqtest.Two, c.ID)[0], time.Hour))
		require.Equal(r, []dispatcher.SettleResult{dispatcher.SettledDone}, r.Settle(redisqtest.One, redisqtest.Success(c))) // due
		r.MustClaim(redisqtest.Two, redisqtest.Named("a", "m2"))

		c = takeOverKeyed(r, "b", "k", "m3")
		r.PublishKeyed("b", "k", "m4")
		require.Equal(r, []dispatcher.SettleResult{dispatcher.SettledDone}, r.Settle(redisqtest.One, redisqtest.Success(c)))
		r.MustLie(redisqtest.PlaceDone, "b", "m3")
		r.MustClaim(redisqtest.Two, redisqtest.Named("b", "m4"))
	}},
	{Name: "a late success ends a delivery that joined the line again", Run: func(r *redisqtest.Rig) {
		c := takeOverKeyed(r, "a", "k", "m1")
		r.MustSettle(redisqtest.Two, redisqtest.Death(r.MustClaim(redisqtest.Two, c.ID)[0], dispatcher.ReasonExhausted))
		r.PublishKeyed("a", "k", "m2", "m3")
		require.Equal(r, []bool{true}, r.Retry(c.ID))
		r.MustLie(redisqtest.PlaceBehind, "a", "m1")
		require.Equal(r, []dispatcher.SettleResult{dispatcher.SettledDone}, r.Settle(redisqtest.One, redisqtest.Success(c)))
		r.MustLie(redisqtest.PlaceDone, "a", "m1")
		r.Deliver(redisqtest.Named("a", "m2"))
		r.Deliver(redisqtest.Named("a", "m3"))
		r.MustClaimNothing(redisqtest.One)
	}},
	{Name: "a retried delivery joins at the end", Run: func(r *redisqtest.Rig) {
		r.PublishKeyed("a", "k", "m1", "m2", "m3")
		r.MustSettle(redisqtest.One, redisqtest.Death(r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0], dispatcher.ReasonExhausted))
		require.Equal(r, []bool{true}, r.Retry(redisqtest.Named("a", "m1")))
		d := r.MustStand(redisqtest.Named("a", "m1"), dispatcher.StatusScheduled)
		require.Equal(r, "order", d.WaitingFor)
		r.Deliver(redisqtest.Named("a", "m2"))
		r.Deliver(redisqtest.Named("a", "m3"))
		c := r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0]
		require.Equal(r, 2, c.Attempt)
		require.Equal(r, 1, c.Rung)
		require.True(r, c.Asked)
		require.Equal(r, r.Now, c.Due)
	}},
	{Name: "several deliveries that are retried at once join in the order given", Run: func(r *redisqtest.Rig) {
		r.PublishKeyed("a", "k", "m1", "m2", "m3")
		for _, id := range []string{"m1", "m2", "m3"} {
			r.MustSettle(redisqtest.One, redisqtest.Death(r.MustClaim(redisqtest.One, redisqtest.Named("a", id))[0], dispatcher.ReasonGone))
		}
		require.Equal(r, []bool{true, true, true}, r.Retry(redisqtest.IDs("a", "m3", "m1", "m2")...))
		for _, id := range []string{"m3", "m1", "m2"} {
			r.Deliver(redisqtest.Named("a", id))
		}
	}},
	{Name: "a whole line may be cancelled at once", Run: func(r *redisqtest.Rig) {
		r.PublishKeyed("a", "k", "m1", "m2", "m3")
		r.Schedule(r.Entry("n1", redisqtest.To("a"), redisqtest.Keyed("l"), redisqtest.Delay(time.Hour)))
		r.PublishKeyed("a", "l", "n2", "n3")
		require.NotContains(r, r.Cancel(redisqtest.IDs("a", "m1", "m2", "m3", "n1", "n2", "n3")...), false)
		for range 3 {
			r.MustClaimNothing(redisqtest.One)
		}
		r.MustLie(redisqtest.PlaceCancelled, "a", "m1", "m2", "m3", "n1", "n2", "n3")
		require.Empty(r, r.State().Behind)
	}},
	{Name: "a retried delivery is ready at once if its line is empty", Run: func(r *redisqtest.Rig) {
		r.PublishKeyed("a", "k", "m1")
		r.Deliver(redisqtest.Named("a", "m1"))
		require.Equal(r, []bool{true}, r.Retry(redisqtest.Named("a", "m1")))
		r.PublishKeyed("a", "k", "m2")
		require.Equal(r, redisqtest.IDs("a", "m1"), redisqtest.ClaimedIDs(r.Claim(redisqtest.One, 64)))
		r.MustLie(redisqtest.PlaceBehind, "a", "m2")
	}},
	{Name: "a retried delivery does not wait for its old time", Run: func(r *redisqtest.Rig) {
		r.Schedule(r.Entry("m2", redisqtest.To("a"), redisqtest.Keyed("l"), redisqtest.Delay(time.Hour)))
		r.Cancel(redisqtest.Named("a", "m2"))
		r.Schedule(r.Entry("m3", redisqtest.To("a"), redisqtest.Keyed("l"), redisqtest.Delay(time.Minute)))
		r.Retry(redisqtest.Named("a", "m2"))
		r.MustLie(redisqtest.PlaceBehind, "a", "m2")
		r.Cancel(redisqtest.Named("a", "m3"))
		r.MustLie(redisqtest.PlaceReady, "a", "m2")
	}},
	{Name: "a retry does not move a delivery that is behind another", Run: func(r *redisqtest.Rig) {
		r.PublishKeyed("a", "k", "m1", "m2")
		r.MustChangeNothing(func() { r.MustRefuse(dispatcher.ErrOrder, redisqtest.Named("a", "m2")) })
	}},
	{Name: "the first is retried before its time and stays the first", Run: func(r *redisqtest.Rig) {
		r.Schedule(r.Entry("m1", redisqtest.To("a"), redisqtest.Keyed("k"), redisqtest.Delay(time.Hour)))
		r.PublishKeyed("a", "k", "m2")
		require.Equal(r, []bool{true}, r.Retry(redisqtest.Named("a", "m1")))
		require.Equal(r, redisqtest.IDs("a", "m1"), redisqtest.ClaimedIDs(r.Claim(redisqtest.One, 64)))
		r.MustLie(redisqtest.PlaceBehind, "a", "m2")
	}},
	{Name: "a delivery is skipped if an operator deleted its record", Run: func(r *redisqtest.Rig) {
		r.PublishKeyed("a", "k", "m1", "m2", "m3", "m4")
		r.Lose("m2")
		r.Lose("m3")
		r.Deliver(redisqtest.Named("a", "m1"))
		r.MustBeSound()
		r.MustClaim(redisqtest.One, redisqtest.Named("a", "m4"))
	}},
	{Name: "the line works if its last delivery is lost", Run: func(r *redisqtest.Rig) {
		r.PublishKeyed("a", "k", "m1", "m2")
		r.Lose("m2")
		r.Deliver(redisqtest.Named("a", "m1"))
		require.Empty(r, r.State().Behind)
		require.Zero(r, r.State().Lanes["a"].Waiting)
	}},
}

// takeOverKeyed does the same as TakeOver with a message that has an ordering key.
func takeOverKeyed(r *redisqtest.Rig, lane dispatcher.Lane, key, id string) dispatcher.Claimed {
	r.Helper()
	victim := "victim-" + r.NewID()
	r.PublishKeyed(lane, key, id)
	got := r.ClaimWith(victim, 1, r.Setup.Permits)
	require.Equal(r, redisqtest.IDs(lane, id), redisqtest.ClaimedIDs(got))
	require.Equal(r, 1, r.Reap(victim))
	return got[0]
}

// mustWaitBehind fails the case unless Look reports this number of deliveries before
// each delivery. Lists with pages of any length must report the same number.
func mustWaitBehind(r *redisqtest.Rig, lane dispatcher.Lane, behind map[string]int) {
	r.Helper()
	for id, want := range behind {
		require.Equal(r, want, r.Inspect(redisqtest.Named(lane, id)).WaitingBehind, "%s", id)
	}
	for _, limit := range []int{1, 2, 100} {
		for _, d := range r.ListAll(dispatcher.Filter{Lanes: redisqtest.To(lane)}, limit) {
			require.Equal(r, behind[d.ID.Message], d.WaitingBehind, "%s in a list", d.ID)
		}
	}
}
