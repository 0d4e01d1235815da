package explain

import (
	"cmp"
	"fmt"
	"strings"
)

// waits returns the meaning of waiting_for, and the cure.
func (f Facts) waits() (how, cure string) {
	d := f.Delivery
	switch d.WaitingFor {
	case "due":
		return "waits for its time" + f.until(d.NextAttemptAt), f.retry("attempts it now")
	case "rung":
		return fmt.Sprintf("waits%s for attempt %s, since attempt %d failed%s%s", f.until(d.NextAttemptAt), f.next(), d.Attempts, f.answer(), f.failing()), f.advised("", f.retry("attempts it now"))
	case "paused":
		return f.paused()
	case "breaker":
		return f.breaker()
	case "retry_after":
		return "waits" + f.until(d.WaitingUntil) + ", since " + f.place() + " asked for that with Retry-After", f.resume("tries now")
	case "rate":
		return "waits for its turn" + f.rate(), f.update("--rate N/s", "changes the rate")
	case "sealed":
		return "waits" + f.until(d.WaitingUntil) + ", since an instance can't open its endpoint " + f.place() +
			", or the headers of a message to it, with its ENCRYPTION_KEY, or read it", "give every instance the key with which they were stored"
	case "missing":
		return "waits" + f.until(d.WaitingUntil) + ", since its endpoint is not in the store and was not deleted",
			"`hookladder doctor` looks for what else is missing, " + f.cancel()
	case "egress":
		return f.egress()
	case "order":
		return f.order()
	case "turn":
		return "waits for its turn" + f.until(d.WaitingUntil), ""
	case "limit":
		return f.limit()
	case "permits":
		return f.permits()
	case "consumer":
		from := cmp.Or(f.Queue, d.Destination)
		return "waits until a program takes it from " + f.place(),
			"start one that handles it, or take it over HTTP: `POST /v1/queues/" + from + "/take`"
	}
	if d.WaitingFor == "" && f.For != Merchant { // each unfinished delivery in the store waits for something
		return "has not finished, and only the archive has it", "`hookladder restore` puts it into Redis again"
	}
	return "waits" + f.until(d.WaitingUntil), ""
}

// next returns the number of the next attempt, of how many. After a retry by hand the ladder
// counts anew, and both numbers are there.
func (f Facts) next() string {
	d := f.Delivery
	switch {
	case d.Ladder == nil || d.Ladder.Len() == 0:
		return fmt.Sprint(d.Attempts + 1)
	case d.Rung != d.Attempts:
		return fmt.Sprintf("%d (%d of %d of its ladder)", d.Attempts+1, d.Rung+1, d.Ladder.Len()+1)
	}
	return fmt.Sprintf("%d of %d", d.Rung+1, d.Ladder.Len()+1)
}

func (f Facts) paused() (how, cure string) {
	own := f.at("its own time is", f.Delivery.NextAttemptAt)
	if own != "" {
		own = " (" + own[1:] + ")"
	}
	switch {
	case f.Lane.Why == "all" && f.For == Merchant:
		return "waits since all sending is paused for the moment" + own, ""
	case f.Lane.Why == "all":
		return "waits since every destination is paused" + f.since() + own, f.resumeAll()
	case f.Lane.Why == "unverified":
		return "waits until a test of " + f.place() + " succeeds, since a link set its URL" + f.at("at", f.Lane.Since) + own, f.verify()
	case f.Lane.State != "paused": // it was resumed between the two calls of the API
		return "waits since " + f.place() + " was paused" + own, ""
	}
	return "waits since " + f.place() + " is paused" + f.since() + own, f.resume("lets it go on")
}

func (f Facts) breaker() (how, cure string) {
	if d := f.Delivery; !d.WaitingUntil.IsZero() {
		return "waits for the breaker of " + f.place() + f.until(d.WaitingUntil) + f.failures(), f.advised("", f.resume("tries now"))
	}
	return "waits while one attempt tries whether " + f.place() + " answers again, whose breaker is open" + f.failures(), f.resume("tries all")
}

// failures returns the failures that opened the breaker.
func (f Facts) failures() string {
	text := ""
	if f.Lane.Fails > 0 {
		text = ", after " + times(f.Lane.Fails, "failure", "failures in a row") + f.at("since", f.Lane.Since)
	}
	if f.Delivery.LastError != "" {
		text += ", its own last: " + f.Delivery.LastError
	} else if last := f.Lane.LastFailure; last != nil {
		text += ", the last: " + cmp.Or(last.Error, last.Class) + f.at("at", last.At)
	}
	return text
}

// failing returns a clause if the lane has failed for FAILING_AFTER.
func (f Facts) failing() string {
	if f.Lane.State != "failing" {
		return ""
	}
	return ", and no attempt at " + f.place() + " succeeded" + f.at("since", f.Lane.Since)
}

func (f Facts) rate() string {
	text := f.until(f.Delivery.WaitingUntil)
	if f.Lane.Rate != "" {
		text += fmt.Sprintf(": %s gets %s, and %d wait", f.place(), f.Lane.Rate, f.Lane.Waiting)
	}
	return text
}

// order returns the cause of the wait behind other deliveries, with the state of the lane that
// delays the first one.
func (f Facts) order() (how, cure string) {
	text := "waits behind others of its ordering key"
	if n := f.Delivery.WaitingBehind; n > 0 {
		text = "waits behind " + times(n, "that goes first", "that go first")
	}
	switch f.Lane.State {
	case "paused":
		f.Delivery.WaitingFor = "paused"
		reason, cure := f.paused()
		return text + ", and" + strings.TrimPrefix(reason, "waits since"), cure
	case "failing":
		if f.Lane.Opened == 0 {
			return text + f.failing(), f.hurry()
		}
		fallthrough
	case "open":
		return text + ", and the breaker of " + f.place() + " is open" + f.until(f.Lane.Until) + f.failures(), f.resume("tries now")
	case "limited":
		if !f.Lane.Until.IsZero() {
			return text + ", and " + f.place() + " gets nothing" + f.until(f.Lane.Until), ""
		}
	}
	return text + " to " + f.place(), f.hurry()
}

// hurry returns the cure for a delivery behind others.
func (f Facts) hurry() string {
	if f.For == Terminal {
		return "it goes when they have ended, and `hookladder retry` or `cancel` of the first hurries that"
	}
	return "it goes when they have ended"
}

// egress reports that the dispatcher's own network failed. It returns no cure for a merchant,
// because a merchant can't change that.
func (f Facts) egress() (how, cure string) {
	how = "waits" + f.until(f.Delivery.WaitingUntil) + ", since the dispatcher's own network failed; " + f.place() + " is not to blame"
	if f.For == Merchant {
		return how, ""
	}
	return how, "the log says whether its resolver, its route or its proxy failed; once that works, all that waits is attempted at once"
}

func (f Facts) limit() (how, cure string) {
	l := f.Lane
	if l.Ordered {
		return "waits for the attempt under way: " + f.place() + " gets one at a time (ordered)", ""
	}
	if f.pull() {
		more := cmp.Or(f.update("--max-in-flight N", "allows more"), "a larger ENDPOINT_MAX_IN_FLIGHT allows more")
		return fmt.Sprintf("waits for one that was taken to be settled: of %s as many are taken as may be, %d", f.place(), l.InFlight), more
	}
	how = "waits for an attempt under way to end: " + f.place() + " has as many as it may"
	if l.Window > 0 {
		how += fmt.Sprintf(", %d", l.Window)
	}
	if l.MaxInFlight > 0 && l.Window >= l.MaxInFlight {
		return how, f.update("--max-in-flight N", "allows more")
	}
	return how, "each success allows one more"
}

func (f Facts) permits() (how, cure string) {
	used, all := 0, 0
	for _, i := range f.Instances {
		used, all = used+i.InFlight, all+i.Permits
	}
	switch {
	case len(f.Instances) > 0 && all == 0:
		return "waits, since no instance delivers", "start `hookladder serve` with a MAX_IN_FLIGHT above 0"
	case used < all:
		return fmt.Sprintf("is due, and an instance takes it next: %d of at most %d attempts are under way", used, all),
			"`hookladder doctor` finds what holds it up if it waits for long"
	case all > 0:
		how = fmt.Sprintf("is due and waits for the concurrency limit: %d of at most %d attempts are under way", used, all)
	default:
		how = "is due and waits for the concurrency limit"
	}
	return how, "more instances, or a larger MAX_IN_FLIGHT, attempt more at once"
}
