package read

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// Stats returns the counts of all partitions. If some partitions fail, it returns their error
// and the counts of the others.
func (s *Deliveries) Stats(ctx context.Context) (dispatcher.Stats, error) {
	st := dispatcher.Stats{
		Counts: map[dispatcher.Status]int64{}, EverDead: map[dispatcher.DeadReason]int64{},
		Blocked: map[dispatcher.LaneWhy]int64{}, LanesBy: map[dispatcher.EndpointState]int64{},
	}
	known, err := s.countsOf(ctx, &st)
	var deadErr error
	if st.Dead, st.Partial, deadErr = s.dead.ByReason(ctx); deadErr != nil {
		err = conn.JoinErrors(err, deadErr)
	}
	err = conn.JoinErrors(err, s.retentionOf(ctx, &st), s.lanesOf(ctx, &st, known))
	var storeErr error
	st.Store, storeErr = s.info(ctx)
	return st, conn.JoinErrors(err, storeErr)
}

// counted has the counts of one partition.
type counted struct {
	counts, ends *redis.MapStringStringCmd
	due, known   *redis.IntCmd
}

// countsOf adds the counts, the number of instances and the time. It returns the number of
// known lanes.
func (s *Deliveries) countsOf(ctx context.Context, st *dispatcher.Stats) (known int64, err error) {
	all := make([]counted, s.conn.Partitions())
	var instances *redis.IntCmd
	calls := make([]conn.Call, s.conn.Partitions()+1)
	for n := range s.conn.Partitions() {
		tag := s.conn.Tag(n)
		calls[n] = conn.Call{Partition: n, Fill: func(p redis.Pipeliner) {
			all[n] = counted{
				counts: p.HGetAll(ctx, tag+keys.Counts), ends: p.HGetAll(ctx, tag+keys.Ends),
				due: p.ZCard(ctx, tag+keys.Due), known: p.ZCard(ctx, tag+keys.Known),
			}
		}}
	}
	calls[s.conn.Partitions()] = conn.Call{Partition: conn.Home, Fill: func(p redis.Pipeliner) { instances = p.HLen(ctx, s.conn.Tag(conn.Home)+keys.Instances) }}
	err = s.conn.SendEach(ctx, conn.Batch{Doing: "stats", Clock: true, Calls: calls}, func(_ int, e *conn.Call) error {
		if e.Err != nil {
			return e.Err
		}
		if st.Now.IsZero() {
			st.Now = e.Now
		}
		if e.Partition != conn.Home {
			all[e.Partition].add(st)
			known += all[e.Partition].known.Val()
		}
		return nil
	})
	st.Instances = int(conn.Value(instances))
	return known, err
}

// add adds the counts of one partition.
func (c *counted) add(st *dispatcher.Stats) {
	each := func(of *redis.MapStringStringCmd, do func(first, second string, n int64)) {
		for field, text := range of.Val() {
			first, second, _ := strings.Cut(field, " ")
			n, _ := strconv.ParseInt(text, 10, 64)
			do(first, second, n)
		}
	}
	waiting := int64(0) // for a time or for their turn
	each(c.counts, func(status, _ string, n int64) {
		st.Counts[dispatcher.Status(status)] += n
		if s := dispatcher.Status(status); s == dispatcher.StatusScheduled || s == dispatcher.StatusRetrying {
			waiting += n
		}
	})
	// A waiting delivery without a time waits behind another one. Some may have moved between
	// the two queries.
	st.Blocked[dispatcher.WhyOrder] += max(waiting-c.due.Val(), 0)
	each(c.ends, func(status, reason string, n int64) {
		if status == string(dispatcher.StatusDead) {
			st.EverDead[dispatcher.DeadReason(reason)] += n
		} else {
			st.Cancelled += n
		}
	})
}

// lanesOf adds the lanes with the most work, the number of lanes in each state, and the number
// of their blocked deliveries. It also adds the oldest due delivery: the oldest ready one, or
// one that was not moved yet.
func (s *Deliveries) lanesOf(ctx context.Context, st *dispatcher.Stats, known int64) error {
	dues := make([]*redis.ZSliceCmd, s.conn.Partitions())
	err := s.conn.EachPartition(ctx, "stats", s.conn.All(), func(p redis.Pipeliner, n int) {
		dues[n] = p.ZRangeWithScores(ctx, s.conn.Tag(n)+keys.Due, 0, 0)
	})
	oldest := func(t time.Time) {
		if !t.IsZero() && !t.After(st.Now) && (st.OldestDue.IsZero() || t.Before(st.OldestDue)) {
			st.OldestDue = t
		}
	}
	for _, due := range dues {
		if head := conn.Value(due); len(head) > 0 {
			oldest(conn.FromMillis(int64(max(1, min(head[0].Score, conn.LatestMillis)))))
		}
	}
	found, busyErr := s.lanes.Busiest(ctx)
	oldest(found.Oldest)
	found.AddTo(st, known)
	return conn.JoinErrors(err, busyErr, s.lanes.AddTop(ctx, found, st))
}

// retentionOf adds the current retention of complete finished deliveries. A full partition
// deletes the oldest before its age. Its retention is the age of its oldest one.
func (s *Deliveries) retentionOf(ctx context.Context, st *dispatcher.Stats) error {
	if s.keep.FinishedMax <= 0 {
		return nil // no delivery is kept
	}
	type end struct {
		size *redis.IntCmd
		head *redis.ZSliceCmd
	}
	ends := make([][2]end, s.conn.Partitions())
	calls := make([]conn.Call, s.conn.Partitions())
	for n := range s.conn.Partitions() {
		tag := s.conn.Tag(n)
		calls[n] = conn.Call{Partition: n, Fill: func(p redis.Pipeliner) {
			for i, key := range []string{keys.Done, keys.Cancelled} {
				ends[n][i] = end{p.ZCard(ctx, tag+key), p.ZRangeWithScores(ctx, tag+key, 0, 0)}
			}
		}}
	}
	st.Retention = s.keep.Finished
	return s.conn.SendEach(ctx, conn.Batch{Doing: "stats", Clock: true, Calls: calls}, func(n int, e *conn.Call) error {
		if e.Err != nil {
			return e.Err
		}
		size, oldest := int64(0), e.Now
		for _, of := range ends[n] {
			size += of.size.Val()
			if head := of.head.Val(); len(head) > 0 {
				if at := conn.FromMillis(int64(head[0].Score)); at.Before(oldest) {
					oldest = at
				}
			}
		}
		if size >= int64(conn.ShareOf(s.keep.FinishedMax, s.conn.Partitions())) {
			st.Retention = min(st.Retention, max(e.Now.Sub(oldest), time.Duration(0)))
		}
		return nil
	})
}

// upcomingMost is the number of waiting lanes, and of deliveries, that are checked in a
// partition. A move takes as many, and costs Redis less than 0.5 ms.
const upcomingMost = 128

// Upcoming queries all partitions in one round trip.
func (s *Deliveries) Upcoming(ctx context.Context) (dispatcher.Upcoming, error) {
	var all dispatcher.Upcoming
	b := conn.Batch{Script: upcomingScript, Calls: s.conn.Everywhere([]any{upcomingMost})}
	err := s.conn.SendEach(ctx, b, func(_ int, a *conn.Call) error {
		h, ok := a.Hint()
		if !ok {
			return a.Err
		}
		s.heard(h)
		at, paced := a.Time(), a.Time()
		if a.Err == nil {
			all = all.Sooner(upcomingOf(h.Now, at, paced))
		}
		return a.Err
	})
	if err == nil { // a delivery in an emptied partition may be due sooner
		err = s.conn.LostOf(nil)
	}
	if err == nil && all.At.IsZero() {
		err = s.conn.IntactAll(ctx)
	}
	if err != nil {
		return all, fmt.Errorf("read the next due time: %w", err)
	}
	return all, nil
}

// upcomingOf returns the result of one partition. Waits are by its own clock.
func upcomingOf(now, at, paced time.Time) (u dispatcher.Upcoming) {
	if !at.IsZero() {
		u.At, u.Wait = at, max(at.Sub(now), 0)
	}
	if !paced.IsZero() {
		u.Paced = max(paced.Sub(now), time.Millisecond)
	}
	return u
}
