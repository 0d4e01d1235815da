package admin

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// end makes the counts of the partitions anew, removes those that are no more,
// and gives the project back.
func (r *repartition) end(ctx context.Context) error {
	if err := r.mustBeMarked(ctx); err != nil {
		return err
	}
	if err := r.readRings(ctx, func(located, string) {}); err != nil {
		return err
	}
	if err := r.mustHaveMoved(); err != nil {
		return err
	}
	for q := range r.mark.To {
		if err := r.count(ctx, q); err != nil {
			return err
		}
		r.tell(conn.PhaseCount, q)
	}
	if err := r.addEnds(ctx); err != nil {
		return err
	}
	if err := r.cutLogs(ctx); err != nil {
		return err
	}
	if err := r.setTimers(ctx); err != nil {
		return err
	}
	for n := r.mark.To; n < r.mark.From; n++ {
		if err := r.remove(ctx, n); err != nil {
			return err
		}
	}
	return r.serve(ctx)
}

// mustHaveMoved makes sure that each key of a lane is in the lane's new partition.
func (r *repartition) mustHaveMoved() error {
	for n, ring := range r.rings {
		for prefix, list := range ring {
			for _, of := range list {
				if _, lane := owner(prefix + of); lane != "" && r.target(lane) != n {
					return errLeft(r.s.tags[n] + prefix + of)
				}
			}
		}
	}
	return nil
}

// count writes the counts of a partition anew.
func (r *repartition) count(ctx context.Context, q int) error {
	c, err := r.newRecount(ctx, q)
	if err != nil {
		return err
	}
	key := r.s.tags[q] + keys.Counts
	if !c.whole {
		return fmt.Errorf("%s can't be counted: something else writes to this project; run it again", r.s.tags[q])
	}
	return r.s.conn.At(ctx, "count", q, func(p redis.Pipeliner) {
		p.Del(ctx, key)
		for field, n := range c.is {
			if status, ok := strings.CutPrefix(field, "counts "); ok && n > 0 {
				p.HSet(ctx, key, status, n)
			}
		}
	})
}

// remove forgets a partition that is no more, once nothing of a lane is there.
// What is left are messages of which only the id is known, that all lanes are
// held, what is the partition's own, and figures of lanes that had none of their own.
func (r *repartition) remove(ctx context.Context, n int) error {
	var empty, rest []string
	for _, k := range keys.Kinds {
		switch {
		case k.Named():
		case k.Name == keys.Fan || laneOf(k) != nil && k.Of != keys.OfLanes:
			empty = append(empty, k.Name)
		default:
			rest = append(rest, k.Name)
		}
	}
	for _, of := range r.rings[n][keys.Health] {
		rest = append(rest, keys.Health+of) // * may be left
	}
	there := make([]*redis.IntCmd, len(empty))
	err := r.s.conn.At(ctx, "remove "+r.s.tags[n], n, func(p redis.Pipeliner) {
		for i, name := range empty {
			there[i] = p.Exists(ctx, r.s.tags[n]+name)
		}
	})
	if err != nil {
		return err
	}
	for i, name := range empty {
		if there[i].Val() > 0 {
			return errLeft(r.s.tags[n] + name)
		}
	}
	return r.s.conn.At(ctx, "remove "+r.s.tags[n], n, func(p redis.Pipeliner) {
		for _, name := range rest {
			p.Unlink(ctx, r.s.tags[n]+name)
		}
	})
}
