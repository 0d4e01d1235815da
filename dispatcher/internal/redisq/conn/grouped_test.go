package conn_test

import (
	"testing"

	"github.com/stretchr/testify/require"

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
