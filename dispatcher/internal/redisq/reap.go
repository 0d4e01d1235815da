package redisq

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// reapBatch is the most deliveries in one call of the script. The script reads the record of each
// delivery that it ends, at most 1 MiB of records.
const reapBatch = 64

func (s *Store) instances() string { return s.home() + keys.Instances }

// Beat writes the number of instance by and reads the numbers of all instances. It uses two plain
// commands, because beats never end and Redis counts each command in a script too.
func (s *Store) Beat(ctx context.Context, by string, number int64) (fresh bool, all map[string]int64, err error) {
	var set *redis.IntCmd
	var read *redis.MapStringStringCmd
	recheck := s.conn.Recheck()
	err = s.conn.At(ctx, "beat", conn.Home, func(p redis.Pipeliner) {
		fresh = fresh || set != nil && set.Val() == 1 // false if only the read has to be retried
		set = p.HSet(ctx, s.instances(), by, number)
		read = p.HGetAll(ctx, s.instances())
		recheck.Read(ctx, p)
	})
	fresh = fresh || conn.Value(set) == 1
	if errors.Is(err, dispatcher.ErrFull) {
		fresh, err = s.setFull(ctx, keys.Instances, by, number)
		if err == nil {
			err = conn.Failed("beat", read.Err())
		}
	}
	if err == nil {
		err = recheck.Err(ctx)
	}
	if err == nil && fresh {
		err = s.conn.MustStand(ctx)
	}
	if err != nil {
		return false, nil, err
	}
	s.conn.Beaten(time.Now())
	all = make(map[string]int64, len(read.Val()))
	for name, text := range read.Val() {
		all[name], _ = strconv.ParseInt(text, 10, 64) // a malformed number does not grow, so its instance is reported dead
	}
	all[by] = number // correct also if the read came before the write
	s.countPermits(ctx, all)
	return fresh, all, nil
}

// setFull writes a field of one of the project's hashes by a script, because Redis accepts the
// script even when memory is full. It reports in fresh whether the field is new.
func (s *Store) setFull(ctx context.Context, key, field string, value any) (fresh bool, err error) {
	var set *redis.Cmd
	err = s.conn.At(ctx, "beat", conn.Home, func(p redis.Pipeliner) {
		set = p.Eval(ctx, beatScript.Text(), []string{s.home()}, key, field, value)
	})
	if err != nil {
		return false, err
	}
	added, err := set.Int64()
	return added == 1, conn.Failed("beat", err)
}

// departedMost is the number of names of departed instances that are kept. Fewer instances than
// that leave while a replica lags behind its master.
const departedMost = 128

// Leave removes instance by but keeps its name. After a failover, the new master may not have
// received the end of the instance's leases. The name is then needed to find them. The names are
// ordered by the writer's own clock, because that time is compared with nothing else.
func (s *Store) Leave(ctx context.Context, by string) error {
	key := s.home() + keys.Departed
	err := s.conn.At(ctx, "leave", conn.Home, func(p redis.Pipeliner) {
		p.ZAdd(ctx, key, redis.Z{Score: float64(time.Now().UnixMilli()), Member: by})
		p.HDel(ctx, s.instances(), by)
		p.HDel(ctx, s.home()+keys.About, by)
		p.ZRemRangeByRank(ctx, key, 0, -departedMost-1)
	})
	if errors.Is(err, dispatcher.ErrFull) {
		return nil // only the name was not written
	}
	return err
}

// Orphans returns the names of instances that have departed but still have leases.
func (s *Store) Orphans(ctx context.Context) ([]string, error) {
	var departed *redis.StringSliceCmd
	err := s.conn.At(ctx, "read departed instances", conn.Home, func(p redis.Pipeliner) {
		departed = p.ZRange(ctx, s.home()+keys.Departed, 0, -1)
	})
	names := conn.Value(departed)
	if err != nil || len(names) == 0 {
		return nil, err
	}
	all, found := s.conn.All(), make([]*redis.IntCmd, s.conn.Partitions())
	err = s.conn.EachPartition(ctx, "look for strays", all, func(p redis.Pipeliner, n int) {
		leases := make([]string, len(names))
		for i, name := range names {
			leases[i] = s.conn.Tag(n) + keys.Leases + name
		}
		found[n] = p.Exists(ctx, leases...)
	})
	some := slices.DeleteFunc(all, func(n int) bool { return conn.Value(found[n]) == 0 })
	if len(some) == 0 {
		return nil, err
	}
	each := make([][]*redis.IntCmd, len(some))
	again := s.conn.EachPartition(ctx, "look for strays", some, func(p redis.Pipeliner, i int) {
		each[i] = make([]*redis.IntCmd, len(names))
		for k, name := range names {
			each[i][k] = p.Exists(ctx, s.conn.Tag(some[i])+keys.Leases+name)
		}
	})
	var strays []string
	for k, name := range names {
		if slices.ContainsFunc(each, func(in []*redis.IntCmd) bool { return in != nil && conn.Value(in[k]) > 0 }) {
			strays = append(strays, name)
		}
	}
	return strays, conn.JoinErrors(err, again)
}

// Reap takes over from instance dead. It fences the instance, and takes the leases of all
// partitions, one page of each per round trip. The instance is removed only after that. So any
// instance may retry the call if a partition did not reply.
func (s *Store) Reap(ctx context.Context, by, dead string) (taken int, err error) {
	calls := s.conn.Everywhere([]any{dead, reapBatch})
	var errs []error
	for len(calls) > 0 {
		left := calls[:0:0]
		for i, r := range s.conn.Send(ctx, conn.Batch{Script: reapScript, By: by, Calls: calls}) {
			if h, ok := r.Hint(); ok {
				taken += int(r.Number())
				if r.Number() > 0 {
					left = append(left, calls[i])
				}
				s.observeDeaths(h)
			}
			errs = append(errs, s.conn.InPartition(r.Partition, r.Err))
		}
		calls = left
	}
	if err := conn.JoinErrors(errs...); err != nil {
		s.partitions.Fail(err)
		return taken, fmt.Errorf("reap %s: %w", dead, err)
	}
	return taken, s.Leave(ctx, dead)
}
