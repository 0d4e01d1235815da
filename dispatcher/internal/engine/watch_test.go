package engine_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	d "github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/engine"
)

func TestADeletionEndsWaitsForThatLane(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var gone []d.Lane
		r := newTestEndpointRig(t, func(o *engine.Options, _ *testQueue, _ *fakeSender) {
			o.Gone = func(lane d.Lane) { gone = append(gone, lane) }
		})
		r.start(t)
		r.queue.notify(d.EndpointChange{ID: "ep_a", Tenant: "acme", Version: 2})
		r.queue.notify(d.EndpointChange{ID: "ep_b", Tenant: "acme"})
		require.Equal(t, []d.Lane{"ep_b"}, gone)
	})
}
