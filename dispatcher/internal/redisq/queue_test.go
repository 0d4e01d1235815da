package redisq_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest/model"
)

func TestQueue(t *testing.T) {
	t.Parallel()
	t.Run("redis", func(t *testing.T) { runCases(t, newTestStores(redistest.Start(t))) })
	t.Run("miniredis", func(t *testing.T) {
		redistest.Long(t)
		runFirstCases(t, newTestStores(redistest.StartMini(t))) // dev runs on it; the rules are the same there
	})
}

func TestQueueModel(t *testing.T) {
	t.Parallel() // but the two stores not at once: a flag sets the amount of work
	t.Run("redis", func(t *testing.T) {
		model.Run(t, newRealStores(redistest.Start(t)), 1, model.MustParseMoves(t, conn.PartOrder))
	})
	// Scripts cost miniredis ten times as much, and the rules are the same
	// there.
	t.Run("miniredis", func(t *testing.T) {
		redistest.Long(t)
		model.Run(t, newTestStores(redistest.StartMini(t)), 12, nil)
	})
}

// The table of moves in the header of order.lua has all moves of a delivery, and no other.
func TestDeliveriesMakeTheMovesOfTheTable(t *testing.T) {
	model.RunScenes(t, newRealStores(redistest.Start(t)), model.MustParseMoves(t, conn.PartOrder))
}

// newTestStores makes stores on one server.
func newTestStores(server redistest.Redis) redisqtest.FixtureFunc {
	return func(t testing.TB, s redisqtest.Setup) redisqtest.Fixture {
		t.Helper()
		f, _ := newTestFixture(t, s, server)
		return f
	}
}

func newTestFixture(t testing.TB, s redisqtest.Setup, server redistest.Redis) (redisqtest.Fixture, redisq.Options) {
	t.Helper()
	f, options := redisqtest.NewFixture(t, s, server, openTestStore)
	f.Cut = func(scripts int, answered bool) redisqtest.Cut {
		return openCut(t, options, s.Partitions, scripts, answered)
	}
	return f, options
}

// newRealStores makes stores that can go back in time and be full. Their server
// must have no other work.
func newRealStores(server redistest.Redis) redisqtest.FixtureFunc {
	return func(t testing.TB, s redisqtest.Setup) redisqtest.Fixture {
		t.Helper()
		f, options := newTestFixture(t, s, server)
		client := f.Queue.Client()
		f.Copy = func() func() { return copyKeys(t, client, options.Project) }
		f.Fill = func(full bool) {
			limit := "0"
			if full {
				limit = "1"
			}
			require.NoError(t, client.ConfigSet(context.Background(), "maxmemory", limit).Err())
		}
		t.Cleanup(func() { f.Fill(false) })
		return f
	}
}

func tagOf(project string, n int) string { return fmt.Sprintf("{%s:%d}", project, n) }

// copyKeys copies all keys of a project but its clocks. It answers a function
// that brings them back.
func copyKeys(t testing.TB, client redis.UniversalClient, project string) (restore func()) {
	t.Helper()
	ctx := context.Background()
	names := func() []string {
		return slices.DeleteFunc(rawKeys(t, client, project), func(key string) bool { return strings.HasSuffix(key, ":clock") })
	}
	keys := names()
	dumps, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, key := range keys {
			p.Dump(ctx, key)
		}
		return nil
	})
	require.NoError(t, err)
	return func() {
		now := names()
		_, err := client.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.Del(ctx, now...)
			for i, key := range keys {
				p.Restore(ctx, key, 0, dumps[i].(*redis.StringCmd).Val())
			}
			return nil
		})
		require.NoError(t, err)
	}
}

// openTestStore opens a store that is closed with the test. Its Stats look at all
// lanes each time.
func openTestStore(t testing.TB, options redisq.Options) *redisqtest.Raw {
	t.Helper()
	store := redisqtest.Open(t, options)
	store.ReadAllLanes()
	return store
}

// crc16 is the checksum by which Redis Cluster, and the store, divide names:
// CRC-16 with the polynomial 0x1021.
func crc16(s string) uint16 {
	crc := uint16(0)
	for _, b := range []byte(s) {
		crc ^= uint16(b) << 8
		for range 8 {
			carry := crc&0x8000 != 0
			crc <<= 1
			if carry {
				crc ^= 0x1021
			}
		}
	}
	return crc
}

func TestPartitionsAreThoseOfRedisCluster(t *testing.T) {
	// The check value of CRC-16/XMODEM, which the specification of Redis Cluster names.
	require.Equal(t, uint16(0x31c3), crc16("123456789"))
}
