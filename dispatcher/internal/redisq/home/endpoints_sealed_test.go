package home_test

import (
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/admin"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/home"
)

// mustLocked tells what a store with some keys can't open.
func mustLocked(t *testing.T, options redisq.Options, keys ...string) home.LockedEndpoint {
	t.Helper()
	options.Seal = nil
	if len(keys) > 0 {
		options.Seal = newTestBox(t, keys...)
	}
	l, err := openTestStore(t, options).LockedEndpoints(t.Context())
	require.NoError(t, err)
	return l
}

func TestAStoreTellsWhichOfItsEndpointsNoKeyOpens(t *testing.T) {
	for name, server := range map[string]redistest.Redis{"miniredis": redistest.StartMini(t), "redis": redistest.Start(t)} {
		t.Run(name, func(t *testing.T) {
			ctx, first, second := t.Context(), newTestKey(), newTestKey()
			options := endpointOptions(server, nil)
			require.Equal(t, home.LockedEndpoint{}, mustLocked(t, options))
			require.Equal(t, home.LockedEndpoint{}, mustLocked(t, options, first))

			options.Seal = newTestBox(t, first)
			old := openTestStore(t, options)
			changed, dropped, kept := testEndpoint("ep_a"), testEndpoint("ep_b"), testEndpoint("ep_c")
			mustCreate(t, old, changed, dropped, kept)
			require.Equal(t, home.LockedEndpoint{}, mustLocked(t, options, first))
			require.Equal(t, home.LockedEndpoint{}, mustLocked(t, options, second, first))
			l := mustLocked(t, options)
			require.Equal(t, 3, l.Endpoints)
			require.Len(t, l.Keys, 1)
			require.False(t, l.Least)
			require.Equal(t, l, mustLocked(t, options, second))

			rotated := options
			rotated.Seal = newTestBox(t, second, first)
			store := openTestStore(t, rotated)
			require.NoError(t, store.ChangeEndpoint(ctx, nextVersion(changed)))
			mustDelete(t, old, dropped.ID)
			counted := func(want ...string) {
				require.ElementsMatch(t, want, store.Client().HVals(ctx, "{"+options.Project+"}:sealed").Val(), "else the records would be looked at")
			}
			counted("1", "1")
			require.Equal(t, 1, mustLocked(t, options, first).Endpoints)
			require.Equal(t, 1, mustLocked(t, options, second).Endpoints)
			require.Len(t, mustLocked(t, options).Keys, 2)
			require.Equal(t, home.LockedEndpoint{}, mustLocked(t, options, first, second))
			require.NoError(t, admin.SealEndpoints(ctx, store.Bare(), func(_ string, err error) { require.NoError(t, err) }))
			counted("2")
			require.Equal(t, home.LockedEndpoint{}, mustLocked(t, options, second))
			require.Equal(t, 2, mustLocked(t, options, first).Endpoints)

			plain := options
			plain.Seal = nil
			mustCreate(t, openTestStore(t, plain), testEndpoint("ep_d"))
			require.Equal(t, home.LockedEndpoint{Plain: 1}, mustLocked(t, options, second))
			require.Equal(t, 2, mustLocked(t, options).Endpoints)
		})
	}
}

// The counts are believed where they are whole. Else the records tell, of so
// many endpoints some of them: a start does not wait for a million.
func TestWhereTheCountsByKeyAreNotWholeSomeRecordsAreLookedAt(t *testing.T) {
	ctx, server := t.Context(), redistest.Start(t)
	options := endpointOptions(server, newTestBox(t))
	store := openTestStore(t, options)
	e := testEndpoint("ep_a")
	mustCreate(t, store, e)
	client := store.Client()
	home := "{" + options.Project + "}:"
	record := client.HGet(ctx, home+"endpoints", e.ID).Val()
	whole := mustLocked(t, options)
	require.Equal(t, 1, whole.Endpoints)
	for _, wrong := range [][]any{{"DEL"}, {"HSET", "-", 5}, {"HSET", "0a1b2c3d", "x"}} {
		require.NoError(t, client.Do(ctx, append([]any{wrong[0], home + "sealed"}, wrong[1:]...)...).Err())
		require.Equal(t, whole, mustLocked(t, options), "%v", wrong)
	}

	const many = 5000
	pipe := client.Pipeline()
	for n := range many {
		pipe.HSet(ctx, home+"endpoints", fmt.Sprintf("ep_%09d", n), record)
	}
	_, err := pipe.Exec(ctx)
	require.NoError(t, err)
	l := mustLocked(t, options)
	require.True(t, l.Least)
	require.Equal(t, whole.Keys, l.Keys)
	require.GreaterOrEqual(t, l.Endpoints, 1024)
	require.Less(t, l.Endpoints, many)

	require.NoError(t, client.Del(ctx, home+"sealed").Err())
	require.NoError(t, client.HSet(ctx, home+"sealed", whole.Keys[0], many+1).Err())
	store = openTestStore(t, options)
	g := measured(store)
	l, err = store.LockedEndpoints(ctx)
	require.NoError(t, err)
	require.Zero(t, l)
	require.Empty(t, g.Of("hscan"), "no record is read")
}

// A key of another kind, written by hand, does not stop changes of endpoints.
func TestCountsByKeyOfAnotherTypeStopNothing(t *testing.T) {
	ctx := t.Context()
	options := endpointOptions(redistest.Start(t), newTestBox(t))
	store := openTestStore(t, options)
	key := "{" + options.Project + "}:sealed"
	spoil := func() {
		require.NoError(t, store.Client().Del(ctx, key).Err())
		require.NoError(t, store.Client().ZAdd(ctx, key, redis.Z{Member: "x"}).Err())
	}
	spoil()
	e := testEndpoint("ep_a")
	mustCreate(t, store, e)
	require.NoError(t, store.ChangeEndpoint(ctx, nextVersion(e)))
	require.Equal(t, 1, mustLocked(t, options).Endpoints)
	spoil()
	mustDelete(t, store, e.ID)
	there, err := store.Endpoints(ctx, []string{e.ID})
	require.NoError(t, err)
	require.Nil(t, there[0])
}
