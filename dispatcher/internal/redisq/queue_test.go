package redisq_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/queuetest"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
)

func TestQueue(t *testing.T) {
	t.Run("redis", func(t *testing.T) { queuetest.Run(t, newTestStores(redistest.Start(t))) })
	t.Run("miniredis", func(t *testing.T) { queuetest.Run(t, newTestStores(redistest.StartMini(t))) })
}

func TestQueueModel(t *testing.T) {
	t.Run("redis", func(t *testing.T) { queuetest.RunModel(t, newTestStores(redistest.Start(t)), 1) })
	// Scripts cost miniredis ten times as much, and the rules are the same there.
	t.Run("miniredis", func(t *testing.T) { queuetest.RunModel(t, newTestStores(redistest.StartMini(t)), 5) })
}

// projects numbers the projects of this process: each store has one of its own.
var projects atomic.Int64

// newTestStores makes stores on one server.
func newTestStores(server redistest.Redis) queuetest.OpenFunc {
	return func(t testing.TB, s queuetest.Setup) queuetest.Fixture {
		t.Helper()
		options := redisq.Options{
			URL: server.URL() + "?read_timeout=30s", Project: fmt.Sprintf("test%d", projects.Add(1)),
			Partitions: s.Partitions, MaxWindow: s.MaxWindow, Permits: s.Permits,
			BreakerFailures: s.Breaker, BreakerWait: s.BreakerWait, MaxWaiting: s.MaxWaiting,
			TestClock: true, Log: slog.New(slog.DiscardHandler),
		}
		store := openTestStore(t, options)
		client := store.Client()
		t.Cleanup(func() {
			if keys := rawKeys(t, client, options.Project); len(keys) > 0 {
				require.NoError(t, client.Del(context.Background(), keys...).Err())
			}
		})
		tag := func(n int) string { return fmt.Sprintf("{%s:%d}", options.Project, n) }
		return queuetest.Fixture{
			Queue: store,
			Open:  func() dispatcher.Queue { return openTestStore(t, options) },
			SetClock: func(now time.Time) {
				for n := range s.Partitions {
					require.NoError(t, client.Set(context.Background(), tag(n)+":clock", now.UnixMicro(), 0).Err())
				}
			},
			States: func() []queuetest.State { return rawStates(t, client, options.Project, s.Partitions) },
			Lose: func(message string) {
				for n := range s.Partitions {
					require.NoError(t, client.HDel(context.Background(), tag(n)+":messages", message).Err())
				}
			},
			Partition: func(lane dispatcher.Lane) int { return int(crc16(string(lane))) % s.Partitions },
		}
	}
}

// openTestStore opens a store that is closed with the test.
func openTestStore(t testing.TB, options redisq.Options) *redisq.Store {
	t.Helper()
	store, err := redisq.Open(context.Background(), options)
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// crc16 is the checksum by which Redis Cluster, and the store, spread names:
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
