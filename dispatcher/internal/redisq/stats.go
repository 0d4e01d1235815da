package redisq

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
)

// scanPage is how many fields one HSCAN reads.
const scanPage = 1000

// Stats counts over all partitions. What those that answer have is told also
// beside an error of others.
func (s *Store) Stats(ctx context.Context) (dispatcher.Stats, error) {
	st := dispatcher.Stats{
		Counts: map[dispatcher.Status]int64{}, Dead: map[dispatcher.DeadReason]int64{}, EverDead: map[dispatcher.DeadReason]int64{},
	}
	err := join(s.countsOf(ctx, &st), s.retentionOf(ctx, &st), s.lanesOf(ctx, &st))
	var storeErr error
	st.Store, storeErr = s.Store(ctx)
	return st, join(err, storeErr)
}

// countsOf adds the counts, the number of instances and the time.
func (s *Store) countsOf(ctx context.Context, st *dispatcher.Stats) error {
	counts := make([]*redis.MapStringStringCmd, len(s.tags))
	buried := make([]*redis.MapStringStringCmd, len(s.tags))
	ends := make([]*redis.MapStringStringCmd, len(s.tags))
	var instances *redis.IntCmd
	t := trip{clock: true, errands: make([]errand, len(s.tags)+1)}
	for n := range s.tags {
		t.errands[n] = errand{partition: n, fill: func(p redis.Pipeliner) {
			counts[n], buried[n] = p.HGetAll(ctx, s.tags[n]+keyCounts), p.HGetAll(ctx, s.tags[n]+keyBuried)
			ends[n] = p.HGetAll(ctx, s.tags[n]+keyEnds)
		}}
	}
	t.errands[len(s.tags)] = errand{partition: home, fill: func(p redis.Pipeliner) { instances = p.HLen(ctx, s.instances()) }}
	s.send(ctx, &t)
	st.Instances = int(valueOf(instances))
	var errs []error
	for _, e := range t.errands {
		if e.err != nil {
			errs = append(errs, inPartition(e.partition, s.failed("stats", e.err)))
			continue
		}
		if st.Now.IsZero() {
			st.Now = e.now
		}
		if e.partition == home {
			continue
		}
		for status, text := range counts[e.partition].Val() {
			k, _ := strconv.ParseInt(text, 10, 64)
			st.Counts[dispatcher.Status(status)] += k
		}
		for field, text := range buried[e.partition].Val() {
			_, reason, _ := strings.Cut(field, " ")
			k, _ := strconv.ParseInt(text, 10, 64)
			st.Dead[dispatcher.DeadReason(reason)] += k
		}
		for end, text := range ends[e.partition].Val() {
			k, _ := strconv.ParseInt(text, 10, 64)
			if status, reason, _ := strings.Cut(end, " "); status == string(dispatcher.StatusDead) {
				st.EverDead[dispatcher.DeadReason(reason)] += k
			} else {
				st.Cancelled += k
			}
		}
	}
	return join(errs...)
}

// lanesOf adds the lanes with the most work, and the oldest thing that is due:
// what is ready the longest, and what the mover has not come to.
func (s *Store) lanesOf(ctx context.Context, st *dispatcher.Stats) error {
	dues := make([]*redis.ZSliceCmd, len(s.tags))
	err := s.everyPartition(ctx, "stats", s.all(), func(p redis.Pipeliner, n int) {
		dues[n] = p.ZRangeWithScores(ctx, s.tags[n]+keyDue, 0, 0)
	})
	oldest := func(t time.Time) {
		if !t.IsZero() && !t.After(st.Now) && (st.OldestDue.IsZero() || t.Before(st.OldestDue)) {
			st.OldestDue = t
		}
	}
	for _, due := range dues {
		if head := valueOf(due); len(head) > 0 {
			oldest(fromMillis(int64(max(1, min(head[0].Score, latestMillis)))))
		}
	}
	found, busyErr := s.busy.look(ctx, s)
	oldest(found.oldest)
	return join(err, busyErr, s.topLanes(ctx, found.lanes, st))
}

// topLanes adds how the lanes with the most work stand, as far as the partitions
// tell; those that are paused come first.
func (s *Store) topLanes(ctx context.Context, lanes []busyLane, st *dispatcher.Stats) error {
	shares := make(map[int][]int, 1)
	for i, l := range lanes {
		st.Lanes = append(st.Lanes, dispatcher.LaneState{
			Lane: dispatcher.Lane(l.lane), LaneCount: dispatcher.LaneCount{InFlight: l.flying, Waiting: l.waiting},
		})
		shares[l.partition] = append(shares[l.partition], i)
	}
	var jobs []job
	for n, share := range shares {
		args := lanesArgs(0, cursor{})
		for _, i := range share {
			args = append(args, lanes[i].lane)
		}
		jobs = append(jobs, job{partition: n, args: args})
	}
	var errs []error
	for k, r := range s.run(ctx, s.scripts.lanes, "", jobs) {
		share := shares[jobs[k].partition]
		_, _, found, err := readLanes(jobs[k].partition, r)
		if err == nil && len(found) != len(share) {
			err = errAnswer
		}
		if errs = append(errs, inPartition(jobs[k].partition, err)); err != nil {
			continue
		}
		for n, i := range share {
			count := st.Lanes[i].LaneCount
			st.Lanes[i] = found[n].state
			st.Lanes[i].LaneCount = count // by which they are ordered
		}
	}
	slices.SortStableFunc(st.Lanes, func(a, b dispatcher.LaneState) int { return pausedFirst(&a) - pausedFirst(&b) })
	return join(errs...)
}

func pausedFirst(l *dispatcher.LaneState) int {
	if l.Limits.Held == dispatcher.HeldPaused {
		return 0
	}
	return 1
}
