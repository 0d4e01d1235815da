package dispatcher

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Rate is how many attempts may begin in a time. The zero Rate is no bound.
type Rate struct {
	Count int
	Per   time.Duration // a second, a minute or an hour
}

// maxRate is the most attempts a second that a rate may name: twice what one
// core sends, and an interval that is still whole microseconds.
const maxRate = 100_000

var errRate = errors.New("is not a rate: write 100/s, 600/m or 50/h")

// units of a rate, by their letter.
var rateUnits = map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}

// ParseRate reads <count>/<unit>, as in 100/s, 600/m or 50/h.
func ParseRate(text string) (Rate, error) {
	count, unit, ok := strings.Cut(text, "/")
	per := rateUnits[unit]
	n, err := strconv.Atoi(count)
	if !ok || per == 0 || err != nil || strings.HasPrefix(count, "+") {
		return Rate{}, errRate
	}
	if n < 1 || n > maxRate {
		return Rate{}, fmt.Errorf("must be between 1 and %d a time", maxRate)
	}
	return Rate{Count: n, Per: per}, nil
}

// IsZero reports whether there is no bound.
func (r Rate) IsZero() bool { return r.Count == 0 }

// Interval is the time between two attempts, in whole microseconds; 0: no bound.
func (r Rate) Interval() time.Duration {
	if r.IsZero() {
		return 0
	}
	return (r.Per / time.Duration(r.Count)).Truncate(time.Microsecond)
}

// String is the rate as ParseRate reads it; empty for no bound.
func (r Rate) String() string {
	for unit, per := range rateUnits {
		if per == r.Per {
			return strconv.Itoa(r.Count) + "/" + unit
		}
	}
	return ""
}
