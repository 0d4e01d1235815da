package conn

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// laneNumbers is the number of numbers at the start of a text of :lane.
const laneNumbers = 9

var laneText = regexp.MustCompile(`^[0-9]+( [0-9]+){8}`)

// LaneWhole reports whether the scripts can read a text of :lane. Only they write and
// parse it; lua/lane_state.lua has its fields.
func LaneWhole(text string) bool {
	return laneText.MatchString(text) && numbersFit(text, laneNumbers)
}

// NumbersMost is 2^53. All our numbers are smaller, because Lua would round this one.
const NumbersMost = 1 << 53

// numbersFit reports whether the first numbers of a text are all small enough to be ours.
func numbersFit(text string, numbers int) bool {
	for i, word := range strings.Fields(text) {
		if n, err := strconv.ParseInt(word, 10, 64); i < numbers && (err != nil || n >= NumbersMost) {
			return false
		}
	}
	return true
}

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

// limitsPull ends a text of :limits if consumers take the deliveries of the lane.
const limitsPull = " t"

// LimitsMode returns the last words of a text of :limits: the letter of the mode, and
// whether consumers take the lane's deliveries.
func LimitsMode(h dispatcher.LaneMode, pull bool) string {
	word := modeLetters[h]
	if pull {
		word += limitsPull
	}
	return word
}

// ParseLimits reads a text of :limits:
//
//	version | most in flight | interval in µs | 1 for an ordered lane | letter of dispatcher.LaneMode | t
func ParseLimits(text string) (l dispatcher.LaneLimits, err error) {
	if text == "" {
		return l, nil
	}
	var micros, ordered int64
	var mode string
	if _, err := fmt.Sscanf(text, "%d %d %d %d %s", &l.Version, &l.MaxInFlight, &micros, &ordered, &mode); err != nil {
		return l, fmt.Errorf("limits %q: %w", text, ErrReply)
	}
	l.Interval, l.Ordered, l.Pull = time.Duration(micros)*time.Microsecond, ordered == 1, strings.HasSuffix(text, limitsPull)
	for h, letter := range modeLetters {
		if letter == mode {
			l.Mode = h
			return l, nil
		}
	}
	return l, fmt.Errorf("limits %q: %w", text, ErrReply)
}

var limitsText = regexp.MustCompile(`^[0-9]+ [0-9]+ [0-9]+ [01] [-pdxg]( t)?$`)

// LimitsWhole reports whether the scripts can read a text of :limits.
func LimitsWhole(text string) bool {
	_, err := ParseLimits(text)
	return err == nil && limitsText.MatchString(text) && numbersFit(text, 4)
}
