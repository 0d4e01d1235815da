package engine

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/outage"
	"github.com/hookladder/hookladder/dispatcher/internal/wait"
	"github.com/hookladder/hookladder/dispatcher/trace"
)

const (
	// mostRows is the number of rows in one transaction. 500 rows relay 20,000 rows a
	// second; larger batches only take longer to repeat.
	mostRows = 500
	// relayPollEvery is how often the outbox is polled without a notification. A transaction
	// that was open when the relay fell asleep does not notify.
	relayPollEvery = time.Second
	// emptyPolls is how many polls, emptyPause apart, find nothing before callers have to
	// notify. While callers publish all the time, they need not notify.
	emptyPolls = 3
	emptyPause = 10 * time.Millisecond
	// busyRows in one batch mean that callers publish faster than the relay polls. With
	// fewer rows it stays asleep, which saves two writes each time.
	busyRows = 16
	// publishWithin is the timeout of a publish. batchWithin is the timeout of a batch,
	// because a database may not respond.
	publishWithin = 15 * time.Second
	batchWithin   = time.Minute
	// stopWithin is how long the running batch may take after the relay is stopped.
	stopWithin = 4 * time.Second
	// openEvery is how often the relay queries for transactions that were left open. It warns
	// if one is openMost transactions old, because each poll then reads the same number of
	// dead rows.
	openEvery = 5 * time.Minute
	openMost  = 200_000
)

// RowRefusal says why a row's message was rejected. Status is the API's status; below 300 the
// message was accepted.
type RowRefusal struct {
	Status  int
	Problem []byte // JSON
}

// RelayOptions are the dependencies of a Relay. All fields but Tracer are needed.
type RelayOptions struct {
	Outbox dispatcher.Outbox
	// Read decodes a row into a message, or returns why it can't.
	Read    func(*dispatcher.OutboxRow) (*dispatcher.Message, RowRefusal)
	Publish func(context.Context, []*dispatcher.Message) ([]dispatcher.Published, error)
	// Judge returns the outcome of a published message.
	Judge     func(*dispatcher.Published) RowRefusal
	Retention time.Duration // how long a repeat is detected
	Tracer    trace.Tracer  // nil: nothing is traced
	Log       *slog.Logger
}

// Relay moves messages from an outbox to the engine. Callers insert them as rows in their own
// transactions. Package app runs one Relay in each instance that has an outbox, and only one of
// them works at a time.
//
// For each batch, Run does the following:
//   - read rows in a transaction of the outbox,
//   - publish them through the engine, and decide what happens to each row,
//   - delete, reject or delay the rows, and commit.
//
// So each row is relayed at least once, and its id makes repeats duplicates.
//
// Rows with an ordering key are published in the order of their numbers: each is accepted
// before the next one is published. If a row can't be accepted now, it is retried later,
// and the later rows of its key and destination wait for it. If a row can never be
// accepted, it is rejected with the reason. Other rows are not delayed.
type Relay struct {
	o     RelayOptions
	state *outage.Log

	// Used by Run only.
	most      int       // rows in the next batch
	stuck     *int64    // a row that the database can't update; nil if none, because 0 may be a row
	failed    int       // consecutive batches of which the store accepted nothing
	polledAt  time.Time // when the outbox was polled, for metrics
	watchedAt time.Time // when open transactions were queried
	missing   bool      // the missing outbox was logged
	rejectLog logRate   // of rejected rows
	ageLog    logRate   // of rows older than Retention

	results [dispatcher.RowUnmatched + 1]atomic.Int64
	oldest  atomic.Int64 // age of the oldest row at the last poll; ns

	rejected atomic.Int64 // rows that wait for a person, at the last poll

	up    atomic.Bool
	quiet atomic.Bool // nothing to relay, or the outbox can't be read
}

// NewRelay returns a Relay.
func NewRelay(o RelayOptions) *Relay {
	return &Relay{o: o, most: mostRows, state: outage.New(o.Log, "outbox lost: messages published there wait", "outbox is back")}
}

// Run relays until ctx ends, and then finishes the running batch. A nil Relay has no
// outbox.
func (r *Relay) Run(ctx context.Context) error {
	if r == nil {
		return nil
	}
	defer r.o.Outbox.Close()
	work, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(stopWithin, giveUp) })()
	failures := 0
	for ctx.Err() == nil {
		n, err := r.batch(work)
		r.quiet.Store(n == 0 && err != nil)
		if err == nil && n == 0 {
			err = r.idle(ctx)
		}
		failures = r.judge(ctx, failures, err)
		r.watch(ctx)
	}
	return nil
}

// judge logs an error and waits before the next try. It returns how often in a row the
// outbox could not be reached.
func (r *Relay) judge(ctx context.Context, failures int, err error) int {
	switch {
	case err == nil:
	case errors.Is(err, dispatcher.ErrOutboxMissing):
		r.works()
		if r.up.Store(false); !r.missing {
			r.missing = true
			r.o.Log.Error("the database of OUTBOX_URL has no outbox", "err", err)
		}
		wait.Sleep(ctx, relayPollEvery)
	case errors.Is(err, dispatcher.ErrOutboxBusy):
		r.works()
		wait.Sleep(ctx, relayPollEvery)
	case errors.Is(err, errAway): // the engine logs the outage of its store
		r.works()
		outage.Pause(ctx, r.failed)
	default:
		r.up.Store(false)
		return r.state.Repeat(ctx, "relay", failures, err)
	}
	return 0
}

// works records that the database responds.
func (r *Relay) works() {
	r.state.Report("relay", nil)
	r.up.Store(true)
}

// found records that the outbox was read.
func (r *Relay) found() {
	if r.works(); r.missing {
		r.missing = false
		r.o.Log.Info("outbox found")
	}
}

// batch relays rows and returns how many it read.
func (r *Relay) batch(ctx context.Context) (n int, err error) {
	ctx, cancel := context.WithTimeout(ctx, batchWithin)
	defer cancel()
	var done dispatcher.OutboxDone
	first := int64(0)
	err = r.o.Outbox.Relay(ctx, r.most, func(ctx context.Context, b dispatcher.OutboxBatch) (dispatcher.OutboxDone, error) {
		if n = len(b.Rows); n == 0 {
			return dispatcher.OutboxDone{}, nil
		}
		first = b.Rows[0].Seq
		var err error
		done, err = r.carry(ctx, b)
		return done, err
	})
	if errors.Is(err, dispatcher.ErrOutboxData) {
		if r.stuck = nil; n == 1 {
			r.stuck = &first
		}
		r.most = max(r.most/2, 1)
	} else if err == nil {
		r.found()
		r.most = min(r.most*2, mostRows)
		for _, f := range done.Fates {
			r.results[f.Result].Add(1)
		}
	}
	return n, err
}

// idle waits until there may be rows. After some empty polls it sets the outbox asleep and
// polls once more, because callers that published before that did not notify.
func (r *Relay) idle(ctx context.Context) error {
	for empty := 1; ctx.Err() == nil; empty++ {
		state, err := r.poll(ctx)
		r.quiet.Store(!state.Due)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		case state.Due:
			return nil
		case state.Asleep:
			if err := r.o.Outbox.Wait(ctx, relayPollEvery); err != nil {
				wait.Sleep(ctx, relayPollEvery) // poll instead, because poolers do not forward notifications
			}
		case empty < emptyPolls:
			wait.Sleep(ctx, emptyPause)
		default:
			if err := within(ctx, r.o.Outbox.Sleep); err != nil {
				return err
			}
		}
		r.watch(ctx)
	}
	return nil
}

func (r *Relay) poll(ctx context.Context) (state dispatcher.OutboxState, err error) {
	err = within(ctx, func(ctx context.Context) (err error) {
		state, err = r.o.Outbox.State(ctx)
		return err
	})
	if err == nil {
		r.polledAt = time.Now()
		r.oldest.Store(int64(state.Oldest))
		r.rejected.Store(state.Rejected)
		r.found()
	}
	return state, err
}

// watch updates the metrics while the relay works. It also queries for transactions that
// were left open, because the database can't remove rows that were deleted after such a
// transaction began.
func (r *Relay) watch(ctx context.Context) {
	if r.up.Load() && time.Since(r.polledAt) >= relayPollEvery {
		_, _ = r.poll(ctx) // the next batch reports an error
	}
	if !r.up.Load() || time.Since(r.watchedAt) < openEvery {
		return
	}
	r.watchedAt = time.Now()
	_ = within(ctx, func(ctx context.Context) error {
		age, pid, err := r.o.Outbox.OldestTransaction(ctx)
		if err == nil && age > openMost {
			r.o.Log.Warn("a transaction in the outbox database was left open: vacuum can't remove relayed rows, which slows the relay down",
				"transactions", age, "pid", pid)
		}
		return err
	})
}

// Busy reports whether there may be rows that are due.
func (r *Relay) Busy() bool { return r != nil && !r.quiet.Load() }

// words are the results as the metrics name them.
var words = map[dispatcher.RowResult]string{
	dispatcher.RowAccepted: "accepted", dispatcher.RowDuplicate: "duplicate", dispatcher.RowRejected: "rejected", dispatcher.RowWaits: "waits",
	dispatcher.RowUnmatched: "unmatched",
}

// Relayed returns the number of rows for each result.
func (r *Relay) Relayed() map[string]int64 {
	all := map[string]int64{}
	for result, word := range words {
		all[word] = r.results[result].Load()
	}
	return all
}

// Lag returns the age of the oldest row, and whether the outbox can be read.
func (r *Relay) Lag() (oldest time.Duration, up bool) {
	return time.Duration(r.oldest.Load()), r.up.Load()
}

// Rejected returns the number of rows that were rejected and not removed yet.
func (r *Relay) Rejected() int64 { return r.rejected.Load() }

func within(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := outage.Within(ctx)
	defer cancel()
	return call(ctx)
}

// logRate allows one log line in ten seconds, and counts the rows in between.
type logRate struct {
	at   time.Time
	rows int
}

func (l *logRate) allow(rows int) (all int, ok bool) {
	l.rows += rows
	if rows == 0 || !l.at.IsZero() && time.Since(l.at) < 10*time.Second {
		return 0, false
	}
	all, l.rows, l.at = l.rows, 0, time.Now()
	return all, true
}

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
