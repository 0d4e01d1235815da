package redisq

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// retentionOf adds for how long finished deliveries are kept whole by now. A
// partition that holds as many as it may cuts the oldest before its age: there
// it is the age of the one that is the oldest now.
func (s *Store) retentionOf(ctx context.Context, st *dispatcher.Stats) error {
	if s.keep.FinishedMax <= 0 {
		return nil // none is kept
	}
	type end struct {
		size *redis.IntCmd
		head *redis.ZSliceCmd
	}
	ends := make([][2]end, len(s.tags))
	t := trip{clock: true, errands: make([]errand, len(s.tags))}
	for n, tag := range s.tags {
		t.errands[n] = errand{partition: n, fill: func(p redis.Pipeliner) {
			for i, key := range []string{keys.Done, keys.Cancelled} {
				ends[n][i] = end{p.ZCard(ctx, tag+key), p.ZRangeWithScores(ctx, tag+key, 0, 0)}
			}
		}}
	}
	s.send(ctx, &t)
	st.Retention = s.keep.Finished
	var errs []error
	for n, e := range t.errands {
		if e.err != nil {
			errs = append(errs, inPartition(n, s.failed("stats", e.err)))
			continue
		}
		size, oldest := int64(0), e.now
		for _, of := range ends[n] {
			size += of.size.Val()
			if head := of.head.Val(); len(head) > 0 {
				if at := fromMillis(int64(head[0].Score)); at.Before(oldest) {
					oldest = at
				}
			}
		}
		if size >= int64(s.share(s.keep.FinishedMax)) {
			st.Retention = min(st.Retention, max(e.now.Sub(oldest), time.Duration(0)))
		}
	}
	return errors.Join(errs...)
}
