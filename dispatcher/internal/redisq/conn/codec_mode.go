package conn

import (
	"fmt"
	"strings"

	"github.com/hookladder/hookladder/dispatcher"
)

// modeLetters maps the mode of a lane to its letter in :limits and :held.
var modeLetters = map[dispatcher.LaneMode]string{
	dispatcher.LaneNormal: "-", dispatcher.LanePaused: "p", dispatcher.LaneDisabled: "d", dispatcher.LaneDeleted: "x",
	dispatcher.LaneCut: "g",
}

// ParseStopped reads a text of :held:
//
//	letter of dispatcher.LaneMode | ms of its begin | name of the key or system that asked for it
func ParseStopped(text string) (l dispatcher.StoppedLane, ok bool) {
	var since int64
	letter, rest, _ := strings.Cut(text, " ")
	if n, err := fmt.Sscanf(rest, "%d %s", &since, &l.By); n == 0 || err != nil && l.By != "" {
		return l, false
	}
	l.Since = FromMillis(since)
	for h, own := range modeLetters {
		if own == letter && h != dispatcher.LaneNormal {
			l.Mode = h
			return l, true
		}
	}
	return l, false
}
