package read

import (
	"context"
	"fmt"
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

// DecodeFunc parses the record of a message.
type DecodeFunc func(id, record string) (*dispatcher.Message, error)

// LogReader reads the log of all partitions.
type LogReader struct {
	conn   *conn.Client
	decode DecodeFunc
}

// NewLogReader returns a LogReader.
func NewLogReader(c *conn.Client, decode DecodeFunc) *LogReader {
	return &LogReader{conn: c, decode: decode}
}

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
				known[ids[n][k]], _ = r.decode(ids[n][k], text) // an unreadable message adds nothing
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
