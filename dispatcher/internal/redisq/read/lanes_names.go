package read

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// namesPage is the number of names in one call. Each has at most 2.4 KB, with the longest URL
// and tenant, so a page has less than a MiB.
const namesPage = 256

// LaneNames returns a page of the names of lanes, one partition after the other.
func (s *LaneReader) LaneNames(ctx context.Context, cursor string) (list []dispatcher.LaneName, next string, err error) {
	n, at, err := s.pageOf(cursor)
	if err != nil {
		return nil, "", err
	}
	list, next, err = s.laneNamesIn(ctx, n, at)
	return list, s.pageAfter(n, next), s.conn.InPartition(n, err)
}

// laneNamesIn reads a page of one partition.
func (s *LaneReader) laneNamesIn(ctx context.Context, partition int, cursor string) (list []dispatcher.LaneName, next string, err error) {
	found, next, err := s.conn.Scan(ctx, "read lane names", partition, cursor, func(p redis.Pipeliner, at uint64) *redis.ScanCmd {
		return p.HScan(ctx, s.conn.Tag(partition)+keys.LaneNames, at, "", namesPage)
	})
	if err != nil {
		return nil, "", err
	}
	for i := 0; i+1 < len(found); i += 2 {
		list = append(list, dispatcher.LaneName{Lane: dispatcher.Lane(found[i]), Name: found[i+1]})
	}
	return list, next, nil
}
