package ladder

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// String returns the canonical form, which Parse reads: rungs separated by commas, each
// as FormatDuration writes it. It is empty if there are no rungs.
func (l Ladder) String() string { return strings.Join(l.texts(), ",") }

func (l Ladder) texts() []string {
	texts := make([]string, len(l.steps))
	for i, step := range l.steps {
		texts[i] = FormatDuration(step)
	}
	return texts
}

// FormatDuration formats a duration as people write it: with days, and without the zero
// parts of time.Duration's form (1d12h, not 36h0m0s). ParseDuration reads it.
func FormatDuration(d time.Duration) string {
	b := make([]byte, 0, 24)
	rest := uint64(d)
	if d < 0 {
		b, rest = append(b, '-'), -rest
	}
	for _, unit := range []struct {
		long uint64
		name byte
	}{{uint64(day), 'd'}, {uint64(time.Hour), 'h'}, {uint64(time.Minute), 'm'}} {
		if n := rest / unit.long; n > 0 {
			b = append(strconv.AppendUint(b, n, 10), unit.name)
		}
		rest %= unit.long
	}
	if rest > 0 || d == 0 {
		b = append(b, time.Duration(rest).String()...)
	}
	return string(b)
}

// MarshalText returns the canonical form.
func (l Ladder) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText reads the forms of Parse.
func (l *Ladder) UnmarshalText(text []byte) error {
	parsed, err := Parse(string(text))
	if err != nil {
		return err
	}
	*l = parsed
	return nil
}

// MarshalJSON returns a list of texts, one for each rung.
func (l Ladder) MarshalJSON() ([]byte, error) { return json.Marshal(l.texts()) }

// errShape is the error for JSON of another shape.
var errShape = errors.New(`ladder: want a list such as ["15s", 180] or a text such as "15s,3m"`)

// UnmarshalJSON reads a list of texts and numbers, which are seconds, or one text in the
// form of Parse. As usual in JSON, null changes nothing.
func (l *Ladder) UnmarshalJSON(data []byte) error {
	data = bytes.TrimSpace(data)
	switch {
	case len(data) == 0:
		return errShape
	case string(data) == "null":
		return nil
	case data[0] == '"':
		var text string
		if err := json.Unmarshal(data, &text); err != nil {
			return fmt.Errorf("ladder: %w", err)
		}
		return l.UnmarshalText([]byte(text))
	case data[0] != '[':
		return errShape
	}
	var raw []json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return fmt.Errorf("ladder: %w", err)
	}
	if len(raw) > MaxRungs {
		return tooMany(len(raw))
	}
	items := make([]string, len(raw))
	for i, item := range raw {
		// Parse the number as it was written, not as a float, so that 0.1 stays 0.1.
		items[i] = string(item)
		if item[0] != '"' {
			items[i] = withoutExponent(items[i])
			continue
		}
		if err := json.Unmarshal(item, &items[i]); err != nil {
			return fmt.Errorf("ladder: rung %d: %w", i+1, err)
		}
	}
	parsed, err := parseItems(items)
	if err != nil {
		return err
	}
	*l = parsed
	return nil
}

// withoutExponent returns a JSON number as ParseDuration reads it: 1e3 is 1000.
func withoutExponent(number string) string {
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || !strings.ContainsAny(number, "eE") || n > MaxDuration.Seconds() {
		return number
	}
	return strconv.FormatFloat(n, 'f', -1, 64)
}
