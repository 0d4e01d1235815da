package dispatcher

import (
	"context"
	"errors"
	"time"
)

// Errors of an outbox. Any other error says that the outbox can't be reached.
var (
	// ErrOutboxBusy says that the relay of another instance works.
	ErrOutboxBusy = errors.New("another instance relays the outbox")
	// ErrOutboxMissing says that the database has no outbox, or one that is too old.
	ErrOutboxMissing = errors.New(`the tables of the outbox are not there, or too old: make them with hookladder outbox schema | psql "$OUTBOX_URL"`)
	// ErrOutboxData says that the database refused the results of a batch.
	ErrOutboxData = errors.New("the outbox refused a batch")
)

// OutboxRow is a message that waits in the outbox.
type OutboxRow struct {
	Seq     int64 // orders the rows
	ID      string
	Message []byte        // JSON as the API takes it; nil: the row is too large to be read
	Body    []byte        // nil: Message has it
	Key     string        // rows of one key and destination go in their order; empty: in any
	Age     time.Duration // since it was written
	Wait    time.Duration // until it may be relayed again; 0: now
}

// OutboxBatch are rows that may be relayed now, by Seq.
type OutboxBatch struct {
	Rows []OutboxRow
	// Waiting are rows of the same ordering keys that wait for their time: of each key and
	// destination the first, with null for its body.
	Waiting []OutboxRow
	Asleep  bool // callers notify
}

// RowResult is the result of a row.
type RowResult int

// The results of rows. All but RowWaits leave the outbox.
const (
	RowAccepted  RowResult = iota + 1
	RowDuplicate           // it was accepted before
	RowRejected            // it never can be
	RowWaits               // it may be later
	RowUnmatched           // no endpoint wants it, so that nothing was kept
)

// RowFate is the result of one row.
type RowFate struct {
	Seq     int64
	Result  RowResult
	Problem []byte        // of RowRejected: why, as the API answers it
	Wait    time.Duration // of RowWaits: until it may be relayed again
}

// OutboxDone has the results of a batch. Rows without one stay as they are.
type OutboxDone struct {
	Fates []RowFate
	Awake bool // callers need not notify any more
}

// OutboxLook is the state of the outbox.
type OutboxLook struct {
	Due    bool          // a row may be relayed now
	Oldest time.Duration // age of the oldest row; 0: there is none
	Asleep bool          // callers notify
}

// Outbox is a table that callers publish into in their own transactions. Its methods are
// called by one goroutine.
type Outbox interface {
	// Relay reads at most that many due rows, and applies the results of carry, in one
	// transaction. If carry returns an error, nothing is changed. No other instance relays at the
	// same time.
	Relay(ctx context.Context, most int, carry func(context.Context, OutboxBatch) (OutboxDone, error)) error
	// Look changes nothing.
	Look(ctx context.Context) (OutboxLook, error)
	// Sleep has callers notify from now on.
	Sleep(ctx context.Context) error
	// Wait waits until a caller notifies, at most for the given time. It returns at once if it has
	// just begun to listen, because callers may have notified before.
	Wait(ctx context.Context, most time.Duration) error
	// Held is the age, in transactions, of the oldest transaction that blocks the database's
	// vacuum, and the number of its process; 0: there is none.
	Held(ctx context.Context) (age, pid int64, err error)
	Close()
}
