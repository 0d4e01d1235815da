package queuetest

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

// orderCases are about ordering keys: one delivery at a time, in order, and
// only among those of the same key and lane.
var orderCases = append([]testCase{
	{name: "the first of a key goes and the others wait behind it", run: func(r *rig) {
		got := r.schedule(r.entry("m1", to("a"), keyed("k")), r.entry("m2", to("a"), keyed("k")))
		require.Equal(r, to("a"), got[0].Ready)
		require.Equal(r, dispatcher.ScheduleResult{
			Result: dispatcher.Accepted, CreatedAt: start, Due: start, Behind: to("a"),
		}, got[1])
		r.publishKeyed("a", "k", "m3")
		r.mustLie(PlaceReady, "a", "m1")
		r.mustLie(PlaceBehind, "a", "m2", "m3")
		d := r.mustStand(named("a", "m2"), dispatcher.StatusScheduled)
		require.Equal(r, "order", d.WaitingFor)
		require.Equal(r, map[dispatcher.Status]int64{dispatcher.StatusReady: 1, dispatcher.StatusScheduled: 2}, r.stats().Counts)
		require.Equal(r, ids("a", "m1"), claimedIDs(r.claim(one, 64)))
		r.mustClaimNothing(two)
	}},
	{name: "other keys, other lanes and messages without a key go on", run: func(r *rig) {
		r.publishKeyed("a", "k", "m1", "m2")
		r.publishKeyed("a", "l", "m3")
		r.publishKeyed("b", "k", "m4")
		r.publish("b", "m5")
		require.ElementsMatch(r, append(ids("a", "m1", "m3"), ids("b", "m4", "m5")...), claimedIDs(r.claim(one, 64)))
	}},
	{name: "each end lets the next one go", run: func(r *rig) {
		ends := []func(dispatcher.Claimed) dispatcher.Settlement{
			success, func(c dispatcher.Claimed) dispatcher.Settlement { return death(c, dispatcher.ReasonGone) }, refusal,
		}
		r.publishKeyed("a", "k", "m0", "m1", "m2", "m3")
		for n, end := range ends {
			c := r.mustClaim(one, named("a", fmt.Sprintf("m%d", n)))[0]
			r.mustClaimNothing(one)
			_, hints, err := r.Queue.Settle(r.ctx, one, []dispatcher.Settlement{end(c)})
			require.NoError(r, err)
			require.GreaterOrEqual(r, hints[0].Weight, 0, "the next one may be claimed")
		}
		r.deliver(named("a", "m3"))
		require.Empty(r, r.State().Behind)
		require.Zero(r, r.State().Lanes["a"].Keys)
	}},
	{name: "the next one goes to the end of the ready list", run: func(r *rig) {
		r.publishKeyed("a", "k", "m1", "m2")
		r.publish("a", "m3")
		r.deliver(named("a", "m1"))
		require.Equal(r, ids("a", "m3", "m2"), r.State().Ready["a"])
		claimed := r.claim(one, 64)
		require.Equal(r, start, claimed[1].Due)
		require.Equal(r, 1, claimed[1].Attempt)
	}},
	{name: "a failed delivery holds its own key, and no other", run: func(r *rig) {
		r.publishKeyed("a", "k", "m1", "m2")
		r.publishKeyed("a", "l", "m3", "m4")
		c := r.claim(one, 64)
		r.settle(one, failure(c[0], time.Minute), success(c[1]))
		require.Equal(r, ids("a", "m4"), claimedIDs(r.claim(one, 64)))
		r.mustLie(PlaceBehind, "a", "m2")
		r.pass(time.Minute)
		r.move()
		r.deliver(named("a", "m1"))
		r.mustClaim(one, named("a", "m2"))
	}},
	{name: "a delivery that is handed back or taken over is still the first", run: func(r *rig) {
		r.publishKeyed("a", "k", "m1", "m2")
		r.mustSettle(one, handBack(r.mustClaim(one, named("a", "m1"))[0]))
		r.mustClaim(one, named("a", "m1"))
		r.reap(one)
		require.Equal(r, ids("a", "m1"), claimedIDs(r.claim(two, 64)))
	}},
	{name: "a delivery whose holders died three times does not hold up its line", run: func(r *rig) {
		r.publishKeyed("a", "k", "m1", "m2")
		for n := range 3 {
			victim := fmt.Sprintf("victim%d", n)
			r.mustClaim(victim, named("a", "m1"))
			r.reap(victim)
		}
		r.mustStand(named("a", "m1"), dispatcher.StatusDead)
		r.mustClaim(two, named("a", "m2"))
	}},
	{name: "a delivery that waits for its time holds those behind it", run: func(r *rig) {
		r.schedule(r.entry("m1", to("a"), keyed("k"), delay(time.Minute)))
		r.publishKeyed("a", "k", "m2")
		r.mustClaimNothing(one)
		r.pass(time.Minute)
		r.move()
		r.deliver(named("a", "m1"))
		r.mustClaim(one, named("a", "m2"))
	}},
	{name: "the next one keeps its own time", run: func(r *rig) {
		r.publishKeyed("a", "k", "m1")
		r.schedule(r.entry("m2", to("a"), keyed("k"), delay(time.Minute)),
			r.entry("m3", to("a"), keyed("k"), deliverAt(start.Add(time.Second))))
		_, hints, err := r.Queue.Settle(r.ctx, one, []dispatcher.Settlement{success(r.mustClaim(one, named("a", "m1"))[0])})
		require.NoError(r, err)
		require.Equal(r, start.Add(time.Minute), hints[0].Due)
		require.Equal(r, start.Add(time.Minute), r.mustStand(named("a", "m2"), dispatcher.StatusScheduled).Due)
		require.Equal(r, "due", r.look(named("a", "m2")).WaitingFor)
		r.pass(time.Minute)
		r.move()
		r.deliver(named("a", "m2"))
		require.Equal(r, start.Add(time.Second), r.mustClaim(one, named("a", "m3"))[0].Due)
	}},
	{name: "many that come in one ms go in the order they came", run: func(r *rig) {
		order := []string{"m5", "m1", "m9", "m3", "m2"}
		batch := make([]dispatcher.Entry, len(order))
		for i, id := range order {
			batch[i] = r.entry(id, to("a"), keyed("k"))
		}
		r.schedule(batch[:3]...)
		r.schedule(batch[3:]...)
		for _, id := range order {
			r.deliver(named("a", id))
		}
	}},
	{name: "messages that come after the clock went back come last", run: func(r *rig) {
		r.publishKeyed("a", "k", "m1", "m2")
		r.pass(-time.Second)
		r.publishKeyed("a", "k", "m0")
		r.pass(time.Second)
		for _, id := range []string{"m1", "m2", "m0"} {
			r.deliver(named("a", id))
		}
	}},
	{name: "a direct lease is given to the first and not to those behind", run: func(r *rig) {
		got := r.scheduleFor(one, 512, 64, r.entry("m1", to("a"), keyed("k")), r.entry("m2", to("a"), keyed("k")),
			r.entry("m3", to("a"), keyed("l")))
		require.Equal(r, to("a"), got[0].Leased)
		require.Equal(r, to("a"), got[1].Behind)
		require.Equal(r, to("a"), got[2].Leased)
		r.mustSettle(one, success(dispatcher.Claimed{ID: named("a", "m1"), Attempt: 1}))
		r.mustClaim(one, named("a", "m2"))
	}},
	{name: "a repeat stands in line once", run: func(r *rig) {
		r.publishKeyed("a", "k", "m1", "m2")
		r.mustChangeNothing(func() {
			for _, id := range []string{"m1", "m2"} {
				require.Equal(r, dispatcher.Duplicate, r.schedule(r.entry(id, to("a"), keyed("k")))[0].Result)
			}
		})
	}},
	{name: "a fan-out stands in line in each of its lanes", run: func(r *rig) {
		r.schedule(fan(r.entry("m1", to("a", "b"), keyed("k"))), fan(r.entry("m2", to("a", "b"), keyed("k"))))
		claimed := r.claim(one, 64)
		require.Len(r, claimed, 2)
		for _, c := range claimed {
			if c.ID.Lane == "a" {
				r.mustSettle(one, success(c))
			}
		}
		require.Equal(r, ids("a", "m2"), claimedIDs(r.claim(one, 64)))
		r.mustLie(PlaceBehind, "b", "m2")
	}},
	{name: "what waits behind is listed", run: func(r *rig) {
		r.publishKeyed("a", "k", "m1", "m2", "m3")
		r.publishKeyed("a", "l", "m4", "m5")
		r.schedule(r.entry("m6", to("b"), keyed("k"), delay(time.Hour)))
		r.publishKeyed("b", "k", "m7")
		r.mustClaim(one, named("a", "m1"))
		want := map[dispatcher.DeliveryID]dispatcher.Status{
			named("a", "m1"): dispatcher.StatusInFlight, named("a", "m4"): dispatcher.StatusReady,
		}
		for _, id := range append(ids("a", "m2", "m3", "m5"), ids("b", "m6", "m7")...) {
			want[id] = dispatcher.StatusScheduled
		}
		for _, limit := range []int{1, 2, 100} {
			requireStatuses(r, want, r.listAll(dispatcher.Filter{}, limit))
		}
		r.mustList(dispatcher.Filter{Statuses: []dispatcher.Status{dispatcher.StatusScheduled}}, want,
			func(_ dispatcher.DeliveryID, s dispatcher.Status) bool { return s == dispatcher.StatusScheduled })
		r.mustList(dispatcher.Filter{Lanes: to("b")}, want,
			func(id dispatcher.DeliveryID, _ dispatcher.Status) bool { return id.Lane == "b" })
	}},
	{name: "nothing of a set is left when its deliveries have ended", run: func(r *rig) {
		r.publishKeyed("a", "k", "m1", "m2")
		r.deliver(named("a", "m1"))
		r.deliver(named("a", "m2"))
		r.pass(2 * time.Hour)
		r.trim(keepNothing)
		state := r.State()
		state.Now, state.Told = 0, nil
		require.Equal(r, NewState().String(), state.String())
	}},
}, lineCases...)

// lineCases are about cancels, retries and accidents of deliveries in a line.
var lineCases = []testCase{
	{name: "the first that is cancelled lets the next one go", run: func(r *rig) {
		r.schedule(r.entry("m1", to("a"), keyed("k"), delay(time.Hour)))
		r.publishKeyed("a", "k", "m2", "m3")
		require.Equal(r, []bool{true}, r.cancel(named("a", "m1"))) // due
		r.mustLie(PlaceReady, "a", "m2")
		require.Equal(r, []bool{true}, r.cancel(named("a", "m2"))) // ready: a mark
		r.mustLie(PlaceBehind, "a", "m3")
		r.mustClaimNothing(one)
		r.mustLie(PlaceCancelled, "a", "m2")
		c := r.mustClaim(one, named("a", "m3"))[0]
		r.publishKeyed("a", "k", "m4")
		r.cancel(c.ID) // leased: a mark
		r.settle(one, failure(c, time.Minute))
		r.mustClaim(one, named("a", "m4"))
	}},
	{name: "a delivery that is cancelled behind another leaves the line at once", run: func(r *rig) {
		r.publishKeyed("a", "k", "m1", "m2", "m3")
		require.Equal(r, []bool{true, false}, r.cancel(named("a", "m2"), named("a", "m2")))
		d := r.mustStand(named("a", "m2"), dispatcher.StatusCancelled)
		require.Equal(r, r.now, d.Ended)
		require.Equal(r, []string{"cancelled -"}, r.State().Told[d.ID])
		r.mustLie(PlaceCancelled, "a", "m2")
		r.mustLie(PlaceBehind, "a", "m3")
		r.deliver(named("a", "m1"))
		r.deliver(named("a", "m3"))
	}},
	{name: "the first that has expired lets the next one go", run: func(r *rig) {
		r.schedule(r.entry("m1", to("a"), keyed("k"), expires(start)))
		r.publishKeyed("a", "k", "m2")
		r.mustClaimNothing(one)
		r.mustStand(named("a", "m1"), dispatcher.StatusDead)
		r.mustClaim(one, named("a", "m2"))
	}},
	{name: "a delivery that expired behind another dies at its turn", run: func(r *rig) {
		r.publishKeyed("a", "k", "m1")
		r.schedule(r.entry("m2", to("a"), keyed("k"), expires(start.Add(time.Second))))
		r.publishKeyed("a", "k", "m3")
		r.pass(time.Minute)
		r.deliver(named("a", "m1"))
		r.mustClaimNothing(one)
		require.Equal(r, dispatcher.ReasonExpired, r.mustStand(named("a", "m2"), dispatcher.StatusDead).Reason)
		r.mustClaim(one, named("a", "m3"))
	}},
	{name: "a late success of the first lets the next one go", run: func(r *rig) {
		c := r.takeOverKeyed("a", "k", "m1")
		r.publishKeyed("a", "k", "m2")
		r.mustSettle(two, failure(r.mustClaim(two, c.ID)[0], time.Hour))
		require.Equal(r, []dispatcher.Settled{dispatcher.SettledDone}, r.settle(one, success(c))) // due
		r.mustClaim(two, named("a", "m2"))

		c = r.takeOverKeyed("b", "k", "m3")
		r.publishKeyed("b", "k", "m4")
		require.Equal(r, []dispatcher.Settled{dispatcher.SettledDone}, r.settle(one, success(c))) // ready: a mark
		r.mustClaimNothing(two)
		r.mustLie(PlaceDone, "b", "m3")
		r.mustClaim(two, named("b", "m4"))
	}},
	{name: "a late success ends a delivery that joined the line again", run: func(r *rig) {
		c := r.takeOverKeyed("a", "k", "m1")
		r.mustSettle(two, death(r.mustClaim(two, c.ID)[0], dispatcher.ReasonExhausted))
		r.publishKeyed("a", "k", "m2", "m3")
		require.Equal(r, []bool{true}, r.retry(c.ID))
		r.mustLie(PlaceBehind, "a", "m1")
		require.Equal(r, []dispatcher.Settled{dispatcher.SettledDone}, r.settle(one, success(c)))
		r.mustLie(PlaceDone, "a", "m1")
		r.deliver(named("a", "m2"))
		r.deliver(named("a", "m3"))
		r.mustClaimNothing(one)
	}},
	{name: "a retried delivery joins at the end", run: func(r *rig) {
		r.publishKeyed("a", "k", "m1", "m2", "m3")
		r.mustSettle(one, death(r.mustClaim(one, named("a", "m1"))[0], dispatcher.ReasonExhausted))
		require.Equal(r, []bool{true}, r.retry(named("a", "m1")))
		d := r.mustStand(named("a", "m1"), dispatcher.StatusScheduled)
		require.Equal(r, "order", d.WaitingFor)
		r.deliver(named("a", "m2"))
		r.deliver(named("a", "m3"))
		c := r.mustClaim(one, named("a", "m1"))[0]
		require.Equal(r, 2, c.Attempt)
		require.Equal(r, 1, c.Rung)
		require.True(r, c.Asked)
		require.Equal(r, r.now, c.Due)
	}},
	{name: "several deliveries that are retried at once join in the order given", run: func(r *rig) {
		r.publishKeyed("a", "k", "m1", "m2", "m3")
		for _, id := range []string{"m1", "m2", "m3"} {
			r.mustSettle(one, death(r.mustClaim(one, named("a", id))[0], dispatcher.ReasonGone))
		}
		require.Equal(r, []bool{true, true, true}, r.retry(ids("a", "m3", "m1", "m2")...))
		for _, id := range []string{"m3", "m1", "m2"} {
			r.deliver(named("a", id))
		}
	}},
	{name: "a whole line may be cancelled at once", run: func(r *rig) {
		r.publishKeyed("a", "k", "m1", "m2", "m3")
		r.schedule(r.entry("n1", to("a"), keyed("l"), delay(time.Hour)))
		r.publishKeyed("a", "l", "n2", "n3")
		require.NotContains(r, r.cancel(ids("a", "m1", "m2", "m3", "n1", "n2", "n3")...), false)
		for range 3 {
			r.mustClaimNothing(one)
		}
		r.mustLie(PlaceCancelled, "a", "m1", "m2", "m3", "n1", "n2", "n3")
		require.Empty(r, r.State().Behind)
	}},
	{name: "a retried delivery is ready at once where its line is empty", run: func(r *rig) {
		r.publishKeyed("a", "k", "m1")
		r.deliver(named("a", "m1"))
		require.Equal(r, []bool{true}, r.retry(named("a", "m1")))
		r.publishKeyed("a", "k", "m2")
		require.Equal(r, ids("a", "m1"), claimedIDs(r.claim(one, 64)))
		r.mustLie(PlaceBehind, "a", "m2")
	}},
	{name: "a retried delivery does not wait for its old time", run: func(r *rig) {
		r.schedule(r.entry("m2", to("a"), keyed("l"), delay(time.Hour)))
		r.cancel(named("a", "m2"))
		r.schedule(r.entry("m3", to("a"), keyed("l"), delay(time.Minute)))
		r.retry(named("a", "m2"))
		r.mustLie(PlaceBehind, "a", "m2")
		r.cancel(named("a", "m3"))
		r.mustLie(PlaceReady, "a", "m2")
	}},
	{name: "a retry does not move a delivery that is behind another", run: func(r *rig) {
		r.publishKeyed("a", "k", "m1", "m2")
		r.mustChangeNothing(func() { r.mustRefuse(dispatcher.ErrOrder, named("a", "m2")) })
	}},
	{name: "the first is retried before its time and stays the first", run: func(r *rig) {
		r.schedule(r.entry("m1", to("a"), keyed("k"), delay(time.Hour)))
		r.publishKeyed("a", "k", "m2")
		require.Equal(r, []bool{true}, r.retry(named("a", "m1")))
		require.Equal(r, ids("a", "m1"), claimedIDs(r.claim(one, 64)))
		r.mustLie(PlaceBehind, "a", "m2")
	}},
	{name: "a delivery behind another whose record was deleted by hand is skipped", run: func(r *rig) {
		r.publishKeyed("a", "k", "m1", "m2", "m3", "m4")
		r.Lose("m2")
		r.Lose("m3")
		r.deliver(named("a", "m1"))
		r.mustBeSound()
		r.mustClaim(one, named("a", "m4"))
	}},
	{name: "the last of a line may be lost", run: func(r *rig) {
		r.publishKeyed("a", "k", "m1", "m2")
		r.Lose("m2")
		r.deliver(named("a", "m1"))
		require.Empty(r, r.State().Behind)
		require.Zero(r, r.State().Lanes["a"].Waiting)
	}},
}

// takeOverKeyed is takeOver of a message with an ordering key.
func (r *rig) takeOverKeyed(lane dispatcher.Lane, key, id string) dispatcher.Claimed {
	r.Helper()
	victim := "victim-" + r.newID()
	r.publishKeyed(lane, key, id)
	got := r.claimWith(victim, 1, r.setup.Permits)
	require.Equal(r, ids(lane, id), claimedIDs(got))
	require.Equal(r, 1, r.reap(victim))
	return got[0]
}
