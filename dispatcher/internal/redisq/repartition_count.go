package redisq

import (
	"context"
	"hash/maphash"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// end makes the counts of the partitions anew, removes those that are no more,
// and gives the project back.
func (r *repartition) end(ctx context.Context) error {
	if err := r.mustBeMarked(ctx); err != nil {
		return err
	}
	counts := make([]map[dispatcher.Status]int64, r.mark.To)
	for q := range counts {
		var err error
		if counts[q], err = r.countPlaces(ctx, q); err != nil {
			return err
		}
		r.tell(conn.PhaseCount, q)
	}
	if err := r.countKeys(ctx, counts); err != nil {
		return err
	}
	for q, of := range counts {
		key := r.tags[q] + keys.Counts
		err := r.conn.At(ctx, "count", q, func(p redis.Pipeliner) {
			p.Del(ctx, key)
			for status, n := range of {
				if n > 0 {
					p.HSet(ctx, key, string(status), n)
				}
			}
		})
		if err != nil {
			return err
		}
	}
	if err := r.addEnds(ctx); err != nil {
		return err
	}
	for n := r.mark.To; n < r.mark.From; n++ {
		if err := r.remove(ctx, n); err != nil {
			return err
		}
	}
	return r.serve(ctx)
}

// countPlaces counts what has ended in a partition, and what is due.
func (r *repartition) countPlaces(ctx context.Context, q int) (map[dispatcher.Status]int64, error) {
	ended := map[dispatcher.Status]*redis.IntCmd{}
	err := r.conn.At(ctx, "count", q, func(p redis.Pipeliner) {
		for key, status := range map[string]dispatcher.Status{
			keys.Done: dispatcher.StatusDelivered, keys.Cancelled: dispatcher.StatusCancelled, keys.Dead: dispatcher.StatusDead,
		} {
			ended[status] = p.ZCard(ctx, r.tags[q]+key)
		}
	})
	if err != nil {
		return nil, err
	}
	counts := map[dispatcher.Status]int64{}
	for status, n := range ended {
		counts[status] = n.Val()
	}
	for start := int64(0); ; start += r.page {
		size, err := r.countDue(ctx, q, start, counts)
		if err != nil || size == 0 {
			return counts, err
		}
	}
}

// countDue counts a page of what is due, and answers how long it was.
func (r *repartition) countDue(ctx context.Context, q int, start int64, counts map[dispatcher.Status]int64) (int, error) {
	var page *redis.StringSliceCmd
	var texts *redis.SliceCmd
	err := r.conn.At(ctx, "count", q, func(p redis.Pipeliner) {
		page = p.ZRange(ctx, r.tags[q]+keys.Due, start, start+r.page-1)
	})
	if err != nil || len(page.Val()) == 0 {
		return 0, err
	}
	err = r.conn.At(ctx, "count", q, func(p redis.Pipeliner) { texts = p.HMGet(ctx, r.tags[q]+keys.Progress, page.Val()...) })
	for _, v := range conn.Value(texts) {
		text, _ := v.(string)
		far, wrong := parseProgress(text)
		if wrong != nil {
			return 0, wrong
		}
		if far.climbed() > 0 {
			counts[dispatcher.StatusRetrying]++
		} else {
			counts[dispatcher.StatusScheduled]++
		}
	}
	return len(page.Val()), err
}

// countKeys counts what is ready, and what stands behind another.
func (r *repartition) countKeys(ctx context.Context, counts []map[dispatcher.Status]int64) error {
	seed := maphash.MakeSeed()
	counted := map[uint64]bool{} // a key may come twice
	return r.eachKey(ctx, func(key partitionKey) error {
		lane, line := owner(key.name)
		if lane == "" || key.partition >= len(r.tags) {
			return nil
		}
		if r.target(lane) != key.partition {
			return errLeft(keys.Tag(r.project, key.partition) + key.name)
		}
		at := maphash.Comparable(seed, key)
		if strings.HasPrefix(key.name, keys.History) || counted[at] {
			return nil
		}
		counted[at] = true
		size, status := (*redis.IntCmd)(nil), dispatcher.StatusReady
		err := r.conn.At(ctx, "count", key.partition, func(p redis.Pipeliner) {
			if name := r.tags[key.partition] + key.name; line {
				size = p.ZCard(ctx, name)
			} else {
				size = p.LLen(ctx, name)
			}
		})
		n := conn.Value(size)
		if line {
			n, status = max(n-1, 0), dispatcher.StatusScheduled // the first is due or ready besides
		}
		counts[key.partition][status] += n
		return err
	})
}

// remove forgets a partition that is no more, once nothing of a lane is there.
func (r *repartition) remove(ctx context.Context, n int) error {
	rest := []string{
		keys.Due, keys.Done, keys.Cancelled, keys.Dead, keys.Marks, keys.Progress, keys.In, keys.Lane, keys.Lanes, keys.Parked, keys.Known, keys.Buried, keys.Fan,
	}
	there := make([]*redis.IntCmd, len(rest))
	err := r.conn.At(ctx, "remove "+r.tags[n], n, func(p redis.Pipeliner) {
		for i, key := range rest {
			there[i] = p.Exists(ctx, r.tags[n]+key)
		}
	})
	if err != nil {
		return err
	}
	for i, key := range rest {
		if there[i].Val() > 0 {
			return errLeft(r.tags[n] + key)
		}
	}
	return r.conn.At(ctx, "remove "+r.tags[n], n, func(p redis.Pipeliner) {
		for _, key := range []string{keys.Messages, keys.Bodies, keys.Staged, keys.Seen, keys.Limits, keys.Held, keys.Counts, keys.Ends, keys.Fenced, keys.Attempts} {
			p.Unlink(ctx, r.tags[n]+key)
		}
	})
}
