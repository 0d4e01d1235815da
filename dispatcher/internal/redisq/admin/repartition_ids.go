package admin

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// class are the partitions in which a lane of the old partition n may lie from
// now on: CRC-16 leaves the same rest for both numbers' common divisor.
func (r *repartition) class(n int) []int {
	step := divisor(r.mark.From, r.mark.To)
	var all []int
	for q := n % step; q < r.mark.To; q += step {
		all = append(all, q)
	}
	return all
}

func divisor(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// moveIDs copies what is no lane's own to every partition that it may concern:
// that all lanes are held, which instances were declared dead, and known ids of
// messages that are gone. The lanes of such an id are not kept, and a repeat must
// be known wherever its destination lies now.
func (r *repartition) moveIDs(ctx context.Context) error {
	for n := range r.mark.From {
		if !r.options.DryRun {
			if err := r.copyShared(ctx, n); err != nil {
				return err
			}
		}
		if err := r.copyIDs(ctx, n); err != nil {
			return err
		}
		r.tell(conn.PhaseIDs, n)
	}
	return nil
}

func (r *repartition) copyShared(ctx context.Context, n int) error {
	var fenced *redis.ZSliceCmd
	var limits, held *redis.StringCmd
	err := r.s.conn.At(ctx, "read fenced", n, func(p redis.Pipeliner) {
		fenced = p.ZRangeWithScores(ctx, r.s.tags[n]+keys.Fenced, 0, -1)
		limits, held = p.HGet(ctx, r.s.tags[n]+keys.Limits, "*"), p.HGet(ctx, r.s.tags[n]+keys.Held, "*")
	})
	if err != nil {
		return err
	}
	var copies []conn.Call
	for q := range r.mark.To {
		if q == n {
			continue
		}
		copies = append(copies, conn.Call{Partition: q, Fill: func(p redis.Pipeliner) {
			if len(fenced.Val()) > 0 {
				p.ZAdd(ctx, r.s.tags[q]+keys.Fenced, fenced.Val()...)
			}
			if limits.Val() != "" {
				p.HSet(ctx, r.s.tags[q]+keys.Limits, "*", limits.Val())
			}
			if held.Val() != "" {
				p.HSet(ctx, r.s.tags[q]+keys.Held, "*", held.Val())
			}
		}})
	}
	return r.trip(ctx, conn.Batch{Doing: "copy fenced", Durable: true, Calls: copies})
}

// idsKept is how many of a partition's ids are copied. Where each goes to one
// partition only, that is all; else the newest, so many that all of the old
// partitions together do not bring a new one more than its share.
func (r *repartition) idsKept(all int) int {
	step := divisor(r.mark.From, r.mark.To)
	if r.mark.To == step {
		return all
	}
	return min(all, max(redisq.Share(r.known, r.mark.To)*step/r.mark.From, 1))
}

// copyIDs copies a partition's ids, the newest first. They stay where they are:
// what is not needed there goes at the end, or is trimmed.
func (r *repartition) copyIDs(ctx context.Context, n int) error {
	seen := r.s.tags[n] + keys.Seen
	var size *redis.IntCmd
	if err := r.s.conn.At(ctx, "read "+seen, n, func(p redis.Pipeliner) { size = p.ZCard(ctx, seen) }); err != nil {
		return err
	}
	all := int(size.Val())
	kept := r.idsKept(all)
	r.out.Moved.Forgotten += all - kept
	for start := 0; start < kept; start += int(r.page) {
		var page *redis.ZSliceCmd
		err := r.s.conn.At(ctx, "read "+seen, n, func(p redis.Pipeliner) {
			page = p.ZRevRangeWithScores(ctx, seen, int64(start), int64(min(start+int(r.page), kept)-1))
		})
		if err == nil {
			err = r.copyPageOfIDs(ctx, n, page.Val())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *repartition) copyPageOfIDs(ctx context.Context, n int, page []redis.Z) error {
	ids := make([]string, len(page))
	for i, z := range page {
		ids[i], _ = z.Member.(string)
	}
	if len(ids) == 0 {
		return nil
	}
	records, err := r.records(ctx, n, ids)
	if err != nil {
		return err
	}
	puts := map[int][]any{}
	for i, z := range page {
		record, _ := records[i].(string)
		if len(record) != dispatcher.DigestSize {
			continue // no id of a message that is gone
		}
		for _, q := range r.class(n) {
			if q != n {
				puts[q] = append(puts[q], ids[i], record, othersGone, int64(z.Score))
				r.out.Moved.IDs++
			}
		}
	}
	if r.options.DryRun {
		return nil
	}
	return r.put(ctx, puts)
}
