// Package deliveries has the cases about the life of a delivery: publish, move,
// claim, settle, cancel, retry, takeover, query and trim.
package deliveries

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/queuetest/rig"
	"github.com/hookladder/hookladder/dispatcher/internal/queuetest/stored"
	"github.com/hookladder/hookladder/dispatcher/success"
	"github.com/hookladder/hookladder/ladder"
)

// ScheduleCases are about publishing messages.
var ScheduleCases = append([]rig.Case{
	{Name: "a new message is accepted and ready at once", Run: func(r *rig.Rig) {
		got := r.Schedule(r.Entry("m1", rig.To("a")))
		require.Equal(r, []dispatcher.ScheduleResult{{
			Result: dispatcher.Accepted, CreatedAt: rig.Start,
			Placed: []dispatcher.Placed{{Lane: "a", Status: dispatcher.StatusReady, Due: rig.Start}},
		}}, got)
		d := r.MustStand(rig.Named("a", "m1"), dispatcher.StatusReady)
		require.Zero(r, d.Attempts)
		require.Empty(r, d.History)
		require.Zero(r, d.Ended)
		require.Empty(r, r.Leases(rig.One))
	}},
	{Name: "a delay is counted from now", Run: func(r *rig.Rig) {
		got := r.Schedule(r.Entry("m1", rig.To("a"), rig.Delay(time.Minute)))
		require.Equal(r, []dispatcher.ScheduleResult{{
			Result: dispatcher.Accepted, CreatedAt: rig.Start,
			Placed: []dispatcher.Placed{{Lane: "a", Status: dispatcher.StatusScheduled, Due: rig.Start.Add(time.Minute)}},
		}}, got)
		d := r.MustStand(rig.Named("a", "m1"), dispatcher.StatusScheduled)
		require.Equal(r, rig.Start.Add(time.Minute), d.Due)
		r.MustClaimNothing(rig.One)
	}},
	{Name: "a due time takes precedence over a delay", Run: func(r *rig.Rig) {
		at := rig.Start.Add(90 * time.Second)
		got := r.Schedule(r.Entry("m1", rig.To("a"), rig.Delay(time.Minute), rig.DeliverAt(at)))
		require.Equal(r, at, got[0].Placed[0].Due)
		require.Equal(r, at, r.MustStand(rig.Named("a", "m1"), dispatcher.StatusScheduled).Due)
	}},
	{Name: "a due time in the past counts as now", Run: func(r *rig.Rig) {
		got := r.Schedule(
			r.Entry("m1", rig.To("a"), rig.DeliverAt(rig.Start.Add(-time.Hour))),
			r.Entry("m2", rig.To("b"), rig.DeliverAt(rig.Start)),
			r.Entry("m3", rig.To("c"), rig.DeliverAt(time.Date(1960, 1, 1, 0, 0, 0, 0, time.UTC))),
		)
		for i, lane := range []dispatcher.Lane{"a", "b", "c"} {
			require.NoError(r, got[i].Err)
			require.Equal(r, dispatcher.Accepted, got[i].Result)
			require.Equal(r, rig.To(lane), rig.Ready(got[i]))
		}
	}},
	{Name: "a fraction of a ms rounds a due time up, never down", Run: func(r *rig.Rig) {
		r.Pass(400 * time.Microsecond)
		got := r.Schedule(
			r.Entry("m1", rig.To("a"), rig.Delay(10*time.Millisecond)),
			r.Entry("m2", rig.To("b"), rig.Delay(10*time.Millisecond-300*time.Microsecond)),
			r.Entry("m3", rig.To("c"), rig.DeliverAt(rig.Start.Add(10*time.Millisecond+time.Microsecond))),
		)
		for _, s := range got {
			require.Equal(r, rig.Start.Add(11*time.Millisecond), s.Placed[0].Due)
		}
	}},
	{Name: "a query returns all fields of a published message", Run: func(r *rig.Rig) {
		steps, err := ladder.Parse("1s,2s")
		require.NoError(r, err)
		wants, err := success.Parse(`{"status":["2xx","409"],"body":"success"}`)
		require.NoError(r, err)
		e := r.Entry("m1", rig.To("a"), func(m *dispatcher.Message) {
			m.Body = []byte("{ \"n\": 12345678901234567890,\x00\xff\r\n}")
			m.ContentType = "text/xml; charset=GBK"
			m.ExpiresAt = rig.Start.Add(time.Hour)
			m.Headers = []dispatcher.Header{{Name: "X-B", Value: "2"}, {Name: "X-A", Value: "a: b, \"c\""}}
			m.Ladder, m.MaxAttempts, m.Timeout = &steps, 3, 1500*time.Millisecond
			m.Success = wants
		})
		r.Schedule(e)
		rec, err := r.Queue.Read(r.Ctx, "m1")
		require.NoError(r, err)
		requireMessage(r, e.Message, &rec.Message)
		claimed := r.MustClaim(rig.One, rig.Named("a", "m1"))
		requireMessage(r, e.Message, claimed[0].Message)
	}},
	{Name: "a message needs only its required fields", Run: func(r *rig.Rig) {
		e := r.Entry("m1", rig.To("a"), func(m *dispatcher.Message) { m.Tenant, m.Body, m.ContentType = "", nil, "" })
		r.Schedule(e)
		requireMessage(r, e.Message, r.MustClaim(rig.One, rig.Named("a", "m1"))[0].Message)
	}},
	{Name: "a repeat is a duplicate and changes nothing", Run: func(r *rig.Rig) {
		first := r.Entry("m1", rig.To("a"), rig.Delay(time.Minute))
		r.Schedule(first)
		r.Pass(time.Second)
		r.MustChangeNothing(func() {
			got := r.Schedule(first, r.Entry("m1", rig.To("a"), rig.Delay(time.Hour)))
			for _, s := range got {
				require.Equal(r, dispatcher.ScheduleResult{Result: dispatcher.Duplicate, CreatedAt: rig.Start, Placed: []dispatcher.Placed{{Lane: "a"}}}, s)
			}
		})
	}},
	{Name: "other content under the same id is a conflict and changes nothing", Run: func(r *rig.Rig) {
		r.Publish("a", "m1")
		r.MustChangeNothing(func() {
			got := r.Schedule(r.Entry("m1", rig.To("a"), rig.Body("other")), r.Entry("m1", rig.To("b"), rig.Body("other")))
			for _, s := range got {
				require.Equal(r, dispatcher.ScheduleResult{Result: dispatcher.Conflict}, s)
			}
		})
	}},
	{Name: "the second of two equal messages in a batch is a duplicate", Run: func(r *rig.Rig) {
		got := r.Schedule(r.Entry("m1", rig.To("a")), r.Entry("m1", rig.To("a")))
		require.Equal(r, dispatcher.Accepted, got[0].Result)
		require.Equal(r, dispatcher.ScheduleResult{Result: dispatcher.Duplicate, CreatedAt: rig.Start, Placed: []dispatcher.Placed{{Lane: "a"}}}, got[1])
		require.Equal(r, rig.IDs("a", "m1"), r.State().Ready["a"])
	}},
	{Name: "the second of two messages with one id in a batch is a conflict", Run: func(r *rig.Rig) {
		got := r.Schedule(r.Entry("m1", rig.To("a")), r.Entry("m1", rig.To("b"), rig.Body("other")), r.Entry("m2", rig.To("b")))
		require.Equal(r, dispatcher.Accepted, got[0].Result)
		require.Equal(r, dispatcher.ScheduleResult{Result: dispatcher.Conflict}, got[1])
		require.Equal(r, dispatcher.Accepted, got[2].Result)
		require.Equal(r, rig.IDs("b", "m2"), r.State().Ready["b"])
		requireMessage(r, r.Entry("m1", nil).Message, r.MustClaim(rig.One, rig.Named("a", "m1"))[0].Message)
	}},
	{Name: "a repeat adds only new lanes, at the due time of the first message", Run: func(r *rig.Rig) {
		r.Schedule(r.Entry("m1", rig.To("a"), rig.Delay(time.Minute)))
		r.Pass(10 * time.Second)
		got := r.Schedule(r.Entry("m1", rig.To("a", "b"), rig.Delay(time.Hour)))
		require.Equal(r, dispatcher.Duplicate, got[0].Result)
		require.Equal(r, rig.Start.Add(time.Minute), r.MustStand(rig.Named("b", "m1"), dispatcher.StatusScheduled).Due)
		require.Equal(r, rig.Start.Add(time.Minute), r.MustStand(rig.Named("a", "m1"), dispatcher.StatusScheduled).Due)
	}},
	{Name: "a lane that a repeat adds is due at the same ms", Run: func(r *rig.Rig) {
		r.Pass(300 * time.Microsecond)
		entries := []dispatcher.Entry{
			r.Entry("m1", rig.To("a"), rig.DeliverAt(rig.Start.Add(time.Minute+time.Microsecond))),
			r.Entry("m2", rig.To("a"), rig.Delay(time.Minute)),
		}
		r.Schedule(entries...)
		for i := range entries {
			entries[i].Lanes = rig.To("a", "b")
		}
		r.Schedule(entries...)
		for _, id := range []string{"m1", "m2"} {
			require.Equal(r, r.Inspect(rig.Named("a", id)).Due, r.Inspect(rig.Named("b", id)).Due, id)
			require.Equal(r, rig.Start.Add(time.Minute+time.Millisecond), r.Inspect(rig.Named("b", id)).Due, id)
		}
	}},
	{Name: "a repeat in the same batch adds its lane too", Run: func(r *rig.Rig) {
		got := r.Schedule(r.Entry("m1", rig.To("a")), r.Entry("m1", rig.To("b")), r.Entry("m1", rig.To("a", "b", "c")))
		require.Equal(r, dispatcher.Duplicate, got[1].Result)
		for _, lane := range []dispatcher.Lane{"a", "b", "c"} {
			r.MustStand(rig.Named(lane, "m1"), dispatcher.StatusReady)
		}
	}},
	{Name: "a repeat does not create deliveries again that have ended or were trimmed", Run: func(r *rig.Rig) {
		r.Schedule(r.Entry("m1", rig.To("a", "b")))
		claimed := r.MustClaim(rig.One, rig.Named("a", "m1"))
		r.MustSettle(rig.One, rig.Success(claimed[0]))
		r.MustChangeNothing(func() { r.Schedule(r.Entry("m1", rig.To("a", "b"))) })
		r.Trim(rig.KeepNothing)
		r.MustChangeNothing(func() { r.Schedule(r.Entry("m1", rig.To("a", "b"))) })
		r.MustClaim(rig.One, rig.Named("b", "m1"))
	}},
	{Name: "an entry without a lane writes nothing", Run: func(r *rig.Rig) {
		r.MustChangeNothing(func() { r.Schedule(r.Entry("m1", nil)) })
	}},
	{Name: "an empty batch does nothing", Run: func(r *rig.Rig) {
		r.MustChangeNothing(func() { require.Empty(r, r.Schedule()) })
	}},
}, directCases...)

// directCases are about leases that Schedule returns without a claim.
var directCases = []rig.Case{
	{Name: "a message that is due at once is leased directly", Run: func(r *rig.Rig) {
		got := r.ScheduleFor(rig.One, 512, 64, r.Entry("m1", rig.To("a")))
		require.Equal(r, rig.To("a"), rig.Leased(got[0]))
		require.Empty(r, rig.Ready(got[0]))
		require.Equal(r, rig.Start, got[0].Placed[0].Due)
		require.Equal(r, rig.IDs("a", "m1"), r.Leases(rig.One))
		r.MustStand(rig.Named("a", "m1"), dispatcher.StatusInFlight)
		r.MustClaimNothing(rig.Two)
	}},
	{Name: "a message with a delay is not leased directly", Run: func(r *rig.Rig) {
		got := r.ScheduleFor(rig.One, 512, 64, r.Entry("m1", rig.To("a"), rig.Delay(time.Millisecond)))
		require.Empty(r, rig.Leased(got[0]))
		require.Empty(r, r.Leases(rig.One))
	}},
	{Name: "a lane with ready deliveries gives no direct lease", Run: func(r *rig.Rig) {
		r.Publish("a", "m1")
		got := r.ScheduleFor(rig.One, 512, 64, r.Entry("m2", rig.To("a")), r.Entry("m3", rig.To("b")))
		require.Equal(r, rig.To("a"), rig.Ready(got[0]))
		require.Equal(r, rig.To("b"), rig.Leased(got[1]))
		r.MustClaim(rig.One, rig.Named("a", "m1"), rig.Named("a", "m2"))
	}},
	{Name: "a delivery that waits for its due time does not prevent a direct lease", Run: func(r *rig.Rig) {
		r.Schedule(r.Entry("m1", rig.To("a"), rig.Delay(time.Hour)))
		got := r.ScheduleFor(rig.One, 512, 64, r.Entry("m2", rig.To("a")))
		require.Equal(r, rig.To("a"), rig.Leased(got[0]))
	}},
	{Name: "a direct lease fills the window and no more", Run: func(r *rig.Rig) {
		got := r.ScheduleFor(rig.One, 512, 64, r.Entry("m1", rig.To("a")), r.Entry("m2", rig.To("a")), r.Entry("m3", rig.To("a")))
		require.Equal(r, rig.To("a"), rig.Leased(got[0]))
		require.Equal(r, rig.To("a"), rig.Leased(got[1]))
		require.Equal(r, rig.To("a"), rig.Ready(got[2]))
		require.Equal(r, append(rig.IDs("a", "m1"), rig.IDs("a", "m2")...), r.Leases(rig.One))
	}},
	{Name: "the number of direct leases is at most the requested number", Run: func(r *rig.Rig) {
		got := r.ScheduleFor(rig.One, 512, 2, r.Entry("m1", rig.To("a")), r.Entry("m2", rig.To("b")), r.Entry("m3", rig.To("c")))
		require.Equal(r, rig.To("a"), rig.Leased(got[0]))
		require.Equal(r, rig.To("b"), rig.Leased(got[1]))
		require.Equal(r, rig.To("c"), rig.Ready(got[2]))
	}},
	{Name: "each lane of a fan-out counts as one direct lease", Run: func(r *rig.Rig) {
		got := r.ScheduleFor(rig.One, 512, 2, r.Entry("m1", rig.To("a", "b", "c")))
		require.Equal(r, rig.To("a", "b"), rig.Leased(got[0]))
		require.Equal(r, rig.To("c"), rig.Ready(got[0]))
	}},
	{Name: "a new lane is leased directly only above three free permits", Run: func(r *rig.Rig) {
		got := r.ScheduleFor(rig.One, 3, 3, r.Entry("m1", rig.To("a")))
		require.Equal(r, rig.To("a"), rig.Ready(got[0]))
		got = r.ScheduleFor(rig.One, 4, 4, r.Entry("m2", rig.To("b")), r.Entry("m3", rig.To("b")))
		require.Equal(r, rig.To("b"), rig.Leased(got[0]))
		require.Equal(r, rig.To("b"), rig.Ready(got[1]), "one delivery is in flight and three permits are free")
	}},
	{Name: "an instance without leases gets a direct lease at any weight", Setup: stored.Setup{Permits: 1}, Run: func(r *rig.Rig) {
		got := r.ScheduleFor(rig.One, 1, 1, r.Entry("m1", rig.To("a")))
		require.Equal(r, rig.To("a"), rig.Leased(got[0]))
	}},
	{Name: "an instance without a permit gets no lease", Run: func(r *rig.Rig) {
		got := r.ScheduleFor(rig.One, 0, 64, r.Entry("m1", rig.To("a")))
		require.Equal(r, rig.To("a"), rig.Ready(got[0]))
	}},
	{Name: "a fenced instance may publish, but gets no lease", Run: func(r *rig.Rig) {
		_, _, err := r.Queue.Reap(r.Ctx, rig.Two, rig.One)
		require.NoError(r, err)
		got := r.ScheduleFor(rig.One, 512, 64, r.Entry("m1", rig.To("a")))
		require.Equal(r, dispatcher.Accepted, got[0].Result)
		require.Equal(r, rig.To("a"), rig.Ready(got[0]))
		r.MustClaim(rig.Two, rig.Named("a", "m1"))
	}},
	{Name: "an expired message is not leased directly", Run: func(r *rig.Rig) {
		got := r.ScheduleFor(rig.One, 512, 64, r.Entry("m1", rig.To("a"), rig.Expires(rig.Start)))
		require.Equal(r, dispatcher.Accepted, got[0].Result)
		require.Empty(r, rig.Leased(got[0]))
		r.MustClaimNothing(rig.One)
		require.Equal(r, dispatcher.ReasonExpired, r.MustStand(rig.Named("a", "m1"), dispatcher.StatusDead).Reason)
	}},
	{Name: "a message with a due time in the past is due at its acceptance", Run: func(r *rig.Rig) {
		for i, at := range []time.Time{time.UnixMilli(0), rig.Start.Add(-time.Hour)} {
			ready, leased := fmt.Sprintf("ready%d", i), fmt.Sprintf("leased%d", i)
			lane := dispatcher.Lane(fmt.Sprintf("l%d", i))
			got := r.Schedule(r.Entry(ready, rig.To("a"), rig.DeliverAt(at)))
			require.Equal(r, rig.To("a"), rig.Ready(got[0]))
			require.Equal(r, rig.Start, got[0].Placed[0].Due)
			got = r.ScheduleFor(rig.One, 512, 64, r.Entry(leased, rig.To(lane), rig.DeliverAt(at)))
			require.Equal(r, rig.To(lane), rig.Leased(got[0]))
			require.Equal(r, rig.Start, got[0].Placed[0].Due)
		}
		for _, c := range r.Claim(rig.One, 2) {
			require.Equal(r, rig.Start, c.Due)
		}
	}},
	{Name: "a delivery that waited behind another is due no sooner than its acceptance", Run: func(r *rig.Rig) {
		r.PublishKeyed("a", "k", "m1")
		r.Pass(time.Hour)
		r.Schedule(r.Entry("m2", rig.To("a"), rig.Keyed("k"), rig.DeliverAt(time.UnixMilli(0))))
		accepted := r.Now
		r.Pass(time.Minute)
		r.Deliver(rig.Named("a", "m1"))
		require.Equal(r, accepted, r.MustClaim(rig.One, rig.Named("a", "m2"))[0].Due)
	}},
	{Name: "a lane that a repeat adds is due no sooner than the repeat", Run: func(r *rig.Rig) {
		r.Publish("a", "m1")
		r.Pass(time.Hour)
		got := r.Schedule(r.Entry("m1", rig.To("a", "b")))
		require.Equal(r, rig.To("b"), rig.Ready(got[0]))
		r.MustClaim(rig.One, rig.Named("a", "m1"))
		require.Equal(r, r.Now, r.MustClaim(rig.One, rig.Named("b", "m1"))[0].Due)
	}},
	{Name: "a lane that a repeat adds may be leased directly", Run: func(r *rig.Rig) {
		r.Publish("a", "m1")
		got := r.ScheduleFor(rig.One, 512, 64, r.Entry("m1", rig.To("a", "b")))
		require.Equal(r, dispatcher.Duplicate, got[0].Result)
		require.Equal(r, rig.To("b"), rig.Leased(got[0]))
		require.Equal(r, rig.IDs("b", "m1"), r.Leases(rig.One))
	}},
}

// requireMessage compares the parts of a message that receivers and queries
// return. The store has replaced a delay by a time.
func requireMessage(r *rig.Rig, want, got *dispatcher.Message) {
	r.Helper()
	require.NotNil(r, got)
	type messageContent struct {
		id, topic, tenant, url, body, contentType string
		expires, created                          time.Time
		headers                                   []dispatcher.Header
		ladder, success                           string
		attempts                                  int
		timeout                                   time.Duration
	}
	contentOf := func(m *dispatcher.Message) messageContent {
		t := messageContent{
			m.ID, m.Topic, m.Tenant, m.URL, string(m.Body), m.ContentType,
			m.ExpiresAt, m.CreatedAt, m.Headers, "none", "none", m.MaxAttempts, m.Timeout,
		}
		if m.Ladder != nil {
			t.ladder = m.Ladder.String()
		}
		if m.Success != nil {
			t.success = m.Success.String()
		}
		return t
	}
	require.Equal(r, contentOf(want), contentOf(got))
}
