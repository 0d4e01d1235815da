package redisqtest

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// projects counts the projects of this process, because each store has its own
// project.
var projects atomic.Int64

// ProjectName returns a name that no other store of this process has.
func ProjectName() string { return fmt.Sprintf("test%d", projects.Add(1)) }

// Server is a Redis or a cluster that a test started.
type Server interface {
	URL() string
}

// PatientURL is the URL of a server for a client that waits half a minute for each
// reply and connection. A test that needs a healthy server uses it: on a busy machine
// the server may not get the processor for longer than the store's own time limits.
func PatientURL(server Server) string {
	url, separator := server.URL(), "?"
	if strings.Contains(url, separator) {
		separator = "&"
	}
	return url + separator + "dial_timeout=30s&read_timeout=30s&pool_timeout=30s"
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

// A Fixture is an empty store, with ways to read and change its state directly.
type Fixture struct {
	Queue *Raw
	// Open connects to the same store once more, as another process would.
	Open func() *Raw
	// SetClock sets the time of every partition, in steps of a microsecond.
	SetClock func(now time.Time)
	// States reads the whole state, partition by partition.
	States func() []State
	// Lose deletes only the record of a message, as a mistake of an operator
	// could.
	Lose func(message string)
	// Partition returns the partition of a lane.
	Partition func(lane dispatcher.Lane) int

	// Cut opens a connection that breaks after some scripts. The replies to the
	// last scripts arrive or are lost. It ends with the case. nil: nothing can
	// break.
	Cut func(scripts int, answered bool) Cut
	// Copy copies the whole store except the clock. restore brings the copy
	// back, any number of times. nil: the server has other work.
	Copy func() (restore func())
	// Fill makes the store's memory full, or ends that. nil: the store has no
	// limit.
	Fill func(full bool)
}

// Cut is a connection to a store that breaks.
type Cut struct {
	Queue *Raw
	// Ran reports whether a script that may change data ran in a partition.
	Ran func(partition int) bool
}

// Stores returns a function that makes stores on one server.
func Stores(server Server) func(t testing.TB, s Setup) Fixture {
	return func(t testing.TB, s Setup) Fixture {
		t.Helper()
		f, _ := NewFixture(t, s, server, Open)
		return f
	}
}

// NewFixture makes a store with its own project and returns its options. Its
// connection can't break. The test fails if the store logs an error,
// unless it is Broken.
func NewFixture(t testing.TB, s Setup, server Server, open OpenFunc) (Fixture, redisq.Options) {
	t.Helper()
	log := kit.NewOutput(1 << 16)
	t.Cleanup(func() {
		if !s.Broken {
			require.Empty(t, log.String(), "the store logged errors")
		}
	})
	options := redisq.Options{
		URL: PatientURL(server), Project: ProjectName(),
		Partitions: s.Partitions, LaneMaxInFlight: s.LaneMaxInFlight, Permits: s.Permits,
		BreakerFailures: s.Breaker, BreakerWait: s.BreakerWait, MaxWaiting: s.MaxWaiting,
		TestClock: true, Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelError})),
	}
	store := open(t, options)
	client := store.Client()
	t.Cleanup(func() {
		if keys := Keys(t, client, options.Project); len(keys) > 0 {
			require.NoError(t, client.Del(context.Background(), keys...).Err())
		}
	})
	return Fixture{
		Queue: store,
		Open:  func() *Raw { return open(t, options) },
		SetClock: func(now time.Time) {
			for n := range s.Partitions {
				require.NoError(t, client.Set(context.Background(), keys.Tag(options.Project, n)+keys.Clock, now.UnixMicro(), 0).Err())
			}
		},
		States: func() []State { return States(t, client, options.Project, s.Partitions) },
		Lose: func(message string) {
			for n := range s.Partitions {
				require.NoError(t, client.HDel(context.Background(), keys.Tag(options.Project, n)+keys.Messages, message).Err())
			}
		},
		Partition: func(lane dispatcher.Lane) int { return keys.Partition(string(lane), s.Partitions) },
	}, options
}

// Bulky makes a message's body so large that it is stored in :bodies.
func Bulky(m *dispatcher.Message) { m.Body = bytes.Repeat([]byte("x"), dispatcher.ApartAbove+1) }

// Entries returns n messages, each to its own lane.
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

// LaneOf returns one of many lanes.
func LaneOf(i int) dispatcher.Lane { return dispatcher.Lane(fmt.Sprintf("lane%d", i)) }

// OnBoth runs a test on the redis-server that the package's tests share, and on a miniredis, on which
// dev runs. Scripts cost miniredis ten times as much, so only tests of basic rules need both.
func OnBoth(t *testing.T, run func(t *testing.T, server Server)) {
	t.Helper()
	t.Run("redis", func(t *testing.T) { run(t, redistest.Share(t)) })
	t.Run("miniredis", func(t *testing.T) { run(t, redistest.StartMini(t)) })
}
