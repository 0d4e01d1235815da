package dispatcher

import (
	"cmp"
	"errors"
	"net/http"
	"time"

	"github.com/hookladder/hookladder/dispatcher/internal/input"
)

// Queues and pull endpoints are never called: a queue's handler, or a caller of the API, takes
// deliveries when it has time for them.

// ErrNotTaken reports that a delivery is not taken under the named lease. The lease ended, or
// another taker has the delivery now.
var ErrNotTaken = errors.New("its lease has ended")

// ErrNotYours reports that another taker has leased the delivery.
var ErrNotYours = errors.New("it is not leased to you")

// The limits of one Take.
const (
	TakeLanes  = 64          // lanes
	TakeMost   = 128         // deliveries
	LongLease  = time.Hour   // the longest lease of a taker
	ShortLease = time.Second // the shortest lease of a taker
)

// Take queries some pull lanes for deliveries.
type Take struct {
	Lanes []Lane // at most TakeLanes, each once
	Most  int    // deliveries, at most TakeMost; 0: it only queries which lanes have some
	Bytes int    // of the returned records at most, or one delivery

	// Suspects limits the suspects that the calling instance leases by this call. It counts only
	// without For: if the lease ends by itself, the death of an instance does not matter.
	Suspects int

	// For is the duration of a lease that no instance keeps alive. 0: the calling instance leases
	// it as in Claim, and the lease lasts until the instance dies.
	For   time.Duration
	Token string // identifies the lease; needed with For; printable, no spaces
	Owner string // only this owner may return the lease; likewise
}

// Taken is the result of a Take.
type Taken struct {
	Claimed []Claimed // a large body is read by Body
	Until   time.Time // when the leases end by themselves; zero: they do not
	More    []Lane    // lanes of the Take that have more deliveries to take now
}

// TakenLease names a lease that ends by itself.
type TakenLease struct {
	ID    DeliveryID
	Token string // empty: the owner's last lease
	Owner string

	NotReceived bool // of Adopt: the owner never got the delivery, so this is not its last lease of it
}

// Adopted is the result of moving a lease to an instance, or of extending it.
type Adopted struct {
	Claimed *Claimed  // of Adopt: the delivery as leased now, without the body; nil: Err has the reason
	Taken   time.Time // when it was taken
	Until   time.Time // of Extend: the new end of the lease
	Attempt int       // beside ErrNotTaken: the number of the attempt of the owner's last lease, if no token was given
	Err     error     // ErrNotTaken, ErrNotYours, or an error of the store; nil: it was done
}

// Handled is a taker's report about a delivery.
type Handled struct {
	Verdict Verdict        // Delivered, Retry, Dead or Snoozed
	After   *time.Duration // Retry: replaces the rung's wait; nil: it does not. Snoozed: the wait
	Class   Class          // of a failure: ClassHandler or ClassLease; empty: ClassHandler
	Error   string         // of a failure, for people
	At      time.Time      // when it was taken, or its handler began; zero: now
}

// handledError limits the text of a failure, in bytes. Most stack traces of a panic fit.
const handledError = 4 << 10

// JudgeHandled returns the outcome of a taker's report. It ignores the response and the success
// rule of the Case. A taker's failure blames no receiver, so it opens no breaker, and its lane
// does not fail. It is a pure function, as Judge is.
func JudgeHandled(c Case, h Handled) Outcome {
	o := Outcome{Attempt: Attempt{Duration: max(c.Now.Sub(h.At), 0), Verdict: h.Verdict}}
	if h.Verdict == Delivered {
		return o
	}
	if h.Verdict == Snoozed {
		c.After = h.After
		if o.Wait = c.wait(0); !c.expires(c.Now.Add(o.Wait)) {
			return o
		}
		o.Verdict, o.Wait, o.Reason, o.Class = Dead, 0, ReasonExpired, ClassExpired
		o.Error = "its handler lets it wait until after its message expires"
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

// handledText returns the error in a form that may be stored: at most handledError bytes of valid
// text. It keeps line ends and tabs, because stack traces have them, and removes other controls.
// A refusal would lose the outcome.
func handledText(h Handled) string {
	switch {
	case h.Error != "":
		return input.Printable(h.Error, handledError, "\n\t")
	case h.Class == ClassLease:
		return "its lease ended before the taker said what became of it"
	}
	return "the taker said that it failed, and not why"
}

// TakerAsk is a taker's request for deliveries.
type TakerAsk struct {
	Lane  Lane
	Owner string        // identifies its key
	Most  int           // deliveries
	For   time.Duration // duration of the leases
	Wait  time.Duration // until there is something to take; 0: it does not wait
}

// Given is a delivery that was given to a caller.
type Given struct {
	Claimed // with its body
	Lease   string
	Until   time.Time // the lease ends
	Header  http.Header

	Token, Owner string // of its lease, as the store has it
}

// SettleMost is the highest number of outcomes that a taker may report in one call.
const SettleMost = 1000

// TakerOutcome is a taker's report about one delivery.
type TakerOutcome struct {
	ID      DeliveryID
	Lease   string // as it was given; empty: the newest one of its key
	Extend  time.Duration
	Handled Handled // unless Extend is set
}

// TakerResult is the result of a TakerOutcome.
type TakerResult string

// The results.
const (
	TakerOK      TakerResult = "ok"
	TakerLate    TakerResult = "late"    // the lease had ended
	TakerUnknown TakerResult = "unknown" // the caller has no such lease
)

// takerResults are all results of a TakerOutcome.
var takerResults = []TakerResult{TakerOK, TakerLate, TakerUnknown}

// TakerSettled is the response to one TakerOutcome.
type TakerSettled struct {
	ID     DeliveryID
	Result TakerResult
	Status Status    // of the delivery; empty: it is unknown
	Until  time.Time // of an extended lease
}
