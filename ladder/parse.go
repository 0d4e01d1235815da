package ladder

import (
	"math"
	"strings"
	"time"
)

// Parse parses a ladder: durations in the form of ParseDuration, separated by commas,
// slashes or white space. An empty text is the ladder without rungs. It returns an error
// for a comma or slash without a rung on both sides, because a missing rung would shift
// the others.
func Parse(s string) (Ladder, error) {
	return parseItems(split(s))
}

// split cuts a text into rungs. An item is empty only if a comma or slash has nothing
// beside it, so that ParseDuration reports its position.
func split(s string) []string {
	if strings.TrimSpace(s) == "" {
		return nil
	}
	var items []string
	for part := range strings.SplitSeq(strings.ReplaceAll(s, "/", ","), ",") {
		words := strings.Fields(part)
		if len(words) == 0 {
			words = []string{""}
		}
		items = append(items, words...)
	}
	return items
}

func parseItems(items []string) (Ladder, error) {
	if len(items) > MaxRungs {
		return Ladder{}, tooMany(len(items))
	}
	var steps []time.Duration // stays nil if there are none, as in New
	for i, item := range items {
		d, why := parseDuration(item)
		if why != "" {
			return Ladder{}, &Error{Rung: i + 1, Text: item, Why: why}
		}
		steps = append(steps, d)
	}
	return Ladder{steps: steps}, nil
}

// ParseDuration parses one duration: a Go duration (15s, 1h30m), which may also have days
// (1d, 1d12h), or a number of seconds with an optional fraction (10, 0.5). It returns an
// error for negative numbers, exponents, white space, and anything above MaxDuration. It
// truncates to nanoseconds.
func ParseDuration(s string) (time.Duration, error) {
	d, why := parseDuration(s)
	if why != "" {
		return 0, &Error{Text: s, Why: why}
	}
	return d, nil
}

// parseDuration does the work of ParseDuration. why is empty if it succeeded.
func parseDuration(s string) (sum time.Duration, why string) {
	switch {
	case s == "":
		return 0, "missing"
	case s[0] == '-':
		return 0, "negative"
	case isNumber(s):
		return parsePart(s, "s")
	}
	for rest := s; rest != ""; {
		number, unit := "", ""
		number, rest = cutWhere(rest, func(c byte) bool { return !isDigit(c) })
		unit, rest = cutWhere(rest, isDigit)
		d, why := parsePart(number, unit)
		if why != "" {
			return 0, why
		}
		// Each part is at most MaxDuration, so the sum can't overflow before it is found
		// too long.
		if sum += d; sum > MaxDuration {
			return 0, tooLong
		}
	}
	return sum, ""
}

// parsePart parses one number with its unit.
func parsePart(number, unit string) (d time.Duration, why string) {
	if !isNumber(number) {
		return 0, "not a duration"
	}
	size := time.Duration(1)
	switch unit {
	case "":
		return 0, "a number without its unit"
	case "d": // Go has no days, so parse hours
		unit, size = "h", 24
	case "ns", "us", "µs", "μs", "ms", "s", "m", "h": // the micro sign and the Greek letter, as in Go
	default:
		return 0, "not a unit of time: " + shorten(unit)
	}
	d, err := time.ParseDuration(number + unit)
	if err != nil || d > math.MaxInt64/size || d*size > MaxDuration {
		return 0, tooLong // no other mistake is possible here
	}
	return d * size, ""
}

// isNumber reports whether s has only digits, with at most one dot. It refuses signs,
// exponents, inf and NaN, because no wait needs them.
func isNumber(s string) bool {
	whole, fraction, _ := strings.Cut(s, ".")
	digits := whole + fraction
	if digits == "" {
		return false
	}
	for i := range len(digits) {
		if digits[i] < '0' || digits[i] > '9' {
			return false
		}
	}
	return true
}

// isDigit reports whether c belongs to a number, including its dot.
func isDigit(c byte) bool { return c == '.' || '0' <= c && c <= '9' }

// cutWhere cuts s before the first byte that stop reports.
func cutWhere(s string, stop func(byte) bool) (head, tail string) {
	for i := range len(s) {
		if stop(s[i]) {
			return s[:i], s[i:]
		}
	}
	return s, ""
}
