package read

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// pager reads one page of the log, the newest line first. It merges the streams
// of all partitions.
type pager struct {
	r       *LogReader
	filter  dispatcher.LogFilter
	from    *dispatcher.LogPlace // nil: from the newest on
	sources []*stream
	entries int // read until now
	page    dispatcher.LogPage
	reached *dispatcher.LogPlace // the last checked line; nil: none is left
}

// stream is the part of one partition's stream that was read.
type stream struct {
	partition int
	lines     []placed // the newest first
	before    string   // the start of the next read
	chunk     int
	ended     bool
}

// begin finds the streams that may have lines for the page, and the start of
// each.
func (p *pager) begin(ctx context.Context) error {
	in := p.r.conn.PartitionsOf(p.filter.Lanes)
	var err error
	if p.page.CompleteSince, err = p.r.completeSince(ctx, in); err != nil {
		return err
	}
	if in, err = p.holding(ctx, in); err != nil {
		return err
	}
	for _, n := range in {
		s := &stream{partition: n, before: "+", chunk: 1}
		switch {
		case p.from != nil:
			s.before = beforePlace(n, p.from)
		case !p.filter.Until.IsZero():
			// An attempt is logged when it is over.
			s.before = strconv.FormatInt(max(p.filter.Until.Add(tookMost).UnixMilli(), 0), 10)
		}
		p.sources = append(p.sources, s)
	}
	return nil
}

// beforePlace returns the position from which a stream continues after a place.
// The place may be in another stream. The entry of the place itself is read
// again, because it may have more lines.
func beforePlace(partition int, from *dispatcher.LogPlace) string {
	switch {
	case partition < from.Partition:
		return strconv.FormatInt(from.MS, 10)
	case partition > from.Partition:
		return "(" + strconv.FormatInt(from.MS, 10) + "-0"
	}
	return fmt.Sprintf("%d-%d", from.MS, from.Seq)
}

// holding returns the partitions that hold one of the messages of the filter,
// if all these messages exist. It also sets the start of the query, because
// nothing happened to a message before its acceptance.
func (p *pager) holding(ctx context.Context, in []int) ([]int, error) {
	ids := p.filter.Messages
	if len(ids) == 0 || len(ids) > idsAtOnce {
		return in, nil
	}
	records := make([]*redis.SliceCmd, len(in))
	err := p.r.conn.EachPartition(ctx, "read messages", in, func(c redis.Pipeliner, i int) {
		records[i] = c.HMGet(ctx, p.r.conn.Tag(in[i])+keys.Messages, ids...)
	})
	if err != nil {
		return nil, err
	}
	var some []int
	accepted := map[string]int64{} // message -> ms
	for i, n := range in {
		for k, record := range conn.Value(records[i]) {
			text, _ := record.(string)
			if m, err := p.r.decode(ids[k], text); err == nil {
				accepted[ids[k]] = m.CreatedAt.UnixMilli()
				some = append(some, n)
			}
		}
	}
	if len(accepted) < len(ids) {
		return in, nil
	}
	first := slices.Min(slices.Collect(maps.Values(accepted)))
	if at := conn.FromMillis(first).Add(-clocksDiffer); at.After(p.filter.Since) {
		p.filter.Since = at
	}
	return slices.Compact(some), nil
}

// collect adds some matching lines to the page. It reports whether this page
// may have more lines.
func (p *pager) collect(ctx context.Context, limit int) (more bool, err error) {
	var found []dispatcher.Logged
	var last *dispatcher.LogPlace
	for more = true; more && len(found) < matchesAtOnce; {
		next, err := p.next(ctx)
		if err != nil {
			return false, err
		}
		if more = next != nil; more {
			last = &next.place
			p.page.LookedAt++
			if l, ok := next.logged(); ok && p.filter.MayMatch(&l) {
				found = append(found, l)
			}
		}
	}
	if err := p.r.fill(ctx, found); err != nil {
		return false, err
	}
	for i := range found {
		if !p.filter.Matches(&found[i]) {
			continue
		}
		p.page.Lines = append(p.page.Lines, found[i])
		if len(p.page.Lines) == limit {
			p.reached = &found[i].Place
			return false, nil
		}
	}
	if last != nil {
		p.reached = last
	}
	if !more && p.entries < pageEntries {
		p.reached = nil
	}
	return more, nil
}

// next returns the newest unread line of all streams. It returns nil if no line
// is left, or if the page reached its read limit.
func (p *pager) next(ctx context.Context) (*placed, error) {
	for {
		var empty []*stream
		var newest *stream
		for _, s := range p.sources {
			switch {
			case len(s.lines) > 0:
				if newest == nil || s.lines[0].place.Compare(newest.lines[0].place) > 0 {
					newest = s
				}
			case !s.ended:
				empty = append(empty, s)
			}
		}
		switch {
		case len(empty) > 0 && p.entries >= pageEntries:
			return nil, nil
		case len(empty) > 0:
			if err := p.read(ctx, empty); err != nil {
				return nil, err
			}
		case newest == nil:
			return nil, nil
		default:
			l := newest.lines[0]
			newest.lines = newest.lines[1:]
			return &l, nil
		}
	}
}

// read reads the next entries of some streams.
func (p *pager) read(ctx context.Context, some []*stream) error {
	oldest := "-"
	if !p.filter.Since.IsZero() {
		oldest = strconv.FormatInt(max(p.filter.Since.Add(-clocksDiffer).UnixMilli(), 0), 10)
	}
	in, answers := make([]int, len(some)), make([]*redis.XMessageSliceCmd, len(some))
	for i, s := range some {
		in[i] = s.partition
	}
	err := p.r.conn.EachPartition(ctx, "read the log", in, func(c redis.Pipeliner, i int) {
		answers[i] = c.XRevRangeN(ctx, p.r.conn.Tag(in[i])+keys.Attempts, some[i].before, oldest, int64(some[i].chunk))
	})
	if err != nil {
		return err
	}
	for i, s := range some {
		entries := conn.Value(answers[i])
		s.ended = len(entries) < s.chunk
		s.chunk = min(2*s.chunk, chunkEntries)
		p.entries += len(entries)
		for _, e := range entries {
			s.before = "(" + e.ID
			lines := placedOf(s.partition, e)
			slices.Reverse(lines)
			for _, l := range lines {
				if p.from == nil || l.place.Compare(*p.from) < 0 { // a part of the first entry was read before
					s.lines = append(s.lines, l)
				}
			}
		}
	}
	return nil
}
