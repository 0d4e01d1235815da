package conn

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

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
