package feed_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

func TestEndpointsAreReadPageByPage(t *testing.T) {
	onBoth(t, func(a *archived) {
		ctx, client, home := a.T.Context(), a.store.Client(), keys.Home(a.Options.Project)
		want := map[string]archive.Endpoint{}
		var living, gone []any
		for n := range 600 {
			id := fmt.Sprintf("ep_%d", n)
			want[id] = archive.Endpoint{ID: id, Version: int64(n), Record: []byte("sealed of " + id)}
			living = append(living, id, fmt.Sprintf("%d sealed of %s", n, id))
			id = fmt.Sprintf("ep_gone_%d", n)
			want[id] = archive.Endpoint{ID: id, Version: int64(n), Deleted: true, Record: []byte{}}
			gone = append(gone, id, n)
		}
		require.NoError(a.T, client.HSet(ctx, home+keys.Endpoints, living...).Err())
		require.NoError(a.T, client.HSet(ctx, home+keys.Gone, gone...).Err())
		require.NoError(a.T, client.HSet(ctx, home+keys.Endpoints, "unreadable", "x").Err())
		got, pages := map[string]archive.Endpoint{}, 0
		for cursor := ""; ; pages++ {
			page, next, err := a.feed.Endpoints(ctx, cursor)
			require.NoError(a.T, err)
			for _, e := range page {
				got[e.ID] = e
			}
			if cursor = next; cursor == "" {
				break
			}
		}
		require.Equal(a.T, want, got)
		require.Positive(a.T, pages)
		_, _, err := a.feed.Endpoints(ctx, "no cursor")
		require.ErrorIs(a.T, err, dispatcher.ErrCursor)
		_, n, err := a.feed.Holds(ctx)
		require.NoError(a.T, err)
		require.Equal(a.T, 1201, n, "those that were deleted count: a store that was emptied has none")
	})
}

func TestWhatIsHeldIsRead(t *testing.T) {
	onBoth(t, func(a *archived) {
		ctx := a.T.Context()
		for _, lane := range []dispatcher.Lane{"u_a", "ep_a", dispatcher.AllLanes} {
			_, _, err := a.store.Limit(ctx, "one", lane, dispatcher.LaneLimits{Held: dispatcher.HeldPaused, By: "key:ops"}, false)
			require.NoError(a.T, err)
		}
		holds, n, err := a.feed.Holds(ctx)
		require.NoError(a.T, err)
		require.Zero(a.T, n)
		var lanes []dispatcher.Lane
		for _, h := range holds {
			lanes = append(lanes, h.Lane)
			require.Equal(a.T, "key:ops", h.By)
			require.Equal(a.T, a.Now.UnixMilli(), h.Since.UnixMilli())
		}
		require.ElementsMatch(a.T, []dispatcher.Lane{"u_a", dispatcher.AllLanes}, lanes, "an endpoint's pause is in its record")
	})
}

func TestInstancesAreAskedToLookAtTheLog(t *testing.T) {
	onBoth(t, func(a *archived) {
		ctx, stop := context.WithCancel(a.T.Context())
		defer stop()
		subscribed, heard, ended := make(chan bool, 1), make(chan dispatcher.EndpointChange, 1), make(chan error, 1)
		go func() {
			ended <- a.store.Bare().Watch(ctx, "one", dispatcher.Subscriber{
				OnGap: func() { subscribed <- true }, OnEndpoint: func(c dispatcher.EndpointChange) { heard <- c },
			})
		}()
		<-subscribed
		require.NoError(a.T, a.feed.Ask(ctx))
		require.Equal(a.T, dispatcher.EndpointChange{ID: "-"}, <-heard)
		stop()
		require.NoError(a.T, <-ended)
	})
}
