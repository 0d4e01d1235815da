package engine

import (
	"context"
	"errors"
	"log/slog"
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
//   - publish them through the engine, and decide what happens to each row (relay_carry.go),
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
