package queuetest

import (
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// The outcomes that cases settle with. Each is of the attempt that was claimed.

// success is a 200 within 10 ms.
func success(c dispatcher.Claimed) dispatcher.Settlement {
	return answered(c, dispatcher.Delivered, 200)
}

// failure is a quick 500 with a wait until the next attempt.
func failure(c dispatcher.Claimed, wait time.Duration) dispatcher.Settlement {
	s := answered(c, dispatcher.Retry, 500)
	s.Wait = wait
	s.Attempt.Class, s.Attempt.Error = dispatcher.ClassStatus, "answered 500"
	return s
}

// silence is an attempt that got no answer in 15 s.
func silence(c dispatcher.Claimed, wait time.Duration) dispatcher.Settlement {
	s := answered(c, dispatcher.Retry, 0)
	s.Wait = wait
	s.Attempt.Duration = 15 * time.Second
	s.Attempt.Class, s.Attempt.Error = dispatcher.ClassTimeout, "no answer within 15s"
	return s
}

// death is an answer after which no attempt is made.
func death(c dispatcher.Claimed, reason dispatcher.DeadReason) dispatcher.Settlement {
	s := answered(c, dispatcher.Dead, 410)
	s.Reason = reason
	s.Attempt.Class, s.Attempt.Error = dispatcher.ClassStatus, "answered 410"
	return s
}

// handBack returns a claim without an attempt.
func handBack(c dispatcher.Claimed) dispatcher.Settlement {
	return dispatcher.Settlement{ID: c.ID, Verdict: dispatcher.Back, Due: c.Due, Leased: c.Leased}
}

// answered is an attempt with an HTTP status.
func answered(c dispatcher.Claimed, v dispatcher.Verdict, status int) dispatcher.Settlement {
	return dispatcher.Settlement{
		ID: c.ID, Verdict: v, First: c.Attempt == 1, Leased: c.Leased,
		Attempt: dispatcher.Attempt{
			Number: c.Attempt, At: c.Due, Duration: 10 * time.Millisecond, Status: status, Verdict: v,
		},
	}
}

// took sets how long the answer of an outcome took.
func took(s dispatcher.Settlement, d time.Duration) dispatcher.Settlement {
	s.Attempt.Duration = d
	return s
}

// blamed makes the receiver responsible for a failure, so that its breaker
// counts it.
func blamed(s dispatcher.Settlement) dispatcher.Settlement {
	s.Blame = true
	return s
}

// paused is a 429 that asks for a pause.
func paused(c dispatcher.Claimed, wait, pause time.Duration) dispatcher.Settlement {
	s := answered(c, dispatcher.Retry, 429)
	s.Wait, s.Pause = wait, pause
	s.Attempt.Class, s.Attempt.Error = dispatcher.ClassStatus, "answered 429"
	return s
}

// refusal is the death of a delivery that may not be attempted, without an
// attempt.
func refusal(c dispatcher.Claimed) dispatcher.Settlement {
	s := death(c, dispatcher.ReasonRefused)
	s.Attempt = dispatcher.Attempt{Class: dispatcher.ClassRefused}
	return s
}
