package queuetest

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/ladder"
)

var scheduleCases = append([]testCase{
	{name: "a new message is accepted and ready at once", run: func(r *rig) {
		got := r.schedule(r.entry("m1", to("a")))
		require.Equal(r, []dispatcher.ScheduleResult{{
			Result: dispatcher.Accepted, CreatedAt: start, Due: start, Ready: to("a"),
		}}, got)
		d := r.mustStand(named("a", "m1"), dispatcher.StatusReady)
		require.Zero(r, d.Attempts)
		require.Empty(r, d.History)
		require.Zero(r, d.Ended)
		require.Empty(r, r.leases(one))
	}},
	{name: "a delay is counted from now", run: func(r *rig) {
		got := r.schedule(r.entry("m1", to("a"), delay(time.Minute)))
		require.Equal(r, []dispatcher.ScheduleResult{{
			Result: dispatcher.Accepted, CreatedAt: start, Due: start.Add(time.Minute),
		}}, got)
		d := r.mustStand(named("a", "m1"), dispatcher.StatusScheduled)
		require.Equal(r, start.Add(time.Minute), d.Due)
		r.mustClaimNothing(one)
	}},
	{name: "a time wins over a delay", run: func(r *rig) {
		at := start.Add(90 * time.Second)
		got := r.schedule(r.entry("m1", to("a"), delay(time.Minute), deliverAt(at)))
		require.Equal(r, at, got[0].Due)
		require.Equal(r, at, r.mustStand(named("a", "m1"), dispatcher.StatusScheduled).Due)
	}},
	{name: "a time that has passed is now", run: func(r *rig) {
		got := r.schedule(
			r.entry("m1", to("a"), deliverAt(start.Add(-time.Hour))),
			r.entry("m2", to("b"), deliverAt(start)),
			r.entry("m3", to("c"), deliverAt(time.Date(1960, 1, 1, 0, 0, 0, 0, time.UTC))),
		)
		for i, lane := range []dispatcher.Lane{"a", "b", "c"} {
			require.NoError(r, got[i].Err)
			require.Equal(r, dispatcher.Accepted, got[i].Result)
			require.Equal(r, to(lane), got[i].Ready)
		}
	}},
	{name: "a fraction of a ms makes a due time later, never earlier", run: func(r *rig) {
		r.pass(400 * time.Microsecond)
		got := r.schedule(
			r.entry("m1", to("a"), delay(10*time.Millisecond)),
			r.entry("m2", to("b"), delay(10*time.Millisecond-300*time.Microsecond)),
			r.entry("m3", to("c"), deliverAt(start.Add(10*time.Millisecond+time.Microsecond))),
		)
		for _, s := range got {
			require.Equal(r, start.Add(11*time.Millisecond), s.Due)
		}
	}},
	{name: "a message keeps all it was published with", run: func(r *rig) {
		steps, err := ladder.Parse("1s,2s")
		require.NoError(r, err)
		wants, err := dispatcher.ParseSuccess(`{"status":["2xx","409"],"body":"success"}`)
		require.NoError(r, err)
		e := r.entry("m1", to("a"), func(m *dispatcher.Message) {
			m.Body = []byte("{ \"n\": 12345678901234567890,\x00\xff\r\n}")
			m.ContentType = "text/xml; charset=GBK"
			m.ExpiresAt = start.Add(time.Hour)
			m.Headers = []dispatcher.Header{{Name: "X-B", Value: "2"}, {Name: "X-A", Value: "a: b, \"c\""}}
			m.Ladder, m.MaxAttempts, m.Timeout = &steps, 3, 1500*time.Millisecond
			m.Success = wants
		})
		r.schedule(e)
		rec, err := r.Queue.Read(r.ctx, "m1")
		require.NoError(r, err)
		requireMessage(r, e.Message, &rec.Message)
		claimed := r.mustClaim(one, named("a", "m1"))
		requireMessage(r, e.Message, claimed[0].Message)
	}},
	{name: "a message may be empty but for what it needs", run: func(r *rig) {
		e := r.entry("m1", to("a"), func(m *dispatcher.Message) { m.Tenant, m.Body, m.ContentType = "", nil, "" })
		r.schedule(e)
		requireMessage(r, e.Message, r.mustClaim(one, named("a", "m1"))[0].Message)
	}},
	{name: "a repeat is a duplicate and changes nothing", run: func(r *rig) {
		first := r.entry("m1", to("a"), delay(time.Minute))
		r.schedule(first)
		r.pass(time.Second)
		r.mustChangeNothing(func() {
			got := r.schedule(first, r.entry("m1", to("a"), delay(time.Hour)))
			for _, s := range got {
				require.Equal(r, dispatcher.ScheduleResult{Result: dispatcher.Duplicate, CreatedAt: start}, s)
			}
		})
	}},
	{name: "other content under the same id is a conflict and changes nothing", run: func(r *rig) {
		r.publish("a", "m1")
		r.mustChangeNothing(func() {
			got := r.schedule(r.entry("m1", to("a"), body("other")), r.entry("m1", to("b"), body("other")))
			for _, s := range got {
				require.Equal(r, dispatcher.ScheduleResult{Result: dispatcher.Conflict}, s)
			}
		})
	}},
	{name: "of two equal ones in a batch the second is a duplicate", run: func(r *rig) {
		got := r.schedule(r.entry("m1", to("a")), r.entry("m1", to("a")))
		require.Equal(r, dispatcher.Accepted, got[0].Result)
		require.Equal(r, dispatcher.ScheduleResult{Result: dispatcher.Duplicate, CreatedAt: start}, got[1])
		require.Equal(r, ids("a", "m1"), r.State().Ready["a"])
	}},
	{name: "of two with one id in a batch the second is a conflict", run: func(r *rig) {
		got := r.schedule(r.entry("m1", to("a")), r.entry("m1", to("b"), body("other")), r.entry("m2", to("b")))
		require.Equal(r, dispatcher.Accepted, got[0].Result)
		require.Equal(r, dispatcher.ScheduleResult{Result: dispatcher.Conflict}, got[1])
		require.Equal(r, dispatcher.Accepted, got[2].Result)
		require.Equal(r, ids("b", "m2"), r.State().Ready["b"])
		requireMessage(r, r.entry("m1", nil).Message, r.mustClaim(one, named("a", "m1"))[0].Message)
	}},
	{name: "a repeat adds only the lanes that were never named, at the first one's time", run: func(r *rig) {
		r.schedule(r.entry("m1", to("a"), delay(time.Minute)))
		r.pass(10 * time.Second)
		got := r.schedule(r.entry("m1", to("a", "b"), delay(time.Hour)))
		require.Equal(r, dispatcher.Duplicate, got[0].Result)
		require.Equal(r, start.Add(time.Minute), r.mustStand(named("b", "m1"), dispatcher.StatusScheduled).Due)
		require.Equal(r, start.Add(time.Minute), r.mustStand(named("a", "m1"), dispatcher.StatusScheduled).Due)
	}},
	{name: "a lane that a repeat adds is not a fraction of a ms earlier", run: func(r *rig) {
		r.pass(300 * time.Microsecond)
		entries := []dispatcher.Entry{
			r.entry("m1", to("a"), deliverAt(start.Add(time.Minute+time.Microsecond))),
			r.entry("m2", to("a"), delay(time.Minute)),
		}
		r.schedule(entries...)
		for i := range entries {
			entries[i].Lanes = to("a", "b")
		}
		r.schedule(entries...)
		for _, id := range []string{"m1", "m2"} {
			require.Equal(r, r.look(named("a", id)).Due, r.look(named("b", id)).Due, id)
			require.Equal(r, start.Add(time.Minute+time.Millisecond), r.look(named("b", id)).Due, id)
		}
	}},
	{name: "a repeat in the same batch adds its lane too", run: func(r *rig) {
		got := r.schedule(r.entry("m1", to("a")), r.entry("m1", to("b")), r.entry("m1", to("a", "b", "c")))
		require.Equal(r, dispatcher.Duplicate, got[1].Result)
		for _, lane := range []dispatcher.Lane{"a", "b", "c"} {
			r.mustStand(named(lane, "m1"), dispatcher.StatusReady)
		}
	}},
	{name: "a repeat does not make deliveries again that have ended or are gone", run: func(r *rig) {
		r.schedule(r.entry("m1", to("a", "b")))
		claimed := r.mustClaim(one, named("a", "m1"))
		r.mustSettle(one, success(claimed[0]))
		r.mustChangeNothing(func() { r.schedule(r.entry("m1", to("a", "b"))) })
		r.trim(keepNothing)
		r.mustChangeNothing(func() { r.schedule(r.entry("m1", to("a", "b"))) })
		r.mustClaim(one, named("b", "m1"))
	}},
	{name: "an entry without a lane leaves nothing behind", run: func(r *rig) {
		r.mustChangeNothing(func() { r.schedule(r.entry("m1", nil)) })
	}},
	{name: "an empty batch does nothing", run: func(r *rig) {
		r.mustChangeNothing(func() { require.Empty(r, r.schedule()) })
	}},
}, directCases...)

// directCases are about leases that schedule gives without a claim.
var directCases = []testCase{
	{name: "a message that is due at once is leased directly", run: func(r *rig) {
		got := r.scheduleFor(one, 512, 64, r.entry("m1", to("a")))
		require.Equal(r, to("a"), got[0].Leased)
		require.Empty(r, got[0].Ready)
		require.Equal(r, start, got[0].Due)
		require.Equal(r, ids("a", "m1"), r.leases(one))
		r.mustStand(named("a", "m1"), dispatcher.StatusInFlight)
		r.mustClaimNothing(two)
	}},
	{name: "a message with a delay is not leased directly", run: func(r *rig) {
		got := r.scheduleFor(one, 512, 64, r.entry("m1", to("a"), delay(time.Millisecond)))
		require.Empty(r, got[0].Leased)
		require.Empty(r, r.leases(one))
	}},
	{name: "nothing is leased directly while others are ready", run: func(r *rig) {
		r.publish("a", "m1")
		got := r.scheduleFor(one, 512, 64, r.entry("m2", to("a")), r.entry("m3", to("b")))
		require.Equal(r, to("a"), got[0].Ready)
		require.Equal(r, to("b"), got[1].Leased)
		r.mustClaim(one, named("a", "m1"), named("a", "m2"))
	}},
	{name: "a delivery that waits for its time does not prevent a direct lease", run: func(r *rig) {
		r.schedule(r.entry("m1", to("a"), delay(time.Hour)))
		got := r.scheduleFor(one, 512, 64, r.entry("m2", to("a")))
		require.Equal(r, to("a"), got[0].Leased)
	}},
	{name: "a direct lease fills the window and no more", run: func(r *rig) {
		got := r.scheduleFor(one, 512, 64, r.entry("m1", to("a")), r.entry("m2", to("a")), r.entry("m3", to("a")))
		require.Equal(r, to("a"), got[0].Leased)
		require.Equal(r, to("a"), got[1].Leased)
		require.Equal(r, to("a"), got[2].Ready)
		require.Equal(r, append(ids("a", "m1"), ids("a", "m2")...), r.leases(one))
	}},
	{name: "at most so many are leased directly as were asked for", run: func(r *rig) {
		got := r.scheduleFor(one, 512, 2, r.entry("m1", to("a")), r.entry("m2", to("b")), r.entry("m3", to("c")))
		require.Equal(r, to("a"), got[0].Leased)
		require.Equal(r, to("b"), got[1].Leased)
		require.Equal(r, to("c"), got[2].Ready)
	}},
	{name: "each lane of a fan-out counts as one direct lease", run: func(r *rig) {
		got := r.scheduleFor(one, 512, 2, r.entry("m1", to("a", "b", "c")))
		require.Equal(r, to("a", "b"), got[0].Leased)
		require.Equal(r, to("c"), got[0].Ready)
	}},
	{name: "an unknown lane is leased directly only above four free permits", run: func(r *rig) {
		got := r.scheduleFor(one, 4, 4, r.entry("m1", to("a")))
		require.Equal(r, to("a"), got[0].Ready)
		got = r.scheduleFor(one, 5, 5, r.entry("m2", to("b")), r.entry("m3", to("b")))
		require.Equal(r, to("b"), got[0].Leased)
		require.Equal(r, to("b"), got[1].Ready, "one in flight and four permits left")
	}},
	{name: "an instance that holds nothing is given a direct lease at any weight", setup: Setup{Permits: 1}, run: func(r *rig) {
		got := r.scheduleFor(one, 1, 1, r.entry("m1", to("a")))
		require.Equal(r, to("a"), got[0].Leased)
	}},
	{name: "an instance without a permit gets no lease", run: func(r *rig) {
		got := r.scheduleFor(one, 0, 64, r.entry("m1", to("a")))
		require.Equal(r, to("a"), got[0].Ready)
	}},
	{name: "a fenced instance may publish, but is leased nothing", run: func(r *rig) {
		_, _, err := r.Queue.Reap(r.ctx, two, one)
		require.NoError(r, err)
		got := r.scheduleFor(one, 512, 64, r.entry("m1", to("a")))
		require.Equal(r, dispatcher.Accepted, got[0].Result)
		require.Equal(r, to("a"), got[0].Ready)
		r.mustClaim(two, named("a", "m1"))
	}},
	{name: "an expired message is not leased directly", run: func(r *rig) {
		got := r.scheduleFor(one, 512, 64, r.entry("m1", to("a"), expires(start)))
		require.Equal(r, dispatcher.Accepted, got[0].Result)
		require.Empty(r, got[0].Leased)
		r.mustClaimNothing(one)
		require.Equal(r, dispatcher.ReasonExpired, r.mustStand(named("a", "m1"), dispatcher.StatusDead).Reason)
	}},
	{name: "a message with a time in the past is due when it is accepted", run: func(r *rig) {
		for i, at := range []time.Time{time.UnixMilli(0), start.Add(-time.Hour)} {
			ready, leased := fmt.Sprintf("ready%d", i), fmt.Sprintf("leased%d", i)
			lane := dispatcher.Lane(fmt.Sprintf("l%d", i))
			got := r.schedule(r.entry(ready, to("a"), deliverAt(at)))
			require.Equal(r, to("a"), got[0].Ready)
			require.Equal(r, start, got[0].Due)
			got = r.scheduleFor(one, 512, 64, r.entry(leased, to(lane), deliverAt(at)))
			require.Equal(r, to(lane), got[0].Leased)
			require.Equal(r, start, got[0].Due)
		}
		for _, c := range r.claim(one, 2) {
			require.Equal(r, start, c.Due)
		}
	}},
	{name: "a delivery that waited behind another is due no sooner than it was accepted", run: func(r *rig) {
		r.publishKeyed("a", "k", "m1")
		r.pass(time.Hour)
		r.schedule(r.entry("m2", to("a"), keyed("k"), deliverAt(time.UnixMilli(0))))
		accepted := r.now
		r.pass(time.Minute)
		r.deliver(named("a", "m1"))
		require.Equal(r, accepted, r.mustClaim(one, named("a", "m2"))[0].Due)
	}},
	{name: "a lane that a repeat adds is due no sooner than the repeat", run: func(r *rig) {
		r.publish("a", "m1")
		r.pass(time.Hour)
		got := r.schedule(r.entry("m1", to("a", "b")))
		require.Equal(r, to("b"), got[0].Ready)
		r.mustClaim(one, named("a", "m1"))
		require.Equal(r, r.now, r.mustClaim(one, named("b", "m1"))[0].Due)
	}},
	{name: "a lane that a repeat adds may be leased directly", run: func(r *rig) {
		r.publish("a", "m1")
		got := r.scheduleFor(one, 512, 64, r.entry("m1", to("a", "b")))
		require.Equal(r, dispatcher.Duplicate, got[0].Result)
		require.Equal(r, to("b"), got[0].Leased)
		require.Equal(r, ids("b", "m1"), r.leases(one))
	}},
}

func deliverAt(t time.Time) func(*dispatcher.Message) {
	return func(m *dispatcher.Message) { m.DeliverAt = t }
}

// ids are the deliveries of messages to one lane.
func ids(lane dispatcher.Lane, messages ...string) []dispatcher.DeliveryID {
	out := make([]dispatcher.DeliveryID, len(messages))
	for i, m := range messages {
		out[i] = named(lane, m)
	}
	return out
}

// requireMessage compares the parts of a message that receivers and readers
// see. A delay has become a time by then.
func requireMessage(r *rig, want, got *dispatcher.Message) {
	r.Helper()
	require.NotNil(r, got)
	type told struct {
		id, topic, tenant, url, body, contentType string
		expires, created                          time.Time
		headers                                   []dispatcher.Header
		ladder, success                           string
		attempts                                  int
		timeout                                   time.Duration
	}
	tell := func(m *dispatcher.Message) told {
		t := told{
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
	require.Equal(r, tell(want), tell(got))
}
