package redisq_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// laneStore is a store with a few partitions and the clock of Redis.
func laneStore(t *testing.T, change ...func(*redisq.Options)) *redisqtest.Raw {
	t.Helper()
	options := redisq.Options{
		URL: redisqtest.PatientURL(redistest.Start(t)), Project: "lanes", Partitions: 3, LaneMaxInFlight: 128, Permits: 4096,
		Log: slog.New(slog.DiscardHandler),
	}
	for _, c := range change {
		c(&options)
	}
	return openTestStore(t, options)
}

func endpointLane(i int) dispatcher.Lane { return dispatcher.Lane(fmt.Sprintf("ep_%09d", i)) }

// A script may unpack some thousand values at most. One that makes thousands of
// deliveries would block Redis for long.
func TestAMessageMayGoToMoreLanesThanOneCallTakes(t *testing.T) {
	ctx := t.Context()
	store := laneStore(t)
	lanes := make([]dispatcher.Lane, 3000)
	for i := range lanes {
		lanes[i] = laneOf(i)
	}
	m := &dispatcher.Message{ID: "m1", Topic: "a.b", Body: []byte("{}"), CreatedAt: time.Now()}
	entry := dispatcher.Entry{Message: m, Digest: m.Digest(), Lanes: lanes, Fan: true}
	got, _, err := store.Schedule(ctx, "one", 4096, 4096, []dispatcher.Entry{entry, entry})
	require.NoError(t, err)
	require.NoError(t, got[0].Err)
	require.NoError(t, got[1].Err)
	require.Equal(t, dispatcher.Accepted, got[0].Result)
	require.Equal(t, dispatcher.Duplicate, got[1].Result)
	require.ElementsMatch(t, lanes, append(redisqtest.Leased(got[0]), redisqtest.Ready(got[0])...))
	require.Empty(t, redisqtest.Leased(got[1]))
	rec, err := store.Read(ctx, "m1")
	require.NoError(t, err)
	require.Len(t, rec.Deliveries, len(lanes))
}

// No lane of a page is lost or told twice if many were made in one ms. A cursor
// of a list of deliveries is refused.
func TestLanesAreListedInPages(t *testing.T) {
	ctx := t.Context()
	store := laneStore(t)
	_, _, err := store.Schedule(ctx, "one", 0, 0, faultEntries(50, 0))
	require.NoError(t, err)
	want := map[dispatcher.Lane]bool{}
	for i := range 50 {
		want[laneOf(i)] = true
	}
	cursor, pages := "", 0
	for {
		page, next, err := store.Lanes(ctx, 7, cursor)
		require.NoError(t, err)
		require.LessOrEqual(t, len(page), 7)
		for _, l := range page {
			require.True(t, want[l.Lane], "%s comes twice", l.Lane)
			delete(want, l.Lane)
			require.Equal(t, "https://example.com", l.URL)
			require.Equal(t, dispatcher.LaneCount{Waiting: 1}, l.LaneCount)
		}
		pages++
		if cursor = next; next == "" {
			break
		}
		_, err = store.List(ctx, dispatcher.Filter{Cursor: next})
		require.ErrorIs(t, err, dispatcher.ErrCursor)
	}
	require.Empty(t, want)
	require.Equal(t, 8, pages)
	list, err := store.List(ctx, dispatcher.Filter{Limit: 1})
	require.NoError(t, err)
	_, _, err = store.Lanes(ctx, 7, list.Next)
	require.ErrorIs(t, err, dispatcher.ErrCursor)
	_, _, _, err = store.Sweep(ctx, "one", laneOf(0), "nonsense")
	require.ErrorIs(t, err, dispatcher.ErrCursor)
}

// The whole backlog of a deleted endpoint ends by sweeps and moves alone.
func TestABacklogOfADeletedEndpointEnds(t *testing.T) {
	ctx := t.Context()
	store := laneStore(t)
	lane := endpointLane(1)
	_, _, err := store.Limit(ctx, "one", lane, dispatcher.LaneLimits{Version: 1}, false)
	require.NoError(t, err)
	batch := make([]dispatcher.Entry, 2000)
	for i := range batch {
		m := &dispatcher.Message{ID: fmt.Sprintf("m%d", i), Topic: "a.b", Endpoint: string(lane), Body: []byte("{}"), CreatedAt: time.Now()}
		switch i % 4 {
		case 1, 2:
			m.Delay = time.Hour
		case 3:
			m.OrderingKey = fmt.Sprint("k", i%8)
		}
		batch[i] = dispatcher.Entry{Message: m, Digest: m.Digest(), Lanes: []dispatcher.Lane{lane}}
	}
	_, _, err = store.Schedule(ctx, "one", 0, 0, batch)
	require.NoError(t, err)
	count, _, err := store.Limit(ctx, "one", lane, dispatcher.LaneLimits{Version: 2, Mode: dispatcher.LaneDeleted}, false)
	require.NoError(t, err)
	require.Equal(t, dispatcher.LaneCount{Waiting: len(batch)}, count)

	ended, cursor := 0, ""
	for {
		n, next, _, err := store.Sweep(ctx, "one", lane, cursor)
		require.NoError(t, err)
		ended += n
		if cursor = next; next == "" {
			break
		}
	}
	require.Equal(t, len(batch)/2, ended)
	for moves := 0; ; moves++ {
		require.Less(t, moves, 50, "each move ends a batch")
		_, hints, err := store.Move(ctx, "one", []int{0, 1, 2})
		require.NoError(t, err)
		due := false
		for _, h := range hints {
			due = due || !h.Due.IsZero()
		}
		if !due {
			break
		}
	}
	st, err := store.Stats(ctx)
	require.NoError(t, err)
	require.Equal(t, map[dispatcher.Status]int64{dispatcher.StatusCancelled: int64(len(batch))}, st.Counts)
	states, err := store.LaneStates(ctx, []dispatcher.Lane{lane})
	require.NoError(t, err)
	require.Equal(t, dispatcher.LaneCount{}, states[0].LaneCount)
}

func TestAWatchTellsChangesOfEndpoints(t *testing.T) {
	store := laneStore(t)
	ctx, stop := context.WithCancel(t.Context())
	begun, changes := make(chan struct{}, 10), make(chan dispatcher.EndpointChange, 10)
	var watching sync.WaitGroup
	watching.Go(func() {
		_ = store.Queue().Watch(ctx, "one", dispatcher.Subscriber{
			OnEndpoint: func(c dispatcher.EndpointChange) { changes <- c },
			OnGap:      func() { begun <- struct{}{} },
		})
	})
	<-begun
	rdb := store.Client()
	id, err := rdb.HGet(ctx, "{lanes}:meta", "id").Result()
	require.NoError(t, err)
	for _, text := range []string{"nonsense", id + " nonsense", id + " 3 ep_000000001 acme", id + " 0 ep_000000001 "} {
		require.NoError(t, rdb.Publish(ctx, "{lanes}:endpoints", text).Err())
	}
	require.Equal(t, dispatcher.EndpointChange{ID: "ep_000000001", Tenant: "acme", Version: 3}, <-changes)
	require.Equal(t, dispatcher.EndpointChange{ID: "ep_000000001"}, <-changes)
	require.Empty(t, begun, "one subscription is told once")
	clients, err := rdb.ClientList(ctx).Result()
	require.NoError(t, err)
	require.Contains(t, clients, "sub=2", "one connection has both channels")
	stop()
	watching.Wait()
}

// Numbers that scripts write must be read again without loss. A time in µs has
// more digits than Lua prints by default.
func TestATimeOfARateStaysWhole(t *testing.T) {
	ctx := t.Context()
	store := laneStore(t)
	lane := endpointLane(2)
	const interval = 36 * time.Second
	_, _, err := store.Limit(ctx, "one", lane, dispatcher.LaneLimits{Version: 1, Interval: interval}, false)
	require.NoError(t, err)
	m := &dispatcher.Message{ID: "m1", Topic: "a.b", Body: []byte("{}"), CreatedAt: time.Now()}
	got, hints, err := store.Schedule(ctx, "one", 4096, 1, []dispatcher.Entry{{Message: m, Digest: m.Digest(), Lanes: []dispatcher.Lane{lane}}})
	require.NoError(t, err)
	require.Equal(t, []dispatcher.Lane{lane}, redisqtest.Leased(got[0]))
	states, err := store.LaneStates(ctx, []dispatcher.Lane{lane})
	require.NoError(t, err)
	require.Equal(t, hints[0].Now.Add(interval), states[0].Token)
}
