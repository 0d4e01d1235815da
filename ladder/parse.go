package ladder

import (
	"math"
	"strings"
	"time"
)

// Parse reads a ladder: durations as ParseDuration takes them, with a comma, a
// slash or white space between two. A text with nothing in it is the ladder
// without rungs. A comma or slash with no rung on one of its sides is refused:
// something is missing there, and it would shift all that follow.
func Parse(s string) (Ladder, error) {
	return parseItems(split(s))
}

// split cuts a text into rungs. An item is empty only where a comma or slash
// has nothing beside it, for ParseDuration to refuse by its place.
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
	var steps []time.Duration // stays nil for none, as New has it
	for i, item := range items {
		d, why := parseDuration(item)
		if why != "" {
			return Ladder{}, &Error{Rung: i + 1, Text: item, Why: why}
		}
		steps = append(steps, d)
	}
	return Ladder{steps: steps}, nil
}

// ParseDuration reads one duration: a Go duration (15s, 1h30m), which may count
// days too (1d, 1d12h), or a bare number of seconds, with a fraction if need be
// (10, 0.5). It refuses negative ones, exponents, white space, and anything above
// MaxDuration. What is finer than a nanosecond is cut off.
func ParseDuration(s string) (time.Duration, error) {
	d, why := parseDuration(s)
	if why != "" {
		return 0, &Error{Text: s, Why: why}
	}
	return d, nil
}

// parseDuration does the work of ParseDuration; why is empty when it succeeded.
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
		// Each part is at most MaxDuration, so that the sum can not overflow
		// before it is found too long.
		if sum += d; sum > MaxDuration {
			return 0, tooLong
		}
	}
	return sum, ""
}

// parsePart reads one number with its unit.
func parsePart(number, unit string) (d time.Duration, why string) {
	if !isNumber(number) {
		return 0, "not a duration"
	}
	size := time.Duration(1)
	switch unit {
	case "":
		return 0, "a number without its unit"
	case "d": // Go knows none, so it reads hours
		unit, size = "h", 24
	case "ns", "us", "µs", "μs", "ms", "s", "m", "h": // the micro sign and the Greek letter, as in Go
	default:
		return 0, "not a unit of time: " + shorten(unit)
	}
	d, err := time.ParseDuration(number + unit)
	if err != nil || d > math.MaxInt64/size || d*size > MaxDuration {
		return 0, tooLong // nothing else is left that could be wrong with it
	}
	return d * size, ""
}

// isNumber reports whether s is made of digits, with at most one dot among them.
// It leaves out signs, exponents, inf and NaN, which no wait needs.
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

// isDigit reports whether c belongs to a number, its dot included.
func isDigit(c byte) bool { return c == '.' || '0' <= c && c <= '9' }

// cutWhere cuts s before the first byte for which stop holds.
func cutWhere(s string, stop func(byte) bool) (head, tail string) {
	for i := range len(s) {
		if stop(s[i]) {
			return s[:i], s[i:]
		}
	}
	return s, ""
}
