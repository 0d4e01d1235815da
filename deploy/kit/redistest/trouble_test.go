package redistest_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/deploy/kit/redistest"
)

const (
	millisecond = time.Millisecond
	patience    = kit.Patience
)

func TestProxy(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	client := newTestClient(t, p.URL())
	ping := func(within time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		return client.Ping(ctx).Err()
	}
	require.NoError(t, ping(patience))
	require.Equal(t, 1, p.Open())

	held := client.Conn()
	defer held.Close()
	require.NoError(t, held.Ping(t.Context()).Err())
	p.Cut()
	require.Error(t, held.Ping(t.Context()).Err(), "its connection was cut")
	require.NoError(t, ping(patience), "a new one works")

	p.Swallow()
	require.ErrorContains(t, ping(100*millisecond), "timeout")
	require.NoError(t, ping(patience), "a new one works")
	require.Equal(t, 2, p.Open(), "the server was not told that the old one ended")

	p.Refuse()
	require.NoError(t, ping(patience), "the connection there is goes on")
	p.Cut()
	require.Error(t, ping(patience))
	require.Error(t, ping(patience), "no new one")
	p.Accept()
	require.NoError(t, ping(patience))

	p.Delay(200 * millisecond)
	require.Error(t, ping(20*millisecond))
	begun := time.Now()
	require.NoError(t, ping(patience))
	require.GreaterOrEqual(t, time.Since(begun), 200*millisecond)
	p.Delay(0)
	require.NoError(t, ping(patience))
}

func TestAnIncompleteTransactionIsNeverMade(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "appendfsync always")
	s.Kill()
	files, err := filepath.Glob(filepath.Join(s.Dir, "appendonlydir", "*.incr.aof"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	const cut = "*1\r\n$5\r\nMULTI\r\n*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n*3\r\n$3\r\nSET\r\n$1\r\n"
	require.NoError(t, os.WriteFile(files[0], []byte(cut), 0o600))
	want := []string{}
	for n := range 3 {
		s.Restart()
		keys := s.Client.Keys(t.Context(), "*").Val()
		slices.Sort(keys)
		require.Equal(t, want, keys)
		_, err := s.Client.TxPipelined(t.Context(), func(p redis.Pipeliner) error { // its end must not be the end of the other one
			p.Set(t.Context(), fmt.Sprint("b", n), "1", 0)
			p.Set(t.Context(), fmt.Sprint("c", n), "1", 0)
			return nil
		})
		require.NoError(t, err)
		want = append(want, fmt.Sprint("b", n), fmt.Sprint("c", n))
		slices.Sort(want)
		s.Kill()
	}
}

func TestLosePower(t *testing.T) {
	t.Parallel()
	const values = 100
	write := func(t *testing.T, s *redistest.Server) {
		client := newTestClient(t, s.URL())
		for n := range values {
			require.NoError(t, client.Set(t.Context(), fmt.Sprint(n), n, 0).Err())
		}
	}
	left := func(t *testing.T, s *redistest.Server) int64 {
		s.Restart()
		return newTestClient(t, s.URL()).DBSize(t.Context()).Val()
	}
	t.Run("loses nothing where each answer waits for the disk", func(t *testing.T) {
		s := redistest.StartWatched(t, "appendfsync always")
		write(t, s)
		require.Zero(t, s.LosePower())
		require.Equal(t, int64(values), left(t, s))
		write(t, s)
		require.Zero(t, s.LosePower(), "it may happen again")
		require.Equal(t, int64(values), left(t, s))
	})
	t.Run("loses all that only the system had", func(t *testing.T) {
		s := redistest.StartWatched(t, "appendfsync no")
		write(t, s)
		require.Positive(t, s.LosePower())
		require.Zero(t, left(t, s))
	})
	t.Run("waits as long as the disk takes", func(t *testing.T) {
		s := redistest.StartOnDisk(t, 100*millisecond, "appendfsync always")
		client := newTestClient(t, s.URL())
		begun := time.Now()
		require.NoError(t, client.Set(t.Context(), "a", "1", 0).Err())
		require.GreaterOrEqual(t, time.Since(begun), 100*millisecond)
	})
	t.Run("keeps all that a killed server wrote", func(t *testing.T) {
		s := redistest.StartWatched(t, "appendfsync no")
		write(t, s)
		s.Kill()
		require.Equal(t, int64(values), left(t, s))
	})
}

// With appendfsync everysec a server keeps writes in its memory while an fsync takes long.
func TestRestartKeepsWhatTheServerHasNotWrittenYet(t *testing.T) {
	t.Parallel()
	s := redistest.StartOnDisk(t, 500*millisecond)
	client := newTestClient(t, s.URL())
	n := 0
	require.Eventually(t, func() bool {
		n++
		require.NoError(t, client.Set(t.Context(), fmt.Sprint(n), n, 0).Err())
		waits, err := s.Info(t.Context(), "persistence", "aof_buffer_length")
		require.NoError(t, err)
		return waits != "0"
	}, patience, millisecond)
	s.Restart()
	require.Equal(t, int64(n), newTestClient(t, s.URL()).DBSize(t.Context()).Val())
}

func TestKnows(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{"real": redistest.Start(t).URL(), "mini": redistest.StartMini(t).URL()} {
		require.True(t, redistest.Knows(t, url, "wait"), name)
		require.False(t, redistest.Knows(t, url, "WAITFORGODOT"), name)
	}
}
