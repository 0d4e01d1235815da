package dispatcher

import (
	"cmp"
	"errors"
	"net/http"
	"time"

	"github.com/hookladder/hookladder/dispatcher/internal/fields"
)

// What is taken is never called: a queue's handler, or a caller of the API, takes
// deliveries when it has time for them.

// ErrNotTaken says that a delivery is not taken, or no longer by the lease that
// was named: it ended, or another one took the delivery since.
var ErrNotTaken = errors.New("its lease has ended")

// ErrNotYours says that a delivery is taken by somebody else.
var ErrNotYours = errors.New("it is not leased to you")

// Bounds of one Take.
const (
	TakeLanes  = 64          // lanes
	TakeMost   = 128         // deliveries
	LongLease  = time.Hour   // the longest lease that ends by itself
	ShortLease = time.Second // and the shortest
)

// Take asks for deliveries of some pull lanes.
type Take struct {
	Lanes []Lane // at most TakeLanes, each once
	Most  int    // deliveries, at most TakeMost; 0: it only asks which lanes have some
	Bytes int    // of records that are answered at most, or one delivery

	// Suspects is how many suspects at most the calling instance may hold by this call. Without
	// For only: where the lease ends by itself the death of an instance means nothing.
	Suspects int

	// For is how long the lease lasts that no instance holds. 0: it is one of the
	// calling instance as Claim gives it, which lasts as long as that lives.
	For   time.Duration
	Token string // which tells the lease from others; needed with For; printable, no spaces
	Owner string // it alone may give the lease back; likewise
}

// Taken is what a Take got.
type Taken struct {
	Claimed []Claimed // a large body is read by Body
	Until   time.Time // when leases end by themselves; zero: they do not
	More    []Lane    // of those asked for: they have more that may be taken now
}

// TakenLease names a lease that ends by itself.
type TakenLease struct {
	ID    DeliveryID
	Token string // empty: the last one that the owner had
	Owner string

	Untold bool // of Adopt: the owner never got the delivery, so this is no last lease of it
}

// Adopted is what became of a lease that was given up to an instance, or made longer.
type Adopted struct {
	Claimed *Claimed  // of Adopt: what the instance holds now, without the body; nil: Err says why not
	Taken   time.Time // when it was taken
	Until   time.Time // of Extend: when it ends now
	Attempt int       // beside ErrNotTaken: the number of the attempt of the owner's last lease, where no token was given
	Err     error     // ErrNotTaken, ErrNotYours, or of the store; nil where it was done
}

// Handled is what a taker made of a delivery.
type Handled struct {
	Verdict Verdict        // Delivered, Retry or Dead
	After   *time.Duration // Retry: in place of the rung's wait; nil: that
	Class   Class          // of a failure: ClassHandler or ClassLease; empty: ClassHandler
	Error   string         // of a failure, for people
	At      time.Time      // when it was taken, or its handler began; zero: now
}

// handledError bounds the text of a failure, in bytes: the stack of a panic fits mostly.
const handledError = 4 << 10

// JudgeHandled says what a taker's word means for its delivery. Of the Case neither the
// answer counts nor what a success is. A taker's failure blames no receiver: it opens no
// breaker, and its lane does not fail. It is pure, as Judge is.
func JudgeHandled(c Case, h Handled) Outcome {
	o := Outcome{Attempt: Attempt{Duration: max(c.Now.Sub(h.At), 0), Verdict: h.Verdict}}
	if h.Verdict == Delivered {
		return o
	}
	o.Class, o.Error = cmp.Or(h.Class, ClassHandler), handledText(h)
	if h.Verdict == Dead {
		o.Reason = ReasonRejected
		return o
	}
	c.After = h.After
	o.Verdict, o.Wait, o.Reason = next(c, 0)
	return o
}

// handledText is what went wrong, as it may be kept: no more than handledError of it, and
// nothing that is no text. Only ends of lines and tabs stay of the controls, since stacks have them: to
// refuse the others would lose the outcome.
func handledText(h Handled) string {
	switch {
	case h.Error != "":
		return fields.Printable(h.Error, handledError, "\n\t")
	case h.Class == ClassLease:
		return "its lease ended before the taker said what became of it"
	}
	return "the taker said that it failed, and not why"
}

// TakerAsk is what a taker asks for.
type TakerAsk struct {
	Lane  Lane
	Owner string        // stands for its key
	Most  int           // deliveries
	For   time.Duration // how long the leases last
	Wait  time.Duration // for something; 0: it does not
}

// Given is a delivery that was given to a caller.
type Given struct {
	Claimed // with its body
	Lease   string
	Until   time.Time // the lease ends
	Header  http.Header

	Token, Owner string // of its lease, as the store has it
}

// SettleMost is how many outcomes a taker may tell in one call.
const SettleMost = 1000

// TakerOutcome is what a taker made of a delivery.
type TakerOutcome struct {
	ID      DeliveryID
	Lease   string // as it was given; empty: the newest one of its key
	Extend  time.Duration
	Handled Handled // unless Extend is set
}

// TakerResult says what became of a TakerOutcome.
type TakerResult string

// The results.
const (
	TakerOK      TakerResult = "ok"
	TakerLate    TakerResult = "late"    // the lease had ended
	TakerUnknown TakerResult = "unknown" // it is no lease of this caller
)

// TakerResults lists all of them.
var TakerResults = []TakerResult{TakerOK, TakerLate, TakerUnknown}

// Told is what a taker is told of one TakerOutcome.
type Told struct {
	ID     DeliveryID
	Result TakerResult
	Status Status    // of the delivery; empty: it is unknown
	Until  time.Time // of an extended lease
}
