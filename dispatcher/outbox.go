package dispatcher

import (
	"context"
	"errors"
	"time"
)

// The errors of an outbox. Any other error means that the outbox can't be reached.
var (
	// ErrOutboxBusy reports that the relay of another instance works.
	ErrOutboxBusy = errors.New("another instance relays the outbox")
	// ErrOutboxMissing reports that the database has no outbox, or one that is too old.
	ErrOutboxMissing = errors.New(`the tables of the outbox are not there, or too old: make them with hookladder outbox schema | psql "$OUTBOX_URL"`)
	// ErrOutboxData reports that the database refused the results of a batch.
	ErrOutboxData = errors.New("the outbox refused a batch")
)

// OutboxRow is a message that waits in the outbox.
type OutboxRow struct {
	Seq     int64 // orders the rows
	ID      string
	Message []byte        // JSON as the API takes it; nil: the row is too large to be read
	Body    []byte        // nil: Message has it
	Key     string        // rows of one key and destination go in their order; empty: in any
	Age     time.Duration // the time after it was written
	Wait    time.Duration // until it may be relayed again; 0: now
}

// OutboxBatch are rows that may be relayed now, by Seq.
type OutboxBatch struct {
	Rows []OutboxRow
	// Waiting has rows of the same ordering keys that wait for their time. It has the first row
	// of each key and destination, with null for its body.
	Waiting []OutboxRow
	Asleep  bool // callers notify
}

// RowResult is the result of a row.
type RowResult int

// The results of rows. All but RowWaits leave the outbox.
const (
	RowAccepted  RowResult = iota + 1
	RowDuplicate           // it was accepted before
	RowRejected            // it can never be accepted
	RowWaits               // it may be accepted later
	RowUnmatched           // no endpoint matches, so nothing was kept
)

// RowFate is the result of one row.
type RowFate struct {
	Seq     int64
	Result  RowResult
	Problem []byte        // of RowRejected: the problem, as the API returns it
	Wait    time.Duration // of RowWaits: until it may be relayed again
}

// OutboxDone has the results of a batch. Rows without one stay as they are.
type OutboxDone struct {
	Fates []RowFate
	Awake bool // callers need not notify any more
}

// OutboxState is the state of the outbox.
type OutboxState struct {
	Due    bool          // a row may be relayed now
	Oldest time.Duration // age of the oldest row; 0: there is none
	Asleep bool          // callers notify

	Rejected int64 // rows in hookladder_rejected
}

// Outbox is a table for messages that callers publish in their own transactions. One goroutine
// calls its methods.
type Outbox interface {
	// Relay reads at most that many due rows, and applies the results of carry, in one
	// transaction. If carry returns an error, nothing changes. No other instance relays at the
	// same time.
	Relay(ctx context.Context, most int, carry func(context.Context, OutboxBatch) (OutboxDone, error)) error
	// State returns the state without a change.
	State(ctx context.Context) (OutboxState, error)
	// Sleep makes callers notify from now on.
	Sleep(ctx context.Context) error
	// Wait blocks until a caller notifies, or until the timeout. It returns at once after it
	// begins to listen, because callers may have notified before.
	Wait(ctx context.Context, most time.Duration) error
	// OldestTransaction returns the oldest transaction that blocks the database's vacuum: its age in
	// transactions, and the number of its process. It returns 0 if there is none.
	OldestTransaction(ctx context.Context) (age, pid int64, err error)
	Close()
}
