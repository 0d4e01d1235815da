package redisq_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// The errors of a real server that can't serve. Each counts as a store that is
// unavailable now. Nothing is taken as stored, and work goes on by itself.
func TestAServerInTrouble(t *testing.T) {
	for _, c := range []struct {
		name        string
		says        string
		begin, done func(t *testing.T, server *redistest.Server, admin *redis.Client)
	}{
		{"a replica", "READONLY", set("replicaof", "127.0.0.1", "1"), set("replicaof", "no", "one")},
		{"a replica without its master", "MASTERDOWN",
			both(set("config", "set", "replica-serve-stale-data", "no"), set("replicaof", "127.0.0.1", "1")),
			set("replicaof", "no", "one")},
		{"too few replicas", "NOREPLICAS",
			set("config", "set", "min-replicas-to-write", "1"), set("config", "set", "min-replicas-to-write", "0")},
		{"a disk that takes no snapshot", "MISCONF", breakSnapshots, set("config", "set", "save", "")},
		{"somebody's long script", "BUSY", runLong, endLong},
		{"a full memory", "OOM", set("config", "set", "maxmemory", "1"), set("config", "set", "maxmemory", "0")},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, "busy-reply-threshold 10")
			store := faultStore(t, server)
			admin := adminOf(t, server)
			c.begin(t, server, admin)
			got, _, err := store.Schedule(t.Context(), "one", 0, 0, faultEntries(1, 0))
			require.NoError(t, err)
			require.ErrorContains(t, got[0].Err, c.says)
			meaning := dispatcher.ErrUnavailable
			if c.says == "OOM" {
				meaning = dispatcher.ErrFull
			}
			require.ErrorIs(t, got[0].Err, meaning)
			require.Zero(t, got[0].Result)
			c.done(t, server, admin)
			eventually(t, "going on", func(ctx context.Context) error { return schedule(ctx, store, faultEntries(2, 0)...) })
			st, err := store.Stats(t.Context())
			require.NoError(t, err)
			require.Equal(t, map[dispatcher.Status]int64{dispatcher.StatusReady: 2}, st.Counts)
		})
	}
}

func adminOf(t *testing.T, server *redistest.Server) *redis.Client {
	t.Helper()
	opts, err := redis.ParseURL(server.URL())
	require.NoError(t, err)
	opts.MaxRetries = -1
	client := redis.NewClient(opts)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func set(command ...any) func(*testing.T, *redistest.Server, *redis.Client) {
	return func(t *testing.T, _ *redistest.Server, admin *redis.Client) {
		t.Helper()
		require.NoError(t, admin.Do(t.Context(), command...).Err())
	}
}

func both(a, b func(*testing.T, *redistest.Server, *redis.Client)) func(*testing.T, *redistest.Server, *redis.Client) {
	return func(t *testing.T, server *redistest.Server, admin *redis.Client) {
		t.Helper()
		a(t, server, admin)
		b(t, server, admin)
	}
}

// breakSnapshots makes a snapshot fail: a folder has the name of its file.
func breakSnapshots(t *testing.T, _ *redistest.Server, admin *redis.Client) {
	t.Helper()
	ctx := t.Context()
	dir, err := admin.ConfigGet(ctx, "dir").Result()
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Join(dir["dir"], "dump.rdb", "full"), 0o700))
	require.NoError(t, admin.ConfigSet(ctx, "save", "3600 1").Err())
	require.NoError(t, admin.BgSave(ctx).Err())
	require.Eventually(t, func() bool {
		info, err := admin.Info(ctx, "persistence").Result()
		return err == nil && strings.Contains(info, "rdb_last_bgsave_status:err")
	}, patient, 10*time.Millisecond)
}

// runLong runs a script until endLong ends it. It returns when Redis refuses
// other commands because of it.
func runLong(t *testing.T, server *redistest.Server, admin *redis.Client) {
	t.Helper()
	other := adminOf(t, server)
	go func() { _ = other.Eval(context.Background(), "while true do end", nil).Err() }() // ends with the script
	require.Eventually(t, func() bool { return redis.HasErrorPrefix(admin.Ping(t.Context()).Err(), "BUSY") }, patient, time.Millisecond)
}

func endLong(t *testing.T, _ *redistest.Server, admin *redis.Client) {
	t.Helper()
	require.NoError(t, admin.ScriptKill(t.Context()).Err())
}

// A command that Redis did not carry out is repeated, and carried out once.
func TestWhatWasNotCarriedOutIsRepeated(t *testing.T) {
	server := redistest.Start(t)
	for _, says := range []string{
		"LOADING Redis is loading the dataset in memory", "BUSY Redis is busy running a script.", "TRYAGAIN Multiple keys request",
		"CLUSTERDOWN The cluster is down", "MASTERDOWN Link with MASTER is down", "ASK 1 127.0.0.1:1", "MOVED 1 127.0.0.1:1",
		"READONLY You can't write against a read only replica.", "NOSCRIPT No matching script.",
	} {
		word, _, _ := strings.Cut(says, " ")
		t.Run(word, func(t *testing.T) {
			t.Parallel()
			var said, ran atomic.Int32
			f := newFront(t, server.Addr(), func(command []string) string {
				if command[0] != "EVALSHA" {
					return ""
				}
				if said.Add(1) <= 3 {
					return "-" + says + "\r\n"
				}
				ran.Add(1)
				return ""
			})
			store := openTestStore(t, redisq.Options{
				URL: f.url(), Project: strings.ToLower(word), LaneMaxInFlight: 128, Permits: 1024, Poll: true, Log: slog.New(slog.DiscardHandler),
			})
			require.NoError(t, schedule(t.Context(), store, faultEntries(1, 0)...))
			require.Equal(t, int32(1), ran.Load())
		})
	}
}

// A partition that stays broken holds up one call for its whole patience. Then
// each call fails at once, until one is answered.
func TestACallHasPatienceOnce(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	var tries atomic.Int32
	f := newFront(t, redistest.Start(t).Addr(), func(command []string) string {
		if command[0] != "EVALSHA" || !broken.Load() {
			return ""
		}
		tries.Add(1)
		return "-TRYAGAIN Multiple keys request during rehashing of slot\r\n"
	})
	store := openTestStore(t, redisq.Options{URL: f.url(), Project: "patience", LaneMaxInFlight: 128, Permits: 1024, Poll: true})
	broken.Store(true)
	require.ErrorContains(t, schedule(t.Context(), store, faultEntries(1, 0)...), "TRYAGAIN")
	require.Greater(t, tries.Swap(0), int32(2))
	for range 3 {
		require.ErrorContains(t, schedule(t.Context(), store, faultEntries(1, 0)...), "TRYAGAIN")
	}
	require.Equal(t, int32(3), tries.Load(), "one each")
	broken.Store(false)
	require.NoError(t, schedule(t.Context(), store, faultEntries(1, 0)...))
	broken.Store(true)
	tries.Store(0)
	require.ErrorContains(t, schedule(t.Context(), store, faultEntries(2, 0)...), "TRYAGAIN")
	require.Greater(t, tries.Load(), int32(2), "its patience is back")
}

func TestAProxyWithoutPubSubIsPolled(t *testing.T) {
	f := newFront(t, redistest.Start(t).Addr(), func(command []string) string {
		if command[0] == "SUBSCRIBE" || command[0] == "PUBLISH" {
			return "-ERR unknown command '" + command[0] + "'\r\n"
		}
		return ""
	})
	store := openTestStore(t, redisq.Options{URL: f.url(), Project: "proxy", LaneMaxInFlight: 128, Permits: 1024})
	require.True(t, store.Polls())
	mustDeliver(t, store)
}

// WAITAOF is judged by the number in its answer, not by the answer alone.
func TestADiskThatDoesNotAnswerInTime(t *testing.T) {
	f := newFront(t, redistest.Start(t).Addr(), func(command []string) string {
		if command[0] != "WAITAOF" {
			return ""
		}
		if command[1] == "0" {
			return "*2\r\n:0\r\n:0\r\n" // it is only asked whether it is there
		}
		return "*2\r\n:0\r\n:1\r\n"
	})
	store := openTestStore(t, redisq.Options{
		URL: f.url(), Project: "slow", LaneMaxInFlight: 128, Permits: 1024, Poll: true, Durability: dispatcher.Durability{Fsync: true},
	})
	require.Equal(t, "waitaof", store.Conn().DurableBy())
	got, _, err := store.Schedule(t.Context(), "one", 1024, 1, faultEntries(1, 0))
	require.NoError(t, err)
	require.Equal(t, dispatcher.Accepted, got[0].Result)
	require.Len(t, redisqtest.Leased(got[0]), 1)
	require.ErrorIs(t, got[0].Err, dispatcher.ErrUnavailable)
	require.ErrorContains(t, got[0].Err, "0 of 1 disks have it")
}

// A refused connection is no answer. A command that was not sent must not look
// like one with an empty answer.
func TestAConnectionThatIsRefused(t *testing.T) {
	server := redistest.Start(t)
	setUser(t, server, "worker", "+@all")
	for _, says := range []string{"ERR max number of clients reached", "WRONGPASS invalid username-password pair or user is disabled."} {
		var refuse atomic.Bool
		f := newFront(t, server.Addr(), func([]string) string {
			if refuse.Load() {
				return "-" + says + "\r\n"
			}
			return ""
		})
		store := openTestStore(t, redisq.Options{
			URL:     strings.Replace(f.url(), "redis://", "redis://worker:secret@", 1) + "?conn_max_lifetime=1ns", // each call makes a connection
			Project: "refused", LaneMaxInFlight: 128, Permits: 1024, Poll: true,
		})
		require.NoError(t, schedule(t.Context(), store, faultEntries(1, 0)...))
		refuse.Store(true)
		_, _, beat := store.Beat(t.Context(), "one", 1)
		_, leases := store.Leases(t.Context(), "one")
		_, peek := store.ReadHints(t.Context(), []int{0})
		_, list := store.List(t.Context(), dispatcher.Filter{})
		for i, err := range []error{beat, leases, peek, list, schedule(t.Context(), store, faultEntries(2, 0)...)} {
			require.ErrorIs(t, err, dispatcher.ErrUnavailable, i)
			require.ErrorContains(t, err, says, i)
		}
		refuse.Store(false)
		require.NoError(t, schedule(t.Context(), store, faultEntries(2, 0)...))
	}
}

func TestAnExhaustedPool(t *testing.T) {
	server := redistest.Start(t)
	store := openTestStore(t, redisq.Options{
		URL: server.URL() + "?pool_size=1&pool_timeout=50ms&read_timeout=1m", Project: "pool", LaneMaxInFlight: 128, Permits: 1024, Poll: true,
	})
	server.Pause()
	first, second := make(chan error, 1), make(chan error, 1)
	go func() { first <- store.Ping(t.Context()) }()
	go func() { second <- store.Ping(t.Context()) }()
	var err error
	select { // the one without a connection answers first
	case err = <-first:
		first = second
	case err = <-second:
	}
	require.ErrorIs(t, err, dispatcher.ErrUnavailable)
	require.ErrorContains(t, err, "pool timeout")
	server.Resume()
	require.NoError(t, <-first)
}
