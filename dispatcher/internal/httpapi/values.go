package httpapi

import (
	"bytes"
	"errors"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/fields"
	"github.com/hookladder/hookladder/dispatcher/success"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/ladder"
)

var (
	errText   = errors.New("must be a text")
	errTexts  = errors.New("must be an object of texts")
	errEmpty  = errors.New("must not be empty; leave it out")
	errMoment = errors.New("must be a time as in 2026-01-31T12:00:00Z")
)

// text reads a string.
func text(to *string, v jsontext.Value) error {
	if v.Kind() != '"' {
		return errText
	}
	*to = string(unquoted(v)) // can't fail: the decoder has checked it
	return nil
}

// filled reads a string, and refuses an empty one.
func filled(to *string, v jsontext.Value) error {
	if err := text(to, v); err != nil {
		return err
	}
	if *to == "" {
		return errEmpty
	}
	return nil
}

// duration reads a text such as "15s", or a number of seconds.
func duration(to *time.Duration, v jsontext.Value) (err error) {
	*to, err = wire.ParseDuration(v)
	return err
}

// moment reads a time of RFC 3339. A time before 1970 becomes 1970, so that it is
// never the zero time, which means none.
func moment(to *time.Time, v jsontext.Value) error {
	var s string
	if err := text(&s, v); err != nil {
		return errMoment
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return errMoment
	}
	if epoch := time.Unix(0, 0); t.Before(epoch) {
		t = epoch
	}
	*to = t.UTC()
	return nil
}

// named is a member of an object of texts.
type named struct {
	name, text string
	null       bool // instead of a text
}

// texts reads an object of texts, in its order; null is an empty one.
func texts(v jsontext.Value) (all []named, err error) {
	if v.Kind() == 'n' {
		return nil, nil
	}
	if v.Kind() != '{' {
		return nil, errTexts
	}
	d := &decoder{dec: jsontext.NewDecoder(bytes.NewBuffer(v))}
	for name := range d.members() {
		t := named{name: string(unquoted(name))}
		value := d.value()
		if t.null = value.Kind() == 'n'; !t.null && text(&t.text, value) != nil {
			return nil, dispatcher.FieldError{Path: "$" + fields.Member(t.name), Detail: errText.Error()}
		}
		all = append(all, t)
	}
	return all, d.err
}

// nullable reads a value, or null as the zero value, which inside means the default.
func nullable[V any](to *V, v jsontext.Value, read func(to *V, v jsontext.Value) error) error {
	if v.Kind() == 'n' {
		*to = *new(V)
		return nil
	}
	return read(to, v)
}

// rungs reads a ladder.
func rungs(to **ladder.Ladder, v jsontext.Value) error {
	var l ladder.Ladder
	if err := l.UnmarshalJSON(v); err != nil {
		return err
	}
	*to = &l
	return nil
}

// timeout reads a duration. 0 is refused, since inside it means the default.
func timeout(to *time.Duration, v jsontext.Value) error {
	if err := duration(to, v); err != nil {
		return err
	}
	if *to == 0 {
		return errors.New("must be 1s to 60s")
	}
	return nil
}

// optionalDuration reads a duration of which 0 does not mean the default.
func optionalDuration(to **time.Duration, v jsontext.Value) error {
	var d time.Duration
	if err := duration(&d, v); err != nil {
		return err
	}
	*to = &d
	return nil
}

// successRule reads the rule of success.
func successRule(to **success.Rule, v jsontext.Value) error {
	var s success.Rule
	if err := s.UnmarshalJSON(v); err != nil {
		if errors.As(err, new(dispatcher.FieldError)) {
			return err // it has a path
		}
		return errors.New(strings.TrimPrefix(err.Error(), "success: ")) // the path says it
	}
	*to = &s
	return nil
}

func boolean(to *bool, v jsontext.Value) error {
	switch v.Kind() {
	case 't':
		*to = true
	case 'f':
		*to = false
	default:
		return errors.New("must be true or false")
	}
	return nil
}
