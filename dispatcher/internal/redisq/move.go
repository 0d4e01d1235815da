package redisq

import (
	"context"

	"github.com/hookladder/hookladder/dispatcher"
)

// moveBatch bounds one call: 128 deliveries of as many lanes block Redis for
// about 0.8 ms, 256 for up to 2.
const moveBatch = 128

// Move makes ready what is due, at most 128 deliveries in each partition.
func (s *Store) Move(ctx context.Context, by string, partitions []int) ([]dispatcher.Hint, error) {
	jobs := make([]job, len(partitions))
	for i, n := range partitions {
		jobs[i] = job{partition: n, args: []any{moveBatch}}
	}
	var hints []dispatcher.Hint
	var errs []error
	for i, r := range s.run(ctx, s.scripts.move, by, jobs) {
		a := answer{values: r.values, err: r.err}
		if h := a.hintIf(jobs[i].partition); h != nil {
			hints = append(hints, *h)
		}
		errs = append(errs, inPartition(jobs[i].partition, a.err))
	}
	return hints, join(errs...)
}

// hintIf reads the hint of an answer that is not an error.
func (a *answer) hintIf(partition int) *dispatcher.Hint {
	if a.err != nil {
		return nil
	}
	h := a.hint(partition)
	if a.err != nil {
		return nil
	}
	return &h
}
