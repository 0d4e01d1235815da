package engine_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	d "github.com/hookladder/hookladder/dispatcher"
)

func TestWhatWaitsForADeletedEndpointIsCancelledAndCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, nil)
		r.start(t)
		view := r.create(t, uid("main"), paused)
		r.publish(t, to("main", "ready_1"))
		r.publish(t, to("main", "ready_2"))
		later := to("main", "later")
		later.Delay = time.Hour
		r.publish(t, later)
		r.store.journal(r.queue)
		n, err := r.DeleteEndpoint(t.Context(), "main")
		require.NoError(t, err)
		require.Equal(t, 3, n)
		require.Equal(t, []string{"delete endpoint", "limit"}, r.queue.order("limit", "delete endpoint")[1:])
		require.Equal(t, d.LaneDeleted, r.queue.limitsOf(view.Lane()).Mode)
		require.Greater(t, r.queue.limitsOf(view.Lane()).Version, view.Version)
		synctest.Wait()
		for _, id := range []string{"ready_1", "ready_2", "later"} {
			status, _ := r.queue.ended(view.Lane(), id)
			require.Equal(t, d.StatusCancelled, status, id)
		}
		require.Empty(t, r.sender.sent())
		_, err = r.DeleteEndpoint(t.Context(), "main")
		require.ErrorIs(t, err, d.ErrNoEndpoint)
		_, err = r.Resume(t.Context(), view.ID, "")
		require.ErrorIs(t, err, d.ErrNoEndpoint)
		r.stop(t)
	})
}

func TestAChangeThatEndsAfterADeleteDoesNotBringTheLaneBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, nil)
		r.start(t)
		view := r.create(t)
		slowly := slow("limit", time.Second)
		r.queue.set(func() { r.queue.hook = slowly })
		go func() { _, _ = r.Pause(context.WithoutCancel(t.Context()), view.ID, "") }()
		synctest.Wait() // the truth is changed, its copy is not
		r.queue.set(func() { r.queue.hook = nil })
		_, err := r.DeleteEndpoint(t.Context(), view.ID)
		require.NoError(t, err)
		pass(time.Minute)
		require.Len(t, r.queue.limited(view.Lane()), 3)
		require.Equal(t, d.LaneDeleted, r.queue.limitsOf(view.Lane()).Mode)
		r.stop(t)
	})
}

func TestADeleteStandsAboveChangesItHasNotSeen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, nil)
		r.start(t)
		view := r.create(t)
		late := view.Endpoint.Clone()
		r.store.set(func() {
			r.store.hook = func(name string) error {
				if name == "delete endpoint" { // it was read before: others change it meanwhile
					late.Version += 3
					r.store.put(late)
				}
				return nil
			}
		})
		_, err := r.DeleteEndpoint(t.Context(), view.ID)
		require.NoError(t, err)
		_, err = r.queue.still().Limit(t.Context(), "other", late.Lane(), late.Limits(), false)
		require.NoError(t, err)
		require.Equal(t, d.LaneDeleted, r.queue.limitsOf(view.Lane()).Mode)
		r.stop(t)
	})
}
