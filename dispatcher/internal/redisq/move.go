package redisq

import (
	"context"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/partitions"
)

// moveBatch bounds one call: 128 deliveries of as many lanes block Redis for
// about 0.8 ms, 256 for up to 2.
const moveBatch = 128

// Move makes due deliveries ready, at most 128 in each partition, and leases to the
// caller those whose leases have ended by themselves, at most 64 in each. It ends those
// that have expired where they wait, some at a time.
func (s *Store) Move(ctx context.Context, by string) (wait time.Duration, ended []dispatcher.Claimed, err error) {
	due, wait := s.partitions.Due()
	if len(due) == 0 {
		return wait, nil, nil
	}
	ended, err = s.MoveIn(ctx, by, due)
	s.partitions.Fail(err)
	return 0, ended, err
}

// MoveIn is Move in some partitions.
func (s *Store) MoveIn(ctx context.Context, by string, in []int) (ended []dispatcher.Claimed, err error) {
	calls := make([]conn.Call, len(in))
	for i, n := range in {
		calls[i] = conn.Call{Partition: n, Args: []any{moveBatch, claimBytes / len(in)}}
	}
	var errs []error
	for _, r := range s.conn.Send(ctx, conn.Batch{Script: s.scripts.move, By: by, Calls: calls}) {
		if r.Err == nil && len(r.Values) == 1 {
			r.Err = dispatcher.ErrFenced
		}
		if h, ok := r.Hint(); ok {
			ended = s.readAdopted(&r.Reply, h, ended)
			s.observeDeaths(h)
		}
		errs = append(errs, s.conn.InPartition(r.Partition, r.Err))
	}
	return ended, partitions.Join(errs...)
}

// readAdopted reads deliveries that were taken and are leased to the caller now.
func (s *Store) readAdopted(a *conn.Reply, h partitions.Hint, list []dispatcher.Claimed) []dispatcher.Claimed {
	for a.More() {
		n := len(list)
		if list = s.readClaimed(a, list); len(list) > n {
			list[n].Leased = leasedAt(h)
		}
	}
	return list
}
