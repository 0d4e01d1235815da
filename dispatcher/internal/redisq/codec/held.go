package codec

import (
	"fmt"
	"strings"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
)

// heldLetters maps the reason of a pause or an end to its letter in :limits and :held.
var heldLetters = map[dispatcher.Held]string{
	dispatcher.HeldNone: "-", dispatcher.HeldPaused: "p", dispatcher.HeldDisabled: "d", dispatcher.HeldDeleted: "x",
	dispatcher.HeldCut: "g",
}

// ParseHeld reads a text of :held:
//
//	letter of dispatcher.Held | ms of its begin | name of the key or system that asked for it
func ParseHeld(text string) (l dispatcher.HeldLane, ok bool) {
	var since int64
	letter, rest, _ := strings.Cut(text, " ")
	if n, err := fmt.Sscanf(rest, "%d %s", &since, &l.By); n == 0 || err != nil && l.By != "" {
		return l, false
	}
	l.Since = conn.FromMillis(since)
	for h, own := range heldLetters {
		if own == letter && h != dispatcher.HeldNone {
			l.Held = h
			return l, true
		}
	}
	return l, false
}
