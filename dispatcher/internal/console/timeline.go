package console

import (
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/ladder"
)

// mostLeft is how many attempts that may come are drawn behind the next one.
const mostLeft = 12

// TimelineStep is one row of a ladder.
type TimelineStep struct {
	Knob    Knob
	Rung    template.HTML // its picture
	Ahead   bool          // it was not reached yet
	N       int           // of the attempt; 0: it is none
	Wait    time.Duration // below it; 0: unknown
	Attempt *wire.Attempt // nil: it was not made, or is not kept
	At      wire.Time
	Text    string
	Open    bool // its answer is shown at once
}

// TimelineDelivery is a delivery to draw.
type TimelineDelivery struct {
	wire.Delivery
	Accepted wire.Time // its message
	Now      time.Time
	Masked   bool // for a merchant's people: nothing of our inside
}

// TimelineSteps are the rows of a delivery's ladder, the newest first, down to where its message
// was accepted.
func TimelineSteps(d TimelineDelivery) []TimelineStep {
	b := &builder{TimelineDelivery: d}
	b.add(TimelineStep{Knob: Ground, At: d.Accepted, Text: "Accepted"})
	b.made()
	switch dispatcher.Status(d.Status) {
	case dispatcher.StatusDelivered, dispatcher.StatusDead, dispatcher.StatusCancelled:
		b.ended()
	case dispatcher.StatusScheduled, dispatcher.StatusReady, dispatcher.StatusInFlight, dispatcher.StatusRetrying:
		b.next()
		b.left()
	default:
		b.add(TimelineStep{Knob: Bare, Text: d.Status})
	}
	slices.Reverse(b.steps)
	return b.steps
}

// builder makes steps, the oldest first.
type builder struct {
	TimelineDelivery
	steps []TimelineStep
}

func (b *builder) add(s TimelineStep) {
	s.Rung = Rung(s.Knob, s.Wait)
	b.steps = append(b.steps, s)
}

// waits returns the ladder in force.
func (b *builder) waits() ladder.Ladder {
	if b.Ladder == nil {
		return ladder.Ladder{}
	}
	return *b.Ladder
}

// made adds the attempts that were made, as far as they are kept.
func (b *builder) made() {
	kept := b.Attempts + 1
	if len(b.History) > 0 {
		kept = b.History[0].Attempt
	} else if b.Status == "delivered" {
		kept = b.Attempts
	}
	switch {
	case kept == 2:
		b.add(TimelineStep{Knob: Bare, Text: "Attempt 1 is not kept"})
	case kept > 2:
		b.add(TimelineStep{Knob: Bare, Text: fmt.Sprintf("Attempts 1–%d are not kept", kept-1)})
	}
	last := b.lastFailure()
	for i := range b.History {
		a := b.History[i]
		b.anew(a.Attempt)
		if b.Masked {
			a = masked(a)
		}
		b.add(TimelineStep{Knob: knobOf(a.Outcome), N: a.Attempt, Wait: b.waitBefore(i), Attempt: &a, At: a.At, Text: AttemptWords(a), Open: i == last})
	}
}

// anew adds a row if a new ladder began with attempt n, because a person sent the delivery
// again.
func (b *builder) anew(n int) {
	if n > 1 && n == b.LadderFrom {
		b.add(TimelineStep{Knob: Bare, Text: "Sent again: a new ladder"})
	}
}

// lastFailure is the newest attempt that failed with an answer or an error to show.
func (b *builder) lastFailure() int {
	for i := len(b.History) - 1; i >= 0; i-- {
		if a := b.History[i]; a.Outcome != "delivered" {
			if a.ResponseExcerpt == "" {
				return -1
			}
			return i
		}
	}
	return -1
}

// waitBefore is the wait before an attempt: the planned one, or less if a person asked for the
// attempt.
func (b *builder) waitBefore(i int) time.Duration {
	a := b.History[i]
	if i == 0 {
		if wait := a.At.Sub(b.Accepted.Time); a.Attempt == 1 && !b.Accepted.IsZero() && wait >= time.Second {
			return wait
		}
		return 0
	}
	before := b.History[i-1]
	end := before.At.Add(time.Duration(before.DurationMS) * time.Millisecond)
	wait := a.At.Sub(end)
	if planned := before.NextAttemptAt.Sub(end); !before.NextAttemptAt.IsZero() && planned < wait {
		wait = planned
	}
	return b.rung(max(wait, 0))
}

// rung returns the wait of the ladder for a measured wait, which is longer by the time of
// settling the attempt.
func (b *builder) rung(measured time.Duration) time.Duration {
	l := b.waits()
	for n := 1; n <= l.Len(); n++ {
		if wait, _ := l.Next(n); measured >= wait && measured <= wait+wait/50+time.Second {
			return wait
		}
	}
	return measured
}

// ended adds the end of a delivery, if it was not an attempt.
func (b *builder) ended() {
	var last *wire.Attempt
	if n := len(b.History); n > 0 {
		last = &b.History[n-1]
	}
	switch {
	case b.Status == "cancelled":
		b.add(TimelineStep{Knob: Cancelled, At: b.EndedAt, Text: "Cancelled"})
	case b.Status == "delivered" && last == nil:
		a := wire.Attempt{Attempt: max(b.Attempts, 1), StatusCode: b.LastStatusCode, Outcome: "delivered"}
		b.add(TimelineStep{Knob: Delivered, N: a.Attempt, Attempt: &a, At: b.EndedAt, Text: "Its answer was not kept"})
	case b.Status == "dead" && (last == nil || last.Outcome != "dead"):
		b.add(TimelineStep{Knob: Dead, At: b.EndedAt, Text: "Dead: " + dispatcher.DeadReason(b.DeadReason).Means()})
	}
}

// next adds the attempt that comes, or is under way.
func (b *builder) next() {
	b.anew(b.Attempts + 1)
	s := TimelineStep{Knob: Next, N: b.Attempts + 1, At: b.NextAttemptAt, Ahead: true}
	if wait, ok := b.waits().Next(b.Rung); ok {
		s.Wait = wait
	} else if wait := s.At.Sub(b.Accepted.Time); b.Attempts == 0 && !s.At.IsZero() && wait >= time.Second {
		s.Wait = wait
	}
	if b.WaitingUntil.After(s.At.Time) {
		s.At = b.WaitingUntil
	}
	if b.Status == "in_flight" {
		s.Text, s.At = "under way", wire.Time{}
	} else {
		s.Text = b.waiting()
	}
	b.add(s)
}

// left adds what would come after it.
func (b *builder) left() {
	at, l := b.steps[len(b.steps)-1].At.Time, b.waits()
	if at.Before(b.Now) { // it waits for something else, for an unknown time
		at = time.Time{}
	}
	rest := l.Len() - b.Rung
	for i := range rest {
		wait, _ := l.Next(b.Rung + 1 + i)
		if !at.IsZero() {
			at = at.Add(wait)
		}
		if i < mostLeft {
			b.add(TimelineStep{Knob: Left, Ahead: true, N: b.Attempts + 2 + i, Wait: wait, At: wire.Time{Time: at}})
		}
	}
	if rest > mostLeft {
		b.add(TimelineStep{Knob: Bare, Ahead: true, At: wire.Time{Time: at}, Text: fmt.Sprintf("and %d more, the last", rest-mostLeft)})
	}
	if b.Ladder != nil {
		b.add(TimelineStep{Knob: Bare, Ahead: true, Text: "then dead"})
	}
}

func knobOf(outcome string) Knob {
	switch outcome {
	case "delivered":
		return Delivered
	case "dead":
		return Dead
	case "retry", "back":
		return Failed
	}
	return Bare
}

// AttemptWords describe the outcome of an attempt, after its status.
func AttemptWords(a wire.Attempt) string {
	switch {
	case a.Class == "body":
		return "its answer does not say success"
	case a.StatusCode != 0 && http.StatusText(a.StatusCode) != "":
		return http.StatusText(a.StatusCode)
	case a.StatusCode != 0:
		return "a status of its own"
	case a.Error != "":
		return a.Error
	case a.Class != "":
		return dispatcher.Class(a.Class).Means()
	case a.Outcome == "delivered":
		return "done"
	}
	return "no answer"
}

// masked is an attempt for a merchant. Errors of our own settings become a short clause.
func masked(a wire.Attempt) wire.Attempt {
	switch a.Class {
	case "refused", "internal", "lease", "handler":
		a.Error = dispatcher.Class(a.Class).Means()
		a.Address = ""
	}
	return a
}

// waits describe the cause of a wait, besides the time.
var waits = map[string]string{
	"due": "", "rung": "", "paused": "is paused", "breaker": "waits for the breaker", "retry_after": "as its receiver asked",
	"rate": "waits for its rate", "sealed": "waits for a key that opens its endpoint", "missing": "its endpoint is missing", "egress": "waits for our own network", "order": "others go first",
	"limit": "waits for another to end", "permits": "waits for a free slot", "consumer": "waits to be taken",
}

// insideReasons are waits for our own limits, which a merchant does not see.
var insideReasons = map[string]bool{"rate": true, "sealed": true, "missing": true, "limit": true, "permits": true, "consumer": true}

func (b *builder) waiting() string {
	if b.Masked && insideReasons[b.WaitingFor] {
		return "waits for its turn"
	}
	return waits[b.WaitingFor]
}

// short are the same causes for a list.
var short = map[string]string{
	"due": "next attempt", "rung": "next attempt", "paused": "paused", "breaker": "waits for the breaker", "retry_after": "its receiver asked to wait", "rate": "waits for its rate",
	"sealed": "waits for a key", "missing": "no endpoint", "egress": "our network failed", "order": "others go first", "limit": "waits for its limit", "permits": "waits for a free slot", "consumer": "waits to be taken",
}

// DeliveryStory says in a few words what happened to a delivery, and why it waits. The row has the time
// beside it. A word that this package does not know is shown as it is.
func DeliveryStory(d wire.Delivery, masked bool) string {
	switch dispatcher.Status(d.Status) {
	case dispatcher.StatusDelivered:
		if d.Attempts <= 1 {
			return "at the first attempt"
		}
		return fmt.Sprintf("at attempt %d", d.Attempts)
	case dispatcher.StatusDead:
		return join(failedOf(d), d.DeadReason)
	case dispatcher.StatusCancelled:
		return failedOf(d)
	case dispatcher.StatusInFlight:
		return join(failedOf(d), fmt.Sprintf("attempt %d", d.Attempts+1))
	case dispatcher.StatusScheduled, dispatcher.StatusReady, dispatcher.StatusRetrying:
		why := short[d.WaitingFor]
		if masked && insideReasons[d.WaitingFor] {
			why = "its turn"
		}
		return join(failedOf(d), why)
	}
	return d.Status
}

// failedOf says how many attempts of a delivery failed, and of how many on its present ladder.
func failedOf(d wire.Delivery) string {
	switch {
	case d.Attempts == 0:
		return ""
	case d.Ladder == nil || dispatcher.Status(d.Status).Ended():
		return fmt.Sprintf("%d failed", d.Attempts)
	}
	return fmt.Sprintf("%d of %d failed", d.Rung, d.Ladder.Len()+1)
}

// join joins two clauses; each may be empty.
func join(a, b string) string {
	if a != "" && b != "" {
		a += ", "
	}
	return a + b
}
