package redisq_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// TakeCases are about lanes with consumers. A consumer polls for deliveries, and no
// worker calls a URL.
var TakeCases = []redisqtest.Case{
	{Name: "a queue's delivery is taken, and neither leased at once nor claimed", Run: func(r *redisqtest.Rig) {
		got := r.ScheduleFor(redisqtest.One, 64, 64, r.Entry("m1", redisqtest.To("q_a")))
		require.Equal(r, redisqtest.To("q_a"), redisqtest.Ready(got[0]))
		r.MustClaimNothing(redisqtest.One)
		r.MustBeSound()
		claimed := r.MustTake(redisqtest.One, "q_a", redisqtest.Named("q_a", "m1"))
		require.Equal(r, 1, claimed[0].Attempt)
		require.True(r, claimed[0].First)
		require.Equal(r, redisqtest.IDs("q_a", "m1"), r.Leases(redisqtest.One))
		require.Equal(r, dispatcher.StatusInFlight, r.Inspect(redisqtest.Named("q_a", "m1")).Status)
		r.MustTake(redisqtest.Two, "q_a")
		r.MustSettle(redisqtest.One, redisqtest.Success(claimed[0]))
		require.Equal(r, dispatcher.StatusDelivered, r.Inspect(redisqtest.Named("q_a", "m1")).Status)
	}},
	{Name: "a snoozed delivery waits without an attempt, and its snoozes are counted", Run: func(r *redisqtest.Rig) {
		r.Publish("q_a", "m1")
		id := redisqtest.Named("q_a", "m1")
		for n := range 3 {
			c := r.MustTake(redisqtest.One, "q_a", id)[0]
			require.Equal(r, []int{1, 1, n}, []int{c.Attempt, c.Rung, c.Snoozes})
			r.MustSettle(redisqtest.One, redisqtest.Snooze(c, time.Minute))
			r.MustStand(id, dispatcher.StatusScheduled)
			require.Zero(r, r.State().History[id])
			r.MustBeSound()
			require.Equal(r, []dispatcher.SettleResult{dispatcher.SettledLate}, r.Settle(redisqtest.One, redisqtest.Snooze(c, time.Hour)), "its response was lost")
			r.MustTake(redisqtest.One, "q_a")
			r.Pass(time.Minute)
			r.Move()
		}
		c := r.MustTake(redisqtest.One, "q_a", id)[0]
		r.MustSettle(redisqtest.One, redisqtest.Failure(c, time.Minute))
		r.MustStand(id, dispatcher.StatusRetrying)
		r.Pass(time.Minute)
		r.Move()
		c = r.MustTake(redisqtest.One, "q_a", id)[0]
		require.Equal(r, []int{2, 2, 3}, []int{c.Attempt, c.Rung, c.Snoozes})
		require.Equal(r, "answered 500", c.LastError)
		r.MustSettle(redisqtest.One, redisqtest.Snooze(c, time.Minute))
		r.MustStand(id, dispatcher.StatusRetrying)
		r.Pass(time.Minute)
		r.Move()
		c = r.MustTake(redisqtest.One, "q_a", id)[0]
		require.Equal(r, []int{2, 2, 4}, []int{c.Attempt, c.Rung, c.Snoozes})
		r.MustSettle(redisqtest.One, redisqtest.Death(c, dispatcher.ReasonRejected))
		r.Retry(id)
		c = r.MustTake(redisqtest.One, "q_a", id)[0]
		require.Equal(r, []int{3, 1, 0}, []int{c.Attempt, c.Rung, c.Snoozes}, "a new ladder")
		r.MustSettle(redisqtest.One, redisqtest.Success(c))
		r.MustStand(id, dispatcher.StatusDelivered)
		r.MustBeSound()
	}},
	{Name: "a snooze keeps the first success of a delivery that is sent again, and forgets the deaths of its instances", Run: func(r *redisqtest.Rig) {
		r.Publish("q_a", "m1")
		id := redisqtest.Named("q_a", "m1")
		r.MustSettle(redisqtest.One, redisqtest.Success(r.MustTake(redisqtest.One, "q_a", id)[0]))
		delivered := r.Inspect(id).Delivered
		r.Pass(time.Hour)
		r.Retry(id)
		r.MustSettle(redisqtest.One, redisqtest.Snooze(r.MustTake(redisqtest.One, "q_a", id)[0], 0))
		r.Move()
		require.Equal(r, delivered, r.Inspect(id).Delivered)
		c := r.MustTake(redisqtest.One, "q_a", id)[0]
		require.Equal(r, 1, c.Snoozes)
		r.MustSettle(redisqtest.One, redisqtest.Success(c))
		r.Retry(id)
		require.Equal(r, delivered, r.Inspect(id).Delivered)
		r.MustBeSound()
	}},
	{Name: "a delivery of an endpoint with consumers is taken too", Run: func(r *redisqtest.Rig) {
		r.Publish(redisqtest.EpOne, "m1")
		r.MustTake(redisqtest.One, redisqtest.EpOne)
		r.Limit(redisqtest.EpOne, redisqtest.Pulled)
		r.MustClaimNothing(redisqtest.One)
		claimed := r.MustTake(redisqtest.One, redisqtest.EpOne, redisqtest.Named(redisqtest.EpOne, "m1"))
		require.Equal(r, int64(1), claimed[0].Version)
		require.Equal(r, dispatcher.LaneLimits{Version: 1, Pull: true}, r.LaneState(redisqtest.EpOne).Limits)
	}},
	{Name: "nothing is taken from a lane whose deliveries go to a URL", Run: func(r *redisqtest.Rig) {
		r.Limit(redisqtest.EpOne)
		r.Publish("a", "m1")
		r.Publish(redisqtest.EpOne, "m2")
		require.Empty(r, r.Take(redisqtest.One, 64, "a", redisqtest.EpOne).Claimed)
		require.Len(r, r.ClaimAll(redisqtest.One), 2)
	}},
	{Name: "a lane with consumers has no slow start, and no more than its limit", Setup: redisqtest.Setup{LaneMaxInFlight: 10}, Run: func(r *redisqtest.Rig) {
		r.PublishMany("q_a", 15)
		taken := r.Take(redisqtest.One, 64, "q_a")
		require.Len(r, taken.Claimed, 10)
		require.Empty(r, taken.More)
		require.Empty(r, r.Take(redisqtest.Two, 64, "q_a").Claimed)
		r.MustSettle(redisqtest.One, redisqtest.Silence(taken.Claimed[0], time.Hour))
		require.Len(r, r.Take(redisqtest.Two, 64, "q_a").Claimed, 1)
	}},
	{Name: "the speed of its consumers does not change a lane", Run: func(r *redisqtest.Rig) {
		r.PublishMany("q_a", 3)
		before := r.State().Lanes["q_a"]
		for i, took := range []time.Duration{time.Millisecond, 2 * time.Second} {
			c := r.Take(redisqtest.One, 1, "q_a").Claimed[0]
			r.MustSettle(redisqtest.One, redisqtest.Took(redisqtest.Success(c), took))
			after := r.State().Lanes["q_a"]
			require.Equal(r, before.Window, after.Window, "success %d", i)
			require.Equal(r, before.Slow, after.Slow, "success %d", i)
		}
		r.MustSettle(redisqtest.One, redisqtest.Failure(r.Take(redisqtest.One, 1, "q_a").Claimed[0], time.Minute))
		require.Equal(r, before.Window, r.State().Lanes["q_a"].Window)
		r.MustBeSound()
	}},
	{Name: "several lanes get equal shares, and the others share the rest of a short one", Run: func(r *redisqtest.Rig) {
		r.PublishMany("q_a", 20)
		r.PublishMany("q_b", 20)
		r.PublishMany("q_c", 3)
		taken := r.Take(redisqtest.One, 30, "q_a", "q_b", "q_c", "q_d")
		of := map[dispatcher.Lane]int{}
		for _, c := range taken.Claimed {
			of[c.ID.Lane]++
		}
		require.Len(r, taken.Claimed, 30)
		require.Equal(r, 3, of["q_c"])
		require.GreaterOrEqual(r, of["q_b"], 8)
		require.GreaterOrEqual(r, of["q_a"], 8)
		require.ElementsMatch(r, redisqtest.To("q_a", "q_b"), taken.More)
		require.Len(r, r.Take(redisqtest.One, 64, "q_a", "q_b", "q_c").Claimed, 13)
	}},
	{Name: "a take queries the next partitions for the rest if the first ones have too little", Setup: redisqtest.Spread, Run: func(r *redisqtest.Rig) {
		lanes := redisqtest.To()
		for n := range 20 {
			lanes = append(lanes, dispatcher.Lane(fmt.Sprintf("q_%d", n)))
		}
		last := lanes[len(lanes)-1]
		r.PublishMany(last, 2)
		taken := r.Take(redisqtest.One, 1, lanes...)
		require.Len(r, taken.Claimed, 1)
		require.Contains(r, taken.More, last)
		require.Len(r, r.Take(redisqtest.One, 1, lanes...).Claimed, 1)
		taken = r.Take(redisqtest.One, 1, lanes...)
		require.Empty(r, taken.Claimed)
		require.Empty(r, taken.More)
	}},
	{Name: "a take of nothing returns the lanes that have work", Setup: redisqtest.Spread, Run: func(r *redisqtest.Rig) {
		r.Publish("q_a", "m1")
		r.Publish("q_b", "m2")
		r.Publish("q_c", "m3")
		r.Limit("q_c", redisqtest.Mode(dispatcher.LanePaused))
		r.MustTake(redisqtest.One, "q_b", redisqtest.Named("q_b", "m2"))
		for range 2 {
			taken := r.Take(redisqtest.Two, 0, "q_a", "q_b", "q_c", "q_d")
			require.Empty(r, taken.Claimed)
			require.Equal(r, redisqtest.To("q_a"), taken.More)
			r.MustBeSound()
		}
	}},
	{Name: "a rate, an order and a pause apply to consumers", Run: func(r *redisqtest.Rig) {
		r.Limit(redisqtest.EpOne, redisqtest.Pulled, redisqtest.Every(time.Second))
		r.PublishMany(redisqtest.EpOne, 3)
		require.Len(r, r.Take(redisqtest.One, 64, redisqtest.EpOne).Claimed, 1)
		require.Empty(r, r.Take(redisqtest.One, 64, redisqtest.EpOne).Claimed)
		r.MustBeSound()
		r.Pass(time.Second)
		r.Move()
		require.Len(r, r.Take(redisqtest.One, 64, redisqtest.EpOne).Claimed, 1)

		r.PublishKeyed("q_a", "k", "k1", "k2")
		r.Publish("q_a", "m1")
		first := r.MustTake(redisqtest.One, "q_a", redisqtest.IDs("q_a", "k1", "m1")...)
		r.MustTake(redisqtest.One, "q_a")
		r.MustSettle(redisqtest.One, redisqtest.Success(first[0]))
		r.MustTake(redisqtest.One, "q_a", redisqtest.Named("q_a", "k2"))

		r.Limit("q_a", redisqtest.Mode(dispatcher.LanePaused))
		r.Publish("q_a", "m2")
		r.MustTake(redisqtest.One, "q_a")
		r.MustBeSound()
		r.Resume("q_a")
		r.Limit(dispatcher.AllLanes, redisqtest.Mode(dispatcher.LanePaused))
		r.MustTake(redisqtest.One, "q_a")
		r.Limit(dispatcher.AllLanes)
		r.MustTake(redisqtest.One, "q_a", redisqtest.Named("q_a", "m2"))
	}},
	{Name: "a cancelled or expired delivery is not taken", Run: func(r *redisqtest.Rig) {
		r.Publish("q_a", "m1", "m2")
		r.Schedule(r.Entry("m3", redisqtest.To("q_a"), redisqtest.Expires(r.Later(time.Minute))))
		r.Cancel(redisqtest.Named("q_a", "m1"))
		r.Pass(time.Minute)
		r.MustTake(redisqtest.One, "q_a", redisqtest.Named("q_a", "m2"))
		require.Equal(r, dispatcher.StatusCancelled, r.Inspect(redisqtest.Named("q_a", "m1")).Status)
		require.Equal(r, dispatcher.ReasonExpired, r.Inspect(redisqtest.Named("q_a", "m3")).Reason)
	}},
	{Name: "deliveries that a dead instance took come back", Run: func(r *redisqtest.Rig) {
		r.Publish("q_a", "m1")
		r.MustTake(redisqtest.One, "q_a", redisqtest.Named("q_a", "m1"))
		require.Equal(r, 1, r.Reap(redisqtest.One))
		_, _, err := r.Queue.Take(r.Ctx, redisqtest.One, dispatcher.Take{Lanes: redisqtest.To("q_a"), Most: 1, Bytes: 1000})
		require.ErrorIs(r, err, dispatcher.ErrFenced)
		r.MustTake(redisqtest.Two, "q_a", redisqtest.Named("q_a", "m1"))
	}},
	{Name: "a failed delivery returns after its backoff", Run: func(r *redisqtest.Rig) {
		r.Publish("q_a", "m1")
		c := r.MustTake(redisqtest.One, "q_a", redisqtest.Named("q_a", "m1"))[0]
		r.MustSettle(redisqtest.One, redisqtest.Failure(c, time.Minute))
		r.MustTake(redisqtest.One, "q_a")
		r.Pass(time.Minute)
		r.Move()
		require.Equal(r, 2, r.MustTake(redisqtest.One, "q_a", redisqtest.Named("q_a", "m1"))[0].Attempt)
	}},
	{Name: "a hint reports lanes with new work to consumers", Run: func(r *redisqtest.Rig) {
		w := r.Watch(redisqtest.Two)
		r.Publish("q_a", "m1")
		require.Equal(r, redisqtest.To("q_a"), w.NextTakeable())
		r.Publish("q_a", "m2")
		r.Schedule(r.Entry("m3", redisqtest.To("q_b", "q_c")))
		require.ElementsMatch(r, redisqtest.To("q_b", "q_c"), w.NextTakeable(), "a hint reported q_a before")
		c := r.MustTake(redisqtest.One, "q_a", redisqtest.IDs("q_a", "m1", "m2")...)
		r.MustSettle(redisqtest.One, redisqtest.HandBack(c[0]))
		require.Equal(r, redisqtest.To("q_a"), w.NextTakeable())
		r.Limit(dispatcher.AllLanes, redisqtest.Mode(dispatcher.LanePaused))
		r.Limit(dispatcher.AllLanes)
		require.Equal(r, redisqtest.To(dispatcher.AllLanes), w.NextTakeable())
	}},
	{Name: "a hint reports a lane whose limit has room again", Setup: redisqtest.Setup{LaneMaxInFlight: 1}, Run: func(r *redisqtest.Rig) {
		w := r.Watch(redisqtest.Two)
		r.Publish("q_a", "m1", "m2")
		require.Equal(r, redisqtest.To("q_a"), w.NextTakeable())
		c := r.MustTake(redisqtest.One, "q_a", redisqtest.Named("q_a", "m1"))[0]
		r.Publish("q_b", "m3")
		require.Equal(r, redisqtest.To("q_b"), w.NextTakeable())
		r.MustSettle(redisqtest.One, redisqtest.Success(c))
		require.Equal(r, redisqtest.To("q_a"), w.NextTakeable())
	}},
	{Name: "a take returns no more bytes than its limit, except for one record", Run: func(r *redisqtest.Rig) {
		body := redisqtest.Body(string(redisqtest.LargeBody(5000)))
		r.Schedule(r.Entry("m1", redisqtest.To("q_a"), body), r.Entry("m2", redisqtest.To("q_a"), body), r.Entry("m3", redisqtest.To("q_a"), body))
		taken, _, err := r.Queue.Take(r.Ctx, redisqtest.One, dispatcher.Take{Lanes: redisqtest.To("q_a"), Most: 3, Bytes: 11000})
		require.NoError(r, err)
		require.Equal(r, redisqtest.IDs("q_a", "m1", "m2"), redisqtest.ClaimedIDs(taken.Claimed))
		require.Equal(r, redisqtest.To("q_a"), taken.More)
		taken, _, err = r.Queue.Take(r.Ctx, redisqtest.One, dispatcher.Take{Lanes: redisqtest.To("q_a"), Most: 3, Bytes: 100})
		require.NoError(r, err)
		require.Equal(r, redisqtest.IDs("q_a", "m3"), redisqtest.ClaimedIDs(taken.Claimed))
	}},
}

// toQueue sends an entry to a queue.
func toQueue(name string) func(*dispatcher.Message) {
	return func(m *dispatcher.Message) { m.URL, m.Queue = "", name }
}

// ConsumerCases are about the reports on deliveries that wait for a consumer.
var ConsumerCases = []redisqtest.Case{
	{Name: "a delivery that may be taken waits for a consumer", Setup: redisqtest.Setup{LaneMaxInFlight: 1}, Run: func(r *redisqtest.Rig) {
		waits := func(id dispatcher.DeliveryID, word string) {
			r.Helper()
			require.Equal(r, word, r.Inspect(id).WaitingFor)
		}
		one, two := redisqtest.Named("q_a", "m1"), redisqtest.Named("q_a", "m2")
		r.Publish("q_a", "m1", "m2")
		r.Limit(redisqtest.EpOne, redisqtest.Pulled)
		r.Publish(redisqtest.EpOne, "m3")
		waits(one, "consumer")
		waits(two, "consumer")
		waits(redisqtest.Named(redisqtest.EpOne, "m3"), "consumer")
		page := r.ListAll(dispatcher.Filter{Statuses: []dispatcher.Status{dispatcher.StatusReady}}, 10)
		require.Len(r, page, 3)
		for _, d := range page {
			require.Equal(r, "consumer", d.WaitingFor)
		}
		r.MustTake(redisqtest.One, "q_a", one)
		waits(one, "")
		waits(two, "limit")
		r.LimitAs("q_a", dispatcher.LaneLimits{Mode: dispatcher.LanePaused}, false)
		waits(two, "paused")
	}},
	{Name: "deliveries that wait for a consumer are held back, and not late", Setup: redisqtest.Setup{LaneMaxInFlight: 2}, Run: func(r *redisqtest.Rig) {
		r.PublishMany("q_a", 3)
		r.Limit(redisqtest.EpOne, redisqtest.Pulled)
		r.Publish(redisqtest.EpOne, "e1")
		r.Publish("a", "m1")
		r.Pass(time.Minute)
		mustHold(r, dispatcher.WhyConsumer, 4)
		require.Equal(r, redisqtest.Start, r.Stats().OldestDue, "the delivery to a URL is the only one that counts")
		r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))
		require.Zero(r, r.Stats().OldestDue)
		require.Len(r, r.Take(redisqtest.One, 64, "q_a").Claimed, 2)
		mustHold(r, dispatcher.WhyConsumer, 2) // this includes deliveries that wait until the taken ones are settled
		require.Zero(r, r.Stats().OldestDue)
		r.LimitAs("q_a", dispatcher.LaneLimits{Mode: dispatcher.LanePaused}, false)
		r.LimitAs(redisqtest.EpOne, dispatcher.LaneLimits{Version: 2, Pull: true, Mode: dispatcher.LanePaused}, false)
		mustHold(r, dispatcher.WhyPaused, 2)
	}},
	{Name: "a message to a full queue is refused", Setup: redisqtest.Setup{MaxWaiting: 2}, Run: func(r *redisqtest.Rig) {
		r.PublishMany("q_a", 2)
		r.MustChangeNothing(func() {
			require.Equal(r, dispatcher.LaneFull, r.Schedule(r.Entry("more", redisqtest.To("q_a")))[0].Result)
		})
		require.Len(r, r.Take(redisqtest.One, 1, "q_a").Claimed, 1)
		require.Equal(r, dispatcher.Accepted, r.Schedule(r.Entry("more", redisqtest.To("q_a")))[0].Result, "a taken delivery does not wait")
	}},
	{Name: "a lane returns the name of its queue, also a long one", Run: func(r *redisqtest.Rig) {
		for _, name := range []string{"orders", "fourteen_chars", "order.cancellations-of_today", strings.Repeat("q", 64)} {
			lane := dispatcher.QueueLane(name)
			r.Schedule(r.Entry(r.NewID(), redisqtest.To(lane), toQueue(name)))
			got := r.LaneState(lane)
			require.Equal(r, name, got.Queue)
			require.Empty(r, got.URL)
			require.Empty(r, got.Tenant)
		}
	}},
	{Name: "a queue may be paused before its first message", Run: func(r *redisqtest.Rig) {
		for _, name := range []string{"orders", "order.cancellations"} {
			lane := dispatcher.QueueLane(name)
			r.LimitAs(lane, dispatcher.LaneLimits{Mode: dispatcher.LanePaused}, false)
			require.True(r, r.LaneState(lane).Known)
			id := r.NewID()
			r.Schedule(r.Entry(id, redisqtest.To(lane), toQueue(name)))
			require.Equal(r, "paused", r.Inspect(redisqtest.Named(lane, id)).WaitingFor)
			require.Empty(r, r.Take(redisqtest.One, 64, lane).Claimed)
			require.Equal(r, name, r.LaneState(lane).Queue)
			r.LimitAs(lane, dispatcher.LaneLimits{}, false)
			r.MustTake(redisqtest.One, lane, redisqtest.Named(lane, id))
		}
	}},
}
