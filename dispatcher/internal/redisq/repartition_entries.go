package redisq

import (
	"context"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// entriesPage is how many entries are moved at a time.
const entriesPage = 500

// laneFunc is the lane that an entry belongs to; empty: none, it stays.
type laneFunc func(entry string) string

// ofDelivery is the lane of <lane>:<id>.
func (r *repartition) ofDelivery(entry string) string {
	lane, _, _ := strings.Cut(entry, ":")
	return lane
}

// ofLane is an entry that is a lane. * is each partition's own.
func (r *repartition) ofLane(entry string) string {
	if entry == "*" {
		return ""
	}
	return entry
}

// ofBuried is the lane of "<lane> <reason>".
func (r *repartition) ofBuried(entry string) string {
	lane, _, _ := strings.Cut(entry, " ")
	return lane
}

// moveEntries moves what stands in a partition's own keys.
func (r *repartition) moveEntries(ctx context.Context, n int) error {
	for _, hash := range []struct {
		key  string
		lane laneFunc
	}{
		{keys.Marks, r.ofDelivery}, {keys.Progress, r.ofDelivery}, {keys.Lane, r.ofLane}, {keys.Limits, r.ofLane}, {keys.Held, r.ofLane},
		{keys.Buried, r.ofBuried}, {keys.LaneNames, r.ofLane},
	} {
		if err := r.moveHash(ctx, n, hash.key, hash.lane, nil); err != nil {
			return err
		}
	}
	if err := r.moveHash(ctx, n, keys.In, r.ofLane, &r.out.Moved.Lanes); err != nil {
		return err
	}
	for _, set := range []struct {
		key  string
		lane laneFunc
	}{
		{keys.Due, r.ofDelivery}, {keys.Done, r.ofDelivery}, {keys.Cancelled, r.ofDelivery}, {keys.Dead, r.ofDelivery},
		{keys.Lanes, r.ofLane}, {keys.Parked, r.ofLane}, {keys.Known, r.ofLane},
	} {
		if err := r.moveSet(ctx, n, set.key, set.lane); err != nil {
			return err
		}
	}
	return nil
}

// copyEnds gives what a partition that will be no more counted of ends to one
// that stays, under names of its own: so it may be done again. addEnds adds them
// up.
func (r *repartition) copyEnds(ctx context.Context, n int) error {
	if n < r.mark.To {
		return nil
	}
	var ends *redis.MapStringStringCmd
	if err := r.conn.At(ctx, "read ends", n, func(p redis.Pipeliner) { ends = p.HGetAll(ctx, r.tags[n]+keys.Ends) }); err != nil {
		return err
	}
	var fields []any
	for end, count := range ends.Val() {
		fields = append(fields, end+" "+strconv.Itoa(n), count)
	}
	if len(fields) == 0 {
		return nil
	}
	q := n % r.mark.To
	return r.conn.At(ctx, "copy ends", q, func(p redis.Pipeliner) { p.HSet(ctx, r.tags[q]+keys.Ends, fields...) })
}

// addEnds adds up what copyEnds brought.
func (r *repartition) addEnds(ctx context.Context) error {
	var jobs []conn.ScriptCall
	for q := range r.mark.To {
		jobs = append(jobs, conn.ScriptCall{Partition: q})
	}
	var errs []error
	for i, reply := range r.conn.Run(ctx, r.scripts.repartitionEnds, "", jobs) {
		errs = append(errs, conn.InPartition(jobs[i].Partition, reply.Err))
	}
	return conn.Join(errs...)
}

// moveHash moves the fields of a hash. moved, unless it is nil, counts them.
func (r *repartition) moveHash(ctx context.Context, n int, key string, lane laneFunc, moved *int) error {
	from := r.tags[n] + key
	for cursor := uint64(0); ; {
		var scan *redis.ScanCmd
		err := r.conn.At(ctx, "read "+from, n, func(p redis.Pipeliner) { scan = p.HScan(ctx, from, cursor, "", r.page) })
		if err != nil {
			return err
		}
		page, next := scan.Val()
		to, gone := map[int][]any{}, []string{}
		for i := 0; i+1 < len(page); i += 2 {
			if of := lane(page[i]); of != "" && r.target(of) != n {
				to[r.target(of)] = append(to[r.target(of)], page[i], page[i+1])
				gone = append(gone, page[i])
			}
		}
		if moved != nil {
			*moved += len(gone)
		}
		if len(gone) > 0 && !r.options.DryRun {
			var copies []conn.Call
			for q, fields := range to {
				copies = append(copies, conn.Call{Partition: q, Fill: func(p redis.Pipeliner) { p.HSet(ctx, r.tags[q]+key, fields...) }})
			}
			if err := r.trip(ctx, "move "+from, true, copies); err != nil {
				return err
			}
			if err := r.conn.At(ctx, "move "+from, n, func(p redis.Pipeliner) { p.HDel(ctx, from, gone...) }); err != nil {
				return err
			}
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// moveSet moves the members of a sorted set. Those that stay are passed by
// their rank, which nobody else changes.
func (r *repartition) moveSet(ctx context.Context, n int, key string, lane laneFunc) error {
	from := r.tags[n] + key
	for start := int64(0); ; {
		var page *redis.ZSliceCmd
		err := r.conn.At(ctx, "read "+from, n, func(p redis.Pipeliner) {
			page = p.ZRangeWithScores(ctx, from, start, start+r.page-1)
		})
		if err != nil || len(page.Val()) == 0 {
			return err
		}
		to, gone := map[int][]redis.Z{}, []any{}
		for _, z := range page.Val() {
			entry, _ := z.Member.(string)
			if of := lane(entry); of != "" && r.target(of) != n {
				to[r.target(of)] = append(to[r.target(of)], z)
				gone = append(gone, entry)
			}
		}
		start += int64(len(page.Val()) - len(gone))
		if len(gone) == 0 {
			continue
		}
		var copies []conn.Call
		for q, members := range to {
			copies = append(copies, conn.Call{Partition: q, Fill: func(p redis.Pipeliner) { p.ZAdd(ctx, r.tags[q]+key, members...) }})
		}
		if err := r.trip(ctx, "move "+from, true, copies); err != nil {
			return err
		}
		if err := r.conn.At(ctx, "move "+from, n, func(p redis.Pipeliner) { p.ZRem(ctx, from, gone...) }); err != nil {
			return err
		}
	}
}
