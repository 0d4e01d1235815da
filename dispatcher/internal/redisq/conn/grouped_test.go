package conn_test

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
)

func TestAListIsSharedOutByPartitionInItsOrder(t *testing.T) {
	partitions := []int{2, 0, 2, 2, 0}
	partitionOf := func(i int) int { return partitions[i] }
	require.Equal(t, []conn.Share{{Partition: 2, At: []int{0, 2, 3}}, {Partition: 0, At: []int{1, 4}}},
		conn.Grouped(5, 0, partitionOf))
	require.Equal(t, []conn.Share{{Partition: 2, At: []int{0, 2}}, {Partition: 0, At: []int{1, 4}}, {Partition: 2, At: []int{3}}},
		conn.Grouped(5, 2, partitionOf), "a share that is full is followed by another")
	require.Empty(t, conn.Grouped(0, 2, partitionOf))
}

func TestAnErrorOfOnePartitionNamesItAndStopsNoOther(t *testing.T) {
	t.Parallel()
	_, c := newTestProbe(t, redistest.Start(t).URL(), dispatcher.Durability{})
	var calls []conn.Call
	for _, n := range c.All() {
		calls = append(calls, conn.Call{Partition: n, Fill: func(p redis.Pipeliner) { p.Ping(t.Context()) }})
	}
	var read []int
	err := c.SendEach(t.Context(), conn.Batch{Doing: "ping", Calls: calls}, func(i int, r *conn.Call) error {
		require.Equal(t, i, r.Partition)
		read = append(read, r.Partition)
		if r.Partition == 0 {
			return conn.ErrReply
		}
		return r.Err
	})
	require.Equal(t, []int{0, 1}, read)
	require.ErrorIs(t, err, conn.ErrReply)
	require.Equal(t, []int{0}, conn.FailedPartitions(err))
	shares := []conn.Share{{Partition: 1}, {Partition: 0}}
	err = c.EachShare(t.Context(), "run", shares, func(p redis.Pipeliner, k int) {
		p.Do(t.Context(), []any{"NO-SUCH-COMMAND", "PING"}[k])
	})
	require.Equal(t, []int{1}, conn.FailedPartitions(err))
}
