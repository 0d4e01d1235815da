package redisqtest

import (
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// The outcomes that cases settle with. Each is of the claimed attempt.

// Success returns a 200 within 10 ms.
func Success(c dispatcher.Claimed) dispatcher.Settlement {
	return Answered(c, dispatcher.Delivered, 200)
}

// Failure returns a quick 500 with a wait until the next attempt.
func Failure(c dispatcher.Claimed, wait time.Duration) dispatcher.Settlement {
	s := Answered(c, dispatcher.Retry, 500)
	s.Wait = wait
	s.Attempt.Class, s.Attempt.Error = dispatcher.ClassStatus, "answered 500"
	return s
}

// Silence returns an attempt without a response in 15 s, a timeout.
func Silence(c dispatcher.Claimed, wait time.Duration) dispatcher.Settlement {
	s := Answered(c, dispatcher.Retry, 0)
	s.Wait = wait
	s.Attempt.Duration = 15 * time.Second
	s.Attempt.Class, s.Attempt.Error = dispatcher.ClassTimeout, "no answer within 15s"
	return s
}

// Death returns a response after which no attempt is made.
func Death(c dispatcher.Claimed, reason dispatcher.DeadReason) dispatcher.Settlement {
	s := Answered(c, dispatcher.Dead, 410)
	s.Reason = reason
	s.Attempt.Class, s.Attempt.Error = dispatcher.ClassStatus, "answered 410"
	return s
}

// HandBack returns a claim without an attempt.
func HandBack(c dispatcher.Claimed) dispatcher.Settlement {
	return dispatcher.Settlement{ID: c.ID, Verdict: dispatcher.Back, Due: c.Due, Leased: c.Leased}
}

// Snooze returns a claim whose handler lets it wait.
func Snooze(c dispatcher.Claimed, wait time.Duration) dispatcher.Settlement {
	return dispatcher.Settlement{ID: c.ID, Verdict: dispatcher.Snoozed, Wait: wait, Leased: c.Leased}
}

// Answered returns an attempt with an HTTP status.
func Answered(c dispatcher.Claimed, v dispatcher.Verdict, status int) dispatcher.Settlement {
	return dispatcher.Settlement{
		ID: c.ID, Verdict: v, First: c.Attempt == 1, Leased: c.Leased,
		Attempt: dispatcher.Attempt{
			Number: c.Attempt, At: c.Due, Duration: 10 * time.Millisecond, Status: status, Verdict: v,
		},
	}
}

// Took sets the duration of an attempt.
func Took(s dispatcher.Settlement, d time.Duration) dispatcher.Settlement {
	s.Attempt.Duration = d
	return s
}

// Blamed makes the receiver responsible for a failure, so that its breaker
// counts it.
func Blamed(s dispatcher.Settlement) dispatcher.Settlement {
	s.Blame = true
	return s
}

// Paused returns a 429 that asks for a pause.
func Paused(c dispatcher.Claimed, wait, pause time.Duration) dispatcher.Settlement {
	s := Answered(c, dispatcher.Retry, 429)
	s.Wait, s.Pause = wait, pause
	s.Attempt.Class, s.Attempt.Error = dispatcher.ClassStatus, "answered 429"
	return s
}

// Refusal returns the death of a delivery that may not be attempted, without an
// attempt.
func Refusal(c dispatcher.Claimed) dispatcher.Settlement {
	s := Death(c, dispatcher.ReasonRefused)
	s.Attempt = dispatcher.Attempt{Class: dispatcher.ClassRefused}
	return s
}
