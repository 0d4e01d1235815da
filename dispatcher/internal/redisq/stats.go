package redisq

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/buried"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/partitions"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/shelf"
)

// scanPage is how many fields one HSCAN reads.
const scanPage = 1000

// Stats counts over all partitions. The answers of some are told also beside an
// error of others.
func (s *Store) Stats(ctx context.Context) (dispatcher.Stats, error) {
	st := dispatcher.Stats{
		Counts: map[dispatcher.Status]int64{}, EverDead: map[dispatcher.DeadReason]int64{},
		Held: map[dispatcher.LaneWhy]int64{}, LanesBy: map[dispatcher.EndpointState]int64{},
	}
	known, err := s.countsOf(ctx, &st)
	var deadErr error
	if st.Dead, st.Partial, deadErr = s.buried().ByReason(ctx); deadErr != nil {
		err = partitions.Join(err, deadErr)
	}
	err = partitions.Join(err, s.retentionOf(ctx, &st), s.lanesOf(ctx, &st, known))
	var storeErr error
	st.Store, storeErr = s.Store(ctx)
	return st, partitions.Join(err, storeErr)
}

// counted are the counts of one partition.
type counted struct {
	counts, ends *redis.MapStringStringCmd
	due, known   *redis.IntCmd
}

// countsOf adds the counts, the number of instances and the time. It answers
// how many lanes are known.
func (s *Store) countsOf(ctx context.Context, st *dispatcher.Stats) (known int64, err error) {
	all := make([]counted, len(s.tags))
	var instances *redis.IntCmd
	calls := make([]conn.Call, len(s.tags)+1)
	for n, tag := range s.tags {
		calls[n] = conn.Call{Partition: n, Fill: func(p redis.Pipeliner) {
			all[n] = counted{
				counts: p.HGetAll(ctx, tag+keys.Counts), ends: p.HGetAll(ctx, tag+keys.Ends),
				due: p.ZCard(ctx, tag+keys.Due), known: p.ZCard(ctx, tag+keys.Known),
			}
		}}
	}
	calls[len(s.tags)] = conn.Call{Partition: conn.Home, Fill: func(p redis.Pipeliner) { instances = p.HLen(ctx, s.instances()) }}
	done := s.conn.Send(ctx, conn.Batch{Doing: "stats", Clock: true, Calls: calls})
	st.Instances = int(conn.Value(instances))
	var errs []error
	for _, e := range done {
		if e.Err != nil {
			errs = append(errs, s.conn.InPartition(e.Partition, e.Err))
			continue
		}
		if st.Now.IsZero() {
			st.Now = e.Now
		}
		if e.Partition != conn.Home {
			all[e.Partition].add(st)
			known += all[e.Partition].known.Val()
		}
	}
	return known, partitions.Join(errs...)
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
	// A waiting delivery without a time is behind another one. Some may have
	// moved between these two readings.
	st.Held[dispatcher.WhyOrder] += max(waiting-c.due.Val(), 0)
	each(c.ends, func(status, reason string, n int64) {
		if status == string(dispatcher.StatusDead) {
			st.EverDead[dispatcher.DeadReason(reason)] += n
		} else {
			st.Cancelled += n
		}
	})
}

// lanesOf adds the lanes with the most work, the number of lanes in each state,
// and the deliveries they hold. It adds the oldest due delivery too: the oldest
// ready one, or one that was not moved yet.
func (s *Store) lanesOf(ctx context.Context, st *dispatcher.Stats, known int64) error {
	dues := make([]*redis.ZSliceCmd, len(s.tags))
	err := s.conn.EachPartition(ctx, "stats", s.all(), func(p redis.Pipeliner, n int) {
		dues[n] = p.ZRangeWithScores(ctx, s.tags[n]+keys.Due, 0, 0)
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
	found, busyErr := s.busy.look(ctx, s)
	oldest(found.oldest)
	found.tell(st, known)
	return partitions.Join(err, busyErr, s.topLanes(ctx, found.lanes, st))
}

// topLanes adds the states of the lanes with the most work, as far as their
// partitions answer. Paused lanes come first.
func (s *Store) topLanes(ctx context.Context, lanes []busyLane, st *dispatcher.Stats) error {
	shares := make(map[int][]int, 1)
	for i, l := range lanes {
		st.Lanes = append(st.Lanes, dispatcher.LaneState{
			Lane: dispatcher.Lane(l.lane), LaneCount: dispatcher.LaneCount{InFlight: l.flying, Waiting: l.waiting},
		})
		shares[l.partition] = append(shares[l.partition], i)
	}
	var calls []conn.Call
	for n, share := range shares {
		args := lanesArgs(0, lanePlace{})
		for _, i := range share {
			args = append(args, lanes[i].lane)
		}
		calls = append(calls, conn.Call{Partition: n, Args: args})
	}
	var errs []error
	for _, r := range s.conn.Send(ctx, conn.Batch{Script: s.scripts.lanes, Calls: calls}) {
		share := shares[r.Partition]
		_, _, found, err := readLanes(r, s.failingAfter)
		if err == nil && len(found) != len(share) {
			err = conn.ErrReply
		}
		if errs = append(errs, s.conn.InPartition(r.Partition, err)); err != nil {
			continue
		}
		for n, i := range share {
			count := st.Lanes[i].LaneCount
			st.Lanes[i] = found[n].state
			st.Lanes[i].LaneCount = count // the count that orders them
		}
	}
	slices.SortStableFunc(st.Lanes, func(a, b dispatcher.LaneState) int { return pausedFirst(&a) - pausedFirst(&b) })
	return partitions.Join(errs...)
}

func pausedFirst(l *dispatcher.LaneState) int {
	if l.Limits.Held == dispatcher.HeldPaused {
		return 0
	}
	return 1
}

// retentionOf adds how long finished deliveries are kept whole now. A partition
// that is full cuts the oldest before its age. There it is the age of the
// oldest one.
func (s *Store) retentionOf(ctx context.Context, st *dispatcher.Stats) error {
	if s.keep.FinishedMax <= 0 {
		return nil // no delivery is kept
	}
	type end struct {
		size *redis.IntCmd
		head *redis.ZSliceCmd
	}
	ends := make([][2]end, len(s.tags))
	calls := make([]conn.Call, len(s.tags))
	for n, tag := range s.tags {
		calls[n] = conn.Call{Partition: n, Fill: func(p redis.Pipeliner) {
			for i, key := range []string{keys.Done, keys.Cancelled} {
				ends[n][i] = end{p.ZCard(ctx, tag+key), p.ZRangeWithScores(ctx, tag+key, 0, 0)}
			}
		}}
	}
	st.Retention = s.keep.Finished
	var errs []error
	for n, e := range s.conn.Send(ctx, conn.Batch{Doing: "stats", Clock: true, Calls: calls}) {
		if e.Err != nil {
			errs = append(errs, s.conn.InPartition(n, e.Err))
			continue
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
		if size >= int64(s.share(s.keep.FinishedMax)) {
			st.Retention = min(st.Retention, max(e.Now.Sub(oldest), time.Duration(0)))
		}
	}
	return errors.Join(errs...)
}

// buried counts the dead by destination and reason.
func (s *Store) buried() *buried.Reader {
	return &buried.Reader{Conn: s.conn, Tags: s.tags, Partition: s.partition, Sealer: s.sealer}
}

// Dead counts what is dead, and looks for the newest of each group.
func (s *Store) Dead(ctx context.Context, f dispatcher.DeadFilter) (dispatcher.DeadPage, error) {
	err := s.conn.LostOf(f.Lanes)
	var page dispatcher.DeadPage
	if err == nil {
		page, err = s.buried().Page(ctx, f)
	}
	if err == nil && len(page.Groups) == 0 && page.Next == "" {
		err = s.conn.IntactOf(ctx, f.Lanes)
	}
	if err == nil {
		err = s.newestDead(ctx, page.Groups)
	}
	if err != nil {
		return dispatcher.DeadPage{}, fmt.Errorf("count the dead: %w", err)
	}
	if len(f.Tenants) > 0 {
		page.Groups = slices.DeleteFunc(page.Groups, func(g dispatcher.DeadGroup) bool {
			return !g.Lane.IsEndpoint() && !slices.Contains(f.Tenants, g.Tenant)
		})
	}
	return page, nil
}

// newestDead looks for the newest of each group: in the dead, newest first, as far
// as a page of a list would look. Of most groups the newest died lately.
func (s *Store) newestDead(ctx context.Context, groups []dispatcher.DeadGroup) error {
	type group struct {
		lane   dispatcher.Lane
		reason dispatcher.DeadReason
	}
	left, at := map[int]map[group]*dispatcher.DeadGroup{}, make([]cursor, len(s.tags))
	for i := range groups {
		g := &groups[i]
		n := s.partition(g.Lane)
		if left[n] == nil {
			left[n] = map[group]*dispatcher.DeadGroup{}
		}
		left[n][group{g.Lane, g.Reason}] = g
	}
	l := &lister{s: s}
	for len(left) > 0 && !l.spent() {
		var calls []conn.Call
		for n, of := range left {
			var lanes []dispatcher.Lane
			var reasons []dispatcher.DeadReason
			for g := range of {
				lanes, reasons = append(lanes, g.lane), append(reasons, g.reason)
			}
			slices.Sort(reasons)
			after := ""
			if at[n].name != "" {
				after = scoreText(at[n].score)
			}
			calls = append(calls, conn.Call{Partition: n, Args: []any{
				0, "dead", "", min(len(of), listChunk), after, at[n].name, " dead ", shelf.Words(slices.Compact(reasons)), shelf.Words(lanes), "0", "1",
			}})
		}
		chunks, err := l.read(ctx, calls...)
		if err != nil {
			return err
		}
		for i, c := range chunks {
			n := calls[i].Partition
			for _, e := range c.entries {
				key := group{e.delivery.ID.Lane, e.delivery.Reason}
				if g := left[n][key]; g != nil {
					tellNewest(g, &e.delivery)
					delete(left[n], key)
				}
			}
			if at[n] = c.last; !c.more || len(left[n]) == 0 {
				delete(left, n)
			}
		}
	}
	return nil
}

func tellNewest(g *dispatcher.DeadGroup, d *dispatcher.Delivery) {
	g.Newest, g.LastStatus, g.LastError = d.Ended, d.LastStatus, d.LastError
	if u, err := url.Parse(d.URL); err == nil && g.URL == "" && u.Host != "" {
		g.URL, g.Tenant = u.Scheme+"://"+u.Host, d.Tenant
	}
}
