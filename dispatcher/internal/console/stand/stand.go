// Package stand says in a sentence how a lane stands, and what lets it go on.
package stand

import (
	"fmt"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

// Sentence is how a lane stands.
type Sentence struct {
	Text  string    // empty: there is nothing to say
	Until wire.Time // when it goes on by itself; zero: it does not, or that is not known
	Cure  string    // what a person can do; empty: nothing need be done
	Act   bool      // somebody must act: nothing goes there by itself

	Pauses, Resumes bool // what the visitor can make of it
}

// Of says how an endpoint's lane stands; link: to a merchant's people.
func Of(l wire.LaneState, e wire.EndpointView, link bool) Sentence {
	switch e.State {
	case "disabled":
		l.State, l.Why = e.State, e.DisabledReason
	case "paused", "unverified":
		l.State = e.State
	}
	return Lane(l, link)
}

// Lane says how a lane stands; link: to a merchant's people.
func Lane(l wire.LaneState, link bool) Sentence {
	s := sentence(l, link)
	held := l.State == "paused" || l.State == "disabled"
	s.Pauses = !held && l.State != "deleted" && l.State != "unverified"
	s.Resumes = held || l.State == "unverified" && !link || l.State == "open" || l.State == "failing" || l.Why == "retry_after"
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
		return Sentence{Text: "Its URL was set by a link and waits for a successful test. What is published for it waits, and nothing is lost.", Cure: "Send a test: when the receiver takes it, what is due goes out, and the others at their next attempt.", Act: true}
	case "disabled":
		return disabled(l.Why, link)
	case "deleted":
		return Sentence{Text: "Its endpoint was deleted. What waited for it was cancelled."}
	case "open":
		return Sentence{
			Text:  fmt.Sprintf("Its breaker is open after %s in a row: nothing is sent but one attempt now and then, and the first success closes it.", many(l.Fails, "failure")),
			Until: l.Until, Cure: "Mend the receiver, then press Resume or Send a test; or wait for the next attempt.",
		}
	case "failing":
		return Sentence{Text: "No attempt succeeded for a while. Each delivery goes on climbing its ladder.", Until: l.Until, Cure: "Mend the receiver. Then send what waits now, or let each wait for its next attempt."}
	case "limited":
		return limited(l, link)
	}
	return Sentence{}
}

func paused(l wire.LaneState, link bool) Sentence {
	s := Sentence{Text: "It is paused. What is published for it waits, and nothing is lost.", Cure: "Press Resume to let it go on.", Act: true}
	switch {
	case l.Why == "all" && link:
		s.Text, s.Cure = "All deliveries are paused by the operator. What is published waits, and nothing is lost.", ""
	case l.Why == "all":
		s.Text, s.Cure = "Everything is paused. What is published waits, and nothing is lost.", "“Resume all” in System lets all of them go on."
	case l.By != "":
		s.Text = fmt.Sprintf("It is paused, by %s. What is published for it waits, and nothing is lost.", l.By)
	}
	return s
}

// disabled says why an endpoint is disabled.
func disabled(why string, link bool) Sentence {
	const after, cure = " What matches it is recorded as dead, without an attempt.", "Press Resume, and then replay what died meanwhile."
	switch {
	case why == "gone":
		return Sentence{Text: "Its receiver answered 410 Gone, so it was disabled." + after, Cure: "If it is back: " + cure, Act: true}
	case why == "failing":
		return Sentence{Text: "It was disabled, since no attempt succeeded for too long." + after, Cure: "Mend the receiver. " + cure, Act: true}
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
			s.Cure = "Start all instances with the same ENCRYPTION_KEY; hookladder doctor tells which can't."
		}
	case "missing":
		s.Text, s.Act = "Its endpoint is not there.", true
		if !link {
			s.Cure = "hookladder doctor tells what is wrong."
		}
	}
	return s
}

// many is a number of things.
func many(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
