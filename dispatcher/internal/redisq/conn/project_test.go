package conn_test

import (
	"errors"
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// Whatever the name of a project is, no master of a cluster has much more than its share.
func TestMastersOfANewClusterGetAboutEqualShares(t *testing.T) {
	t.Parallel()
	const slots = 16384
	for _, masters := range []int{1, 2, 3, 5, 6, 12} {
		t.Run(fmt.Sprint(masters, " masters"), func(t *testing.T) {
			t.Parallel()
			sum := 0
			for project := range 300 {
				masterOf := func(n int) (string, error) {
					slot := int(keys.CRC16(fmt.Sprintf("p%d:%d", project, n))) % slots
					return strconv.Itoa(slot * masters / slots), nil
				}
				n, err := conn.EvenPartitions(masters, masterOf)
				require.NoError(t, err)
				require.GreaterOrEqual(t, n, 12)
				require.Less(t, n, 1024)
				has := map[string]int{}
				for partition := range n {
					master, _ := masterOf(partition)
					has[master]++
				}
				for _, some := range has {
					require.LessOrEqual(t, float64(some), 1.25*float64(n)/float64(masters), "project %d with %d partitions", project, n)
				}
				sum += n
			}
			if masters <= 3 {
				require.Less(t, sum/300, 24, "partitions in the mean")
			}
		})
	}
}

func TestNoNumberOfPartitionsIsChosenIfAMasterIsUnknown(t *testing.T) {
	t.Parallel()
	down := errors.New("down")
	_, err := conn.EvenPartitions(3, func(int) (string, error) { return "", down })
	require.ErrorIs(t, err, down)
}
