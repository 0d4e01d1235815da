package admin

import (
	"context"
	"maps"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/codec"
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

// archive looks whether the log is kept for an archive while instances run of which
// none has one. With Fix it no longer is.
func (d *doctor) archive(ctx context.Context) error {
	key := d.s.home() + keys.Meta
	var flag *redis.StringCmd
	var about *redis.MapStringStringCmd
	err := d.s.conn.At(ctx, "read whether there is an archive", conn.Home, func(p redis.Pipeliner) {
		flag, about = p.HGet(ctx, key, conn.MetaArchive), p.HGetAll(ctx, d.s.home()+keys.About)
	})
	if err != nil || flag.Val() == "" || len(about.Val()) == 0 {
		return err
	}
	for _, text := range about.Val() {
		if codec.InstanceArchives(text) {
			return nil
		}
	}
	if d.e.Fix {
		err = d.s.conn.At(ctx, "end the archive", conn.Home, func(p redis.Pipeliner) { p.HDel(ctx, key, conn.MetaArchive) })
		if err == nil {
			err = d.s.endArchive(ctx, len(d.s.tags))
		}
	}
	d.find(-1, key, "unarchived", "", d.e.Fix && err == nil)
	return err
}

// endArchive forgets how far partitions are archived. An archive begins anew there.
func (s *projectStore) endArchive(ctx context.Context, partitions int) error {
	all := make([]int, partitions)
	for n := range all {
		all[n] = n
	}
	return s.conn.EachPartition(ctx, "end the archive", all, func(p redis.Pipeliner, n int) {
		p.HDel(ctx, s.tags[n]+keys.Archive, "p", "b", "gap")
	})
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
