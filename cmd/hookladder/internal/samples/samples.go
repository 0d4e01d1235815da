// Package samples reads a file of messages that a developer publishes again and again.
package samples

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/oklog/ulid/v2"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

// File is where samples are looked for, in the working folder.
const File = "hookladder.samples.json"

// most is how large a file may be: four times what MAX_BODY allows for one body.
const most = 16 << 20

// ErrNone says that there is no such file.
var ErrNone = errors.New("there is no file")

// Samples are messages by name.
type Samples struct {
	names  []string // as the file has them
	byName map[string]jsontext.Value
}

// First is a file to begin with.
const First = `{
  "payment.paid": {
    "subject": "order_17",
    "body": {
      "type": "payment.paid",
      "id": "{{id}}",
      "timestamp": "{{now}}",
      "data": {"order": "order_17", "amount": 1999, "currency": "EUR", "customer": {"name": "Ann", "email": "ann@shop.example"}}
    }
  },
  "payment.failed": {
    "subject": "order_18",
    "body": {
      "type": "payment.failed",
      "id": "{{id}}",
      "timestamp": "{{now}}",
      "data": {"order": "order_18", "amount": 500, "currency": "EUR", "reason": "insufficient_funds"}
    }
  }
}
`

// Write writes First to a file that is not there yet.
func Write(name string) error {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return fmt.Errorf("write the samples: %w", err)
	}
	_, err = file.WriteString(First)
	return errors.Join(err, file.Close())
}

// Read reads a file: a JSON object of messages by name.
func Read(name string) (Samples, error) {
	var s Samples
	text, err := read(name)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return s, fmt.Errorf("%w %s", ErrNone, name)
	case err != nil:
		return s, fmt.Errorf("read the samples: %w", err)
	}
	if err := json.Unmarshal(text, &s.byName); err != nil {
		return s, fmt.Errorf("%s must be a JSON object with a sample for each topic: %w", name, err)
	}
	for _, p := range split(text) {
		s.names = append(s.names, p.name)
	}
	return s, nil
}

func read(name string) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(file, most+1))
	if err == nil && len(text) > most {
		err = fmt.Errorf("%s is larger than %d MiB", name, most>>20)
	}
	return text, err
}

// Names are the names of the samples, in their order.
func (s Samples) Names() []string { return slices.Clone(s.names) }

// listed is how many names a message of one line holds.
const listed = 20

// String lists the names, the first of many.
func (s Samples) String() string {
	text := strings.Join(s.names[:min(len(s.names), listed)], ", ")
	if more := len(s.names) - listed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// Message makes a message of a sample, with an id of its own. sets are changes of its
// body, each as path=value.
func (s Samples) Message(name string, sets []string) (*wire.Message, error) {
	sample, ok := s.byName[name]
	if !ok {
		return nil, fmt.Errorf("no sample is called %q; there are: %s", name, s)
	}
	for _, change := range sets {
		path, text, ok := strings.Cut(change, "=")
		if !ok || path == "" {
			return nil, fmt.Errorf("%q: must be as in path=value, such as amount=250 or customer.name=Ann", change)
		}
		var err error
		if sample, err = set(sample, append([]string{"body"}, strings.Split(path, ".")...), valueOf(text)); err != nil {
			return nil, fmt.Errorf("%q: %w", change, err)
		}
	}
	id := "msg_" + ulid.Make().String()
	now := time.Now().UTC().Format("2006-01-02T15:04:05.000Z")
	filled := strings.NewReplacer("{{id}}", id, "{{now}}", now).Replace(string(sample))
	m := &wire.Message{Topic: name}
	dec := stdjson.NewDecoder(strings.NewReader(filled))
	dec.DisallowUnknownFields()
	if err := dec.Decode(m); err != nil {
		return nil, fmt.Errorf("sample %q: must be a message as the API takes it, with its body in \"body\": %w", name, err)
	}
	if m.ID != "" {
		return nil, fmt.Errorf("sample %q: leave out its id, since each message gets a new one; {{id}} stands for it elsewhere", name)
	}
	m.ID = id
	return m, nil
}

// valueOf is the value of a change: JSON, or else a text.
func valueOf(text string) jsontext.Value {
	if v := jsontext.Value(text); v.IsValid() {
		return v
	}
	quoted, _ := jsontext.AppendQuote(nil, strings.ToValidUTF8(text, "\uFFFD")) // it is valid UTF-8
	return quoted
}

// set puts now in the place of what is found at path. All else keeps its order and its
// numbers.
func set(in jsontext.Value, path []string, now jsontext.Value) (jsontext.Value, error) {
	if len(path) == 0 {
		return now, nil
	}
	branches := split(in)
	at := slices.IndexFunc(branches, func(p branch) bool { return p.name == path[0] })
	switch {
	case at >= 0:
		value, err := set(branches[at].value, path[1:], now)
		if err != nil {
			return nil, err
		}
		branches[at].value = value
	case in.Kind() == '{' && len(path) == 1:
		branches = append(branches, branch{path[0], now})
	case len(branches) == 0:
		return nil, fmt.Errorf("there is no %q in %.40s", path[0], in)
	default:
		var names []string
		for _, p := range branches {
			names = append(names, p.name)
		}
		return nil, fmt.Errorf("there is no %q among %q", path[0], names)
	}
	return join(in.Kind(), branches), nil
}

// branch is one of an object's members, or of a list's values, whose name is its number.
type branch struct {
	name  string
	value jsontext.Value
}

// split takes valid JSON apart; no branches: it is no object and no list.
func split(in jsontext.Value) (branches []branch) {
	kind := in.Kind()
	if kind != '{' && kind != '[' {
		return nil
	}
	dec := jsontext.NewDecoder(bytes.NewReader(in))
	_, err := dec.ReadToken()
	for err == nil && dec.PeekKind() != '}' && dec.PeekKind() != ']' {
		p := branch{name: strconv.Itoa(len(branches))}
		if kind == '{' {
			var name jsontext.Token
			if name, err = dec.ReadToken(); err != nil {
				return nil
			}
			p.name = name.String()
		}
		p.value, err = dec.ReadValue()
		p.value = p.value.Clone()
		branches = append(branches, p)
	}
	return branches
}

func join(kind jsontext.Kind, branches []branch) jsontext.Value {
	out, end := jsontext.Value("{"), byte('}')
	if kind == '[' {
		out, end = jsontext.Value("["), ']'
	}
	for i, p := range branches {
		if i > 0 {
			out = append(out, ',')
		}
		if kind == '{' {
			out, _ = jsontext.AppendQuote(out, p.name) // a name that was read, or typed
			out = append(out, ':')
		}
		out = append(out, p.value...)
	}
	return append(out, end)
}
