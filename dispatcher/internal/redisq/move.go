package redisq

import (
	"context"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
)

// moveBatch bounds one call: 128 deliveries of as many lanes block Redis for
// about 0.8 ms, 256 for up to 2.
const moveBatch = 128

// Move makes ready what is due, at most 128 deliveries in each partition.
func (s *Store) Move(ctx context.Context, by string, partitions []int) ([]dispatcher.Hint, error) {
	jobs := make([]conn.ScriptCall, len(partitions))
	for i, n := range partitions {
		jobs[i] = conn.ScriptCall{Partition: n, Args: []any{moveBatch}}
	}
	var hints []dispatcher.Hint
	var errs []error
	for i, r := range s.conn.Run(ctx, s.scripts.move, by, jobs) {
		a := r
		if h := a.HintIf(jobs[i].Partition); h != nil {
			hints = append(hints, *h)
		}
		errs = append(errs, conn.InPartition(jobs[i].Partition, a.Err))
	}
	return hints, conn.Join(errs...)
}
