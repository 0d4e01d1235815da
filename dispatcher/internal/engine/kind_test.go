package engine_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	d "github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/engine"
	"github.com/hookladder/hookladder/signer"
)

// Endpoints of kind pull, which are never called.

func pull(e *d.Endpoint) { e.Pull, e.URL = true, "" }

func TestAnEndpointOfKindPullIsNeverCalled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, nil)
		r.start(t)
		view := r.create(t, uid("main"), pull)
		require.True(t, r.queue.limited(view.Lane())[0].Pull, "its lane is told")
		_, err := r.TestEndpoint(t.Context(), "main")
		require.ErrorIs(t, err, d.ErrPull)
		// A broken copy of its limits has it claimed as any other.
		_, err = r.queue.still().Limit(t.Context(), "other", view.Lane(), d.LaneLimits{Version: 2}, false)
		require.NoError(t, err)
		r.leaseTo(view.Lane(), "m")
		pass(time.Second)
		require.Empty(t, r.sender.sent())
		require.Equal(t, map[d.Verdict]int{d.Back: 1}, r.queue.verdicts(), "it rests, and spends no rung")
		require.Zero(t, r.Leases())
		r.stop(t)
	})
}

func TestWhatIsTakenFromAnEndpointIsSignedForIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, nil)
		r.start(t)
		view := r.create(t, pull)
		c := claimed(message("m"))
		c.ID.Lane = view.Lane()
		at := time.Unix(1_700_000_000, 0)
		h, err := r.Headers(c, at)
		require.NoError(t, err, "it needs no URL")
		own, err := signer.NewSigner(view.Secrets[0].Secret)
		require.NoError(t, err)
		require.Equal(t, own.Sign("m", at, c.Message.Body), h.Get("webhook-signature"))
		r.stop(t)
	})
}

func TestAFanOutReachesEndpointsOfBothKinds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, acceptsOnly)
		r.start(t)
		called := r.create(t)
		taken := r.create(t, pull)
		out := r.publish(t, &d.Message{ID: "m", Topic: "payment.paid", Tenant: "acme", Body: []byte("{}"), ContentType: "application/json"})
		urls := map[d.Lane]string{}
		for _, one := range out.Deliveries {
			urls[one.ID.Lane] = one.URL
		}
		require.Equal(t, map[d.Lane]string{called.Lane(): called.URL, taken.Lane(): ""}, urls)
		r.stop(t)
	})
}

func TestAMessageToAQueueWaitsInItsLane(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, func(o *engine.Options, _ *testQueue, _ *fakeSender) { o.Secrets = nil })
		r.start(t)
		const long = "order.cancellations"
		paused, err := r.Pause(t.Context(), string(d.QueueLane(long)), "")
		require.NoError(t, err, "a queue is there by being named")
		require.True(t, paused.Known)
		for _, name := range []string{"orders", long} {
			m := &d.Message{ID: strings.ReplaceAll(name, ".", "-"), Topic: "order.unpaid", Queue: name, Body: []byte("{}"), ContentType: "application/json"}
			out := r.publish(t, m)
			require.Len(t, out.Deliveries, 1)
			require.Equal(t, d.QueueLane(name), out.Deliveries[0].ID.Lane)
			require.Equal(t, d.StatusReady, out.Deliveries[0].Status)
			require.Empty(t, out.Deliveries[0].URL)
			require.Equal(t, d.Duplicate, r.publish(t, m).Result)
			view, err := r.Message(t.Context(), m.ID)
			require.NoError(t, err)
			require.Equal(t, name, view.Message.Queue)
			require.Equal(t, map[string]string{"orders": "consumer", long: "paused"}[name], view.Deliveries[0].WaitingFor)
			other := *m
			other.Queue = "others"
			require.Equal(t, []string{"destination"}, r.publish(t, &other).Differs)
		}
		pass(time.Minute)
		require.Empty(t, r.sender.sent())
		states, err := r.LaneStates(t.Context(), []d.Lane{d.QueueLane(long)})
		require.NoError(t, err)
		require.Equal(t, long, states[0].Queue)
		_, err = r.Pause(t.Context(), "orders", "")
		require.ErrorIs(t, err, d.ErrNoEndpoint, "the name of a queue is no destination")
		r.stop(t)
	})
}
