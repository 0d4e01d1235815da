package redisq_test

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// OrderedCases are about ordered lanes. All their deliveries wait in one line.
var OrderedCases = []redisqtest.Case{
	{Name: "an ordered lane sends one at a time, also with several keys", Run: func(r *redisqtest.Rig) {
		r.Limit("a", redisqtest.Ordered)
		r.Publish("a", "m1", "m2")
		r.PublishKeyed("a", "k", "m3")
		r.PublishKeyed("a", "l", "m4")
		for _, id := range []string{"m1", "m2", "m3", "m4"} {
			c := r.Claim(redisqtest.One, 64)
			require.Equal(r, redisqtest.IDs("a", id), redisqtest.ClaimedIDs(c))
			r.MustClaimNothing(redisqtest.Two)
			r.MustSettle(redisqtest.One, redisqtest.Success(c[0]))
		}
	}},
	{Name: "a delivery that waits for a retry blocks all others", Run: func(r *redisqtest.Rig) {
		r.Limit("a", redisqtest.Ordered)
		r.Publish("a", "m1", "m2")
		r.MustSettle(redisqtest.One, redisqtest.Failure(r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0], time.Minute))
		r.MustClaimNothing(redisqtest.One)
		mustWaitFor(r, "order", "a", "m2")
		mustWaitBehind(r, "a", map[string]int{"m1": 0, "m2": 1})
		require.Equal(r, "rung", r.Inspect(redisqtest.Named("a", "m1")).WaitingFor)
		r.Pass(time.Minute)
		r.Move()
		r.Deliver(redisqtest.Named("a", "m1"))
		r.MustClaim(redisqtest.One, redisqtest.Named("a", "m2"))
	}},
	{Name: "an ordered lane has one direct lease at most", Run: func(r *redisqtest.Rig) {
		r.Limit("a", redisqtest.Ordered)
		got := r.ScheduleFor(redisqtest.One, 512, 64, r.Entry("m1", redisqtest.To("a")), r.Entry("m2", redisqtest.To("a")))
		require.Equal(r, redisqtest.To("a"), redisqtest.Leased(got[0]))
		require.Equal(r, redisqtest.To("a"), redisqtest.Behind(got[1]))
	}},
	{Name: "the window is one, also if it was larger before", Run: func(r *redisqtest.Rig) {
		for range 5 {
			r.Succeed("a")
		}
		r.PublishMany("a", 5)
		r.Limit("a", redisqtest.Ordered)
		require.Len(r, r.Claim(redisqtest.One, 64), 1)
		require.Equal(r, 1, r.LaneState("a").Window)
		require.Equal(r, "limit", r.Inspect(redisqtest.Named("a", "n00008")).WaitingFor)
	}},
	{Name: "a lane that becomes ordered first sends its old deliveries one at a time, then its line", Run: func(r *redisqtest.Rig) {
		for range 3 {
			r.Succeed("a")
		}
		r.Publish("a", "m1", "m2", "m3")
		c := r.Claim(redisqtest.One, 2)
		r.Limit("a", redisqtest.Ordered)
		r.Publish("a", "m4", "m5")
		r.MustLie(redisqtest.PlaceReady, "a", "m4")
		r.MustLie(redisqtest.PlaceBehind, "a", "m5")
		r.MustClaimNothing(redisqtest.Two)
		r.MustSettle(redisqtest.One, redisqtest.Success(c[0]))
		r.MustClaimNothing(redisqtest.Two)
		r.MustSettle(redisqtest.One, redisqtest.Success(c[1]))
		for _, id := range []string{"m3", "m4", "m5"} {
			r.Deliver(redisqtest.Named("a", id))
		}
	}},
	{Name: "a lane that is no longer ordered sends its line, and new messages at the same time", Run: func(r *redisqtest.Rig) {
		r.Limit("a", redisqtest.Ordered)
		r.Publish("a", "m1", "m2", "m3")
		r.Resume("a")
		r.Publish("a", "m4")
		require.Equal(r, redisqtest.IDs("a", "m1", "m4"), redisqtest.ClaimedIDs(r.Claim(redisqtest.One, 64)))
		r.MustSettle(redisqtest.One, redisqtest.Success(dispatcher.Claimed{ID: redisqtest.Named("a", "m1"), Attempt: 1}))
		r.Deliver(redisqtest.Named("a", "m2"))
		r.Deliver(redisqtest.Named("a", "m3"))
		require.Zero(r, r.State().Lanes["a"].Keys)
	}},
	{Name: "deliveries with a key wait for their key even after the lane becomes ordered", Run: func(r *redisqtest.Rig) {
		r.PublishKeyed("a", "k", "m1", "m2")
		r.Limit("a", redisqtest.Ordered)
		r.PublishKeyed("a", "k", "m3", "m4")
		require.Equal(r, 2, r.State().Lanes["a"].Keys)
		var got []string
		for range 4 {
			c := r.Claim(redisqtest.One, 64)
			require.Len(r, c, 1)
			got = append(got, c[0].ID.Message)
			r.MustSettle(redisqtest.One, redisqtest.Success(c[0]))
		}
		require.ElementsMatch(r, []string{"m1", "m2", "m3", "m4"}, got)
		require.Empty(r, r.State().Behind)
	}},
	{Name: "the next one can go when the first is lost", Run: func(r *redisqtest.Rig) {
		r.Limit("a", redisqtest.Ordered)
		r.Publish("a", "m1", "m2")
		r.Lose("m1")
		r.MustClaimNothing(redisqtest.One)
		r.MustClaim(redisqtest.One, redisqtest.Named("a", "m2"))
	}},
	{Name: "a retried delivery joins the lane's current line", Run: func(r *redisqtest.Rig) {
		r.PublishKeyed("a", "k", "m1")
		r.MustSettle(redisqtest.One, redisqtest.Death(r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0], dispatcher.ReasonGone))
		r.Limit("a", redisqtest.Ordered)
		r.Publish("a", "m2", "m3")
		r.Retry(redisqtest.Named("a", "m1"))
		for _, id := range []string{"m2", "m3", "m1"} {
			r.Deliver(redisqtest.Named("a", id))
		}
	}},
	{Name: "a long line is sent to its end", Run: func(r *redisqtest.Rig) {
		const n = 150
		r.Limit("a", redisqtest.Ordered)
		batch := make([]dispatcher.Entry, n)
		for i := range batch {
			batch[i] = r.Entry(fmt.Sprintf("m%03d", n-i), redisqtest.To("a"))
		}
		r.Schedule(batch...)
		for i := range n {
			r.Deliver(redisqtest.Named("a", fmt.Sprintf("m%03d", n-i)))
		}
	}},
	{Name: "a list returns a whole long line, also page by page", Run: func(r *redisqtest.Rig) {
		const n = 600
		r.Limit(redisqtest.EpOne, redisqtest.Ordered)
		batch := make([]dispatcher.Entry, n)
		for i := range batch {
			batch[i] = r.Entry(fmt.Sprintf("m%03d", i), redisqtest.To(redisqtest.EpOne))
		}
		r.Schedule(batch...)
		scheduled := dispatcher.Filter{Statuses: []dispatcher.Status{dispatcher.StatusScheduled}}
		for _, limit := range []int{97, 256, 500} {
			require.Len(r, r.ListAll(dispatcher.Filter{}, limit), n)
			require.Len(r, r.ListAll(scheduled, limit), n-1)
		}
		r.MustClaim(redisqtest.One, redisqtest.Named(redisqtest.EpOne, "m000"))
		require.Len(r, r.ListAll(scheduled, 256), n-1, "also behind one in flight")
		r.Limit(redisqtest.EpOne, redisqtest.Ordered, redisqtest.Mode(dispatcher.LaneDeleted))
		require.Empty(r, r.ListAll(scheduled, 256))
		cancelled := dispatcher.Filter{Statuses: []dispatcher.Status{dispatcher.StatusCancelled}, Lanes: redisqtest.To(redisqtest.EpOne)}
		for _, limit := range []int{97, 256, 500} {
			require.Len(r, r.ListAll(cancelled, limit), n-1)
		}
	}},
	{Name: "a pause stops the whole line", Run: func(r *redisqtest.Rig) {
		r.Limit("a", redisqtest.Ordered)
		r.Publish("a", "m1", "m2")
		c := r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0]
		r.Limit("a", redisqtest.Ordered, redisqtest.Mode(dispatcher.LanePaused))
		r.MustSettle(redisqtest.One, redisqtest.Success(c))
		r.MustLie(redisqtest.PlaceReady, "a", "m2")
		r.MustClaimNothing(redisqtest.One)
		r.Limit("a", redisqtest.Ordered)
		r.MustClaim(redisqtest.One, redisqtest.Named("a", "m2"))
	}},
	{Name: "an ordered lane with an open breaker waits with its first", Setup: redisqtest.Setup{Breaker: 1}, Run: func(r *redisqtest.Rig) {
		r.Limit("a", redisqtest.Ordered)
		r.Publish("a", "m1", "m2")
		r.MustSettle(redisqtest.One, redisqtest.Blamed(redisqtest.Failure(r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0], time.Second)))
		r.Pass(time.Second)
		require.Equal(r, redisqtest.Start.Add(30*time.Second), r.Move().Due)
		r.MustClaimNothing(redisqtest.One)
		r.Pass(29 * time.Second)
		r.Move()
		r.Deliver(redisqtest.Named("a", "m1"))
		r.Deliver(redisqtest.Named("a", "m2"))
	}},
}

// FullCases are about lanes with the highest number of waiting deliveries.
var FullCases = []redisqtest.Case{
	{Name: "a message to a full lane is refused and leaves nothing", Setup: redisqtest.Setup{MaxWaiting: 3}, Run: func(r *redisqtest.Rig) {
		r.PublishMany("a", 3)
		r.MustChangeNothing(func() {
			require.Equal(r, []dispatcher.ScheduleResult{{Result: dispatcher.LaneFull, Placed: []dispatcher.Placed{{Lane: "a"}}}}, r.Schedule(r.Entry("m1", redisqtest.To("a"))))
		})
		require.Equal(r, dispatcher.LaneFull, r.Schedule(r.Entry("m1", redisqtest.To("a"), redisqtest.Delay(time.Hour)))[0].Result)
		require.Equal(r, dispatcher.Accepted, r.Schedule(r.Entry("m1", redisqtest.To("b")))[0].Result, "another lane has room")
		r.MustSettle(redisqtest.One, redisqtest.Failure(r.Claim(redisqtest.One, 1)[0], time.Hour))
		require.Equal(r, dispatcher.LaneFull, r.Schedule(r.Entry("m2", redisqtest.To("a")))[0].Result, "it waits for its retry")
		r.Claim(redisqtest.One, 1)
		require.Equal(r, dispatcher.Accepted, r.Schedule(r.Entry("m2", redisqtest.To("a")))[0].Result, "a delivery in flight does not wait")
	}},
	{Name: "deliveries that are due later, or behind another, count as waiting", Setup: redisqtest.Setup{MaxWaiting: 3}, Run: func(r *redisqtest.Rig) {
		r.Schedule(r.Entry("m1", redisqtest.To("a"), redisqtest.Delay(time.Hour)))
		r.PublishKeyed("a", "k", "m2", "m3")
		for _, e := range []dispatcher.Entry{
			r.Entry("m4", redisqtest.To("a")), r.Entry("m5", redisqtest.To("a"), redisqtest.Delay(time.Hour)), r.Entry("m6", redisqtest.To("a"), redisqtest.Keyed("k")),
		} {
			r.MustChangeNothing(func() { require.Equal(r, dispatcher.LaneFull, r.Schedule(e)[0].Result) })
		}
	}},
	{Name: "a batch fills a lane and the rest of it is refused", Setup: redisqtest.Setup{MaxWaiting: 3}, Run: func(r *redisqtest.Rig) {
		var batch []dispatcher.Entry
		for n := range 5 {
			batch = append(batch, r.Entry(fmt.Sprintf("m%d", n), redisqtest.To("a")))
		}
		got := r.Schedule(append(batch, r.Entry("m4", redisqtest.To("b")), r.Entry("m3", redisqtest.To("a"), redisqtest.Body("other")))...)
		want := []dispatcher.Result{
			dispatcher.Accepted, dispatcher.Accepted, dispatcher.Accepted, dispatcher.LaneFull, dispatcher.LaneFull,
			dispatcher.Accepted, dispatcher.LaneFull,
		}
		for i, s := range got {
			require.Equal(r, want[i], s.Result, "%d", i)
		}
		require.Len(r, r.State().Ready["a"], 3)
	}},
	{Name: "a full lane reports a duplicate or a conflict for a known message too", Setup: redisqtest.Setup{MaxWaiting: 1}, Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		r.MustChangeNothing(func() {
			require.Equal(r, dispatcher.Duplicate, r.Schedule(r.Entry("m1", redisqtest.To("a")))[0].Result)
			require.Equal(r, dispatcher.Conflict, r.Schedule(r.Entry("m1", redisqtest.To("a"), redisqtest.Body("other")))[0].Result)
			require.Equal(r, dispatcher.LaneFull, r.Schedule(r.Entry("m2", redisqtest.To("a")))[0].Result)
		})
	}},
	{Name: "a repeat does not add a delivery to a full lane until there is room", Setup: redisqtest.Setup{MaxWaiting: 1}, Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		r.Publish("b", "m0")
		r.MustChangeNothing(func() {
			require.Equal(r, dispatcher.Duplicate, r.Schedule(r.Entry("m1", redisqtest.To("a", "b")))[0].Result)
		})
		r.MustSettle(redisqtest.One, redisqtest.Success(r.Claim(redisqtest.One, 2)[1]))
		got := r.Schedule(r.Entry("m1", redisqtest.To("a", "b")))
		require.Equal(r, dispatcher.Duplicate, got[0].Result)
		require.Equal(r, redisqtest.To("b"), redisqtest.Ready(got[0]))
	}},
	{Name: "a direct lease needs no room", Setup: redisqtest.Setup{MaxWaiting: 1}, Run: func(r *redisqtest.Rig) {
		r.Schedule(r.Entry("m1", redisqtest.To("a"), redisqtest.Delay(time.Hour)))
		got := r.ScheduleFor(redisqtest.One, 512, 64, r.Entry("m2", redisqtest.To("a")), r.Entry("m3", redisqtest.To("a")), r.Entry("m4", redisqtest.To("a")))
		require.Equal(r, redisqtest.To("a"), redisqtest.Leased(got[0]))
		require.Equal(r, redisqtest.To("a"), redisqtest.Leased(got[1]))
		require.Equal(r, dispatcher.LaneFull, got[2].Result, "its window is full, so it would wait")
	}},
	{Name: "a lane that is full of cancelled deliveries has room", Setup: redisqtest.Setup{MaxWaiting: 100}, Run: func(r *redisqtest.Rig) {
		r.Limit("a", redisqtest.Mode(dispatcher.LanePaused))
		r.PublishMany("a", 100)
		require.Equal(r, dispatcher.LaneFull, r.Schedule(r.Entry("new", redisqtest.To("a")))[0].Result)
		all := r.State().Ready["a"]
		require.NotContains(r, r.Cancel(all...), false)
		require.Equal(r, map[dispatcher.Status]int64{dispatcher.StatusCancelled: 100}, r.Stats().Counts)
		require.Equal(r, 0, r.LaneState("a").Waiting)
		require.Equal(r, dispatcher.Accepted, r.Schedule(r.Entry("new", redisqtest.To("a")))[0].Result)
		require.Equal(r, []bool{false, true}, append(r.Cancel(all[0]), r.Retry(all[0])...))
		r.Resume("a")
		r.MustClaim(redisqtest.One, redisqtest.Named("a", "new"), all[0])
	}},
	{Name: "a delivery that is cancelled in an open lane leaves its line", Setup: redisqtest.Setup{MaxWaiting: 4, Breaker: 1}, Run: func(r *redisqtest.Rig) {
		r.PublishKeyed("a", "k", "m1", "m2", "m3")
		r.Publish("a", "m4")
		s := redisqtest.Silence(r.Claim(redisqtest.One, 1)[0], time.Hour)
		s.Blame = true
		r.MustSettle(redisqtest.One, s)
		require.Equal(r, []bool{true, true, true}, r.Cancel(redisqtest.IDs("a", "m1", "m2", "m4")...))
		r.MustLie(redisqtest.PlaceReady, "a", "m3")
		r.MustLie(redisqtest.PlaceCancelled, "a", "m1", "m2", "m4")
		require.Equal(r, []bool{true}, r.Cancel(redisqtest.IDs("a", "m3")...))
		require.Zero(r, r.LaneState("a").Waiting)
	}},
	{Name: "a fan-out's delivery to a full lane is dead, and the others continue", Setup: redisqtest.Setup{MaxWaiting: 1}, Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m0")
		got := r.Schedule(redisqtest.Fan(r.Entry("m1", redisqtest.To("a", "b", "c"), redisqtest.Delay(time.Minute))))
		require.Equal(r, dispatcher.Accepted, got[0].Result)
		require.Equal(r, map[dispatcher.Lane]dispatcher.DeadReason{"a": dispatcher.ReasonOverflow}, redisqtest.Dead(got[0]))
		d := r.MustStand(redisqtest.Named("a", "m1"), dispatcher.StatusDead)
		require.Equal(r, dispatcher.ReasonOverflow, d.Reason)
		require.Zero(r, d.Attempts)
		require.Equal(r, r.Now, d.Ended)
		r.MustStand(redisqtest.Named("b", "m1"), dispatcher.StatusScheduled)
		require.Equal(r, []string{"dead overflow"}, r.State().Reported[d.ID])
		require.Equal(r, map[dispatcher.DeadReason]int64{dispatcher.ReasonOverflow: 1}, r.Stats().Dead)
		require.Equal(r, []bool{true}, r.Retry(redisqtest.Named("a", "m1")), "an operator may retry it there")
		require.Equal(r, redisqtest.IDs("a", "m0", "m1"), r.State().Ready["a"])
	}},
	{Name: "a fan-out to one full lane is accepted and dead", Setup: redisqtest.Setup{MaxWaiting: 1}, Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m0")
		got := r.Schedule(redisqtest.Fan(r.Entry("m1", redisqtest.To("a"))))
		require.Equal(r, dispatcher.Accepted, got[0].Result)
		r.MustStand(redisqtest.Named("a", "m1"), dispatcher.StatusDead)
	}},
	{Name: "a delivery that ends at once in a disabled lane needs no room", Setup: redisqtest.Setup{MaxWaiting: 1}, Run: func(r *redisqtest.Rig) {
		r.Limit(redisqtest.EpOne)
		r.Schedule(r.Entry("m0", redisqtest.To(redisqtest.EpOne), redisqtest.Delay(time.Hour)))
		end(r, disabled)
		require.Equal(r, dispatcher.Accepted, r.Schedule(r.Entry("m1", redisqtest.To(redisqtest.EpOne)))[0].Result)
		got := r.Schedule(redisqtest.Fan(r.Entry("m2", redisqtest.To(redisqtest.EpOne, "a"))))
		require.Equal(r, map[dispatcher.Lane]dispatcher.DeadReason{redisqtest.EpOne: dispatcher.ReasonDisabled}, redisqtest.Dead(got[0]))
	}},
	{Name: "a delivery that comes back to a full lane is not refused", Setup: redisqtest.Setup{MaxWaiting: 1}, Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		c := r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0]
		r.Publish("a", "m2")
		r.MustSettle(redisqtest.One, redisqtest.HandBack(c))
		c = r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0]
		r.MustSettle(redisqtest.One, redisqtest.Failure(c, 0))
		r.Move()
		require.Equal(r, redisqtest.IDs("a", "m2", "m1"), r.State().Ready["a"])
	}},
}
