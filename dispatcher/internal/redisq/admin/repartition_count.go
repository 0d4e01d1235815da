package admin

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// end counts the partitions again, removes the old ones, and lets instances start again.
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
		r.report(conn.PhaseCount, q)
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
	return r.s.conn.EndMark(ctx, r.mark.To)
}

// mustHaveMoved returns an error if a key of a lane is not in the lane's new partition.
func (r *repartition) mustHaveMoved() error {
	for n, ring := range r.rings {
		for prefix, list := range ring {
			for _, of := range list {
				if lane := owner(prefix + of); lane != "" && r.target(lane) != n {
					return errLeft(r.s.tags[n] + prefix + of)
				}
			}
		}
	}
	return nil
}

// count writes the counters of a partition again.
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
		for field, n := range c.counted {
			if status, ok := strings.CutPrefix(field, "counts "); ok && n > 0 {
				p.HSet(ctx, key, status, n)
			}
		}
	})
}

// remove deletes a partition that no longer exists, once it has no data of a lane. It
// still has messages with only their ids, the pause of all lanes, its own data, the
// statistics of lanes without their own, lists of last digits that were cut, and the mark
// if a script was torn here.
func (r *repartition) remove(ctx context.Context, n int) error {
	var empty []string
	rest := []string{""} // the mark has no name after the tag
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
	for _, of := range r.rings[n][keys.Digits] {
		rest = append(rest, keys.Digits+of) // the empty element of a list that was cut
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
