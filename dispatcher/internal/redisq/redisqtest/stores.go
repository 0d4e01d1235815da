package redisqtest

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/queuetest"
	"github.com/hookladder/hookladder/dispatcher/internal/queuetest/stored"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// projects numbers the projects of this process: each store has one of its own.
var projects atomic.Int64

// ProjectName is one that no other store of this process has.
func ProjectName() string { return fmt.Sprintf("test%d", projects.Add(1)) }

// Server is a Redis or a cluster that a test started.
type Server interface {
	URL() string
}

// An OpenFunc opens a store that is closed with the test.
type OpenFunc func(t testing.TB, options redisq.Options) *Raw

// Open is an OpenFunc that changes nothing of the store.
func Open(t testing.TB, options redisq.Options) *Raw {
	t.Helper()
	store, err := OpenRaw(context.Background(), options)
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// Stores makes stores on one server.
func Stores(server Server) queuetest.OpenFunc {
	return func(t testing.TB, s stored.Setup) queuetest.Fixture {
		t.Helper()
		f, _ := Fixture(t, s, server, Open)
		return f
	}
}

// Fixture makes a store of a project of its own, and answers its options. No
// call of it can be cut.
func Fixture(t testing.TB, s stored.Setup, server Server, open OpenFunc) (queuetest.Fixture, redisq.Options) {
	t.Helper()
	options := redisq.Options{
		URL: server.URL() + "?read_timeout=30s", Project: ProjectName(),
		Partitions: s.Partitions, LaneMaxInFlight: s.LaneMaxInFlight, Permits: s.Permits,
		BreakerFailures: s.Breaker, BreakerWait: s.BreakerWait, MaxWaiting: s.MaxWaiting,
		TestClock: true, Log: slog.New(slog.DiscardHandler),
	}
	store := open(t, options)
	client := store.Client()
	t.Cleanup(func() {
		if keys := Keys(t, client, options.Project); len(keys) > 0 {
			require.NoError(t, client.Del(context.Background(), keys...).Err())
		}
	})
	return queuetest.Fixture{
		Queue: store,
		Open:  func() queuetest.Queue { return open(t, options) },
		SetClock: func(now time.Time) {
			for n := range s.Partitions {
				require.NoError(t, client.Set(context.Background(), keys.Tag(options.Project, n)+keys.Clock, now.UnixMicro(), 0).Err())
			}
		},
		States: func() []stored.State { return States(t, client, options.Project, s.Partitions) },
		Lose: func(message string) {
			for n := range s.Partitions {
				require.NoError(t, client.HDel(context.Background(), keys.Tag(options.Project, n)+keys.Messages, message).Err())
			}
		},
		Partition: func(lane dispatcher.Lane) int { return keys.Partition(string(lane), s.Partitions) },
	}, options
}

// Bulky makes a message's body so large that it lies apart.
func Bulky(m *dispatcher.Message) { m.Body = bytes.Repeat([]byte("x"), dispatcher.ApartAbove+1) }

// Entries are n messages to as many lanes.
func Entries(n int, delay time.Duration) []dispatcher.Entry {
	batch := make([]dispatcher.Entry, n)
	for i := range batch {
		m := &dispatcher.Message{
			ID: fmt.Sprintf("m%d-%s", i, delay), Topic: "a.b", URL: "https://example.com",
			Body: []byte("{}"), Delay: delay, CreatedAt: time.Now(),
		}
		batch[i] = dispatcher.Entry{Message: m, Digest: m.Digest(), Lanes: []dispatcher.Lane{LaneOf(i)}}
	}
	return batch
}

// LaneOf is one of many lanes.
func LaneOf(i int) dispatcher.Lane { return dispatcher.Lane(fmt.Sprintf("lane%d", i)) }
