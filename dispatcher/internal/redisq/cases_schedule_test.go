package redisq_test

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
	"github.com/hookladder/hookladder/dispatcher/success"
	"github.com/hookladder/hookladder/ladder"
)

// ScheduleCases are about publishing messages.
var ScheduleCases = append([]redisqtest.Case{
	{Name: "a new message is accepted and ready at once", Run: func(r *redisqtest.Rig) {
		got := r.Schedule(r.Entry("m1", redisqtest.To("a")))
		require.Equal(r, []dispatcher.ScheduleResult{{
			Result: dispatcher.Accepted, CreatedAt: redisqtest.Start,
			Placed: []dispatcher.Placed{{Lane: "a", Status: dispatcher.StatusReady, Due: redisqtest.Start}},
		}}, got)
		d := r.MustStand(redisqtest.Named("a", "m1"), dispatcher.StatusReady)
		require.Zero(r, d.Attempts)
		require.Empty(r, d.History)
		require.Zero(r, d.Ended)
		require.Empty(r, r.Leases(redisqtest.One))
	}},
	{Name: "a delay is counted from now", Run: func(r *redisqtest.Rig) {
		got := r.Schedule(r.Entry("m1", redisqtest.To("a"), redisqtest.Delay(time.Minute)))
		require.Equal(r, []dispatcher.ScheduleResult{{
			Result: dispatcher.Accepted, CreatedAt: redisqtest.Start,
			Placed: []dispatcher.Placed{{Lane: "a", Status: dispatcher.StatusScheduled, Due: redisqtest.Start.Add(time.Minute)}},
		}}, got)
		d := r.MustStand(redisqtest.Named("a", "m1"), dispatcher.StatusScheduled)
		require.Equal(r, redisqtest.Start.Add(time.Minute), d.Due)
		r.MustClaimNothing(redisqtest.One)
	}},
	{Name: "a due time takes precedence over a delay", Run: func(r *redisqtest.Rig) {
		at := redisqtest.Start.Add(90 * time.Second)
		got := r.Schedule(r.Entry("m1", redisqtest.To("a"), redisqtest.Delay(time.Minute), redisqtest.DeliverAt(at)))
		require.Equal(r, at, got[0].Placed[0].Due)
		require.Equal(r, at, r.MustStand(redisqtest.Named("a", "m1"), dispatcher.StatusScheduled).Due)
	}},
	{Name: "a due time in the past counts as now", Run: func(r *redisqtest.Rig) {
		got := r.Schedule(
			r.Entry("m1", redisqtest.To("a"), redisqtest.DeliverAt(redisqtest.Start.Add(-time.Hour))),
			r.Entry("m2", redisqtest.To("b"), redisqtest.DeliverAt(redisqtest.Start)),
			r.Entry("m3", redisqtest.To("c"), redisqtest.DeliverAt(time.Date(1960, 1, 1, 0, 0, 0, 0, time.UTC))),
		)
		for i, lane := range []dispatcher.Lane{"a", "b", "c"} {
			require.NoError(r, got[i].Err)
			require.Equal(r, dispatcher.Accepted, got[i].Result)
			require.Equal(r, redisqtest.To(lane), redisqtest.Ready(got[i]))
		}
	}},
	{Name: "a fraction of a ms rounds a due time up, never down", Run: func(r *redisqtest.Rig) {
		r.Pass(400 * time.Microsecond)
		got := r.Schedule(
			r.Entry("m1", redisqtest.To("a"), redisqtest.Delay(10*time.Millisecond)),
			r.Entry("m2", redisqtest.To("b"), redisqtest.Delay(10*time.Millisecond-300*time.Microsecond)),
			r.Entry("m3", redisqtest.To("c"), redisqtest.DeliverAt(redisqtest.Start.Add(10*time.Millisecond+time.Microsecond))),
		)
		for _, s := range got {
			require.Equal(r, redisqtest.Start.Add(11*time.Millisecond), s.Placed[0].Due)
		}
	}},
	{Name: "a query returns all fields of a published message", Run: func(r *redisqtest.Rig) {
		steps, err := ladder.Parse("1s,2s")
		require.NoError(r, err)
		wants, err := success.Parse(`{"status":["2xx","409"],"body":"success"}`)
		require.NoError(r, err)
		e := r.Entry("m1", redisqtest.To("a"), func(m *dispatcher.Message) {
			m.Body = []byte("{ \"n\": 12345678901234567890,\x00\xff\r\n}")
			m.ContentType = "text/xml; charset=GBK"
			m.ExpiresAt = redisqtest.Start.Add(time.Hour)
			m.Headers = []dispatcher.Header{{Name: "X-B", Value: "2"}, {Name: "X-A", Value: "a: b, \"c\""}}
			m.Ladder, m.MaxAttempts, m.Timeout = &steps, 3, 1500*time.Millisecond
			m.Success = wants
		})
		r.Schedule(e)
		rec, err := r.Queue.Read(r.Ctx, "m1")
		require.NoError(r, err)
		requireMessage(r, e.Message, &rec.Message)
		claimed := r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))
		requireMessage(r, e.Message, claimed[0].Message)
	}},
	{Name: "a message needs only its required fields", Run: func(r *redisqtest.Rig) {
		e := r.Entry("m1", redisqtest.To("a"), func(m *dispatcher.Message) { m.Tenant, m.Body, m.ContentType = "", nil, "" })
		r.Schedule(e)
		requireMessage(r, e.Message, r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0].Message)
	}},
	{Name: "a repeat is a duplicate and changes nothing", Run: func(r *redisqtest.Rig) {
		first := r.Entry("m1", redisqtest.To("a"), redisqtest.Delay(time.Minute))
		r.Schedule(first)
		r.Pass(time.Second)
		r.MustChangeNothing(func() {
			got := r.Schedule(first, r.Entry("m1", redisqtest.To("a"), redisqtest.Delay(time.Hour)))
			for _, s := range got {
				require.Equal(r, dispatcher.ScheduleResult{Result: dispatcher.Duplicate, CreatedAt: redisqtest.Start, Placed: []dispatcher.Placed{{Lane: "a"}}}, s)
			}
		})
	}},
	{Name: "other content under the same id is a conflict and changes nothing", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		r.MustChangeNothing(func() {
			got := r.Schedule(r.Entry("m1", redisqtest.To("a"), redisqtest.Body("other")), r.Entry("m1", redisqtest.To("b"), redisqtest.Body("other")))
			for _, s := range got {
				require.Equal(r, dispatcher.ScheduleResult{Result: dispatcher.Conflict}, s)
			}
		})
	}},
	{Name: "the second of two equal messages in a batch is a duplicate", Run: func(r *redisqtest.Rig) {
		got := r.Schedule(r.Entry("m1", redisqtest.To("a")), r.Entry("m1", redisqtest.To("a")))
		require.Equal(r, dispatcher.Accepted, got[0].Result)
		require.Equal(r, dispatcher.ScheduleResult{Result: dispatcher.Duplicate, CreatedAt: redisqtest.Start, Placed: []dispatcher.Placed{{Lane: "a"}}}, got[1])
		require.Equal(r, redisqtest.IDs("a", "m1"), r.State().Ready["a"])
	}},
	{Name: "the second of two messages with one id in a batch is a conflict", Run: func(r *redisqtest.Rig) {
		got := r.Schedule(r.Entry("m1", redisqtest.To("a")), r.Entry("m1", redisqtest.To("b"), redisqtest.Body("other")), r.Entry("m2", redisqtest.To("b")))
		require.Equal(r, dispatcher.Accepted, got[0].Result)
		require.Equal(r, dispatcher.ScheduleResult{Result: dispatcher.Conflict}, got[1])
		require.Equal(r, dispatcher.Accepted, got[2].Result)
		require.Equal(r, redisqtest.IDs("b", "m2"), r.State().Ready["b"])
		requireMessage(r, r.Entry("m1", nil).Message, r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0].Message)
	}},
	{Name: "a repeat adds only new lanes, at the due time of the first message", Run: func(r *redisqtest.Rig) {
		r.Schedule(r.Entry("m1", redisqtest.To("a"), redisqtest.Delay(time.Minute)))
		r.Pass(10 * time.Second)
		got := r.Schedule(r.Entry("m1", redisqtest.To("a", "b"), redisqtest.Delay(time.Hour)))
		require.Equal(r, dispatcher.Duplicate, got[0].Result)
		require.Equal(r, redisqtest.Start.Add(time.Minute), r.MustStand(redisqtest.Named("b", "m1"), dispatcher.StatusScheduled).Due)
		require.Equal(r, redisqtest.Start.Add(time.Minute), r.MustStand(redisqtest.Named("a", "m1"), dispatcher.StatusScheduled).Due)
	}},
	{Name: "a lane that a repeat adds is due at the same ms", Run: func(r *redisqtest.Rig) {
		r.Pass(300 * time.Microsecond)
		entries := []dispatcher.Entry{
			r.Entry("m1", redisqtest.To("a"), redisqtest.DeliverAt(redisqtest.Start.Add(time.Minute+time.Microsecond))),
			r.Entry("m2", redisqtest.To("a"), redisqtest.Delay(time.Minute)),
		}
		r.Schedule(entries...)
		for i := range entries {
			entries[i].Lanes = redisqtest.To("a", "b")
		}
		r.Schedule(entries...)
		for _, id := range []string{"m1", "m2"} {
			require.Equal(r, r.Inspect(redisqtest.Named("a", id)).Due, r.Inspect(redisqtest.Named("b", id)).Due, id)
			require.Equal(r, redisqtest.Start.Add(time.Minute+time.Millisecond), r.Inspect(redisqtest.Named("b", id)).Due, id)
		}
	}},
	{Name: "a repeat in the same batch adds its lane too", Run: func(r *redisqtest.Rig) {
		got := r.Schedule(r.Entry("m1", redisqtest.To("a")), r.Entry("m1", redisqtest.To("b")), r.Entry("m1", redisqtest.To("a", "b", "c")))
		require.Equal(r, dispatcher.Duplicate, got[1].Result)
		for _, lane := range []dispatcher.Lane{"a", "b", "c"} {
			r.MustStand(redisqtest.Named(lane, "m1"), dispatcher.StatusReady)
		}
	}},
	{Name: "a repeat does not create deliveries again that have ended or were trimmed", Run: func(r *redisqtest.Rig) {
		r.Schedule(r.Entry("m1", redisqtest.To("a", "b")))
		claimed := r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))
		r.MustSettle(redisqtest.One, redisqtest.Success(claimed[0]))
		r.MustChangeNothing(func() { r.Schedule(r.Entry("m1", redisqtest.To("a", "b"))) })
		r.Trim(redisqtest.KeepNothing)
		r.MustChangeNothing(func() { r.Schedule(r.Entry("m1", redisqtest.To("a", "b"))) })
		r.MustClaim(redisqtest.One, redisqtest.Named("b", "m1"))
	}},
	{Name: "an entry without a lane writes nothing", Run: func(r *redisqtest.Rig) {
		r.MustChangeNothing(func() { r.Schedule(r.Entry("m1", nil)) })
	}},
	{Name: "an empty batch does nothing", Run: func(r *redisqtest.Rig) {
		r.MustChangeNothing(func() { require.Empty(r, r.Schedule()) })
	}},
}, directCases...)

// directCases are about leases that Schedule returns without a claim.
var directCases = []redisqtest.Case{
	{Name: "a message that is due at once is leased directly", Run: func(r *redisqtest.Rig) {
		got := r.ScheduleFor(redisqtest.One, 512, 64, r.Entry("m1", redisqtest.To("a")))
		require.Equal(r, redisqtest.To("a"), redisqtest.Leased(got[0]))
		require.Empty(r, redisqtest.Ready(got[0]))
		require.Equal(r, redisqtest.Start, got[0].Placed[0].Due)
		require.Equal(r, redisqtest.IDs("a", "m1"), r.Leases(redisqtest.One))
		r.MustStand(redisqtest.Named("a", "m1"), dispatcher.StatusInFlight)
		r.MustClaimNothing(redisqtest.Two)
	}},
	{Name: "a message with a delay is not leased directly", Run: func(r *redisqtest.Rig) {
		got := r.ScheduleFor(redisqtest.One, 512, 64, r.Entry("m1", redisqtest.To("a"), redisqtest.Delay(time.Millisecond)))
		require.Empty(r, redisqtest.Leased(got[0]))
		require.Empty(r, r.Leases(redisqtest.One))
	}},
	{Name: "a lane with ready deliveries gives no direct lease", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		got := r.ScheduleFor(redisqtest.One, 512, 64, r.Entry("m2", redisqtest.To("a")), r.Entry("m3", redisqtest.To("b")))
		require.Equal(r, redisqtest.To("a"), redisqtest.Ready(got[0]))
		require.Equal(r, redisqtest.To("b"), redisqtest.Leased(got[1]))
		r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"), redisqtest.Named("a", "m2"))
	}},
	{Name: "a delivery that waits for its due time does not prevent a direct lease", Run: func(r *redisqtest.Rig) {
		r.Schedule(r.Entry("m1", redisqtest.To("a"), redisqtest.Delay(time.Hour)))
		got := r.ScheduleFor(redisqtest.One, 512, 64, r.Entry("m2", redisqtest.To("a")))
		require.Equal(r, redisqtest.To("a"), redisqtest.Leased(got[0]))
	}},
	{Name: "a direct lease fills the window and no more", Run: func(r *redisqtest.Rig) {
		got := r.ScheduleFor(redisqtest.One, 512, 64, r.Entry("m1", redisqtest.To("a")), r.Entry("m2", redisqtest.To("a")), r.Entry("m3", redisqtest.To("a")))
		require.Equal(r, redisqtest.To("a"), redisqtest.Leased(got[0]))
		require.Equal(r, redisqtest.To("a"), redisqtest.Leased(got[1]))
		require.Equal(r, redisqtest.To("a"), redisqtest.Ready(got[2]))
		require.Equal(r, append(redisqtest.IDs("a", "m1"), redisqtest.IDs("a", "m2")...), r.Leases(redisqtest.One))
	}},
	{Name: "the number of direct leases is at most the requested number", Run: func(r *redisqtest.Rig) {
		got := r.ScheduleFor(redisqtest.One, 512, 2, r.Entry("m1", redisqtest.To("a")), r.Entry("m2", redisqtest.To("b")), r.Entry("m3", redisqtest.To("c")))
		require.Equal(r, redisqtest.To("a"), redisqtest.Leased(got[0]))
		require.Equal(r, redisqtest.To("b"), redisqtest.Leased(got[1]))
		require.Equal(r, redisqtest.To("c"), redisqtest.Ready(got[2]))
	}},
	{Name: "each lane of a fan-out counts as one direct lease", Run: func(r *redisqtest.Rig) {
		got := r.ScheduleFor(redisqtest.One, 512, 2, r.Entry("m1", redisqtest.To("a", "b", "c")))
		require.Equal(r, redisqtest.To("a", "b"), redisqtest.Leased(got[0]))
		require.Equal(r, redisqtest.To("c"), redisqtest.Ready(got[0]))
	}},
	{Name: "a new lane is leased directly only above three free permits", Run: func(r *redisqtest.Rig) {
		got := r.ScheduleFor(redisqtest.One, 3, 3, r.Entry("m1", redisqtest.To("a")))
		require.Equal(r, redisqtest.To("a"), redisqtest.Ready(got[0]))
		got = r.ScheduleFor(redisqtest.One, 4, 4, r.Entry("m2", redisqtest.To("b")), r.Entry("m3", redisqtest.To("b")))
		require.Equal(r, redisqtest.To("b"), redisqtest.Leased(got[0]))
		require.Equal(r, redisqtest.To("b"), redisqtest.Ready(got[1]), "one delivery is in flight and three permits are free")
	}},
	{Name: "an instance without leases gets a direct lease at any weight", Setup: redisqtest.Setup{Permits: 1}, Run: func(r *redisqtest.Rig) {
		got := r.ScheduleFor(redisqtest.One, 1, 1, r.Entry("m1", redisqtest.To("a")))
		require.Equal(r, redisqtest.To("a"), redisqtest.Leased(got[0]))
	}},
	{Name: "an instance without a permit gets no lease", Run: func(r *redisqtest.Rig) {
		got := r.ScheduleFor(redisqtest.One, 0, 64, r.Entry("m1", redisqtest.To("a")))
		require.Equal(r, redisqtest.To("a"), redisqtest.Ready(got[0]))
	}},
	{Name: "a fenced instance may publish, but gets no lease", Run: func(r *redisqtest.Rig) {
		_, _, err := r.Queue.Reap(r.Ctx, redisqtest.Two, redisqtest.One)
		require.NoError(r, err)
		got := r.ScheduleFor(redisqtest.One, 512, 64, r.Entry("m1", redisqtest.To("a")))
		require.Equal(r, dispatcher.Accepted, got[0].Result)
		require.Equal(r, redisqtest.To("a"), redisqtest.Ready(got[0]))
		r.MustClaim(redisqtest.Two, redisqtest.Named("a", "m1"))
	}},
	{Name: "an expired message is not leased directly", Run: func(r *redisqtest.Rig) {
		got := r.ScheduleFor(redisqtest.One, 512, 64, r.Entry("m1", redisqtest.To("a"), redisqtest.Expires(redisqtest.Start)))
		require.Equal(r, dispatcher.Accepted, got[0].Result)
		require.Empty(r, redisqtest.Leased(got[0]))
		r.MustClaimNothing(redisqtest.One)
		require.Equal(r, dispatcher.ReasonExpired, r.MustStand(redisqtest.Named("a", "m1"), dispatcher.StatusDead).Reason)
	}},
	{Name: "a message with a due time in the past is due at its acceptance", Run: func(r *redisqtest.Rig) {
		for i, at := range []time.Time{time.UnixMilli(0), redisqtest.Start.Add(-time.Hour)} {
			ready, leased := fmt.Sprintf("ready%d", i), fmt.Sprintf("leased%d", i)
			lane := dispatcher.Lane(fmt.Sprintf("l%d", i))
			got := r.Schedule(r.Entry(ready, redisqtest.To("a"), redisqtest.DeliverAt(at)))
			require.Equal(r, redisqtest.To("a"), redisqtest.Ready(got[0]))
			require.Equal(r, redisqtest.Start, got[0].Placed[0].Due)
			got = r.ScheduleFor(redisqtest.One, 512, 64, r.Entry(leased, redisqtest.To(lane), redisqtest.DeliverAt(at)))
			require.Equal(r, redisqtest.To(lane), redisqtest.Leased(got[0]))
			require.Equal(r, redisqtest.Start, got[0].Placed[0].Due)
		}
		for _, c := range r.Claim(redisqtest.One, 2) {
			require.Equal(r, redisqtest.Start, c.Due)
		}
	}},
	{Name: "a delivery that waited behind another is due no sooner than its acceptance", Run: func(r *redisqtest.Rig) {
		r.PublishKeyed("a", "k", "m1")
		r.Pass(time.Hour)
		r.Schedule(r.Entry("m2", redisqtest.To("a"), redisqtest.Keyed("k"), redisqtest.DeliverAt(time.UnixMilli(0))))
		accepted := r.Now
		r.Pass(time.Minute)
		r.Deliver(redisqtest.Named("a", "m1"))
		require.Equal(r, accepted, r.MustClaim(redisqtest.One, redisqtest.Named("a", "m2"))[0].Due)
	}},
	{Name: "a lane that a repeat adds is due no sooner than the repeat", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		r.Pass(time.Hour)
		got := r.Schedule(r.Entry("m1", redisqtest.To("a", "b")))
		require.Equal(r, redisqtest.To("b"), redisqtest.Ready(got[0]))
		r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))
		require.Equal(r, r.Now, r.MustClaim(redisqtest.One, redisqtest.Named("b", "m1"))[0].Due)
	}},
	{Name: "a lane that a repeat adds may be leased directly", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		got := r.ScheduleFor(redisqtest.One, 512, 64, r.Entry("m1", redisqtest.To("a", "b")))
		require.Equal(r, dispatcher.Duplicate, got[0].Result)
		require.Equal(r, redisqtest.To("b"), redisqtest.Leased(got[0]))
		require.Equal(r, redisqtest.IDs("b", "m1"), r.Leases(redisqtest.One))
	}},
}

// requireMessage compares the parts of a message that receivers and queries
// return. The store has replaced a delay by a time.
func requireMessage(r *redisqtest.Rig, want, got *dispatcher.Message) {
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
