package redisq_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// durableStore is a store that waits until its writes are durable.
func durableStore(t *testing.T, server redistest.Redis, d dispatcher.Durability) *redisqtest.Raw {
	t.Helper()
	return openTestStore(t, redisq.Options{
		URL: server.URL(), Project: "durable", LaneMaxInFlight: 128, Permits: 1024, Durability: d, Log: slog.New(slog.DiscardHandler),
	})
}

func TestAPublishWaitsForReplicas(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	master := redistest.Start(t)
	replica := redistest.StartReplica(t, master)
	store := durableStore(t, master, dispatcher.Durability{Replicas: 1})
	require.Equal(t, "wait", store.Conn().DurableBy())
	eventually(t, "a publish is durable", func(ctx context.Context) error {
		got, _, err := store.Schedule(ctx, "one", 1024, 8, faultEntries(2, 0))
		return errors.Join(err, got[0].Err, got[1].Err)
	})

	// Without the replica a message is stored, leased and told, but not
	// acknowledged.
	replica.Pause()
	batch := faultEntries(2, time.Hour)
	batch = append(batch, faultEntries(3, 0)[2], faultEntries(1, 0)[0])
	batch[3].Digest[0]++
	got, _, err := store.Schedule(ctx, "one", 1024, 8, batch)
	require.NoError(t, err)
	for i, want := range []dispatcher.Result{dispatcher.Accepted, dispatcher.Accepted, dispatcher.Accepted} {
		require.Equal(t, want, got[i].Result)
		require.ErrorIs(t, got[i].Err, dispatcher.ErrUnavailable)
		require.ErrorContains(t, got[i].Err, "0 of 1 replicas have it")
	}
	require.Equal(t, batch[2].Lanes, redisqtest.Leased(got[2]), "whoever holds a lease must know of it")
	require.Equal(t, dispatcher.Conflict, got[3].Result)
	require.NoError(t, got[3].Err, "where nothing was written there is nothing to wait for")

	// A repeat is a duplicate, and waits too.
	got, _, err = store.Schedule(ctx, "one", 1024, 8, batch[:1])
	require.NoError(t, err)
	require.Equal(t, dispatcher.Duplicate, got[0].Result)
	require.ErrorIs(t, got[0].Err, dispatcher.ErrUnavailable)
	replica.Resume()
	eventually(t, "the repeat is durable", func(ctx context.Context) error {
		got, _, err = store.Schedule(ctx, "one", 1024, 8, batch[:1])
		return errors.Join(err, got[0].Err)
	})
	require.Equal(t, dispatcher.Duplicate, got[0].Result)
	st, err := store.Stats(ctx)
	require.NoError(t, err)
	require.Equal(t, map[dispatcher.Status]int64{dispatcher.StatusInFlight: 3, dispatcher.StatusScheduled: 2}, st.Counts)
}

// Some options need a newer server, and are tested only on such a one. An older
// server is durable only by its configuration, which the survey checks.
func TestAPublishWaitsForTheDisk(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	server := redistest.Start(t)
	store := durableStore(t, server, dispatcher.Durability{Fsync: true})
	eventually(t, "a publish is durable", func(ctx context.Context) error {
		got, _, err := store.Schedule(ctx, "one", 1024, 8, faultEntries(1, 0))
		return errors.Join(err, got[0].Err)
	})
	if !redistest.Knows(t, server.URL(), "WAITAOF") {
		require.Equal(t, "appendfsync always", store.Conn().DurableBy())
		return
	}
	require.Equal(t, "waitaof", store.Conn().DurableBy())
	require.NoError(t, store.Client().ConfigSet(ctx, "appendonly", "no").Err())
	got, _, err := store.Schedule(ctx, "one", 1024, 8, faultEntries(2, 0))
	require.NoError(t, err)
	require.Equal(t, dispatcher.Duplicate, got[0].Result)
	require.Equal(t, dispatcher.Accepted, got[1].Result)
	require.Equal(t, []dispatcher.Lane{laneOf(1)}, redisqtest.Leased(got[1]))
	for _, s := range got {
		require.ErrorIs(t, s.Err, dispatcher.ErrUnavailable)
	}
}

func TestNothingIsWaitedForUnasked(t *testing.T) {
	require.Equal(t, "none", durableStore(t, redistest.StartMini(t), dispatcher.Durability{}).Conn().DurableBy())
}
