package console

import (
	"fmt"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

// LaneSentence is the state of a lane in words.
type LaneSentence struct {
	Text  string    // empty: the lane is healthy
	Until wire.Time // time when the lane continues by itself; zero: never, or unknown
	Cure  string    // the action of a person; empty: none is needed
	Mark  string    // its colour: lost (new messages die until a person acts), held (a person holds them), or empty

	Pauses, Resumes bool // whether the visitor can pause or resume the lane
}

// EndpointSentence describes the lane of an endpoint. With link the words are for a merchant.
func EndpointSentence(l wire.LaneState, e wire.EndpointView, link bool) LaneSentence {
	switch e.State {
	case "disabled":
		l.State, l.Why = e.State, e.DisabledReason
	case "paused", "unverified":
		l.State = e.State
	}
	return SentenceOf(l, link)
}

// SentenceOf describes a lane. With link the words are for a merchant.
func SentenceOf(l wire.LaneState, link bool) LaneSentence {
	s := laneSentence(l, link)
	stopped := l.State == "paused" || l.State == "disabled"
	s.Pauses = !stopped && l.State != "deleted" && l.State != "unverified"
	s.Resumes = stopped || l.State == "unverified" && !link || l.State == "open" || l.State == "failing" || l.Why == "retry_after"
	if l.Why == "all" || link && l.State == "disabled" && l.Why == "operator" {
		s.Resumes = false
	}
	return s
}

func laneSentence(l wire.LaneState, link bool) LaneSentence {
	switch l.State {
	case "paused":
		return paused(l, link)
	case "unverified":
		return LaneSentence{Text: "Its URL was set by a link and waits for a successful test. New messages for it wait, and nothing is lost.", Cure: "Send a test: if the receiver accepts it, due deliveries are sent now, and the others at their next attempt.", Mark: "held"}
	case "disabled":
		return disabledLane(l.Why, link)
	case "deleted":
		return LaneSentence{Text: "Its endpoint was deleted. Its waiting deliveries were cancelled."}
	case "open":
		return LaneSentence{
			Text:  fmt.Sprintf("Its breaker is open after %s in a row: nothing is sent but one attempt now and then, and the first success closes it.", manyThings(l.Fails, "failure")),
			Until: l.Until, Cure: mend(l) + ", or wait for the next attempt.",
		}
	case "failing":
		return LaneSentence{Text: "No attempt succeeded for a while. Each delivery continues on its ladder.", Until: l.Until, Cure: mend(l) + ", or let each wait for its next attempt."}
	case "limited":
		return limited(l, link)
	}
	return LaneSentence{}
}

// mend returns what to do about a receiver that fails. Only endpoints have the button.
func mend(l wire.LaneState) string {
	if l.Endpoint == "" {
		return "Mend the receiver, then press Resume"
	}
	return "Mend the receiver, then press Try again now"
}

func paused(l wire.LaneState, link bool) LaneSentence {
	s := LaneSentence{Text: "It is paused. New messages for it wait, and nothing is lost.", Cure: "Press Resume to let it go on.", Mark: "held"}
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

// disabledLane explains why an endpoint is disabled.
func disabledLane(why string, link bool) LaneSentence {
	const after, cure = " Matching messages are recorded as dead, without an attempt.", "Press Resume, and then replay the deliveries that died meanwhile."
	switch {
	case why == "gone":
		return LaneSentence{Text: "Its receiver answered 410 Gone, so it was disabled." + after, Cure: "If it is back: " + cure, Mark: "lost"}
	case why == "failing":
		return LaneSentence{Text: "It was disabled, because no attempt succeeded for too long." + after, Cure: "Mend the receiver. " + cure, Mark: "lost"}
	case link:
		return LaneSentence{Text: "The operator disabled it." + after, Cure: "Ask them to enable it.", Mark: "lost"}
	}
	return LaneSentence{Text: "A person disabled it." + after, Cure: cure, Mark: "lost"}
}

func limited(l wire.LaneState, link bool) LaneSentence {
	s := LaneSentence{Until: l.Until}
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
		s.Text = "An instance can't open its secrets."
		if !link {
			s.Cure = "Start all instances with the same ENCRYPTION_KEY; hookladder doctor lists those that can't."
		}
	case "missing":
		s.Text = "Its endpoint is not there."
		if !link {
			s.Cure = "hookladder doctor reports the cause."
		}
	}
	return s
}

// manyThings returns a number of things in words.
func manyThings(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
