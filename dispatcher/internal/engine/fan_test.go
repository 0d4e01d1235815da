package engine_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	d "github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/engine"
)

// newTestFan has endpoints of two tenants and of none; none has its lane in
// flight, since there are no permits.
func newTestFan(t *testing.T) (r *endpointRig, lanes map[string]d.Lane) {
	r = newTestEndpointRig(t, acceptsOnly)
	r.start(t)
	lanes = map[string]d.Lane{}
	for name, with := range map[string][]func(*d.Endpoint){
		"payments": {}, "all": {topics("*")}, "refunds": {topics("refund.*", "payment.refunded")}, "none": {topics()},
		"paused": {paused}, "disabled": {disabled},
		"other": {tenant("other"), topics("*")}, "nobody": {tenant(""), topics("*")},
	} {
		lanes[name] = r.create(t, append(with, uid(name), address("https://"+name+".example/hook"))...).Lane()
	}
	return r, lanes
}

func TestAMessageGoesToAllEndpointsOfItsTenantThatMatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, lanes := newTestFan(t)
		out := r.publish(t, fan("acme", "m"))
		require.Equal(t, d.Accepted, out.Result)
		require.Equal(t, map[d.Lane]d.Status{
			lanes["payments"]: d.StatusReady, lanes["all"]: d.StatusReady, lanes["paused"]: d.StatusReady, lanes["disabled"]: d.StatusDead,
		}, statuses(out.Deliveries))
		for _, delivery := range out.Deliveries {
			require.Equal(t, r.store.stored(string(delivery.ID.Lane)).URL, delivery.URL)
			require.Equal(t, "m", delivery.ID.Message)
			if delivery.Status == d.StatusDead {
				require.Equal(t, d.ReasonDisabled, delivery.Reason)
				require.True(t, delivery.Due.IsZero())
			}
		}
		require.Equal(t, []int{1}, sizes(r.queue.seen("schedule")), "in one call")
		refund := fan("acme", "refund")
		refund.Topic = "refund.done"
		require.Len(t, r.publish(t, refund).Deliveries, 2)
		require.Equal(t, map[d.Lane]d.Status{lanes["other"]: d.StatusReady}, statuses(r.publish(t, fan("other", "o")).Deliveries))
		require.Equal(t, map[d.Lane]d.Status{lanes["nobody"]: d.StatusReady}, statuses(r.publish(t, fan("", "n")).Deliveries), "without a tenant: those without one")
		r.stop(t)
	})
}

func TestAMessageThatMatchesTooManyIsRefusedUnlessItIsKnown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, func(o *engine.Options, _ *testQueue, _ *fakeSender) { o.MaxInFlight, o.FanoutMax = 0, 2 })
		r.start(t)
		r.create(t)
		r.create(t)
		r.publish(t, fan("acme", "before"))
		require.Empty(t, r.queue.seen("known"), "it costs nothing where few match")
		r.create(t)
		elsewhere := fan("acme", "elsewhere")
		elsewhere.Topic = "other.topic"
		out, err := r.Publish(t.Context(), []*d.Message{fan("acme", "new"), message("url"), fan("acme", "before"), elsewhere})
		require.NoError(t, err)
		require.ErrorIs(t, out[0].Err, d.ErrFanOut)
		require.ErrorContains(t, out[0].Err, "3 match, FANOUT_MAX is 2")
		require.Equal(t, d.Accepted, out[1].Result, "the others go on")
		require.Equal(t, d.Duplicate, out[2].Result, "a repeat may complete what was stored by half")
		require.Equal(t, d.Accepted, out[3].Result)
		require.Len(t, r.queue.seen("known"), 1)
		require.Equal(t, 2, r.queue.seen("known")[0].n)
		require.Len(t, r.queue.seen("schedule"), 2)
		r.queue.set(func() { r.queue.hook = failing("known", d.ErrUnavailable) })
		out, err = r.Publish(t.Context(), []*d.Message{fan("acme", "new")})
		require.NoError(t, err)
		require.ErrorIs(t, out[0].Err, d.ErrUnavailable)
		r.stop(t)
	})
}

func TestWhatMatchesNothingIsTakenAndNotKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, _ := newTestFan(t)
		out := r.publish(t, fan("stranger", "m"))
		require.Equal(t, d.Accepted, out.Result)
		require.Empty(t, out.Deliveries)
		require.False(t, out.CreatedAt.IsZero())
		require.Zero(t, r.queue.count("schedule"))
		_, err := r.Message(t.Context(), "m")
		require.ErrorIs(t, err, d.ErrNotFound)
		r.stop(t)
	})
}

func TestARepeatThatMatchesNothingAnyMoreIsADuplicate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, acceptsOnly)
		r.start(t)
		view := r.create(t)
		first := r.publish(t, fan("acme", "m"))
		pass(time.Minute)
		r.change(t, view.ID, topics("refund.*"))
		again := r.publish(t, fan("acme", "m"))
		require.Equal(t, d.Duplicate, again.Result)
		require.Equal(t, statuses(first.Deliveries), statuses(again.Deliveries))
		require.True(t, again.CreatedAt.Equal(first.CreatedAt))
		other := fan("acme", "m")
		other.Body = []byte(`{"other":1}`)
		refused := r.publish(t, other)
		require.Equal(t, d.Conflict, refused.Result)
		require.Equal(t, []string{"body"}, refused.Differs)
		r.stop(t)
	})
}

func TestARepeatIsAnsweredWithTheDeliveriesThereAre(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, nil)
		r.start(t)
		view := r.create(t, uid("main"))
		first := r.publish(t, to("main", "m"))
		pass(time.Second)
		again := r.publish(t, to(view.ID, "m"))
		require.Equal(t, d.Duplicate, again.Result, "the same endpoint by its other name")
		require.Equal(t, d.StatusDelivered, again.Deliveries[0].Status)
		require.Equal(t, view.URL, again.Deliveries[0].URL)
		require.True(t, again.CreatedAt.Equal(first.CreatedAt))
		other := to("main", "m")
		other.Topic, other.Endpoint, other.URL, other.Body = "other", "", "https://elsewhere.example/", []byte("other") // it has no endpoint, so no tenant
		require.Equal(t, []string{"topic", "tenant", "destination", "body"}, r.publish(t, other).Differs, "url and endpoint are one destination")
		other = to("main", "m")
		other.Body = []byte("other")
		refused := r.publish(t, other)
		require.Equal(t, d.Conflict, refused.Result)
		require.Equal(t, []string{"body"}, refused.Differs)
		r.stop(t)
	})
}

func TestAMessageNamesAnEndpointByItsIDOrItsUID(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, lanes := newTestFan(t)
		for i, m := range []*d.Message{to("refunds", "by_uid"), to(string(lanes["refunds"]), "by_id")} {
			if i == 1 {
				m.Tenant = "acme"
			}
			out := r.publish(t, m)
			require.Equal(t, map[d.Lane]d.Status{lanes["refunds"]: d.StatusReady}, statuses(out.Deliveries), "whatever its topics")
			require.Equal(t, string(lanes["refunds"]), m.Endpoint)
		}
		r.stop(t)
	})
}

// So each delivery of an endpoint is its tenant's, and a repeat may name the tenant or not.
func TestAMessageToAnEndpointHasTheEndpointsTenant(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, lanes := newTestFan(t)
		out := r.publish(t, to("refunds", "m"))
		require.Equal(t, d.Accepted, out.Result)
		require.Equal(t, "acme", out.Deliveries[0].Tenant)
		tenant, err := r.MessageTenant(t.Context(), "m")
		require.NoError(t, err)
		require.Equal(t, "acme", tenant, "it is kept")

		named := to(string(lanes["refunds"]), "m")
		named.Tenant = "acme"
		require.Equal(t, d.Duplicate, r.publish(t, named).Result)
		require.Equal(t, d.Duplicate, r.publish(t, to("refunds", "m")).Result)
		named.Tenant = "other"
		refused, err := r.Publish(t.Context(), []*d.Message{named})
		require.NoError(t, err)
		require.ErrorIs(t, refused[0].Err, d.ErrTenant)
		r.stop(t)
	})
}

func TestABatchIsAnsweredInItsOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, lanes := newTestFan(t)
		foreign := to("payments", "foreign")
		foreign.Tenant = "other"
		batch := []*d.Message{
			fan("stranger", "unmatched"), message("bare"), to("nobody_there", "unknown"), to("payments", "named"), foreign,
			fan("acme", "fanned"), to("ep_unknown00", "unknown_id"), message("bare"), to("disabled", "dead"),
		}
		out, err := r.Publish(t.Context(), batch)
		require.NoError(t, err)
		require.Len(t, out, len(batch))
		for i, want := range []error{2: d.ErrNoEndpoint, 4: d.ErrTenant, 6: d.ErrNoEndpoint, 8: nil} {
			require.ErrorIs(t, out[i].Err, want, batch[i].ID)
			if want != nil {
				require.ErrorContains(t, out[i].Err, batch[i].ID)
				require.Zero(t, out[i].Result)
			}
		}
		require.Equal(t, []d.Result{d.Accepted, d.Accepted, 0, d.Accepted, 0, d.Accepted, 0, d.Duplicate, d.Accepted}, resultsOf(out))
		require.Empty(t, out[0].Deliveries)
		require.Equal(t, "bare", out[1].Deliveries[0].ID.Message)
		require.Equal(t, lanes["payments"], out[3].Deliveries[0].ID.Lane)
		require.Len(t, out[5].Deliveries, 4)
		require.Equal(t, "fanned", out[5].Deliveries[0].ID.Message)
		require.Equal(t, d.StatusDead, out[8].Deliveries[0].Status)
		require.Equal(t, []int{5}, sizes(r.queue.seen("schedule")))
		r.stop(t)
	})
}

func resultsOf(out []d.Published) (all []d.Result) {
	for _, p := range out {
		all = append(all, p.Result)
	}
	return all
}

func TestALaneThatIsFullRefusesAMessageButNotAFanOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, func(o *engine.Options, q *testQueue, s *fakeSender) {
			acceptsOnly(o, q, s)
			q.maxWaiting = 1
		})
		r.start(t)
		slow, quick := r.create(t, uid("slow")), r.create(t)
		r.publish(t, to("slow", "first"))
		require.Equal(t, d.LaneFull, r.publish(t, to("slow", "second")).Result)
		require.Empty(t, r.publish(t, to("slow", "second")).Deliveries)
		out := r.publish(t, fan("acme", "all"))
		require.Equal(t, d.Accepted, out.Result)
		require.Equal(t, map[d.Lane]d.Status{slow.Lane(): d.StatusDead, quick.Lane(): d.StatusReady}, statuses(out.Deliveries))
		for _, delivery := range out.Deliveries {
			if delivery.ID.Lane == slow.Lane() {
				require.Equal(t, d.ReasonOverflow, delivery.Reason)
			}
		}
		r.stop(t)
	})
}

func TestADeliveryIsAnsweredAsItStands(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, nil)
		r.queue.direct = true
		r.sender.answer = takes(time.Second)
		r.start(t)
		view := r.create(t, uid("main"), func(e *d.Endpoint) { e.Ordered = true })
		require.Equal(t, d.StatusInFlight, r.publish(t, to("main", "first")).Deliveries[0].Status)
		behind := r.publish(t, to("main", "behind")).Deliveries[0]
		require.Equal(t, d.StatusScheduled, behind.Status)
		require.True(t, behind.Due.IsZero(), "when the one before it has ended")
		later := to("main", "later")
		pass(time.Minute)
		require.Len(t, r.sender.sent(), 2)
		r.change(t, "main", func(e *d.Endpoint) { e.Ordered = false })
		later.Delay = time.Hour
		scheduled := r.publish(t, later).Deliveries[0]
		require.Equal(t, d.StatusScheduled, scheduled.Status)
		require.WithinDuration(t, r.queue.now().Add(time.Hour), scheduled.Due, moment)
		// Its endpoint was deleted, of which this instance has not heard.
		r.store.listen("here", nil)
		_, err := r.store.DeleteEndpoint(t.Context(), view.ID)
		require.NoError(t, err)
		_, err = r.queue.still().Limit(t.Context(), "other", view.Lane(), d.LaneLimits{Version: 9, Mode: d.LaneDeleted}, false)
		require.NoError(t, err)
		gone := r.publish(t, to(view.ID, "gone")).Deliveries[0]
		require.Equal(t, d.StatusCancelled, gone.Status)
		require.True(t, gone.Due.IsZero())
		left, err := r.Retry(t.Context(), "first", "", true)
		require.NoError(t, err)
		require.Equal(t, d.LeftDeleted, left[0].Left)
		r.stop(t)
	})
}

func TestWhatDiedBecauseItsEndpointWasDisabledIsReplayed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, nil)
		r.start(t)
		r.create(t, uid("main"), disabled)
		require.Equal(t, d.StatusDead, r.publish(t, to("main", "m")).Deliveries[0].Status)
		left, err := r.Retry(t.Context(), "m", "", false)
		require.NoError(t, err)
		require.Equal(t, d.LeftDisabled, left[0].Left)
		_, err = r.Resume(t.Context(), "main", "")
		require.NoError(t, err)
		require.Empty(t, r.sender.sent())
		list, err := r.Retry(t.Context(), "m", "", false)
		require.NoError(t, err)
		require.Equal(t, d.LeftNot, list[0].Left)
		require.Equal(t, "https://acme.example/hook", list[0].URL)
		synctest.Wait()
		require.Len(t, r.sender.sent(), 1)
		require.Equal(t, "true", r.sender.sent()[0].Header.Get("Hookladder-Resend"))
		r.stop(t)
	})
}

func TestAnEndpointsStoreThatFailsFailsWhatNeedsIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, acceptsOnly)
		r.start(t)
		r.store.hook = func(string) error { return d.ErrUnavailable }
		out, err := r.Publish(t.Context(), []*d.Message{message("bare"), to("ep_000000001", "named"), fan("acme", "fanned")})
		require.NoError(t, err)
		require.Equal(t, d.Accepted, out[0].Result)
		require.ErrorIs(t, out[1].Err, d.ErrUnavailable)
		require.ErrorIs(t, out[2].Err, d.ErrUnavailable)
		r.stop(t)
	})
}

// halfThere is a queue that had the delivery in the first lane of a message before.
type halfThere struct{ *testConn }

func (q halfThere) Schedule(ctx context.Context, by string, free, lease int, batch []d.Entry) ([]d.ScheduleResult, error) {
	out, err := q.testConn.Schedule(ctx, by, free, lease, batch)
	for i := range out {
		out[i].Placed[0] = d.Placed{Lane: out[i].Placed[0].Lane}
	}
	return out, err
}

func TestADeliveryThatWasThereIsReadBeforeItIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var o engine.Options
		r := newTestEndpointRig(t, func(from *engine.Options, q *testQueue, s *fakeSender) {
			acceptsOnly(from, q, s)
			o = *from
		})
		r.instance = newTestInstance(t, halfThere{connect(t, r.queue, o.MaxInFlight)}, r.sender, o)
		r.start(t)
		r.create(t, uid("a"))
		r.create(t, uid("b"))
		out := r.publish(t, fan("acme", "m"))
		require.Equal(t, d.Accepted, out.Result)
		require.Equal(t, []d.Status{d.StatusReady, d.StatusReady}, []d.Status{out.Deliveries[0].Status, out.Deliveries[1].Status})
		r.stop(t)
	})
}

// digestOnly is a queue that knows the digest alone of each message.
type digestOnly struct{ *testConn }

func (q digestOnly) Schedule(_ context.Context, _ string, _, _ int, batch []d.Entry) ([]d.ScheduleResult, error) {
	out := make([]d.ScheduleResult, len(batch))
	for i := range out {
		out[i].Result = d.Duplicate
	}
	return out, nil
}

func TestARepeatOfWhichOnlyTheDigestIsKnownHasNoTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var o engine.Options
		r := newTestRig(t, func(from *engine.Options, q *testQueue, s *fakeSender) {
			acceptsOnly(from, q, s)
			o = *from
		})
		r.instance = newTestInstance(t, digestOnly{connect(t, r.queue, o.MaxInFlight)}, r.sender, o)
		r.start(t)
		out, err := r.Publish(t.Context(), []*d.Message{message("m")})
		require.NoError(t, err)
		require.Equal(t, []any{d.Duplicate, true, 0}, []any{out[0].Result, out[0].CreatedAt.IsZero(), len(out[0].Deliveries)})
		r.stop(t)
	})
}
