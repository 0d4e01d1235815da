// Package lanestate describes the state of a lane in a sentence, with the action that resumes
// it. The console shows it on the pages of lanes, endpoints and messages.
package lanestate

import (
	"fmt"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

// Sentence is the state of a lane in words.
type Sentence struct {
	Text  string    // empty: the lane is healthy
	Until wire.Time // time when the lane continues by itself; zero: never, or unknown
	Cure  string    // the action of a person; empty: none is needed
	Act   bool      // a person must act, because nothing is sent automatically

	Pauses, Resumes bool // whether the visitor can pause or resume the lane
}

// Of describes the lane of an endpoint. With link the words are for a merchant.
func Of(l wire.LaneState, e wire.EndpointView, link bool) Sentence {
	switch e.State {
	case "disabled":
		l.State, l.Why = e.State, e.DisabledReason
	case "paused", "unverified":
		l.State = e.State
	}
	return Lane(l, link)
}

// Lane describes a lane. With link the words are for a merchant.
func Lane(l wire.LaneState, link bool) Sentence {
	s := sentence(l, link)
	stopped := l.State == "paused" || l.State == "disabled"
	s.Pauses = !stopped && l.State != "deleted" && l.State != "unverified"
	s.Resumes = stopped || l.State == "unverified" && !link || l.State == "open" || l.State == "failing" || l.Why == "retry_after"
	if l.Why == "all" || link && l.State == "disabled" && l.Why == "operator" {
		s.Resumes = false
	}
	return s
}

func sentence(l wire.LaneState, link bool) Sentence {
	switch l.State {
	case "paused":
		return paused(l, link)
	case "unverified":
		return Sentence{Text: "Its URL was set by a link and waits for a successful test. New messages for it wait, and nothing is lost.", Cure: "Send a test: if the receiver accepts it, due deliveries are sent now, and the others at their next attempt.", Act: true}
	case "disabled":
		return disabled(l.Why, link)
	case "deleted":
		return Sentence{Text: "Its endpoint was deleted. Its waiting deliveries were cancelled."}
	case "open":
		return Sentence{
			Text:  fmt.Sprintf("Its breaker is open after %s in a row: nothing is sent but one attempt now and then, and the first success closes it.", many(l.Fails, "failure")),
			Until: l.Until, Cure: "Mend the receiver, then press Resume or Send a test; or wait for the next attempt.",
		}
	case "failing":
		return Sentence{Text: "No attempt succeeded for a while. Each delivery continues on its ladder.", Until: l.Until, Cure: "Mend the receiver. Then send the waiting deliveries now, or let each wait for its next attempt."}
	case "limited":
		return limited(l, link)
	}
	return Sentence{}
}

func paused(l wire.LaneState, link bool) Sentence {
	s := Sentence{Text: "It is paused. New messages for it wait, and nothing is lost.", Cure: "Press Resume to let it go on.", Act: true}
	switch {
	case l.Why == "all" && link:
		s.Text, s.Cure = "All deliveries are paused by the operator. New messages wait, and nothing is lost.", ""
	case l.Why == "all":
		s.Text, s.Cure = "Everything is paused. New messages wait, and nothing is lost.", "“Resume all” in System lets all of them go on."
	case l.By != "":
		s.Text = fmt.Sprintf("It is paused, by %s. New messages for it wait, and nothing is lost.", l.By)
	}
	return s
}

// disabled explains why an endpoint is disabled.
func disabled(why string, link bool) Sentence {
	const after, cure = " Matching messages are recorded as dead, without an attempt.", "Press Resume, and then replay the deliveries that died meanwhile."
	switch {
	case why == "gone":
		return Sentence{Text: "Its receiver answered 410 Gone, so it was disabled." + after, Cure: "If it is back: " + cure, Act: true}
	case why == "failing":
		return Sentence{Text: "It was disabled, because no attempt succeeded for too long." + after, Cure: "Mend the receiver. " + cure, Act: true}
	case link:
		return Sentence{Text: "The operator disabled it." + after, Cure: "Ask them to enable it.", Act: true}
	}
	return Sentence{Text: "A person disabled it." + after, Cure: cure, Act: true}
}

func limited(l wire.LaneState, link bool) Sentence {
	s := Sentence{Until: l.Until}
	switch l.Why {
	case "retry_after":
		s.Text, s.Cure = "Its receiver asked for a break (Retry-After), which is kept.", "Press Resume to try at once."
	case "rate":
		s.Text = fmt.Sprintf("Its rate of %s is used up for now.", l.Rate)
		s.Until = wire.Time{} // it changes all the time
	case "egress":
		s.Text = "The dispatcher's own network failed. Its receiver is not to blame."
		if !link {
			s.Cure = "Look into the log: the resolver, the route or the proxy failed."
		}
	case "sealed":
		s.Text, s.Act = "An instance can't open its secrets.", true
		if !link {
			s.Cure = "Start all instances with the same ENCRYPTION_KEY; hookladder doctor lists those that can't."
		}
	case "missing":
		s.Text, s.Act = "Its endpoint is not there.", true
		if !link {
			s.Cure = "hookladder doctor reports the cause."
		}
	}
	return s
}

// many returns a number of things in words.
func many(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
