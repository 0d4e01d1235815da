package redistest_test

import (
	"context"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
)

var _ = []redistest.Redis{(*redistest.Server)(nil), (*redistest.Mini)(nil)}

func TestRedis(t *testing.T) {
	kinds := map[string]func(testing.TB) redistest.Redis{
		"real": func(t testing.TB) redistest.Redis { return redistest.Start(t) },
		"mini": func(t testing.TB) redistest.Redis { return redistest.StartMini(t) },
	}
	for name, start := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Run("keeps its address and data over a stop", func(t *testing.T) {
				r := start(t)
				client := newTestClient(t, r.URL())
				require.NoError(t, client.Set(t.Context(), "a", "1", 0).Err())
				r.Stop()
				require.Error(t, client.Ping(t.Context()).Err())
				r.Restart()
				require.Equal(t, "1", client.Get(t.Context(), "a").Val())
			})
			t.Run("answers nobody once it is killed, and again after a restart", func(t *testing.T) {
				r := start(t)
				client := newTestClient(t, r.URL())
				require.NoError(t, client.Ping(t.Context()).Err())
				r.Kill()
				r.Kill()
				require.Error(t, client.Ping(t.Context()).Err())
				r.Restart()
				require.NoError(t, client.Ping(t.Context()).Err())
			})
			t.Run("gives each test a server of its own", func(t *testing.T) {
				a, b := start(t), start(t)
				require.NotEqual(t, a.URL(), b.URL())
				require.NotContains(t, a.URL(), ":6379")
			})
		})
	}
}

func TestServerSettings(t *testing.T) {
	s := redistest.Start(t, "maxmemory 20mb")
	client := newTestClient(t, s.URL())
	for name, want := range map[string]string{
		"appendonly":       "yes",
		"appendfsync":      "everysec",
		"maxmemory-policy": "noeviction",
		"save":             "",
		"maxmemory":        "20971520",
	} {
		require.Equal(t, want, client.ConfigGet(t.Context(), name).Val()[name], name)
	}
}

func TestServerPause(t *testing.T) {
	s := redistest.Start(t)
	client := newTestClient(t, s.URL())
	require.NoError(t, client.Ping(t.Context()).Err())

	s.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.Error(t, client.Ping(ctx).Err())

	s.Resume()
	require.NoError(t, client.Ping(t.Context()).Err())

	s.Pause()
	s.Stop()
	require.Error(t, client.Ping(t.Context()).Err())
}

// While a node of a cluster is down it is asked again and again how it sees the
// others; that must not keep its restart from being noticed.
func TestServerIsFoundAgainByWhoAskedWhileItWasDown(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 1, 0)
	node := c.Nodes()[0]
	node.Kill()
	for range 100 {
		require.Empty(t, c.Masters())
	}
	node.Restart()
	require.Equal(t, []*redistest.Node{node}, c.Masters())
}

func TestServerEndsWithItsTest(t *testing.T) {
	var pid int
	t.Run("inner", func(t *testing.T) { pid = redistest.Start(t).Pid() })
	p, err := os.FindProcess(pid)
	require.NoError(t, err)
	require.ErrorIs(t, p.Signal(syscall.Signal(0)), os.ErrProcessDone)
}

// newTestClient gives up at the first error, so that a test sees it.
func newTestClient(t testing.TB, url string) *redis.Client {
	t.Helper()
	opt, err := redis.ParseURL(url)
	require.NoError(t, err)
	opt.MaxRetries = -1
	opt.DialerRetries = 1
	opt.ContextTimeoutEnabled = true
	client := redis.NewClient(opt)
	t.Cleanup(func() { _ = client.Close() })
	return client
}
