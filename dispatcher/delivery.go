package dispatcher

import (
	"time"

	"github.com/hookladder/hookladder/ladder"
)

// Status is the state of a delivery. The store does not keep it, because it follows from the
// delivery's place.
type Status string

// The statuses of a delivery.
const (
	StatusScheduled Status = "scheduled" // first attempt in the future
	StatusReady     Status = "ready"     // due, not yet taken
	StatusInFlight  Status = "in_flight" // an attempt is under way
	StatusRetrying  Status = "retrying"  // waits for its next rung
	StatusDelivered Status = "delivered"
	StatusDead      Status = "dead"
	StatusCancelled Status = "cancelled"
)

// Statuses lists all statuses in the order of the flow.
func Statuses() []Status {
	return []Status{
		StatusScheduled, StatusReady, StatusInFlight, StatusRetrying,
		StatusDelivered, StatusDead, StatusCancelled,
	}
}

// EndStatuses are the statuses of finished deliveries.
func EndStatuses() []Status {
	return []Status{StatusDelivered, StatusDead, StatusCancelled}
}

// Ended reports whether a delivery is finished. Only a caller can then ask for another attempt.
func (s Status) Ended() bool {
	return s == StatusDelivered || s == StatusDead || s == StatusCancelled
}

// DeadReason is the cause of a delivery's death.
type DeadReason string

// The reasons a delivery dies of.
const (
	ReasonExhausted DeadReason = "exhausted"
	ReasonGone      DeadReason = "gone"
	ReasonExpired   DeadReason = "expired"
	ReasonRefused   DeadReason = "refused"
	ReasonDisabled  DeadReason = "disabled"
	ReasonOverflow  DeadReason = "overflow"
	ReasonPoison    DeadReason = "poison" // the third instance died after its attempt began
	ReasonRejected  DeadReason = "rejected"
)

var deadReasons = words[DeadReason]{
	{ReasonExhausted, "the last attempt of its ladder failed"},
	{ReasonGone, "its receiver answered 410"},
	{ReasonExpired, "it had expired"},
	{ReasonRefused, "its address may not be called"},
	{ReasonDisabled, "its endpoint was disabled"},
	{ReasonOverflow, "too many deliveries waited in its lane"},
	{ReasonPoison, "three instances died during its attempts"},
	{ReasonRejected, "its receiver wants no further attempt"},
}

// DeadReasons lists all reasons.
func DeadReasons() []DeadReason { return deadReasons.list() }

// Means returns the reason as a clause for people.
func (r DeadReason) Means() string { return deadReasons.means(r) }

// Verdict is the effect of an attempt's response on its delivery.
type Verdict uint8

// The verdicts. The zero value is none of them.
const (
	_         Verdict = iota
	Delivered         // the receiver has it
	Retry             // next rung
	Dead              // no further attempt
	Back              // no attempt was made: back to the head of its lane, no rung used
	Snoozed           // its handler lets it wait: no attempt is counted, no rung used
)

// Verdicts lists all verdicts of attempts. Snoozed is not one of them, because no attempt is recorded.
func Verdicts() []Verdict {
	return []Verdict{Delivered, Retry, Dead, Back}
}

// String returns the verdict as logs and responses spell it.
func (v Verdict) String() string {
	switch v {
	case Delivered:
		return "delivered"
	case Retry:
		return "retry"
	case Dead:
		return "dead"
	case Back:
		return "back"
	case Snoozed:
		return "snoozed"
	default:
		return "none"
	}
}

// Class is the kind of an attempt's failure. The list is closed, so it fits a metric's label.
type Class string

// The classes of a failed attempt; the empty one is a success.
const (
	ClassNone     Class = ""
	ClassStatus   Class = "status"
	ClassBody     Class = "body"
	ClassTimeout  Class = "timeout"
	ClassConnect  Class = "connect"
	ClassReset    Class = "reset"
	ClassTLS      Class = "tls"
	ClassDNS      Class = "dns"
	ClassProtocol Class = "protocol"
	ClassRefused  Class = "refused"
	ClassExpired  Class = "expired"
	ClassEgress   Class = "egress"
	ClassInternal Class = "internal"
	ClassLease    Class = "lease"
	ClassHandler  Class = "handler" // its handler, or the caller that took it, reported a failure
)

var classes = words[Class]{
	{ClassStatus, "its status is no success"},
	{ClassBody, "its response does not say success"},
	{ClassTimeout, "no response in time"},
	{ClassConnect, "no connection"},
	{ClassReset, "the connection broke"},
	{ClassTLS, "its certificate is not valid"},
	{ClassDNS, "its name was not found"},
	{ClassProtocol, "its response is no HTTP"},
	{ClassRefused, "its address may not be called"},
	{ClassExpired, "it had expired"},
	{ClassEgress, "our own network failed"},
	{ClassInternal, "our own fault"},
	{ClassLease, "it was not settled in time"},
	{ClassHandler, "its handler failed"},
}

// Classes lists all classes except ClassNone.
func Classes() []Class { return classes.list() }

// Means returns the class as a clause for people.
func (c Class) Means() string { return classes.means(c) }

// Attempt is the record of one attempt. Only deliveries that failed keep it.
type Attempt struct {
	Number   int           // counted from 1
	At       time.Time     // when it began, by the queue's clock
	Duration time.Duration // until the response was judged
	Status   int           // HTTP status; 0: no response
	Verdict  Verdict
	Class    Class
	Error    string    // one sentence, without secrets and URLs
	Excerpt  []byte    // the first bytes of the response
	Next     time.Time // when the next attempt is due; zero: none

	URL     string // the called URL; empty: the message's own
	Address string // the connected address; empty: none
	Resend  bool   // a person asked for it

	ShortHello bool // its TLS handshake began with a ClientHello of one packet, because a longer one got no answer
}

// Place computes At again from the queue's clock, because the estimate at the start of the
// attempt may have been late. since is the time since that start. The attempt never ends after
// now.
func (a *Attempt) Place(now time.Time, since time.Duration) {
	if a.At.IsZero() {
		return
	}
	if at := now.Add(-since); at.After(a.At) {
		a.At = at
	}
	if last := now.Add(-a.Duration); a.At.After(last) {
		a.At = last
	}
}

// ProofBytes is the least number of bytes that are kept of a successful response, if responses
// are kept.
const ProofBytes = 128

// Logged returns the error of an attempt for a log. It omits the target of a redirect, because
// this is often the receiver's own URL with a secret path.
func (a Attempt) Logged() string {
	if a.Class == ClassStatus && a.Status >= 300 && a.Status <= 399 {
		return redirectFault(a.Status, "")
	}
	return a.Error
}

// Delivery is one delivery as the queue returns it.
type Delivery struct {
	ID      DeliveryID
	Topic   string
	Tenant  string
	Subject string // of the message
	URL     string
	Status  Status
	Created time.Time // when its message was accepted
	Due     time.Time // next attempt; zero: none
	Ended   time.Time // when it was delivered, died or was cancelled; zero before

	// Delivered is the time of the first success, even if it was sent again later and that
	// attempt failed. Zero: there was no success.
	Delivered time.Time

	Attempts   int            // attempts made and settled
	Climbed    int            // the attempts of its current ladder
	LadderFrom int            // the number of that ladder's first attempt, from 1
	Ladder     *ladder.Ladder // from a queue: the message's own, or nil; from the engine: the effective one

	MaxAttempts int // of the message: cuts the ladder; 0: does not cut it

	LastStatus    int    // HTTP status of the last attempt; 0: no response
	LastError     string // the error of that attempt, empty after a success
	Reason        DeadReason
	WaitingFor    string    // one of Waits; empty: it waits for nothing
	WaitingUntil  time.Time // zero: not known
	WaitingBehind int       // with order: the number of deliveries before it

	History []Attempt // oldest first, at most 32; only if an attempt failed
}

// Failed reports whether a delivery is unfinished after a failed attempt. If it was delivered
// before and is sent again, one of its attempts did not fail.
func (d *Delivery) Failed() bool {
	succeeded := 0
	if !d.Delivered.IsZero() {
		succeeded = 1
	}
	return !d.Status.Ended() && d.Attempts > succeeded
}

// Rung returns the number of waits of its ladder that a delivery has used, the current one
// included.
func (d *Delivery) Rung() int {
	n := d.Climbed
	switch {
	case d.Status == StatusDelivered, d.Reason == ReasonGone, d.Reason == ReasonRefused, d.Reason == ReasonRejected, d.Reason == ReasonExhausted:
		n-- // no wait followed its last attempt
	}
	if d.Ladder != nil {
		n = min(n, d.Ladder.Len()) // the ladder may be shorter now
	}
	return max(n, 0)
}

// Wait is the reason why an unfinished delivery is not attempted now.
type Wait string

var waits = words[Wait]{
	{"due", "waiting for its time"},
	{"rung", "waiting for its next attempt"},
	{"paused", "its destination is paused"},
	{"breaker", "its destination keeps failing, so the breaker is open"},
	{"retry_after", "its destination asked for a pause (Retry-After)"},
	{"rate", "its endpoint's rate is used up"},
	{"sealed", "an instance can't open its endpoint or its headers: its ENCRYPTION_KEY lacks a key"},
	{"missing", "its endpoint is not in the store"},
	{"egress", "our own network failed: its destination is not to blame"},
	{"order", "waiting for its turn"},
	{"limit", "as many attempts to its destination as allowed are under way"},
	{"permits", "waiting for a free slot: MAX_IN_FLIGHT attempts are under way"},
	{"consumer", "waiting to be taken"},
}

// Waits lists all reasons to wait.
func Waits() []Wait { return waits.list() }

// Means returns the wait as a clause for people.
func (w Wait) Means() string { return waits.means(w) }

// Left is the reason why a retry did not attempt a delivery.
type Left string

// The reasons to leave a delivery. The empty one belongs to an attempted delivery.
const (
	LeftNot       Left = ""
	LeftReady     Left = "ready"     // due already
	LeftInFlight  Left = "in_flight" // an attempt is under way
	LeftOrder     Left = "order"     // others of its ordering key go first
	LeftDelivered Left = "delivered" // the receiver has it, and the retry did not name it
	LeftExpired   Left = "expired"   // its expires_at has passed
	LeftDisabled  Left = "disabled"  // its endpoint is disabled
	LeftDeleted   Left = "deleted"   // its endpoint was deleted
)

// Lefts lists the reasons why a retry leaves a delivery.
func Lefts() []Left {
	return []Left{LeftReady, LeftInFlight, LeftOrder, LeftDelivered, LeftExpired, LeftDisabled, LeftDeleted}
}

// Retried is the state of a delivery after a retry was asked for.
type Retried struct {
	Delivery
	Left Left // why it was left as it was
}

// MessageView is a message with its deliveries, as the queue returns it.
type MessageView struct {
	Message    Message
	Deliveries []Delivery
	// Incomplete reports that the archive did not answer. Deliveries, attempts and the body may be
	// missing if the store deleted them.
	Incomplete bool
}
