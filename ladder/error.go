package ladder

import (
	"fmt"
	"time"
	"unicode/utf8"
)

// accepted ends every error about a text, so that its author need not read the manual.
const accepted = "use a duration such as 15s, 1h30m or 1d, or a number of seconds such as 0.5"

// tooLong is the reason for a duration above MaxDuration.
const tooLong = "longer than 365 days"

// maxText is how many bytes of a bad text an error repeats. The longest useful duration
// is far shorter.
const maxText = 40

// Error says which duration was refused, and why.
type Error struct {
	Rung int    // its position in the ladder, from 1; 0: it is not part of a ladder
	Text string // the text that was parsed
	Why  string // the reason
}

// Error returns one sentence with the cure.
func (e *Error) Error() string {
	what := "duration"
	if e.Rung > 0 {
		what = fmt.Sprintf("rung %d", e.Rung)
	}
	return fmt.Sprintf("%s %q: %s; %s", what, shorten(e.Text), e.Why, accepted)
}

// shorten cuts a long text at the start of a character.
func shorten(s string) string {
	if len(s) <= maxText {
		return s
	}
	cut := maxText
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}

func tooMany(n int) error {
	return fmt.Errorf("ladder has %d rungs; at most %d are accepted", n, MaxRungs)
}

// outOfRange returns why d is too short or too long, or "".
func outOfRange(d time.Duration) string {
	switch {
	case d < 0:
		return "negative"
	case d > MaxDuration:
		return tooLong
	default:
		return ""
	}
}
