package redistest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
)

// newTestClusterClient follows the cluster as the client library does.
func newTestClusterClient(t testing.TB, url string) *redis.ClusterClient {
	t.Helper()
	opt, err := redis.ParseClusterURL(url)
	require.NoError(t, err)
	client := redis.NewClusterClient(opt)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func TestClusterSurvivesItsMasters(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 1)
	require.Len(t, c.Nodes(), 6)
	require.Len(t, c.Masters(), 3)
	require.Equal(t, 5, strings.Count(c.URL(), "addr="))
	client := newTestClusterClient(t, c.URL())
	for n := range 100 { // somewhere on each master
		require.NoError(t, client.Set(t.Context(), fmt.Sprint(n), n, 0).Err())
	}
	require.Equal(t, int64(100), client.DBSize(t.Context()).Val())

	master := c.MasterOf("{tag}:a")
	direct := newTestClient(t, master.URL())
	_, err := direct.Pipelined(t.Context(), func(p redis.Pipeliner) error {
		p.Set(t.Context(), "{tag}:a", "kept", 0)
		p.Do(t.Context(), "WAIT", 1, 5000)
		return nil
	})
	require.NoError(t, err)
	require.Same(t, master, c.KillMasterOf("{tag}:b"))
	require.NotContains(t, c.Masters(), master)
	c.WaitOK()
	heir := c.MasterOf("{tag}:a")
	require.NotSame(t, master, heir)
	require.Equal(t, "kept", newTestClient(t, heir.URL()).Get(t.Context(), "{tag}:a").Val())

	master.Restart()
	master.InStep()
	require.Len(t, c.Masters(), 3)
	require.Same(t, master, c.Failover("{tag}:a"))
	require.Same(t, master, c.MasterOf("{tag}:a"))
	require.NotSame(t, master, c.Other(master))
	c.WaitOK()
}

func TestClusterMovesASlotKeyByKey(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 2, 0)
	from := c.MasterOf("{tag}")
	to := c.Other(from)
	slot := c.Slot("{tag}")
	source, target := newTestClient(t, from.URL()), newTestClient(t, to.URL())
	for n := range 3 {
		require.NoError(t, source.Set(t.Context(), fmt.Sprint("{tag}:", n), n, 0).Err())
	}
	require.ErrorContains(t, target.Get(t.Context(), "{tag}:0").Err(), "MOVED")

	var seen []int
	c.MoveSlot(slot, from, to, func(moved int) {
		seen = append(seen, moved)
		require.ErrorContains(t, source.Get(t.Context(), "{tag}:absent").Err(), "ASK")
		left, err := source.ClusterCountKeysInSlot(t.Context(), slot).Result()
		require.NoError(t, err)
		require.Equal(t, int64(3-moved), left)
	})
	require.Equal(t, []int{0, 1, 2, 3}, seen)
	require.Same(t, to, c.MasterOf("{tag}"))
	require.ErrorContains(t, source.Get(t.Context(), "{tag}:0").Err(), "MOVED")
	require.Equal(t, "2", target.Get(t.Context(), "{tag}:2").Val())
	c.WaitOK()

	to.Pause()
	require.Equal(t, []*redistest.Node{from}, c.Masters())
	to.Resume()
	c.WaitOK()
}
