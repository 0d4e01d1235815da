package lanes

import (
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/queuetest/rig"
	"github.com/hookladder/hookladder/dispatcher/internal/queuetest/stored"
)

// toQueue sends an entry to a queue.
func toQueue(name string) func(*dispatcher.Message) {
	return func(m *dispatcher.Message) { m.URL, m.Queue = "", name }
}

// ConsumerCases are about the reports on deliveries that wait for a consumer.
var ConsumerCases = []rig.Case{
	{Name: "a delivery that may be taken waits for a consumer", Setup: stored.Setup{LaneMaxInFlight: 1}, Run: func(r *rig.Rig) {
		waits := func(id dispatcher.DeliveryID, word string) {
			r.Helper()
			require.Equal(r, word, r.Look(id).WaitingFor)
		}
		one, two := rig.Named("q_a", "m1"), rig.Named("q_a", "m2")
		r.Publish("q_a", "m1", "m2")
		r.Limit(rig.EpOne, rig.Pulled)
		r.Publish(rig.EpOne, "m3")
		waits(one, "consumer")
		waits(two, "consumer")
		waits(rig.Named(rig.EpOne, "m3"), "consumer")
		page := r.ListAll(dispatcher.Filter{Statuses: []dispatcher.Status{dispatcher.StatusReady}}, 10)
		require.Len(r, page, 3)
		for _, d := range page {
			require.Equal(r, "consumer", d.WaitingFor)
		}
		r.MustTake(rig.One, "q_a", one)
		waits(one, "")
		waits(two, "limit")
		r.LimitAs("q_a", dispatcher.LaneLimits{Held: dispatcher.HeldPaused}, false)
		waits(two, "paused")
	}},
	{Name: "deliveries that wait for a consumer are held back, and not late", Setup: stored.Setup{LaneMaxInFlight: 2}, Run: func(r *rig.Rig) {
		r.PublishMany("q_a", 3)
		r.Limit(rig.EpOne, rig.Pulled)
		r.Publish(rig.EpOne, "e1")
		r.Publish("a", "m1")
		r.Pass(time.Minute)
		mustHold(r, dispatcher.WhyConsumer, 4)
		require.Equal(r, rig.Start, r.Stats().OldestDue, "the delivery to a URL is the only one that counts")
		r.MustClaim(rig.One, rig.Named("a", "m1"))
		require.Zero(r, r.Stats().OldestDue)
		require.Len(r, r.Take(rig.One, 64, "q_a").Claimed, 2)
		mustHold(r, dispatcher.WhyConsumer, 2) // this includes deliveries that wait until the taken ones are settled
		require.Zero(r, r.Stats().OldestDue)
		r.LimitAs("q_a", dispatcher.LaneLimits{Held: dispatcher.HeldPaused}, false)
		r.LimitAs(rig.EpOne, dispatcher.LaneLimits{Version: 2, Pull: true, Held: dispatcher.HeldPaused}, false)
		mustHold(r, dispatcher.WhyPaused, 2)
	}},
	{Name: "a message to a full queue is refused", Setup: stored.Setup{MaxWaiting: 2}, Run: func(r *rig.Rig) {
		r.PublishMany("q_a", 2)
		r.MustChangeNothing(func() {
			require.Equal(r, dispatcher.LaneFull, r.Schedule(r.Entry("more", rig.To("q_a")))[0].Result)
		})
		require.Len(r, r.Take(rig.One, 1, "q_a").Claimed, 1)
		require.Equal(r, dispatcher.Accepted, r.Schedule(r.Entry("more", rig.To("q_a")))[0].Result, "a taken delivery does not wait")
	}},
	{Name: "a lane returns the name of its queue, also a long one", Run: func(r *rig.Rig) {
		for _, name := range []string{"orders", "fourteen_chars", "order.cancellations-of_today", strings.Repeat("q", 64)} {
			lane := dispatcher.QueueLane(name)
			r.Schedule(r.Entry(r.NewID(), rig.To(lane), toQueue(name)))
			got := r.LaneState(lane)
			require.Equal(r, name, got.Queue)
			require.Empty(r, got.URL)
			require.Empty(r, got.Tenant)
		}
	}},
	{Name: "a queue may be paused before its first message", Run: func(r *rig.Rig) {
		for _, name := range []string{"orders", "order.cancellations"} {
			lane := dispatcher.QueueLane(name)
			r.LimitAs(lane, dispatcher.LaneLimits{Held: dispatcher.HeldPaused}, false)
			require.True(r, r.LaneState(lane).Known)
			id := r.NewID()
			r.Schedule(r.Entry(id, rig.To(lane), toQueue(name)))
			require.Equal(r, "paused", r.Look(rig.Named(lane, id)).WaitingFor)
			require.Empty(r, r.Take(rig.One, 64, lane).Claimed)
			require.Equal(r, name, r.LaneState(lane).Queue)
			r.LimitAs(lane, dispatcher.LaneLimits{}, false)
			r.MustTake(rig.One, lane, rig.Named(lane, id))
		}
	}},
}
