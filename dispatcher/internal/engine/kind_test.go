package engine_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	d "github.com/hookladder/hookladder/dispatcher"
)

// Endpoints of kind pull, which are never called.

func pull(e *d.Endpoint) { e.Pull, e.URL = true, "" }

func TestAnEndpointOfKindPullIsNeverCalled(t *testing.T) {
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
		require.Zero(t, r.Held())
		r.stop(t)
	})
}

func TestAFanOutReachesEndpointsOfBothKinds(t *testing.T) {
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
