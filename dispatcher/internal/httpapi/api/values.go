package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/input"
	"github.com/hookladder/hookladder/dispatcher/success"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/ladder"
)

var (
	ErrText   = errors.New("must be a text")
	errTexts  = errors.New("must be an object of texts")
	errEmpty  = errors.New("must not be empty; leave it out")
	errMoment = errors.New("must be a time as in 2026-01-31T12:00:00Z")
)

// Text reads a string.
func Text(to *string, v jsontext.Value) error {
	if v.Kind() != '"' {
		return ErrText
	}
	*to = string(Unquoted(v)) // can't fail: the decoder has checked it
	return nil
}

// Filled reads a string, and refuses an empty one.
func Filled(to *string, v jsontext.Value) error {
	if err := Text(to, v); err != nil {
		return err
	}
	if *to == "" {
		return errEmpty
	}
	return nil
}

// Duration reads a text such as "15s", or a number of seconds.
func Duration(to *time.Duration, v jsontext.Value) (err error) {
	*to, err = wire.ParseDuration(v)
	return err
}

// Moment reads a time of RFC 3339. A time before 1970 becomes 1970, so that it is
// never the zero time, which means none.
func Moment(to *time.Time, v jsontext.Value) error {
	var s string
	if err := Text(&s, v); err != nil {
		return errMoment
	}
	t, err := parseTime(s)
	if err != nil {
		return errMoment
	}
	if epoch := time.Unix(0, 0); t.Before(epoch) {
		t = epoch
	}
	*to = t.UTC()
	return nil
}

// Named is a member of an object of texts.
type Named struct {
	Name, Text string
	Null       bool // instead of a text
}

// Texts reads an object of texts, in its order; null is an empty one.
func Texts(v jsontext.Value) (all []Named, err error) {
	if v.Kind() == 'n' {
		return nil, nil
	}
	if v.Kind() != '{' {
		return nil, errTexts
	}
	d := &Decoder{dec: jsontext.NewDecoder(bytes.NewBuffer(v))}
	for name := range d.Members() {
		t := Named{Name: string(Unquoted(name))}
		value := d.Value()
		if t.Null = value.Kind() == 'n'; !t.Null && Text(&t.Text, value) != nil {
			return nil, dispatcher.FieldError{Path: "$" + input.Member(t.Name), Detail: ErrText.Error()}
		}
		all = append(all, t)
	}
	return all, d.Err
}

// Nullable reads a value. It reads null as the zero value, which inside means the default.
func Nullable[V any](to *V, v jsontext.Value, read func(to *V, v jsontext.Value) error) error {
	if v.Kind() == 'n' {
		*to = *new(V)
		return nil
	}
	return read(to, v)
}

// Rungs reads a ladder.
func Rungs(to **ladder.Ladder, v jsontext.Value) error {
	var l ladder.Ladder
	if err := l.UnmarshalJSON(v); err != nil {
		return err
	}
	*to = &l
	return nil
}

// Timeout reads a duration. It refuses 0, because inside 0 means the default.
func Timeout(to *time.Duration, v jsontext.Value) error {
	if err := Duration(to, v); err != nil {
		return err
	}
	if *to == 0 {
		return errors.New("must be 1s to 60s")
	}
	return nil
}

// OptionalDuration reads a duration. Here 0 does not mean the default.
func OptionalDuration(to **time.Duration, v jsontext.Value) error {
	var d time.Duration
	if err := Duration(&d, v); err != nil {
		return err
	}
	*to = &d
	return nil
}

// SuccessRule reads the rule of success.
func SuccessRule(to **success.Rule, v jsontext.Value) error {
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

// Whole reads a whole number. As in JSON Schema, 2.0 and 2e0 are whole numbers too.
func Whole(v jsontext.Value) (n int, ok bool) {
	if v.Kind() != '0' {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(v), 64)
	n = int(f)
	return n, err == nil && math.Abs(f) <= math.MaxInt32 && float64(n) == f
}

// HeaderTexts reads an object with the texts of headers. It also checks the name of a header
// whose text is null.
func HeaderTexts(v jsontext.Value, most int) ([]Named, error) {
	all, err := Texts(v)
	if err == nil && len(all) > most {
		err = fmt.Errorf("names %d headers, at most %d are taken", len(all), most)
	}
	for i := 0; i < len(all) && err == nil; i++ {
		if all[i].Null {
			err = headerName(all[i].Name)
		}
	}
	return all, err
}

func headerName(name string) error {
	err := dispatcher.CheckHeaderName(name)
	if err != nil {
		return dispatcher.FieldError{Path: "$" + input.Member(name), Detail: err.Error()}
	}
	return nil
}

// Boolean reads true or false.
func Boolean(to *bool, v jsontext.Value) error {
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

// Success returns the rule for the receiver's response. If the stored rule is broken, the rest
// of a response is still shown.
func Success(s *success.Rule) *wire.Success {
	if s == nil {
		return nil
	}
	w := new(wire.Success)
	_ = json.Unmarshal([]byte(s.String()), w) // without compiling its patterns
	return w
}

// IsJSON reports whether a content type is one of JSON.
func IsJSON(contentType string) bool {
	media, _, _ := strings.Cut(contentType, ";")
	media = strings.ToLower(strings.TrimSpace(media))
	return media == MediaJSON || strings.HasSuffix(media, "+json")
}

// KindPush and KindPull are the kinds of endpoints.
const KindPush, KindPull = "push", "pull"
