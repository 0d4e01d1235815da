package admin

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/endpoints"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// sealed compares the counts of endpoints by the key that sealed them with the
// records. Where they change meanwhile nothing is said of them.
func (d *doctor) sealed(ctx context.Context) error {
	before, _, err := d.s.SealedCounts(ctx)
	if err != nil {
		return err
	}
	seen, found := map[string]bool{}, map[string]int{}
	_, err = d.s.EachRecord(ctx, math.MaxInt, func(id, stored string) {
		if !seen[id] {
			seen[id] = true
			found[endpoints.SealedBy(stored)]++
		}
	})
	if err != nil {
		return err
	}
	after, _, err := d.s.SealedCounts(ctx)
	if err != nil || !maps.Equal(before, after) {
		return err
	}
	all := maps.Clone(found)
	maps.Copy(all, before)
	for _, id := range slices.Sorted(maps.Keys(all)) {
		if found[id] == before[id] && found[id] > 0 {
			continue
		}
		if d.e.Fix {
			if err := d.tally(ctx, id, found[id], before[id]); err != nil {
				return err
			}
		}
		d.find(-1, keys.Sealed, "index", fmt.Sprintf("%s: %d, counted are %d", id, found[id], before[id]), d.e.Fix)
	}
	return nil
}

// tally adds what a count lacks: it may be changed at the same time.
func (d *doctor) tally(ctx context.Context, id string, found, counted int) error {
	return d.s.conn.At(ctx, "count endpoints by key", conn.Home, func(p redis.Pipeliner) {
		key := d.s.home() + keys.Sealed
		if counted == endpoints.BrokenCount || found == 0 {
			p.HDel(ctx, key, id)
			counted = 0
		}
		if found > 0 {
			p.HIncrBy(ctx, key, id, int64(found-counted))
		}
	})
}
