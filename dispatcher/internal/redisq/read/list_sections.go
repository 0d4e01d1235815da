package read

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// sectionsOf returns the sections of a list, in order.
func sectionsOf(f *dispatcher.Filter) []string {
	switch {
	case f.Order == dispatcher.OrderDue:
		return []string{sectionDue}
	case f.Part == dispatcher.PartEnded:
		return []string{sectionEnded}
	case f.Part == dispatcher.PartUnfinished:
		return unfinished
	case f.Order == dispatcher.OrderEnded:
		return append(slices.Clip(unfinished), sectionEnded)
	}
	return sections
}

// source is one index of one partition, sorted by score.
type source struct {
	partition int
	index, of string // of: the instance
	lanes     string // a filter for these lanes instead of the list's; empty: the list's

	buffer []listed
	more   bool       // it has entries after the bound
	bound  listCursor // score and name; the next entries are not newer
	wanted int        // of the last call; it grows if no entry matches
}

// beforeAll sorts before all names of one score in the order of ZREVRANGE, because no name
// begins with it. In the order of ZRANGE the empty name does.
const beforeAll = "\xff"

// due reads deliveries that wait for a time. Deliveries in a deleted lane are returned as
// cancelled.
func (l *lister) due(ctx context.Context, at listCursor) (*listCursor, error) {
	if l.asks(dispatcher.StatusScheduled, dispatcher.StatusRetrying) {
		return l.merge(ctx, at, l.everywhere("due"))
	}
	if !l.asks(dispatcher.StatusCancelled) {
		return nil, nil
	}
	deleted, err := l.s.lanes.Deleted(ctx)
	if err != nil || len(deleted) == 0 {
		return nil, err
	}
	var from []*source
	for n, lanes := range deleted {
		from = append(from, &source{partition: n, index: "due", lanes: ShelfWords(lanes), more: true})
	}
	return l.merge(ctx, at, from)
}

func (l *lister) everywhere(index string) []*source {
	var from []*source
	for _, n := range l.partitions() {
		from = append(from, &source{partition: n, index: index, more: true})
	}
	return from
}

// partitions returns the partitions that may have matching deliveries.
func (l *lister) partitions() []int { return l.s.conn.PartitionsOf(l.of) }

// timed reports whether the scores of a source are the times of its entries. Scores of leased
// deliveries are the ends of their leases.
func (s *source) timed() bool { return s.index != sectionTaken }

func (l *lister) leases() []*source {
	var from []*source
	for _, n := range l.partitions() {
		for _, name := range l.names[1:] {
			from = append(from, &source{partition: n, index: "leases", of: name.(string), more: true})
		}
	}
	return from
}

func (l *lister) ended() []*source {
	var from []*source
	if l.asks(dispatcher.StatusDelivered) && len(l.f.Reasons) == 0 {
		from = append(from, l.everywhere("done")...)
	}
	if l.asks(dispatcher.StatusDead) {
		from = append(from, l.everywhere("dead")...)
	}
	if l.asks(dispatcher.StatusCancelled) && len(l.f.Reasons) == 0 {
		from = append(from, l.everywhere("cancelled")...)
	}
	return from
}

// begin returns the start of a section.
func (l *lister) begin(section string) (at listCursor) {
	at.section, at.score, at.name = section, math.Inf(1), beforeAll
	switch {
	case l.up && l.f.Since.IsZero():
		at.score, at.name = math.Inf(-1), ""
	case l.up:
		at.score, at.name = float64(millisOf(l.f.Since)), ""
	case !l.f.Until.IsZero() && section != sectionTaken:
		at.score, at.name = float64(millisOf(l.f.Until)), ""
	}
	return at
}

// merge reads several sources in one order. It reads a source only if it may have the next
// entry.
func (l *lister) merge(ctx context.Context, at listCursor, from []*source) (*listCursor, error) {
	if at.name == "" {
		at = l.begin(at.section)
	}
	from, err := l.peek(ctx, at, from)
	if err != nil {
		return nil, err
	}
	for len(from) > 0 {
		best := slices.MinFunc(from, func(a, b *source) int { return l.order(a.head(), b.head()) })
		if len(best.buffer) > 0 {
			e := best.buffer[0]
			best.buffer = best.buffer[1:]
			if next, err := l.takeOne(ctx, e, &at); next != nil || err != nil {
				return next, err
			}
		} else {
			if l.spent() {
				return &listCursor{section: at.section, score: best.bound.score, name: best.bound.name}, nil
			}
			if err := l.fetch(ctx, from); err != nil {
				return nil, err
			}
		}
		from = slices.DeleteFunc(from, func(s *source) bool { return len(s.buffer) == 0 && !s.more })
	}
	return nil, nil
}

// head returns the newest entry that a source may have.
func (s *source) head() listCursor {
	if len(s.buffer) > 0 {
		return listCursor{score: s.buffer[0].score, name: s.buffer[0].name}
	}
	return s.bound
}

// order compares in the order of the section.
func (l *lister) order(a, b listCursor) int {
	if l.up {
		return newer(b, a)
	}
	return newer(a, b)
}

// newer compares by score and then by name, the highest first, like ZREVRANGE.
func newer(a, b listCursor) int {
	return cmp.Or(cmp.Compare(b.score, a.score), strings.Compare(b.name, a.name))
}

// key returns the name of a source's zset.
func (s *source) key() string {
	return map[string]string{
		"due": keys.Due, "leases": keys.Leases + s.of, "taken": keys.Taken, "done": keys.Done, "dead": keys.Dead, "cancelled": keys.Cancelled,
	}[s.index]
}

// peek queries each source for its newest score after the cursor. It removes sources that have
// none.
func (l *lister) peek(ctx context.Context, at listCursor, from []*source) ([]*source, error) {
	for _, s := range from {
		s.bound = at
	}
	if len(from) < 2 {
		return from, nil
	}
	span, before := &redis.ZRangeBy{Min: "-inf", Max: conn.ScoreText(at.score), Count: 1}, beforeAll
	if l.up {
		span.Min, span.Max, before = conn.ScoreText(at.score), "+inf", ""
	}
	shares := conn.Grouped(len(from), 0, func(i int) int { return from[i].partition })
	heads := make([]*redis.ZSliceCmd, len(from))
	err := l.s.conn.EachShare(ctx, "read indexes", shares, func(p redis.Pipeliner, k int) {
		for _, i := range shares[k].At {
			if key := l.s.conn.Tag(from[i].partition) + from[i].key(); l.up {
				heads[i] = p.ZRangeByScoreWithScores(ctx, key, span)
			} else {
				heads[i] = p.ZRevRangeByScoreWithScores(ctx, key, span)
			}
		}
	})
	if err != nil {
		return nil, err
	}
	l.cost += costOfLane * len(from)
	var left []*source
	for i, s := range from {
		head := heads[i].Val()
		if len(head) == 0 || s.timed() && l.outside(head[0].Score) {
			continue
		}
		if head[0].Score != at.score {
			s.bound = listCursor{score: head[0].Score, name: before}
		}
		left = append(left, s)
	}
	return left, nil
}

// outside reports whether a score, and all later ones, are outside the filter.
func (l *lister) outside(score float64) bool {
	if l.up {
		return !l.f.Until.IsZero() && score >= float64(millisOf(l.f.Until))
	}
	return !l.f.Since.IsZero() && score < float64(l.f.Since.UnixMilli())
}

// fetchAtOnce limits the calls of one round trip.
const fetchAtOnce = 64

// fetch continues to read the sources that may have the next entry. In the worst case each
// remaining entry of the page comes from another source.
func (l *lister) fetch(ctx context.Context, from []*source) error {
	dry := slices.DeleteFunc(slices.Clone(from), func(s *source) bool { return len(s.buffer) > 0 })
	slices.SortFunc(dry, func(a, b *source) int { return l.order(a.bound, b.bound) })
	dry = dry[:min(len(dry), l.limit-len(l.page.Deliveries), fetchAtOnce)]
	calls := make([]conn.Call, len(dry))
	for i, s := range dry {
		s.wanted = min(max(2*s.wanted, l.want()/len(dry), listLeast), listChunk)
		after := ""
		if !math.IsInf(s.bound.score, 0) {
			after = conn.ScoreText(s.bound.score)
		}
		args := l.args(s.index, s.of, s.wanted, after, s.bound.name)
		if s.lanes != "" {
			args[len(args)-2] = s.lanes
		}
		calls[i] = conn.Call{Partition: s.partition, Args: args}
	}
	chunks, err := l.read(ctx, calls...)
	if err != nil {
		return err
	}
	for i, s := range dry {
		s.buffer, s.more = chunks[i].entries, chunks[i].more
		if s.more {
			s.bound = chunks[i].last
			s.more = !s.timed() || !l.outside(s.bound.score)
		}
	}
	return nil
}

// marks reads deliveries that ended but are still in their old index. Their mark has the
// reason of their end.
func (l *lister) marks(ctx context.Context, at listCursor) (*listCursor, error) {
	sizes := make([]*redis.IntCmd, l.s.conn.Partitions())
	err := l.s.conn.EachPartition(ctx, "read marks", l.s.conn.All(), func(p redis.Pipeliner, n int) {
		sizes[n] = p.HLen(ctx, l.s.conn.Tag(n)+keys.Marks)
	})
	if err != nil {
		return nil, err
	}
	for _, n := range l.partitions() {
		if n < at.partition || sizes[n].Val() == 0 {
			continue
		}
		if n > at.partition {
			at = listCursor{section: sectionMarks, partition: n}
		}
		for more := true; more; {
			if l.spent() {
				return &at, nil
			}
			args := l.args("marks", "", l.want(), strconv.FormatUint(at.scan, 10), at.name)
			chunks, err := l.read(ctx, conn.Call{Partition: n, Args: args})
			if err != nil {
				return nil, err
			}
			if !goesOn(&at, chunks[0].last.server) {
				continue
			}
			for _, e := range chunks[0].entries {
				at.name = e.name
				if l.put(e); l.full() {
					return &at, nil
				}
			}
			at.scan, at.name, more = chunks[0].last.scan, chunks[0].last.name, chunks[0].more
		}
	}
	return nil, nil
}

// readyLanes returns a page of the lanes of a partition.
func (l *lister) readyLanes(ctx context.Context, at *listCursor) (lanes []string, next uint64, err error) {
	args := append(slices.Clip(l.names), strconv.FormatUint(at.scan, 10), lanesChunk, conn.Flag(!l.asks(dispatcher.StatusReady)))
	r := l.s.conn.Send(ctx, conn.Batch{Script: readyLanesScript, Calls: []conn.Call{{Partition: at.partition, Args: args}}})[0]
	r.Hint()
	if r.Err != nil {
		return nil, 0, r.Err
	}
	next, err = strconv.ParseUint(r.Text(), 10, 64)
	if err != nil {
		return nil, 0, conn.ErrReply
	}
	if server := conn.ProcessName(r.Text()); r.Err == nil && !goesOn(at, server) {
		return l.readyLanes(ctx, at)
	}
	l.cost += costOfScan*int(r.Number()) + costOfScript
	for r.More() {
		lanes = append(lanes, r.Text())
	}
	slices.Sort(lanes)
	return lanes, next, r.Err
}

// lanesChunk is the number of lanes that one call searches for ready deliveries.
const lanesChunk = 1000

// ready reads the ready lists of lanes one after another: the lanes of the filter, or all
// lanes with ready deliveries in the order of a scan.
func (l *lister) ready(ctx context.Context, at listCursor) (*listCursor, error) {
	if len(l.of) > 0 {
		lanes := make([]string, len(l.of))
		for i, lane := range l.of {
			lanes[i] = string(lane)
		}
		slices.Sort(lanes)
		return l.lists(ctx, &at, slices.Compact(lanes))
	}
	for ; at.partition < l.s.conn.Partitions(); at.partition, at.scan = at.partition+1, 0 {
		for {
			if l.spent() {
				return &at, nil
			}
			lanes, next, err := l.readyLanes(ctx, &at)
			if err != nil {
				return nil, err
			}
			if next, err := l.lists(ctx, &at, lanes); next != nil || err != nil {
				return next, err
			}
			if at.scan = next; next == 0 {
				break
			}
		}
	}
	return nil, nil
}

// lists reads the ready lists of lanes, in order, from the cursor. It moves the cursor behind
// them.
func (l *lister) lists(ctx context.Context, at *listCursor, lanes []string) (*listCursor, error) {
	from, _ := slices.BinarySearch(lanes, at.lane)
	for _, lane := range lanes[from:] {
		if lane != at.lane {
			at.lane, at.score, at.name, at.key, at.last = lane, 0, "", "", 0
		}
		for more := true; more; {
			if l.spent() {
				return at, nil
			}
			after := ""
			if at.name != "" {
				after = conn.ScoreText(at.score)
			}
			args := l.args("ready", lane, l.want(), after, at.name)
			chunks, err := l.read(ctx, conn.Call{Partition: l.s.conn.PartitionOf(dispatcher.Lane(lane)), Args: args})
			if err != nil {
				return nil, err
			}
			if next, err := l.take(ctx, chunks[0], at); next != nil || err != nil {
				return next, err
			}
			if more = chunks[0].more; more {
				at.score, at.name = chunks[0].last.score, chunks[0].last.name
			}
		}
	}
	*at = listCursor{section: sectionReady, partition: at.partition, scan: at.scan, server: at.server}
	return nil, nil
}
