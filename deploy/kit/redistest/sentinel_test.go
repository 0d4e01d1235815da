package redistest_test

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
)

func TestReplicaFollowsItsMaster(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	writer := newTestClient(t, master.URL())
	require.NoError(t, writer.Set(t.Context(), "a", "before", 0).Err())
	replica := redistest.StartReplica(t, master)
	reader := newTestClient(t, replica.URL())
	require.Equal(t, "before", reader.Get(t.Context(), "a").Val())
	require.ErrorContains(t, reader.Set(t.Context(), "a", "1", 0).Err(), "READONLY")

	conn := writer.Conn() // WAIT waits for what its own connection wrote
	defer conn.Close()
	require.NoError(t, conn.Set(t.Context(), "a", "after", 0).Err())
	require.Equal(t, int64(1), conn.Wait(t.Context(), 1, patience).Val())
	require.Equal(t, "after", reader.Get(t.Context(), "a").Val())
	replica.Pause()
	require.NoError(t, conn.Set(t.Context(), "a", "unseen", 0).Err())
	require.Zero(t, conn.Wait(t.Context(), 1, 50*millisecond).Val())
	replica.Resume()
	require.Equal(t, int64(1), conn.Wait(t.Context(), 1, patience).Val())
}

func TestSentinelsReplaceTheMaster(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	replica := redistest.StartReplica(t, master)
	s := redistest.StartSentinels(t, master, 3, "main")
	require.Len(t, s.Nodes(), 3)
	require.Equal(t, "main", s.Name())
	require.Equal(t, master.Addr(), s.Master())

	master.Kill()
	require.Equal(t, replica.Addr(), s.WaitMaster(master.Addr()))
	require.Equal(t, replica.Addr(), s.Master())
	url := s.URL() + "&master_name=main"
	opt, err := redis.ParseFailoverURL(url)
	require.NoError(t, err)
	client := redis.NewFailoverClient(opt)
	defer client.Close()
	require.NoError(t, client.Set(t.Context(), "a", "1", 0).Err())
	require.Equal(t, "1", newTestClient(t, replica.URL()).Get(t.Context(), "a").Val())
}

func TestSentinelsReplaceTheMasterWhenAsked(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	replica := redistest.StartReplica(t, master)
	s := redistest.StartSentinels(t, master, 1, "main")
	require.Equal(t, replica.Addr(), s.Failover())
	require.Equal(t, replica.Addr(), s.Master())
}
