package read

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/input"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// Limits on reading. An entry has 16 KiB at most, or 48 KiB if it names ends.
// It costs Redis some 30 µs.
const (
	pageEntries   = 1000 // of one page: 30 ms of Redis
	chunkEntries  = 16   // of one partition in one round trip
	headsAtOnce   = 64   // records of at most 16 KiB
	tookMost      = 65 * time.Second
	clocksDiffer  = dispatcher.LogSkew
	fieldCut      = "cut"
	matchesAtOnce = 64 // lines whose messages are read together
	idsAtOnce     = 8  // messages that are read before the log
)

// LogReader reads the log of all partitions.
type LogReader struct{ conn *conn.Client }

// NewLogReader returns a LogReader.
func NewLogReader(c *conn.Client) *LogReader { return &LogReader{conn: c} }

// ReadLog returns a page of the log, the newest line first. The number of
// entries that it reads is limited. If a filter matches few of them, the page
// is short and has a cursor.
func (r *LogReader) ReadLog(ctx context.Context, f dispatcher.LogFilter, limit int, after string) (dispatcher.LogPage, error) {
	limit = input.PageSize(limit, input.MaxPage)
	p := &pager{r: r, filter: f}
	if after != "" {
		p.from = &dispatcher.LogPlace{}
		if err := r.conn.Cursors().Open(ctx, listOf(f), after, p.from); err != nil {
			return dispatcher.LogPage{}, err
		}
	}
	if err := r.conn.LostOf(f.Lanes); err != nil {
		return dispatcher.LogPage{}, fmt.Errorf("read the log: %w", err)
	}
	if err := p.begin(ctx); err != nil {
		return dispatcher.LogPage{}, err
	}
	for more := true; more && len(p.page.Lines) < limit; {
		var err error
		if more, err = p.collect(ctx, limit); err != nil {
			return dispatcher.LogPage{}, err
		}
	}
	var err error
	switch {
	case p.reached != nil:
		p.page.Next, err = r.conn.Cursors().Seal(ctx, listOf(f), p.reached)
	case len(p.page.Lines) == 0:
		err = r.conn.IntactOf(ctx, f.Lanes)
	}
	if err != nil {
		return dispatcher.LogPage{}, err
	}
	return p.page, nil
}

func listOf(f dispatcher.LogFilter) string { return dispatcher.ListName("attempts", f) }

// completeSince returns the time from which the log of some partitions is
// complete. Zero means that nothing was cut.
func (r *LogReader) completeSince(ctx context.Context, in []int) (since time.Time, err error) {
	cuts := make([]*redis.StringCmd, len(in))
	err = r.conn.EachPartition(ctx, "read how far the log reaches back", in, func(p redis.Pipeliner, i int) {
		cuts[i] = p.HGet(ctx, r.conn.Tag(in[i])+keys.Archive, fieldCut)
	})
	for _, cut := range cuts {
		ms, _, _ := strings.Cut(conn.Value(cut), "-")
		if n, err := strconv.ParseInt(ms, 10, 64); err == nil && conn.FromMillis(n).After(since) {
			since = conn.FromMillis(n)
		}
	}
	return since, err
}

// placed is a line with its place.
type placed struct {
	logLine
	place dispatcher.LogPlace
}

// placedOf returns the lines of an entry, the oldest first.
func placedOf(partition int, e redis.XMessage) []placed {
	at, n := entryID(e.ID)
	var out []placed
	for i, l := range linesOf(e.Values) {
		out = append(out, placed{l, dispatcher.LogPlace{MS: at, Partition: partition, Seq: n, Line: i}})
	}
	return out
}

// logged returns the event of a line, from the data in the line itself. It
// returns false if another line reports the same event.
func (p *placed) logged() (l dispatcher.Logged, ok bool) {
	l = dispatcher.Logged{Place: p.place, ID: p.id, Attempt: p.attempt, Job: p.job}
	written := conn.FromMillis(p.place.MS)
	if l.Attempt.At.IsZero() {
		l.Attempt.At = written
	}
	switch {
	case p.verdict == "d":
		l.Happening, l.Attempt.Verdict = dispatcher.HappenedDelivered, dispatcher.Delivered
	case p.verdict == "x" && p.code == '5': // reported before
		return l, false
	case p.verdict == "x" && p.code == '1':
		l.Happening, l.Attempt.Verdict = dispatcher.HappenedDead, dispatcher.Dead
	case p.verdict == "r", p.verdict == "x": // another line reports the end of its delivery
		l.Happening, l.Attempt.Verdict = dispatcher.HappenedRetry, dispatcher.Retry
		if p.code == '1' {
			if l.Attempt.Next = p.next; p.next.IsZero() {
				l.Attempt.Next = written.Add(p.wait)
			}
		}
	case p.verdict == "b" && p.code == '1':
		l.Happening, l.Attempt.Verdict = dispatcher.HappenedBack, dispatcher.Back
	case p.verdict == "dead":
		l.Happening, l.Reason = dispatcher.HappenedDead, dispatcher.DeadReason(p.reason)
	case p.verdict == "cancelled":
		l.Happening = dispatcher.HappenedCancelled
	default:
		return l, false
	}
	return l, true
}

// fill reads the messages of some log lines and adds their data to the lines.
func (r *LogReader) fill(ctx context.Context, lines []dispatcher.Logged) error {
	byPartition := map[int][]string{}
	for i := range lines {
		n, id := lines[i].Place.Partition, lines[i].ID.Message
		if !slices.Contains(byPartition[n], id) {
			byPartition[n] = append(byPartition[n], id)
		}
	}
	for len(byPartition) > 0 {
		var in []int
		some := map[int][]string{}
		for n, ids := range byPartition {
			in = append(in, n)
			some[n] = ids[:min(len(ids), max(headsAtOnce/len(byPartition), 1))]
			if byPartition[n] = ids[len(some[n]):]; len(byPartition[n]) == 0 {
				delete(byPartition, n)
			}
		}
		if err := r.fillSome(ctx, lines, in, some); err != nil {
			return err
		}
	}
	return nil
}

func (r *LogReader) fillSome(ctx context.Context, lines []dispatcher.Logged, in []int, ids map[int][]string) error {
	records := make([]*redis.SliceCmd, len(in))
	err := r.conn.EachPartition(ctx, "read messages", in, func(p redis.Pipeliner, i int) {
		records[i] = p.HMGet(ctx, r.conn.Tag(in[i])+keys.Messages, ids[in[i]]...)
	})
	if err != nil {
		return err
	}
	messages := map[int]map[string]*dispatcher.Message{}
	for i, n := range in {
		known := map[string]*dispatcher.Message{}
		for k, record := range conn.Value(records[i]) {
			if text, ok := record.(string); ok && len(text) > dispatcher.DigestSize {
				known[ids[n][k]], _ = conn.DecodeRecord(ids[n][k], text) // an unreadable message adds nothing
			}
		}
		messages[n] = known
	}
	for i := range lines {
		l := &lines[i]
		m := messages[l.Place.Partition][l.ID.Message]
		if m == nil {
			continue
		}
		l.Topic, l.Tenant, l.Subject = m.Topic, m.Tenant, m.Subject
		if l.Attempt.URL == "" {
			l.Attempt.URL = m.URL
		}
	}
	return nil
}

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
			if m, err := conn.DecodeRecord(ids[k], text); err == nil {
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
