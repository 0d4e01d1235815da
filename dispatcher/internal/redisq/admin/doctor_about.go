package admin

import (
	"context"
	"maps"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// unmet are the instances of which something is told and that are not there:
// one died between the two writes with which it begins.
func (d *doctor) unmet(ctx context.Context) (map[string]bool, error) {
	var about *redis.StringSliceCmd
	err := d.s.conn.At(ctx, "read what instances told", conn.Home, func(p redis.Pipeliner) { about = p.HKeys(ctx, d.s.home()+keys.About) })
	if err != nil {
		return nil, err
	}
	there, err := d.numbers(ctx)
	if err != nil {
		return nil, err
	}
	unmet := map[string]bool{}
	for _, name := range about.Val() {
		if _, ok := there[name]; !ok {
			unmet[name] = true
		}
	}
	return unmet, nil
}

// forgetUnmet removes what is told of those that were not there some readings
// ago, and are not now.
func (d *doctor) forgetUnmet(ctx context.Context, before map[string]bool) error {
	if len(before) == 0 {
		return nil
	}
	now, err := d.unmet(ctx)
	if err != nil {
		return err
	}
	maps.DeleteFunc(before, func(name string, _ bool) bool { return !now[name] })
	names := slices.Sorted(maps.Keys(before))
	if d.e.Fix && len(names) > 0 {
		err := d.s.conn.At(ctx, "forget what instances told", conn.Home, func(p redis.Pipeliner) {
			for some := range slices.Chunk(names, redisq.AboutAtOnce) {
				p.HDel(ctx, d.s.home()+keys.About, some...)
			}
		})
		if err != nil {
			return err
		}
	}
	for _, name := range names {
		d.find(-1, name, "unmet_instance", "", d.e.Fix)
	}
	return nil
}
