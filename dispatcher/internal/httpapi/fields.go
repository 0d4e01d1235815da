package httpapi

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/ladder"
)

// The fields whose presence counts, besides their value.
const (
	bitBody uint32 = 1 << iota
	bitRawBody
	bitRawBodyBase64
	bitContentType
	bitDelay
	bitDeliverAt
	bitID
)

// messageField is a field that a message may have. set reads its value, which
// is only valid during the call; its error is what the caller is told.
type messageField struct {
	name string
	bit  uint32
	set  func(m *dispatcher.Message, value jsontext.Value) error
}

// messageFields are all fields of the contract, the usual ones first.
var messageFields = []messageField{
	{"topic", 0, func(m *dispatcher.Message, v jsontext.Value) error { return text(&m.Topic, v) }},
	{"url", 0, func(m *dispatcher.Message, v jsontext.Value) error { return filled(&m.URL, v) }},
	{"body", bitBody, setBody},
	{"id", bitID, func(m *dispatcher.Message, v jsontext.Value) error { return text(&m.ID, v) }},
	{"tenant", 0, func(m *dispatcher.Message, v jsontext.Value) error { return filled(&m.Tenant, v) }},
	{"raw_body", bitRawBody, setRawBody},
	{"raw_body_base64", bitRawBodyBase64, setRawBodyBase64},
	{"content_type", bitContentType, func(m *dispatcher.Message, v jsontext.Value) error { return text(&m.ContentType, v) }},
	{"delay", bitDelay, func(m *dispatcher.Message, v jsontext.Value) error { return duration(&m.Delay, v) }},
	{"deliver_at", bitDeliverAt, func(m *dispatcher.Message, v jsontext.Value) error { return moment(&m.DeliverAt, v) }},
	{"expires_at", 0, func(m *dispatcher.Message, v jsontext.Value) error { return moment(&m.ExpiresAt, v) }},
	{"headers", 0, setHeaders},
	{"ladder", 0, setLadder},
	{"max_attempts", 0, setMaxAttempts},
	{"timeout", 0, setTimeout},
	{"success", 0, setSuccess},
	{"endpoint", 0, func(m *dispatcher.Message, v jsontext.Value) error { return filled(&m.Endpoint, v) }},
	{"ordering_key", 0, func(m *dispatcher.Message, v jsontext.Value) error { return filled(&m.OrderingKey, v) }},
	{"require_match", 0, func(m *dispatcher.Message, v jsontext.Value) error { return boolean(&m.RequireMatch, v) }},
	{"queue", 0, notServed("queues are")},
}

// findField looks a field up by its name as it stands in the text, or answers
// the name that is unknown.
func findField(raw jsontext.Value) (f *messageField, name string) {
	plain := raw[1 : len(raw)-1]
	if bytes.IndexByte(plain, '\\') >= 0 {
		unquoted, err := jsontext.AppendUnquote(nil, raw)
		if err != nil {
			return nil, string(plain)
		}
		plain = unquoted
	}
	for i := range messageFields {
		if string(plain) == messageFields[i].name { // does not allocate
			return &messageFields[i], ""
		}
	}
	return nil, string(plain)
}

var (
	errText   = errors.New("must be a text")
	errTexts  = errors.New("must be an object of texts")
	errEmpty  = errors.New("must not be empty; leave it out")
	errBase64 = errors.New("must be base64 with padding")
	errNumber = errors.New("must be a whole number of 1 to 101")
)

// text reads a string.
func text(to *string, v jsontext.Value) error {
	if v.Kind() != '"' {
		return errText
	}
	if bytes.IndexByte(v, '\\') < 0 {
		*to = string(v[1 : len(v)-1])
		return nil
	}
	b, err := jsontext.AppendUnquote(nil, v)
	*to = string(b)
	return err
}

// filled reads a string that says nothing when it is empty.
func filled(to *string, v jsontext.Value) error {
	if err := text(to, v); err != nil {
		return err
	}
	if *to == "" {
		return errEmpty
	}
	return nil
}

// setBody keeps the value as it stands in the request.
func setBody(m *dispatcher.Message, v jsontext.Value) error {
	if nests(v) {
		return fmt.Errorf("nests deeper than %d", maxDepth)
	}
	m.Body = bytes.Clone(v)
	return nil
}

func setRawBody(m *dispatcher.Message, v jsontext.Value) error {
	if v.Kind() != '"' {
		return errText
	}
	var err error
	m.Body, err = jsontext.AppendUnquote(make([]byte, 0, len(v)), v)
	if len(m.Body) < cap(m.Body)/2 { // escapes took up to six bytes for one: the engine must not keep their room
		m.Body = bytes.Clone(m.Body)
	}
	return err
}

func setRawBodyBase64(m *dispatcher.Message, v jsontext.Value) error {
	var coded string
	if err := text(&coded, v); err != nil {
		return err
	}
	body, err := base64.StdEncoding.Strict().DecodeString(coded)
	if err != nil || base64.StdEncoding.EncodedLen(len(body)) != len(coded) { // the decoder passes over line ends
		return errBase64
	}
	m.Body = body
	return nil
}

// duration reads a text such as "15s", or a number of seconds.
func duration(to *time.Duration, v jsontext.Value) (err error) {
	*to, err = wire.ParseDuration(v)
	return err
}

// moment reads a time of RFC 3339. What lies before 1970 is taken for that, so
// that no time is ever the zero time, which means none.
func moment(to *time.Time, v jsontext.Value) error {
	var s string
	if err := text(&s, v); err != nil {
		return errors.New("must be a time as in 2026-01-31T12:00:00Z")
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return errors.New("must be a time as in 2026-01-31T12:00:00Z")
	}
	if epoch := time.Unix(0, 0); t.Before(epoch) {
		t = epoch
	}
	*to = t.UTC()
	return nil
}

// setHeaders reads an object of texts, in its order.
func setHeaders(m *dispatcher.Message, v jsontext.Value) error {
	all, err := texts(v)
	if err != nil {
		return err
	}
	for _, t := range all {
		if t.null {
			continue // left out
		}
		m.Headers = append(m.Headers, dispatcher.Header{Name: t.name, Value: t.text})
	}
	return nil
}

// named is a member of an object of texts.
type named struct {
	name, text string
	null       bool // it has no text
}

// texts reads an object of texts, in its order.
func texts(v jsontext.Value) (all []named, err error) {
	if v.Kind() != '{' {
		return nil, errTexts
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(v))
	if _, err := dec.ReadToken(); err != nil {
		return nil, err
	}
	for dec.PeekKind() == '"' {
		name, err := dec.ReadToken()
		if err != nil {
			return nil, err
		}
		t := named{name: name.String()}
		value, err := dec.ReadValue()
		if err != nil {
			return nil, err
		}
		if t.null = value.Kind() == 'n'; !t.null && text(&t.text, value) != nil {
			return nil, dispatcher.FieldError{Path: "$" + member(t.name), Detail: errText.Error()}
		}
		all = append(all, t)
	}
	return all, nil
}

func setLadder(m *dispatcher.Message, v jsontext.Value) error { return rungs(&m.Ladder, v) }

// rungs reads a ladder.
func rungs(to **ladder.Ladder, v jsontext.Value) error {
	var l ladder.Ladder
	if err := l.UnmarshalJSON(v); err != nil {
		return err
	}
	*to = &l
	return nil
}

// setMaxAttempts reads a number; 0 is refused, since inside it means no limit.
func setMaxAttempts(m *dispatcher.Message, v jsontext.Value) error {
	n, err := strconv.Atoi(string(v))
	if err != nil || n < 1 || n > 101 {
		return errNumber
	}
	m.MaxAttempts = n
	return nil
}

func setTimeout(m *dispatcher.Message, v jsontext.Value) error { return timeout(&m.Timeout, v) }

// timeout reads a duration; 0 is refused, since inside it means the default.
func timeout(to *time.Duration, v jsontext.Value) error {
	if err := duration(to, v); err != nil {
		return err
	}
	if *to == 0 {
		return errors.New("must be 1s to 60s")
	}
	return nil
}

func setSuccess(m *dispatcher.Message, v jsontext.Value) error { return success(&m.Success, v) }

// success reads what a receiver must answer.
func success(to **dispatcher.Success, v jsontext.Value) error {
	var s dispatcher.Success
	if err := s.UnmarshalJSON(v); err != nil {
		if errors.As(err, new(dispatcher.FieldError)) {
			return err // of a part of it
		}
		return errors.New(strings.TrimPrefix(err.Error(), "success: ")) // the path says it
	}
	*to = &s
	return nil
}

// notServed refuses a field of the contract that this version has no use for:
// to take it would be to drop what it asks for.
func notServed(what string) func(*dispatcher.Message, jsontext.Value) error {
	return func(*dispatcher.Message, jsontext.Value) error {
		return errors.New(what + " not served by this version; give a url or an endpoint")
	}
}
