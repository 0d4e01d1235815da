package redisq

import (
	"context"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// trimBatch bounds one call of the script; leastKept is how much finished work
// a partition keeps at least, however many share the limit: else one busy
// destination would be forgotten within seconds.
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
	jobs := make([]job, len(partitions))
	for i, n := range partitions {
		jobs[i] = job{partition: n, args: []any{
			keep.Finished.Milliseconds(), s.share(keep.FinishedMax), s.share(keep.SeenMax),
			keep.Dead.Milliseconds(), s.share(keep.DeadMax), trimBatch, flag,
		}}
	}
	var t dispatcher.Trimmed
	var errs []error
	for i, r := range s.run(ctx, s.scripts.trim, by, jobs) {
		a := answer{values: r.values, err: r.err}
		if h := a.hintIf(jobs[i].partition); h != nil {
			t.Finished += int(a.number())
			t.Seen += int(a.number())
			t.Dead += int(a.number())
			t.DeadCut += int(a.number())
			t.Lanes += int(a.number())
			t.More = a.number() == 1 || t.More
			if age := time.Duration(a.number()) * time.Millisecond; age > 0 && (t.CutAge == 0 || age < t.CutAge) {
				t.CutAge = age
			}
			for stay := (answer{values: a.list()}); stay.more(); {
				t.Looked = append(t.Looked, dispatcher.LaneVersion{Lane: dispatcher.Lane(stay.text()), Version: stay.number()})
			}
			if a.number() == 1 {
				t.Hints = append(t.Hints, *h)
			}
		}
		errs = append(errs, inPartition(jobs[i].partition, a.err))
	}
	return t, join(errs...)
}

// share is one partition's part of a limit for the project.
func (s *Store) share(limit int) int { return share(limit, len(s.tags)) }

func share(limit, partitions int) int {
	return max(limit/partitions, min(limit, leastKept))
}
