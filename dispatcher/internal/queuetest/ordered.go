package queuetest

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

// orderedCases are about ordered lanes, whose deliveries all wait in one line.
var orderedCases = []testCase{
	{name: "an ordered lane sends one at a time, whatever the keys", run: func(r *rig) {
		r.limit("a", ordered)
		r.publish("a", "m1", "m2")
		r.publishKeyed("a", "k", "m3")
		r.publishKeyed("a", "l", "m4")
		for _, id := range []string{"m1", "m2", "m3", "m4"} {
			c := r.claim(one, 64)
			require.Equal(r, ids("a", id), claimedIDs(c))
			r.mustClaimNothing(two)
			r.mustSettle(one, success(c[0]))
		}
	}},
	{name: "a failed delivery holds all others", run: func(r *rig) {
		r.limit("a", ordered)
		r.publish("a", "m1", "m2")
		r.mustSettle(one, failure(r.mustClaim(one, named("a", "m1"))[0], time.Minute))
		r.mustClaimNothing(one)
		require.Equal(r, "order", r.look(named("a", "m2")).WaitingFor)
		require.Equal(r, "rung", r.look(named("a", "m1")).WaitingFor)
		r.pass(time.Minute)
		r.move()
		r.deliver(named("a", "m1"))
		r.mustClaim(one, named("a", "m2"))
	}},
	{name: "a direct lease is one, and then no more", run: func(r *rig) {
		r.limit("a", ordered)
		got := r.scheduleFor(one, 512, 64, r.entry("m1", to("a")), r.entry("m2", to("a")))
		require.Equal(r, to("a"), got[0].Leased)
		require.Equal(r, to("a"), got[1].Behind)
	}},
	{name: "the window is one, also if it was larger before", run: func(r *rig) {
		for range 5 {
			r.succeed("a")
		}
		r.publishMany("a", 5)
		r.limit("a", ordered)
		require.Len(r, r.claim(one, 64), 1)
		require.Equal(r, 1, r.laneState("a").Window)
		require.Equal(r, "limit", r.look(named("a", "n00008")).WaitingFor)
	}},
	{name: "a lane that becomes ordered goes on with what it has, one at a time, then in line", run: func(r *rig) {
		for range 3 {
			r.succeed("a")
		}
		r.publish("a", "m1", "m2", "m3")
		c := r.claim(one, 2)
		r.limit("a", ordered)
		r.publish("a", "m4", "m5")
		r.mustLie(PlaceReady, "a", "m4")
		r.mustLie(PlaceBehind, "a", "m5")
		r.mustClaimNothing(two)
		r.mustSettle(one, success(c[0]))
		r.mustClaimNothing(two)
		r.mustSettle(one, success(c[1]))
		for _, id := range []string{"m3", "m4", "m5"} {
			r.deliver(named("a", id))
		}
	}},
	{name: "a lane that is not ordered any more serves its line, and new messages beside it", run: func(r *rig) {
		r.limit("a", ordered)
		r.publish("a", "m1", "m2", "m3")
		r.resume("a")
		r.publish("a", "m4")
		require.Equal(r, ids("a", "m1", "m4"), claimedIDs(r.claim(one, 64)))
		r.mustSettle(one, success(dispatcher.Claimed{ID: named("a", "m1"), Attempt: 1}))
		r.deliver(named("a", "m2"))
		r.deliver(named("a", "m3"))
		require.Zero(r, r.State().Lanes["a"].Keys)
	}},
	{name: "deliveries with a key wait for their key though the lane has become ordered", run: func(r *rig) {
		r.publishKeyed("a", "k", "m1", "m2")
		r.limit("a", ordered)
		r.publishKeyed("a", "k", "m3", "m4")
		require.Equal(r, 2, r.State().Lanes["a"].Keys)
		var got []string
		for range 4 {
			c := r.claim(one, 64)
			require.Len(r, c, 1)
			got = append(got, c[0].ID.Message)
			r.mustSettle(one, success(c[0]))
		}
		require.ElementsMatch(r, []string{"m1", "m2", "m3", "m4"}, got)
		require.Empty(r, r.State().Behind)
	}},
	{name: "a lost first lets the next one go", run: func(r *rig) {
		r.limit("a", ordered)
		r.publish("a", "m1", "m2")
		r.Lose("m1")
		r.mustClaimNothing(one)
		r.mustClaim(one, named("a", "m2"))
	}},
	{name: "a retried one joins the line that there is now", run: func(r *rig) {
		r.publishKeyed("a", "k", "m1")
		r.mustSettle(one, death(r.mustClaim(one, named("a", "m1"))[0], dispatcher.ReasonGone))
		r.limit("a", ordered)
		r.publish("a", "m2", "m3")
		r.retry(named("a", "m1"))
		for _, id := range []string{"m2", "m3", "m1"} {
			r.deliver(named("a", id))
		}
	}},
	{name: "a long line goes to its end", run: func(r *rig) {
		const n = 150
		r.limit("a", ordered)
		batch := make([]dispatcher.Entry, n)
		for i := range batch {
			batch[i] = r.entry(fmt.Sprintf("m%03d", n-i), to("a"))
		}
		r.schedule(batch...)
		for i := range n {
			r.deliver(named("a", fmt.Sprintf("m%03d", n-i)))
		}
	}},
	{name: "a long line is listed whole, also a page at a time", run: func(r *rig) {
		const n = 600
		r.limit(epOne, ordered)
		batch := make([]dispatcher.Entry, n)
		for i := range batch {
			batch[i] = r.entry(fmt.Sprintf("m%03d", i), to(epOne))
		}
		r.schedule(batch...)
		scheduled := dispatcher.Filter{Statuses: []dispatcher.Status{dispatcher.StatusScheduled}}
		for _, limit := range []int{97, 256, 500} {
			require.Len(r, r.listAll(dispatcher.Filter{}, limit), n)
			require.Len(r, r.listAll(scheduled, limit), n-1)
		}
		r.mustClaim(one, named(epOne, "m000"))
		require.Len(r, r.listAll(scheduled, 256), n-1, "also behind one in flight")
		r.limit(epOne, ordered, held(dispatcher.HeldDeleted))
		require.Empty(r, r.listAll(scheduled, 256))
		cancelled := dispatcher.Filter{Statuses: []dispatcher.Status{dispatcher.StatusCancelled}, Lanes: to(epOne)}
		for _, limit := range []int{97, 256, 500} {
			require.Len(r, r.listAll(cancelled, limit), n-1)
		}
	}},
	{name: "a paused line is held whole", run: func(r *rig) {
		r.limit("a", ordered)
		r.publish("a", "m1", "m2")
		c := r.mustClaim(one, named("a", "m1"))[0]
		r.limit("a", ordered, held(dispatcher.HeldPaused))
		r.mustSettle(one, success(c))
		r.mustLie(PlaceReady, "a", "m2")
		r.mustClaimNothing(one)
		r.limit("a", ordered)
		r.mustClaim(one, named("a", "m2"))
	}},
	{name: "an open ordered lane waits with its first", setup: Setup{Breaker: 1}, run: func(r *rig) {
		r.limit("a", ordered)
		r.publish("a", "m1", "m2")
		r.mustSettle(one, blamed(failure(r.mustClaim(one, named("a", "m1"))[0], time.Second)))
		r.pass(time.Second)
		require.Equal(r, start.Add(30*time.Second), r.move().Due)
		r.mustClaimNothing(one)
		r.pass(29 * time.Second)
		r.move()
		r.deliver(named("a", "m1"))
		r.deliver(named("a", "m2"))
	}},
}

// fullCases are about lanes in which as many deliveries wait as may.
var fullCases = []testCase{
	{name: "a message to a full lane is refused and leaves nothing", setup: Setup{MaxWaiting: 3}, run: func(r *rig) {
		r.publishMany("a", 3)
		r.mustChangeNothing(func() {
			require.Equal(r, []dispatcher.ScheduleResult{{Result: dispatcher.LaneFull}}, r.schedule(r.entry("m1", to("a"))))
		})
		require.Equal(r, dispatcher.LaneFull, r.schedule(r.entry("m1", to("a"), delay(time.Hour)))[0].Result)
		require.Equal(r, dispatcher.Accepted, r.schedule(r.entry("m1", to("b")))[0].Result, "another lane has room")
		r.mustSettle(one, failure(r.claim(one, 1)[0], time.Hour))
		require.Equal(r, dispatcher.LaneFull, r.schedule(r.entry("m2", to("a")))[0].Result, "it waits for its rung")
		r.claim(one, 1)
		require.Equal(r, dispatcher.Accepted, r.schedule(r.entry("m2", to("a")))[0].Result, "what is in flight does not wait")
	}},
	{name: "deliveries that are due later, or behind another, count as waiting", setup: Setup{MaxWaiting: 3}, run: func(r *rig) {
		r.schedule(r.entry("m1", to("a"), delay(time.Hour)))
		r.publishKeyed("a", "k", "m2", "m3")
		for _, e := range []dispatcher.Entry{
			r.entry("m4", to("a")), r.entry("m5", to("a"), delay(time.Hour)), r.entry("m6", to("a"), keyed("k")),
		} {
			r.mustChangeNothing(func() { require.Equal(r, dispatcher.LaneFull, r.schedule(e)[0].Result) })
		}
	}},
	{name: "a batch fills a lane and the rest of it is refused", setup: Setup{MaxWaiting: 3}, run: func(r *rig) {
		var batch []dispatcher.Entry
		for n := range 5 {
			batch = append(batch, r.entry(fmt.Sprintf("m%d", n), to("a")))
		}
		got := r.schedule(append(batch, r.entry("m4", to("b")), r.entry("m3", to("a"), body("other")))...)
		want := []dispatcher.Result{
			dispatcher.Accepted, dispatcher.Accepted, dispatcher.Accepted, dispatcher.LaneFull, dispatcher.LaneFull,
			dispatcher.Accepted, dispatcher.LaneFull,
		}
		for i, s := range got {
			require.Equal(r, want[i], s.Result, "%d", i)
		}
		require.Len(r, r.State().Ready["a"], 3)
	}},
	{name: "a known message is a duplicate or a conflict in a full lane too", setup: Setup{MaxWaiting: 1}, run: func(r *rig) {
		r.publish("a", "m1")
		r.mustChangeNothing(func() {
			require.Equal(r, dispatcher.Duplicate, r.schedule(r.entry("m1", to("a")))[0].Result)
			require.Equal(r, dispatcher.Conflict, r.schedule(r.entry("m1", to("a"), body("other")))[0].Result)
			require.Equal(r, dispatcher.LaneFull, r.schedule(r.entry("m2", to("a")))[0].Result)
		})
	}},
	{name: "a full lane that a repeat would add is not made, until there is room", setup: Setup{MaxWaiting: 1}, run: func(r *rig) {
		r.publish("a", "m1")
		r.publish("b", "m0")
		r.mustChangeNothing(func() {
			require.Equal(r, dispatcher.Duplicate, r.schedule(r.entry("m1", to("a", "b")))[0].Result)
		})
		r.mustSettle(one, success(r.claim(one, 2)[1]))
		got := r.schedule(r.entry("m1", to("a", "b")))
		require.Equal(r, dispatcher.Duplicate, got[0].Result)
		require.Equal(r, to("b"), got[0].Ready)
	}},
	{name: "a direct lease needs no room", setup: Setup{MaxWaiting: 1}, run: func(r *rig) {
		r.schedule(r.entry("m1", to("a"), delay(time.Hour)))
		got := r.scheduleFor(one, 512, 64, r.entry("m2", to("a")), r.entry("m3", to("a")), r.entry("m4", to("a")))
		require.Equal(r, to("a"), got[0].Leased)
		require.Equal(r, to("a"), got[1].Leased)
		require.Equal(r, dispatcher.LaneFull, got[2].Result, "its window is full, so it would wait")
	}},
	{name: "a lane that is full of cancelled deliveries has room", setup: Setup{MaxWaiting: 100}, run: func(r *rig) {
		r.limit("a", held(dispatcher.HeldPaused))
		r.publishMany("a", 100)
		require.Equal(r, dispatcher.LaneFull, r.schedule(r.entry("new", to("a")))[0].Result)
		all := r.State().Ready["a"]
		require.NotContains(r, r.cancel(all...), false)
		require.Equal(r, map[dispatcher.Status]int64{dispatcher.StatusCancelled: 100}, r.stats().Counts)
		require.Equal(r, 0, r.laneState("a").Waiting)
		require.Equal(r, dispatcher.Accepted, r.schedule(r.entry("new", to("a")))[0].Result)
		require.Equal(r, []bool{false, true}, append(r.cancel(all[0]), r.retry(all[0])...))
		r.resume("a")
		r.mustClaim(one, named("a", "new"), all[0])
	}},
	{name: "a delivery that is cancelled in an open lane leaves its line", setup: Setup{MaxWaiting: 4, Breaker: 1}, run: func(r *rig) {
		r.publishKeyed("a", "k", "m1", "m2", "m3")
		r.publish("a", "m4")
		s := silence(r.claim(one, 1)[0], time.Hour)
		s.Blame = true
		r.mustSettle(one, s)
		require.Equal(r, []bool{true, true, true}, r.cancel(ids("a", "m1", "m2", "m4")...))
		r.mustLie(PlaceReady, "a", "m3")
		r.mustLie(PlaceCancelled, "a", "m1", "m2", "m4")
		require.Equal(r, []bool{true}, r.cancel(ids("a", "m3")...))
		require.Zero(r, r.laneState("a").Waiting)
	}},
	{name: "of a fan-out the full lane's delivery is dead and the others go on", setup: Setup{MaxWaiting: 1}, run: func(r *rig) {
		r.publish("a", "m0")
		got := r.schedule(fan(r.entry("m1", to("a", "b", "c"), delay(time.Minute))))
		require.Equal(r, dispatcher.Accepted, got[0].Result)
		require.Equal(r, map[dispatcher.Lane]dispatcher.DeadReason{"a": dispatcher.ReasonOverflow}, got[0].Dead)
		d := r.mustStand(named("a", "m1"), dispatcher.StatusDead)
		require.Equal(r, dispatcher.ReasonOverflow, d.Reason)
		require.Zero(r, d.Attempts)
		require.Equal(r, r.now, d.Ended)
		r.mustStand(named("b", "m1"), dispatcher.StatusScheduled)
		require.Equal(r, []string{"dead overflow"}, r.State().Told[d.ID])
		require.Equal(r, map[dispatcher.DeadReason]int64{dispatcher.ReasonOverflow: 1}, r.stats().Dead)
		require.Equal(r, []bool{true}, r.retry(named("a", "m1")), "a person may put it there")
		require.Equal(r, ids("a", "m0", "m1"), r.State().Ready["a"])
	}},
	{name: "a fan-out to one full lane is accepted and dead", setup: Setup{MaxWaiting: 1}, run: func(r *rig) {
		r.publish("a", "m0")
		got := r.schedule(fan(r.entry("m1", to("a"))))
		require.Equal(r, dispatcher.Accepted, got[0].Result)
		r.mustStand(named("a", "m1"), dispatcher.StatusDead)
	}},
	{name: "a delivery that ends at once in a disabled lane needs no room", setup: Setup{MaxWaiting: 1}, run: func(r *rig) {
		r.limit(epOne)
		r.schedule(r.entry("m0", to(epOne), delay(time.Hour)))
		r.end(disabled)
		require.Equal(r, dispatcher.Accepted, r.schedule(r.entry("m1", to(epOne)))[0].Result)
		got := r.schedule(fan(r.entry("m2", to(epOne, "a"))))
		require.Equal(r, map[dispatcher.Lane]dispatcher.DeadReason{epOne: dispatcher.ReasonDisabled}, got[0].Dead)
	}},
	{name: "a delivery that comes back to a full lane is not refused", setup: Setup{MaxWaiting: 1}, run: func(r *rig) {
		r.publish("a", "m1")
		c := r.mustClaim(one, named("a", "m1"))[0]
		r.publish("a", "m2")
		r.mustSettle(one, handBack(c))
		c = r.mustClaim(one, named("a", "m1"))[0]
		r.mustSettle(one, failure(c, 0))
		r.move()
		require.Equal(r, ids("a", "m2", "m1"), r.State().Ready["a"])
	}},
}
