package redisq_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// After a machine slept, or where a firewall forgot them, all connections are
// dead while each looks alive. One call may wait for its answer in vain, not one
// for each of them; and the subscription ends, though no command asks it anything.
func TestOneTimeoutFindsAllDeadLines(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	store := openTestStore(t, redisq.Options{
		URL: proxy.URL() + "?read_timeout=8s&pool_size=8", Project: "lines", LaneMaxInFlight: 128, Permits: 1024,
		Log: slog.New(slog.DiscardHandler),
	})
	heard, ended := make(chan struct{}, 1), make(chan error, 1)
	var watch sync.WaitGroup
	defer watch.Wait()
	watching, stop := context.WithCancel(ctx)
	defer stop()
	watch.Go(func() {
		ended <- store.Queue().Watch(watching, "one", dispatcher.Subscriber{OnGap: func() { heard <- struct{}{} }})
	})
	<-heard
	openAll(t, server, proxy, store, 8)
	proxy.Swallow()
	require.ErrorIs(t, store.Ping(ctx), dispatcher.ErrUnavailable)
	for range 20 {
		require.NoError(t, store.Ping(ctx), "no other line was tried in vain")
	}
	require.Error(t, <-ended, "the subscription was on a dead line too")
	require.NoError(t, schedule(ctx, store, faultEntries(3, 0)...))
}

// openAll makes a store use n connections at the same time, besides its
// subscription: nothing is answered while the server is paused.
func openAll(t *testing.T, server *redistest.Server, proxy *redistest.Proxy, store *redisqtest.Raw, n int) {
	t.Helper()
	server.Pause()
	var calls errgroup.Group
	for range n {
		calls.Go(func() error { return store.Ping(t.Context()) })
	}
	require.Eventually(t, func() bool { return proxy.Open() > n }, patient, time.Millisecond)
	server.Resume()
	require.NoError(t, calls.Wait())
}

// One call that takes too long, while the server answers others, says nothing of
// their lines: to cut the subscription and hand leases back would make it worse.
func TestACallThatTakesTooLongCutsNoOtherLine(t *testing.T) {
	t.Parallel()
	store := openTestStore(t, redisq.Options{
		URL: redistest.Start(t).URL(), Project: "lines", LaneMaxInFlight: 128, Permits: 1024, Log: slog.New(slog.DiscardHandler),
	})
	begun, reported, ended := make(chan struct{}, 1), make(chan struct{}, 8), make(chan error, 1)
	var watch sync.WaitGroup
	defer watch.Wait()
	watching, stop := context.WithCancel(t.Context())
	defer stop()
	watch.Go(func() {
		ended <- store.Watch(watching, "two", redisqtest.Subscriber{
			Subscriber: dispatcher.Subscriber{OnGap: func() { begun <- struct{}{} }}, OnHint: func(redisqtest.Hint) { reported <- struct{}{} },
		})
	})
	<-begun
	require.ErrorIs(t, store.Stall(t.Context()), dispatcher.ErrUnavailable)
	require.NoError(t, schedule(t.Context(), store, faultEntries(1, 0)...))
	select {
	case <-reported:
	case err := <-ended:
		require.Fail(t, "the subscription was cut", "%v", err)
	}
}

// A call that was given up soon proves nothing: others are not cut off for it.
func TestALineThatIsInUseIsNotCutForAHurry(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	// Without a subscription, whose end the proxy might notice later.
	store := openTestStore(t, redisq.Options{URL: proxy.URL(), Project: "lines", LaneMaxInFlight: 128, Permits: 1024, Poll: true})
	before := proxy.Open()
	server.Pause()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, store.Ping(ctx), dispatcher.ErrUnavailable)
	server.Resume()
	require.NoError(t, store.Ping(t.Context()))
	require.Equal(t, before, proxy.Open())
}
