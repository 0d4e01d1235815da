package redisq

import (
	"context"
	"time"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/partitions"
)

// moveBatch bounds one call: 128 deliveries of as many lanes block Redis for
// about 0.8 ms, 256 for up to 2.
const moveBatch = 128

// Move makes due deliveries ready, at most 128 in each partition.
func (s *Store) Move(ctx context.Context, by string) (wait time.Duration, err error) {
	due, wait := s.partitions.Due()
	if len(due) == 0 {
		return wait, nil
	}
	err = s.MoveIn(ctx, by, due)
	s.partitions.Fail(err)
	return 0, err
}

// MoveIn makes due deliveries of some partitions ready.
func (s *Store) MoveIn(ctx context.Context, by string, in []int) error {
	calls := make([]conn.Call, len(in))
	for i, n := range in {
		calls[i] = conn.Call{Partition: n, Args: []any{moveBatch}}
	}
	var errs []error
	for _, r := range s.conn.Send(ctx, conn.Batch{Script: s.scripts.move, By: by, Calls: calls}) {
		if h, ok := r.Hint(); ok {
			s.observeDeaths(h)
		}
		errs = append(errs, s.conn.InPartition(r.Partition, r.Err))
	}
	return partitions.Join(errs...)
}
