package redisq

import (
	"context"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
)

// trimBatch bounds one call of the script. leastKept is how much finished work
// a partition keeps at least, whatever its share of the limit. Otherwise one
// busy destination would be forgotten within seconds.
const (
	trimBatch = 64
	leastKept = 10_000
)

// Trim forgets at most one batch in each partition.
func (s *Store) Trim(ctx context.Context, by string, partitions []int, keep dispatcher.Keep, room bool) (dispatcher.Trimmed, error) {
	flag := 0
	if room {
		flag = 1
	}
	jobs := make([]conn.ScriptCall, len(partitions))
	for i, n := range partitions {
		jobs[i] = conn.ScriptCall{Partition: n, Args: []any{
			keep.Finished.Milliseconds(), s.share(keep.FinishedMax), s.share(keep.SeenMax),
			keep.Dead.Milliseconds(), s.share(keep.DeadMax), trimBatch, flag,
		}}
	}
	var t dispatcher.Trimmed
	var errs []error
	for i, r := range s.conn.Run(ctx, s.scripts.trim, by, jobs) {
		a := r
		if h := a.HintIf(jobs[i].Partition); h != nil {
			t.Finished += int(a.Number())
			t.Seen += int(a.Number())
			t.Dead += int(a.Number())
			t.DeadCut += int(a.Number())
			t.Lanes += int(a.Number())
			t.More = a.Number() == 1 || t.More
			if age := time.Duration(a.Number()) * time.Millisecond; age > 0 && (t.CutAge == 0 || age < t.CutAge) {
				t.CutAge = age
			}
			for stay := (conn.Reply{Values: a.List()}); stay.More(); {
				t.Looked = append(t.Looked, dispatcher.LaneVersion{Lane: dispatcher.Lane(stay.Text()), Version: stay.Number()})
			}
			if a.Number() == 1 {
				t.Hints = append(t.Hints, *h)
			}
		}
		errs = append(errs, conn.InPartition(jobs[i].Partition, a.Err))
	}
	return t, conn.Join(errs...)
}

// share is one partition's part of a limit for the project.
func (s *Store) share(limit int) int { return share(limit, len(s.tags)) }

func share(limit, partitions int) int {
	return max(limit/partitions, min(limit, leastKept))
}
