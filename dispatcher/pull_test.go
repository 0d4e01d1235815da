package dispatcher_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/ladder"
)

func TestWhatATakerSaysIsJudgedWithoutBlame(t *testing.T) {
	steps, err := ladder.New(15*time.Second, 3*time.Minute)
	require.NoError(t, err)
	now := time.Unix(1_700_000_000, 0)
	after := func(d time.Duration) *time.Duration { return &d }
	plain := dispatcher.Case{Rung: 1, Ladder: steps, Now: now}
	with := func(change func(*dispatcher.Case)) dispatcher.Case {
		c := plain
		change(&c)
		return c
	}
	retry := dispatcher.Handled{Verdict: dispatcher.Retry, Error: "no stock"}
	snoozed := func(d time.Duration) dispatcher.Handled {
		return dispatcher.Handled{Verdict: dispatcher.Snoozed, After: &d}
	}
	later := func(d time.Duration) dispatcher.Handled {
		h := retry
		h.After = after(d)
		return h
	}
	for name, c := range map[string]struct {
		of     dispatcher.Case
		h      dispatcher.Handled
		is     dispatcher.Verdict
		wait   time.Duration
		reason dispatcher.DeadReason
		class  dispatcher.Class
	}{
		"delivered": {of: plain, h: dispatcher.Handled{Verdict: dispatcher.Delivered, Error: "no matter"}, is: dispatcher.Delivered},
		"a retry climbs": {
			of: plain, h: retry,
			is: dispatcher.Retry, wait: 15 * time.Second, class: dispatcher.ClassHandler,
		},
		"with jitter": {
			of: with(func(c *dispatcher.Case) { c.Rung, c.Jitter, c.Random = 2, 0.5, 0.5 }), h: retry,
			is: dispatcher.Retry, wait: 225 * time.Second, class: dispatcher.ClassHandler,
		},
		"a wait of its own has none": {
			of: with(func(c *dispatcher.Case) { c.Jitter, c.Random = 1, 0.5 }), h: later(time.Second),
			is: dispatcher.Retry, wait: time.Second, class: dispatcher.ClassHandler,
		},
		"it may be none":   {of: plain, h: later(0), is: dispatcher.Retry, class: dispatcher.ClassHandler},
		"and is no credit": {of: plain, h: later(-time.Hour), is: dispatcher.Retry, class: dispatcher.ClassHandler},
		"at most a year":   {of: plain, h: later(2 * ladder.MaxDuration), is: dispatcher.Retry, wait: ladder.MaxDuration, class: dispatcher.ClassHandler},
		"the last rung ends it, whatever it asks for": {
			of: with(func(c *dispatcher.Case) { c.Rung = 3 }), h: later(time.Second),
			is: dispatcher.Dead, reason: dispatcher.ReasonExhausted, class: dispatcher.ClassHandler,
		},
		"max_attempts cuts the ladder": {
			of: with(func(c *dispatcher.Case) { c.MaxAttempts = 1 }), h: retry,
			is: dispatcher.Dead, reason: dispatcher.ReasonExhausted, class: dispatcher.ClassHandler,
		},
		"too late for expires_at": {
			of: with(func(c *dispatcher.Case) { c.ExpiresAt = now.Add(time.Minute) }), h: later(time.Minute),
			is: dispatcher.Dead, reason: dispatcher.ReasonExpired, class: dispatcher.ClassHandler,
		},
		"beside the ladder it waits on": {
			of: with(func(c *dispatcher.Case) { c.Rung, c.WaitsOn = 3, now.Add(time.Hour) }), h: retry,
			is: dispatcher.Retry, wait: 3 * time.Minute, class: dispatcher.ClassHandler, // the queue keeps the time
		},
		"rejected": {
			of: plain, h: dispatcher.Handled{Verdict: dispatcher.Dead},
			is: dispatcher.Dead, reason: dispatcher.ReasonRejected, class: dispatcher.ClassHandler,
		},
		"snoozed": {of: plain, h: snoozed(time.Hour), is: dispatcher.Snoozed, wait: time.Hour},
		"snoozed on the last rung, which it does not use": {
			of: with(func(c *dispatcher.Case) { c.MaxAttempts = 1 }), h: snoozed(0), is: dispatcher.Snoozed,
		},
		"snoozed for too long": {of: plain, h: snoozed(2 * ladder.MaxDuration), is: dispatcher.Snoozed, wait: ladder.MaxDuration},
		"snoozed past expires_at": {
			of: with(func(c *dispatcher.Case) { c.ExpiresAt = now.Add(time.Minute) }), h: snoozed(time.Minute),
			is: dispatcher.Dead, reason: dispatcher.ReasonExpired, class: dispatcher.ClassExpired,
		},
		"its lease ended": {
			of: plain, h: dispatcher.Handled{Verdict: dispatcher.Retry, Class: dispatcher.ClassLease},
			is: dispatcher.Retry, wait: 15 * time.Second, class: dispatcher.ClassLease,
		},
	} {
		c.h.At = now.Add(-2 * time.Second)
		o := dispatcher.JudgeHandled(c.of, c.h)
		require.Equal(t, c.is, o.Verdict, name)
		require.Equal(t, c.wait, o.Wait, name)
		require.Equal(t, c.reason, o.Reason, name)
		require.Equal(t, c.class, o.Class, name)
		require.Equal(t, c.class != dispatcher.ClassNone, o.Error != "", name)
		require.Equal(t, 2*time.Second, o.Duration, name)
		require.False(t, o.Blame || o.Fails, name)
		require.Zero(t, o.Pause, name)
		require.Zero(t, o.Status, name)
	}
}

func TestTheTextOfAFailureIsBoundedAndIsText(t *testing.T) {
	h := dispatcher.Handled{Verdict: dispatcher.Dead, Error: strings.Repeat("ä", 5000)}
	o := dispatcher.JudgeHandled(dispatcher.Case{}, h)
	require.Equal(t, strings.Repeat("ä", 2048), o.Error)
	h.Error = "a" + h.Error // the bound is in the middle of a character
	require.Equal(t, "a"+strings.Repeat("ä", 2047), dispatcher.JudgeHandled(dispatcher.Case{}, h).Error)
	h.Error = "panic: no stock\n\tat 5\r\x1b]0;PWN\x07\u009b2J\u202e\u3000\xff"
	require.Equal(t, "panic: no stock\n\tat 5\\u{d}\\u{1b}]0;PWN\\u{7}\\u{9b}2J\\u{202e}\u3000\\u{fffd}", dispatcher.JudgeHandled(dispatcher.Case{}, h).Error)
}
