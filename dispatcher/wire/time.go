package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"time"

	"github.com/hookladder/hookladder/ladder"
)

// timeLayout is RFC 3339 with milliseconds.
const timeLayout = "2006-01-02T15:04:05.000Z07:00"

var null = []byte("null")

// Time is a time as the API writes it: RFC 3339 in UTC with milliseconds. The
// zero time is null.
type Time struct {
	time.Time
}

// AppendTo appends the time as a JSON value to b.
func (t Time) AppendTo(b []byte) []byte {
	if t.IsZero() {
		return append(b, null...)
	}
	u := t.UTC()
	year, month, day := u.Date()
	if year < 0 || year > 9999 {
		b = append(b, '"')
		b = u.AppendFormat(b, timeLayout)
		return append(b, '"')
	}
	// This does the same as AppendFormat in a fifth of its time, because the response to each
	// message of a batch has two times.
	hour, minute, second := u.Clock()
	b = append(b, '"')
	b = append2(append2(b, year/100), year%100)
	b = append2(append(b, '-'), int(month))
	b = append2(append(b, '-'), day)
	b = append2(append(b, 'T'), hour)
	b = append2(append(b, ':'), minute)
	b = append2(append(b, ':'), second)
	ms := u.Nanosecond() / 1e6
	b = append2(append(b, '.', byte('0'+ms/100)), ms%100)
	return append(b, 'Z', '"')
}

// append2 appends two digits.
func append2(b []byte, n int) []byte { return append(b, byte('0'+n/10), byte('0'+n%10)) }

// MarshalJSON returns the time in UTC with milliseconds, or null for the zero time.
func (t Time) MarshalJSON() ([]byte, error) {
	return t.AppendTo(make([]byte, 0, len(timeLayout)+2)), nil
}

// UnmarshalJSON parses RFC 3339 with any offset. null is the zero time.
func (t *Time) UnmarshalJSON(b []byte) error {
	if bytes.Equal(b, null) {
		t.Time = time.Time{}
		return nil
	}
	return t.Time.UnmarshalJSON(b)
}

// Duration is a duration as the API writes it: "15s" or "1d", or a number of seconds.
type Duration time.Duration

// MarshalJSON returns the duration in units, without zero parts: "1d12h".
func (d Duration) MarshalJSON() ([]byte, error) {
	return strconv.AppendQuote(nil, ladder.FormatDuration(time.Duration(d))), nil
}

// UnmarshalJSON parses a text such as "15s" or "1d", or a number of seconds.
func (d *Duration) UnmarshalJSON(b []byte) error {
	parsed, err := ParseDuration(b)
	if err == nil {
		*d = Duration(parsed)
	}
	return err
}

// ParseDuration parses a JSON duration: a text such as "15s" or "1d", or a number of seconds with
// or without a fraction.
func ParseDuration(raw []byte) (time.Duration, error) {
	if len(raw) > 0 && raw[0] == '"' {
		var text string
		if err := json.Unmarshal(raw, &text); err != nil {
			return 0, err
		}
		return ladder.ParseDuration(text)
	}
	seconds, err := strconv.ParseFloat(string(raw), 64)
	if err != nil {
		return 0, errors.New(`must be a text such as "15s" or a number of seconds`)
	}
	// This is a hundred years: far above any wait, and far below an overflow.
	const most = 100 * 365 * 24 * 3600
	if !(seconds >= -most && seconds <= most) {
		return 0, errors.New("is out of range")
	}
	return time.Duration(math.Round(seconds * float64(time.Second))), nil
}
