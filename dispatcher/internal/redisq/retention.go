package redisq

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// retentionOf adds how long finished deliveries are kept whole now. A partition
// that is full cuts the oldest before its age. There it is the age of the
// oldest one.
func (s *Store) retentionOf(ctx context.Context, st *dispatcher.Stats) error {
	if s.keep.FinishedMax <= 0 {
		return nil // no delivery is kept
	}
	type end struct {
		size *redis.IntCmd
		head *redis.ZSliceCmd
	}
	ends := make([][2]end, len(s.tags))
	t := conn.Batch{Clock: true, Calls: make([]conn.Call, len(s.tags))}
	for n, tag := range s.tags {
		t.Calls[n] = conn.Call{Partition: n, Fill: func(p redis.Pipeliner) {
			for i, key := range []string{keys.Done, keys.Cancelled} {
				ends[n][i] = end{p.ZCard(ctx, tag+key), p.ZRangeWithScores(ctx, tag+key, 0, 0)}
			}
		}}
	}
	s.conn.Send(ctx, &t)
	st.Retention = s.keep.Finished
	var errs []error
	for n, e := range t.Calls {
		if e.Err != nil {
			errs = append(errs, s.conn.InPartition(n, conn.Failed("stats", e.Err)))
			continue
		}
		size, oldest := int64(0), e.Now
		for _, of := range ends[n] {
			size += of.size.Val()
			if head := of.head.Val(); len(head) > 0 {
				if at := conn.FromMillis(int64(head[0].Score)); at.Before(oldest) {
					oldest = at
				}
			}
		}
		if size >= int64(s.share(s.keep.FinishedMax)) {
			st.Retention = min(st.Retention, max(e.Now.Sub(oldest), time.Duration(0)))
		}
	}
	return errors.Join(errs...)
}
