package admin

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// Forget removes jobs that ended long ago. If there are still too many, it
// removes the oldest ones.
func (s *JobStore) Forget(ctx context.Context, now time.Time) error {
	numbers, err := s.numbers(ctx)
	if err != nil {
		return err
	}
	var gone []int64
	for from := 0; from < len(numbers); from += readMost {
		some := numbers[from:min(from+readMost, len(numbers))]
		records, err := s.texts(ctx, some)
		if err != nil {
			return err
		}
		young := false
		for i, n := range some {
			j, err := decode(n, records[i])
			old := err != nil || j.State.Ended() && j.EndedAt.Before(now.Add(-keptFor))
			if old || len(numbers)-from-i > keptJobs && j.State.Ended() {
				gone = append(gone, n)
			} else {
				young = true
			}
		}
		if young && len(numbers)-from <= keptJobs {
			break // later jobs began later, and a job takes hours at most
		}
	}
	if len(gone) > 0 {
		err := s.conn.At(ctx, "forget jobs", conn.Home, func(p redis.Pipeliner) { p.HDel(ctx, s.home+keys.Jobs, fields(gone)...) })
		if err != nil {
			return err
		}
	}
	return s.sweep(ctx)
}

// sweep removes the fields of forgotten jobs from the partitions. It reads all
// fields, because a delivery may end after its job was forgotten.
func (s *JobStore) sweep(ctx context.Context) error {
	var last *redis.StringCmd
	err := s.conn.At(ctx, "forget jobs", conn.Home, func(p redis.Pipeliner) { last = p.HGet(ctx, s.home+keys.Jobs, "n") })
	if err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	newest, _ := last.Int64() // jobs that are added during the run have higher numbers
	numbers, err := s.numbers(ctx)
	if err != nil {
		return err
	}
	gone := func(field string) bool {
		word, _, _ := strings.Cut(field, " ")
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			return word == SentField && len(numbers) == 0
		}
		_, known := slices.BinarySearch(numbers, n)
		return n <= newest && !known
	}
	all := s.conn.All()
	names := make([]*redis.StringSliceCmd, len(all)+1)
	err = s.conn.EachPartition(ctx, "forget jobs", all, func(p redis.Pipeliner, i int) { names[i] = p.HKeys(ctx, s.conn.Tag(all[i])+keys.Jobs) })
	if err != nil {
		return err
	}
	err = s.conn.At(ctx, "forget jobs", conn.Home, func(p redis.Pipeliner) { names[len(all)] = p.HKeys(ctx, s.home+keys.Jobs) })
	if err != nil {
		return err
	}
	remove := func(p redis.Pipeliner, key string, list *redis.StringSliceCmd) {
		for some := range slices.Chunk(slices.DeleteFunc(list.Val(), func(field string) bool { return !gone(field) }), keptJobs) {
			p.HDel(ctx, key, some...)
		}
	}
	err = s.conn.EachPartition(ctx, "forget jobs", all, func(p redis.Pipeliner, i int) { remove(p, s.conn.Tag(all[i])+keys.Jobs, names[i]) })
	if err != nil {
		return err
	}
	return s.conn.At(ctx, "forget jobs", conn.Home, func(p redis.Pipeliner) { remove(p, s.home+keys.Jobs, names[len(all)]) })
}
