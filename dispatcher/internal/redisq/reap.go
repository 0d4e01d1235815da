package redisq

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
)

// reapBatch bounds one call of the script.
const reapBatch = 256

func (s *Store) instances() string { return "{" + s.project + "}" + keyInstances }

// Beat writes the number of instance by and reads those of all: two plain
// commands, since what a script does inside counts too, and this goes on for ever.
func (s *Store) Beat(ctx context.Context, by string, number int64) (fresh bool, all map[string]int64, err error) {
	var set *redis.IntCmd
	var read *redis.MapStringStringCmd
	_, err = s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		set = p.HSet(ctx, s.instances(), by, number)
		read = p.HGetAll(ctx, s.instances())
		return nil
	})
	added := set.Val()
	if errors.Is(s.failed("beat", set.Err()), dispatcher.ErrFull) {
		added, err = s.rdb.Eval(ctx, s.scripts.beat.text, []string{"{" + s.project + "}"}, by, number).Int64()
		if read.Err() != nil {
			err = read.Err()
		}
	}
	if err != nil {
		return false, nil, s.failed("beat", err)
	}
	all = make(map[string]int64, len(read.Val()))
	for name, text := range read.Val() {
		if all[name], err = strconv.ParseInt(text, 10, 64); err != nil {
			return false, nil, fmt.Errorf("beat of %s: %w", name, err)
		}
	}
	all[by] = number // also where it was read before it was written
	return added == 1, all, nil
}

// Leave forgets instance by.
func (s *Store) Leave(ctx context.Context, by string) error {
	return s.failed("leave", s.rdb.HDel(ctx, s.instances(), by).Err())
}

// Reap takes over from instance dead: fence and leases of all partitions
// first, and only then is it forgotten, so that anybody may repeat it.
func (s *Store) Reap(ctx context.Context, by, dead string) (taken int, hints []dispatcher.Hint, err error) {
	for n := range s.tags {
		for left := int64(1); left > 0; {
			r := s.run(ctx, s.scripts.reap, by, []job{{partition: n, args: []any{dead, reapBatch}}})[0]
			if r.err != nil {
				return taken, hints, fmt.Errorf("%s: %w", dead, r.err)
			}
			a := answer{values: r.values}
			hints = append(hints, a.hint(n))
			taken += int(a.number())
			left = a.number()
			if a.err != nil {
				return taken, hints, fmt.Errorf("reap %s: %w", dead, a.err)
			}
		}
	}
	return taken, hints, s.Leave(ctx, dead)
}
