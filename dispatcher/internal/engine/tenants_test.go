package engine_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	d "github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/engine"
)

// at is a message of a tenant to a URL.
func at(id, tenant, to string) *d.Message {
	m := message(id)
	m.Tenant, m.URL = tenant, to
	return m
}

func TestALaneThatIsNotThereIsNeitherPausedNorResumed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, nil)
		r.start(t)
		for _, name := range []string{"u_AbCdEfGhIj", "q_", "q_~short"} {
			for _, call := range []func(context.Context, string, string) (d.LaneState, error){r.Pause, r.Resume} {
				_, err := call(t.Context(), name, "")
				require.ErrorIs(t, err, d.ErrNoLane, name)
			}
		}
		require.Empty(t, r.queue.seen("limit"), "none was made by asking")
		state, err := r.Pause(t.Context(), "https://new.example/hooks", "t")
		require.NoError(t, err, "a URL may be held before its first message")
		require.Equal(t, d.StatePaused, state.State())
		state, err = r.Resume(t.Context(), string(state.Lane), "")
		require.NoError(t, err, "and its lane is there then")
		require.Equal(t, d.StateActive, state.State())
		r.stop(t)
	})
}

func TestAURLsOtherTenantsAreCountedPausedAndResumed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, nil)
		r.start(t)
		lanes := map[string]d.Lane{}
		for i, m := range []*d.Message{
			at("m0", "", "https://shop.example/a"), at("m1", "t1", "https://SHOP.example/b"), at("m2", "t2", "https://shop.example:443/c"),
			at("m3", "t1", "http://shop.example/a"), at("m4", "t1", "https://shop.example.org/a"), at("m5", "t1", "https://shop.example:444/"),
		} {
			lanes[fmt.Sprint(i)] = r.publish(t, m).Deliveries[0].ID.Lane
		}
		count, err := r.OtherTenants(t.Context(), "https://shop.example/x", "")
		require.NoError(t, err)
		require.Equal(t, d.OtherTenants{Lanes: 2}, count)
		count, err = r.OtherTenants(t.Context(), "https://shop.example/x", "t1")
		require.NoError(t, err)
		require.Equal(t, d.OtherTenants{Lanes: 2}, count, "the tenant's own is none of the others")
		require.Empty(t, r.queue.seen("limit"), "they are only counted")

		paused := func() (names []string) {
			for name, lane := range lanes {
				states, err := r.queue.still().LaneStates(t.Context(), []d.Lane{lane})
				require.NoError(t, err)
				if states[0].State() == d.StatePaused {
					names = append(names, name)
				}
			}
			slices.Sort(names)
			return names
		}
		for range 2 { // it may be repeated
			count, err = r.PauseTenants(t.Context(), "https://shop.example/x", "")
			require.NoError(t, err)
			require.Equal(t, d.OtherTenants{Lanes: 2, Changed: 2}, count)
			require.Equal(t, []string{"1", "2"}, paused(), "of no other scheme, host or port")
		}
		count, err = r.ResumeTenants(t.Context(), "https://shop.example/x", "")
		require.NoError(t, err)
		require.Equal(t, d.OtherTenants{Lanes: 2, Changed: 2}, count)
		require.Empty(t, paused())
		r.stop(t)
	})
}

func TestAPauseOfAllTenantsThatIsHalfDoneSaysSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, nil)
		r.start(t)
		for i := range 3 {
			r.publish(t, at(fmt.Sprintf("m%d", i), fmt.Sprintf("t%d", i), "https://shop.example/"))
		}
		r.queue.set(func() { r.queue.hook = failing("limit", d.ErrUnavailable) })
		count, err := r.PauseTenants(t.Context(), "https://shop.example", "")
		require.NoError(t, err)
		require.Equal(t, d.OtherTenants{Lanes: 3, Failed: 3}, count)
		r.queue.set(func() { r.queue.hook = failing("lane names", d.ErrUnavailable) })
		count, err = r.PauseTenants(t.Context(), "https://shop.example", "")
		require.NoError(t, err)
		require.Equal(t, d.OtherTenants{Failed: r.queue.partitions}, count, "partitions that can't be read")
		r.queue.set(func() { r.queue.hook = nil })
		count, err = r.PauseTenants(t.Context(), "https://shop.example", "")
		require.NoError(t, err)
		require.Equal(t, d.OtherTenants{Lanes: 3, Changed: 3}, count)
		for _, cursor := range []string{"x", "1", "-1-", "9999-", "-"} {
			_, err = r.PauseTenants(t.Context(), "https://shop.example", cursor)
			require.ErrorIs(t, err, d.ErrCursor, cursor)
		}
		pass(time.Second)
		r.stop(t)
	})
}

func TestACallAboutAllTenantsEndsAndGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const lanes = 1600 // a call ends behind 1,000, at the end of its page
		r := newTestEndpointRig(t, func(_ *engine.Options, q *testQueue, _ *fakeSender) { q.partitions = 3 })
		r.start(t)
		batch := make([]*d.Message, lanes)
		for i := range batch {
			batch[i] = at(fmt.Sprintf("m%d", i), fmt.Sprintf("t%d", i), "https://shop.example/")
		}
		_, err := r.Publish(t.Context(), batch)
		require.NoError(t, err)
		first, err := r.PauseTenants(t.Context(), "https://shop.example", "")
		require.NoError(t, err)
		require.GreaterOrEqual(t, first.Changed, 1000)
		require.Less(t, first.Changed, lanes)
		require.NotEmpty(t, first.Next)
		rest, err := r.PauseTenants(t.Context(), "https://shop.example", first.Next)
		require.NoError(t, err)
		require.Equal(t, d.OtherTenants{Lanes: lanes - first.Lanes, Changed: lanes - first.Changed}, rest)
		r.stop(t)
	})
}
