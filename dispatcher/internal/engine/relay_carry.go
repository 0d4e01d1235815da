package engine

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/trace"
)

// errAway says that the store accepted nothing of a batch.
var errAway = errors.New("the store accepts nothing")

// delayAfter is how many batches in a row may fail as a whole before their rows are delayed.
// One part of the store may be down for long, and rows for other parts must not wait for
// it.
const delayAfter = 3

// A row that could not be accepted is retried after an eighth of its age. So the longer a
// destination is full, the fewer rows are retried. The minimum is the Retry-After of the
// API.
const (
	waitLeast = 5 * time.Second
	waitMost  = time.Minute
	waitPart  = 8
)

// relayedBatch is the state of one batch.
type relayedBatch struct {
	r       *Relay
	pending []pendingRow
	waiting []waitingRow // by the first row of each key and destination
	done    dispatcher.OutboxDone
	taken   bool // the store accepted or rejected something
	tried   bool
}

// pendingRow is a row with its message.
type pendingRow struct {
	row     *dispatcher.OutboxRow
	message *dispatcher.Message
	span    trace.Span // nil: not traced
	place   place      // as the caller named it, because publishing replaces an endpoint's uid
}

// waitingRow is a waiting row. Later rows of its key and destination wait too.
type waitingRow struct {
	seq   int64
	key   string
	place place
	wait  time.Duration
}

// place is a destination as far as a message has it. A fan-out may go to any endpoint.
type place struct {
	name string
	fan  bool
	to   bool // one endpoint
	any  bool // unknown
}

// meets reports whether messages for two places may go to the same destination.
func (p place) meets(q place) bool {
	return p == q || p.any || p.fan && q.to || q.fan && p.to
}

// carry publishes the rows and returns what to do with each.
func (r *Relay) carry(ctx context.Context, b dispatcher.OutboxBatch) (dispatcher.OutboxDone, error) {
	l := relayedBatch{r: r, done: dispatcher.OutboxDone{Awake: b.Asleep && len(b.Rows) >= busyRows}}
	for i := range b.Waiting {
		row := &b.Waiting[i]
		at := place{any: true} // it was a valid message when it was delayed
		if m, _ := r.o.Read(row); m != nil {
			at = placeOf(m)
		}
		l.waiting = append(l.waiting, waitingRow{row.Seq, row.Key, at, row.Wait})
	}
	l.read(b.Rows)
	for len(l.pending) > 0 {
		l.round(ctx)
	}
	if l.taken || !l.tried {
		r.failed = 0
		return l.done, nil
	}
	if r.failed++; r.failed <= delayAfter {
		return dispatcher.OutboxDone{}, errAway
	}
	return l.done, nil
}

// read decodes the rows and rejects invalid ones.
func (l *relayedBatch) read(rows []dispatcher.OutboxRow) {
	r := l.r
	old, rejected := 0, 0
	for i := range rows {
		row := &rows[i]
		if row.Age > r.o.Retention {
			old++
		}
		if r.stuck != nil && row.Seq == *r.stuck {
			l.putOff(row, waitMost)
			continue
		}
		m, refusal := r.o.Read(row)
		if m == nil {
			rejected++
			l.reject(row, refusal)
			continue
		}
		l.pending = append(l.pending, pendingRow{row: row, message: m, place: placeOf(m)})
	}
	if n, ok := r.ageLog.allow(old); ok {
		r.o.Log.Warn("rows of the outbox are older than RETENTION: a repeat of a relayed one would be a new message", "rows", n, "first", rows[0].ID)
	}
}

// round publishes the first row of each ordering key, and all rows without a key. A later
// row of a key must not overtake one that can't be accepted now.
func (l *relayedBatch) round(ctx context.Context) {
	var now, later []pendingRow
	seen := map[string]bool{}
	for _, c := range l.pending {
		if b := l.blocked(&c); b != nil {
			l.putOff(c.row, b.wait)
			continue
		}
		key, id := "key "+c.row.Key, "id "+c.row.ID
		if seen[id] || c.row.Key != "" && seen[key] {
			later = append(later, c)
		} else {
			now = append(now, c)
		}
		seen[id], seen[key] = true, true
	}
	l.pending = later
	if len(now) == 0 {
		return
	}
	messages := make([]*dispatcher.Message, len(now))
	for i := range now {
		if l.r.o.Tracer != nil {
			now[i].begin(ctx, l.r.o.Tracer)
		}
		messages[i] = now[i].message
	}
	call, cancel := context.WithTimeout(ctx, publishWithin)
	defer cancel()
	l.tried = true
	results, err := l.r.o.Publish(call, messages)
	if err == nil && len(results) != len(now) {
		err = errAway
	}
	for i := range now {
		if err != nil {
			l.judge(&now[i], RowRefusal{Status: http.StatusServiceUnavailable}, 0)
			now[i].end(http.StatusServiceUnavailable, nil)
			continue
		}
		why := l.r.o.Judge(&results[i])
		l.judge(&now[i], why, acceptedRow(&results[i]))
		now[i].end(why.Status, &results[i])
	}
}

// begin begins the span of a row, which its message keeps. A row names no span of its caller, so
// it begins a trace.
func (c *pendingRow) begin(ctx context.Context, tracer trace.Tracer) {
	m := c.message
	_, c.span = tracer.Begin(ctx, trace.Start{Name: "outbox row", Kind: trace.Producer, Attrs: []slog.Attr{
		trace.Ours(), slog.String(trace.Operation, "publish"), slog.String(trace.OperationType, trace.Send),
		slog.String(trace.MessageID, m.ID), slog.Int(trace.BodySize, len(m.Body)), slog.String(trace.Topic, m.Topic), slog.String(trace.Tenant, m.Tenant),
		slog.Int64(trace.RowAge, c.row.Age.Milliseconds()),
	}})
	if c.span.Recorded() {
		kept := c.span.Context()
		m.Trace = &kept
	}
}

// end ends the span of a row with the status that the API would have returned. p is nil if the
// whole publish failed.
func (c *pendingRow) end(status int, p *dispatcher.Published) {
	if c.span == nil {
		return
	}
	if p != nil && p.Err == nil {
		c.span.Set(slog.String(trace.Outcome, p.Result.String()), slog.Int(trace.Deliveries, len(p.Deliveries)))
		if len(p.Deliveries) == 1 {
			c.span.Set(slog.String(trace.Destination, string(p.Deliveries[0].ID.Lane)))
		}
	}
	failed := ""
	if status >= http.StatusMultipleChoices {
		failed = strconv.Itoa(status)
	}
	c.span.End(failed, time.Time{})
}

// acceptedRow returns the result of a row whose message was accepted.
func acceptedRow(p *dispatcher.Published) dispatcher.RowResult {
	switch {
	case p.Result == dispatcher.Duplicate:
		return dispatcher.RowDuplicate
	case p.Unmatched():
		return dispatcher.RowUnmatched
	}
	return dispatcher.RowAccepted
}

// judge sets the result of a published row. is is the result if it was accepted.
func (l *relayedBatch) judge(c *pendingRow, why RowRefusal, is dispatcher.RowResult) {
	switch {
	case why.Status < 300:
		l.taken = true
		l.done.Fates = append(l.done.Fates, dispatcher.RowFate{Seq: c.row.Seq, Result: is})
	case why.Status == http.StatusTooManyRequests:
		l.taken = true
		l.wait(c)
	case why.Status >= 500:
		l.wait(c)
	default:
		l.taken = true
		l.reject(c.row, why)
	}
}

func (l *relayedBatch) reject(row *dispatcher.OutboxRow, why RowRefusal) {
	l.done.Fates = append(l.done.Fates, dispatcher.RowFate{Seq: row.Seq, Result: dispatcher.RowRejected, Problem: why.Problem})
	if n, ok := l.r.rejectLog.allow(1); ok {
		l.r.o.Log.Warn("rows of the outbox were rejected: hookladder_rejected has them, with the problems", "rows", n, "id", row.ID, "status", why.Status)
	}
}

// wait delays a row and the rows behind it.
func (l *relayedBatch) wait(c *pendingRow) {
	wait := waitOf(c.row)
	l.putOff(c.row, wait)
	if c.row.Key != "" {
		l.waiting = append(l.waiting, waitingRow{c.row.Seq, c.row.Key, c.place, wait})
	}
}

func (l *relayedBatch) putOff(row *dispatcher.OutboxRow, wait time.Duration) {
	l.done.Fates = append(l.done.Fates, dispatcher.RowFate{Seq: row.Seq, Result: dispatcher.RowWaits, Wait: wait})
}

// blocked returns the row that a row has to wait for, or nil.
func (l *relayedBatch) blocked(c *pendingRow) *waitingRow {
	if c.row.Key == "" || len(l.waiting) == 0 {
		return nil
	}
	for i := range l.waiting {
		if b := &l.waiting[i]; b.seq < c.row.Seq && b.key == c.row.Key && b.place.meets(c.place) {
			return b
		}
	}
	return nil
}

func waitOf(row *dispatcher.OutboxRow) time.Duration {
	return min(max(row.Age/waitPart, waitLeast), waitMost)
}

// placeOf returns the destination of a message. URLs of one origin and tenant are one
// destination.
func placeOf(m *dispatcher.Message) place {
	switch {
	case m.Queue != "":
		return place{name: "queue " + m.Queue}
	case m.Endpoint != "":
		return place{name: m.Endpoint, to: true}
	case m.URL == "":
		return place{name: m.Tenant, fan: true}
	}
	if u, err := url.Parse(m.URL); err == nil {
		return place{name: "url " + string(dispatcher.URLLane(u, m.Tenant))}
	}
	return place{name: "url " + strings.ToLower(m.URL)}
}
