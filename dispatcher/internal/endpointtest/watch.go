package endpointtest

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

// patience is the timeout for the event of a change on a busy machine.
const patience = 20 * time.Second

var watchCases = []testCase{
	{name: "each change is published to all instances, including its own, in order", run: func(r *rig) {
		one, two := r.watch("one"), r.watch("two")
		e := r.create()
		f := r.create(tenant(""))
		require.NoError(r, r.Store.ChangeEndpoint(r.ctx, next(e)))
		require.NoError(r, r.Open().ChangeEndpoint(r.ctx, next(next(e))))
		r.mustDelete(e)
		want := []dispatcher.EndpointChange{
			{ID: e.ID, Tenant: "shop", Version: 1}, {ID: f.ID, Version: 1},
			{ID: e.ID, Tenant: "shop", Version: 2}, {ID: e.ID, Tenant: "shop", Version: 3}, {ID: e.ID, Tenant: "shop"},
		}
		require.Equal(r, want, r.receive(one, len(want)))
		require.Equal(r, want, r.receive(two, len(want)))
	}},
	{name: "a refused change is not published", run: func(r *rig) {
		e := r.create(uid("main"))
		changes := r.watch("one")
		_, err := r.Store.CreateEndpoint(r.ctx, e)
		require.ErrorIs(r, err, dispatcher.ErrTaken)
		_, err = r.Store.CreateEndpoint(r.ctx, r.endpoint(uid("main")))
		require.ErrorIs(r, err, dispatcher.ErrTaken)
		require.ErrorIs(r, r.Store.ChangeEndpoint(r.ctx, e), dispatcher.ErrStale)
		require.ErrorIs(r, r.Store.ChangeEndpoint(r.ctx, r.endpoint()), dispatcher.ErrNoEndpoint)
		_, err = r.Store.DeleteEndpoint(r.ctx, "ep_none")
		require.ErrorIs(r, err, dispatcher.ErrNoEndpoint)
		last := r.create(tenant("else"))
		require.Equal(r, []dispatcher.EndpointChange{{ID: last.ID, Tenant: "else", Version: 1}}, r.receive(changes, 1))
	}},
	{name: "a published change can be read already", run: func(r *rig) {
		changes := r.watch("one")
		other := r.Open()
		e := r.endpoint()
		written := make(chan error, 1)
		go func() {
			_, err := r.Store.CreateEndpoint(r.ctx, e)
			for range 20 {
				if err == nil {
					e = next(e)
					err = r.Store.ChangeEndpoint(r.ctx, e)
				}
			}
			written <- err
		}()
		for range 21 {
			change := r.receive(changes, 1)[0]
			got, err := other.Endpoints(r.ctx, []string{change.ID})
			require.NoError(r, err)
			require.NotNil(r, got[0])
			require.GreaterOrEqual(r, got[0].Version, change.Version)
		}
		require.NoError(r, <-written)
	}},
}

// watch subscribes as instance by until the case ends. It returns when the subscription
// is active.
func (r *rig) watch(by string) <-chan dispatcher.EndpointChange {
	r.Helper()
	ctx, stop := context.WithCancel(r.ctx)
	ended := make(chan error, 1)
	changes := make(chan dispatcher.EndpointChange, 1000)
	ready := make(chan struct{}, 1)
	go func() {
		ended <- r.Watch(ctx, by, dispatcher.Subscriber{
			OnEndpoint: func(c dispatcher.EndpointChange) { changes <- c },
			OnGap: func() {
				select {
				case ready <- struct{}{}:
				default:
				}
			},
		})
	}()
	r.Cleanup(func() {
		stop()
		require.NoError(r, <-ended)
	})
	select {
	case <-ready:
	case <-time.After(patience):
		require.FailNow(r, "nothing is watched")
	}
	return changes
}

// receive waits for n changes.
func (r *rig) receive(changes <-chan dispatcher.EndpointChange, n int) []dispatcher.EndpointChange {
	r.Helper()
	var got []dispatcher.EndpointChange
	for range n {
		select {
		case c := <-changes:
			got = append(got, c)
		case <-time.After(patience):
			require.FailNow(r, "a change was not published", "after %v", got)
		}
	}
	return got
}
