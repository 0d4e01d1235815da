// Package relay carries what callers published inside their own transactions, the rows of an
// outbox, to the engine. It knows no technology.
//
// A row leaves the outbox in the transaction in which the relay read it, after the engine
// accepted its message. So it is relayed at least once; its id makes it one message.
//
// The rows of an ordering key go in the order of their numbers: each is accepted before the
// next is given to the engine. What can't be accepted now waits, and the later rows of its
// key and destination wait behind it. What never will be is put aside with the reason. Rows
// that have nothing to do with either are held up by none.
package relay

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/outage"
)

const (
	// mostRows is how many rows go in one transaction. Measured: 20,000 rows a second with
	// 500; more only take longer to repeat.
	mostRows = 500
	// pollEvery is how often a relay looks that was not woken. A caller whose transaction is
	// open while the relay falls asleep does not notify.
	pollEvery = time.Second
	// emptyLooks, with pauses of emptyPause, find nothing before callers have to notify:
	// where they publish all the time they need not.
	emptyLooks = 3
	emptyPause = 10 * time.Millisecond
	// busyRows in one batch mean that callers publish faster than the relay looks. With fewer
	// it stays asleep, which saves two writes each time.
	busyRows = 16
	// publishWithin bounds how long a batch waits for the store, and batchWithin how long it
	// takes, so that a database that does not answer is left.
	publishWithin = 15 * time.Second
	batchWithin   = time.Minute
	// stopWithin is for the batch under way when the relay is stopped.
	stopWithin = 4 * time.Second
	// heldEvery is how often it is looked for transactions that were left open. Those of
	// heldMost transactions ago are told of: by then a look reads as many dead rows.
	heldEvery = 5 * time.Minute
	heldMost  = 200_000
)

// Refusal is why a row's message was not taken. Status is as the API answers it; below 300:
// it was taken.
type Refusal struct {
	Status  int
	Problem []byte // JSON
}

// Options are with what a Relay works. All fields are needed.
type Options struct {
	Outbox dispatcher.Outbox
	// Read makes a message of a row, or says why it is none.
	Read    func(*dispatcher.OutboxRow) (*dispatcher.Message, Refusal)
	Publish func(context.Context, []*dispatcher.Message) ([]dispatcher.Published, error)
	// Judge says what Publish did with a message.
	Judge     func(*dispatcher.Published) Refusal
	Retention time.Duration // for how long a repeat is known
	Log       *slog.Logger
}

// Relay carries rows from an outbox to the engine.
type Relay struct {
	o     Options
	state *outage.Log

	// Owned by Run.
	most    int       // rows in the next batch
	stuck   int64     // a row whose end the database refused; 0: none
	failed  int       // batches in a row of which the store took nothing
	looked  time.Time // when the outbox was looked at, for metrics
	asked   time.Time // when it was looked for open transactions
	missing bool      // it was told that there is no outbox
	told    logRate   // of rows that were rejected
	aged    logRate   // of rows that are older than Retention

	results [dispatcher.RowUnmatched + 1]atomic.Int64
	oldest  atomic.Int64 // age of the oldest row when it was looked at; ns
	up      atomic.Bool
	quiet   atomic.Bool // it found nothing to relay, or can't read the outbox
}

// New makes a Relay.
func New(o Options) *Relay {
	return &Relay{o: o, most: mostRows, state: outage.New(o.Log, "outbox lost: what is published there waits", "outbox is back")}
}

// Run relays until ctx ends, and ends the batch that is under way then. A nil Relay has no
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

// judge tells of an error, and waits before the next try. It answers how many times in a row
// the outbox could not be reached.
func (r *Relay) judge(ctx context.Context, failures int, err error) int {
	switch {
	case err == nil:
	case errors.Is(err, dispatcher.ErrOutboxMissing):
		r.works()
		if r.up.Store(false); !r.missing {
			r.missing = true
			r.o.Log.Error("the database of OUTBOX_URL has no outbox", "err", err)
		}
		sleep(ctx, pollEvery)
	case errors.Is(err, dispatcher.ErrOutboxBusy):
		r.works()
		sleep(ctx, pollEvery)
	case errors.Is(err, errAway): // the engine tells of its store
		r.works()
		outage.Pause(ctx, r.failed)
	default:
		r.up.Store(false)
		return r.state.Repeat(ctx, "relay", failures, err)
	}
	return 0
}

// works notes that the database answers.
func (r *Relay) works() {
	r.state.Report("relay", nil)
	r.up.Store(true)
}

// found notes that the outbox was read.
func (r *Relay) found() {
	if r.works(); r.missing {
		r.missing = false
		r.o.Log.Info("outbox found")
	}
}

// batch relays rows, and answers how many it met.
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
		if r.stuck = 0; n == 1 {
			r.stuck = first
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

// idle waits until something may be relayed. It falls asleep on the way, and looks once more
// then: callers that published before that did not notify.
func (r *Relay) idle(ctx context.Context) error {
	for empty := 1; ctx.Err() == nil; empty++ {
		look, err := r.look(ctx)
		r.quiet.Store(!look.Due)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		case look.Due:
			return nil
		case look.Asleep:
			if err := r.o.Outbox.Wait(ctx, pollEvery); err != nil {
				sleep(ctx, pollEvery) // it is polled: poolers do not carry notifications
			}
		case empty < emptyLooks:
			sleep(ctx, emptyPause)
		default:
			if err := within(ctx, r.o.Outbox.Sleep); err != nil {
				return err
			}
		}
		r.watch(ctx)
	}
	return nil
}

func (r *Relay) look(ctx context.Context) (look dispatcher.OutboxLook, err error) {
	err = within(ctx, func(ctx context.Context) (err error) {
		look, err = r.o.Outbox.Look(ctx)
		return err
	})
	if err == nil {
		r.looked = time.Now()
		r.oldest.Store(int64(look.Oldest))
		r.found()
	}
	return look, err
}

// watch keeps the figures while the relay works, and looks for transactions that were left
// open: what was deleted since they began is read again and again.
func (r *Relay) watch(ctx context.Context) {
	if r.up.Load() && time.Since(r.looked) >= pollEvery {
		_, _ = r.look(ctx) // the next batch tells of an error
	}
	if !r.up.Load() || time.Since(r.asked) < heldEvery {
		return
	}
	r.asked = time.Now()
	_ = within(ctx, func(ctx context.Context) error {
		age, pid, err := r.o.Outbox.Held(ctx)
		if err == nil && age > heldMost {
			r.o.Log.Warn("a transaction in the outbox' database was left open: what was relayed since can't be tidied up, and slows the relay down",
				"transactions", age, "pid", pid)
		}
		return err
	})
}

// Busy reports whether there may be something that is due to be relayed.
func (r *Relay) Busy() bool { return r != nil && !r.quiet.Load() }

// words are those of the metrics.
var words = map[dispatcher.RowResult]string{
	dispatcher.RowAccepted: "accepted", dispatcher.RowDuplicate: "duplicate", dispatcher.RowRejected: "rejected", dispatcher.RowWaits: "waits",
	dispatcher.RowUnmatched: "unmatched",
}

// Relayed is how many rows came to each result, by its word.
func (r *Relay) Relayed() map[string]int64 {
	all := map[string]int64{}
	for result, word := range words {
		all[word] = r.results[result].Load()
	}
	return all
}

// Lag is the age of the oldest row, and whether the outbox can be read.
func (r *Relay) Lag() (oldest time.Duration, up bool) {
	return time.Duration(r.oldest.Load()), r.up.Load()
}

func within(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := outage.Within(ctx)
	defer cancel()
	return call(ctx)
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// logRate lets one line pass in ten seconds, and counts what it was about meanwhile.
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
