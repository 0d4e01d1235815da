package redisq

import (
	"context"
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
	st := dispatcher.Stats{Counts: map[dispatcher.Status]int64{}, Dead: map[dispatcher.DeadReason]int64{}}
	err := join(s.countsOf(ctx, &st), s.retentionOf(ctx, &st), s.lanesOf(ctx, &st))
	var storeErr error
	st.Store, storeErr = s.Store(ctx)
	return st, join(err, storeErr)
}

// countsOf adds the counts, the number of instances and the time.
func (s *Store) countsOf(ctx context.Context, st *dispatcher.Stats) error {
	counts := make([]*redis.MapStringStringCmd, len(s.tags))
	buried := make([]*redis.MapStringStringCmd, len(s.tags))
	var instances *redis.IntCmd
	t := trip{clock: true, errands: make([]errand, len(s.tags)+1)}
	for n := range s.tags {
		t.errands[n] = errand{partition: n, fill: func(p redis.Pipeliner) {
			counts[n], buried[n] = p.HGetAll(ctx, s.tags[n]+keyCounts), p.HGetAll(ctx, s.tags[n]+keyBuried)
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
	for _, l := range found.lanes {
		st.Lanes = append(st.Lanes, dispatcher.LaneStats{Lane: dispatcher.Lane(l.lane), InFlight: l.flying, Waiting: l.waiting})
	}
	s.originsOf(ctx, found.lanes, st)
	return join(err, busyErr)
}

// originsOf adds where the lanes' messages go, as far as that is known.
func (s *Store) originsOf(ctx context.Context, lanes []busyLane, st *dispatcher.Stats) {
	names := make([]*redis.StringCmd, len(lanes))
	var t trip
	for i, l := range lanes {
		t.errands = append(t.errands, errand{partition: l.partition, fill: func(p redis.Pipeliner) {
			names[i] = p.HGet(ctx, s.tags[l.partition]+keyLaneNames, l.lane)
		}})
	}
	s.send(ctx, &t)
	for i, name := range names {
		st.Lanes[i].URL, _, _ = strings.Cut(valueOf(name), " ")
	}
}
