package main

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

// samplesFile is the default file of samples, in the working directory.
const samplesFile = "hookladder.samples.json"

// mostOfSamples is the largest size of a file: four times the highest MAX_BODY.
const mostOfSamples = 16 << 20

// samples are messages by name.
type samples struct {
	names  []string // in the order of the file
	byName map[string]jsontext.Value
}

// readSamples returns the samples of a file.
func readSamples(name string) (samples, error) {
	var s samples
	text, err := readSamplesFile(name)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return s, fmt.Errorf("there is no file %s: it has messages by name, such as {\"payment.paid\": {\"body\": {\"id\": \"{{id}}\"}}}", name)
	case err != nil:
		return s, fmt.Errorf("read the samples: %w", err)
	}
	if err := json.Unmarshal(text, &s.byName); err != nil {
		return s, fmt.Errorf("%s must be a JSON object with a sample for each topic: %w", name, err)
	}
	for _, p := range branchesOf(text) {
		s.names = append(s.names, p.name)
	}
	return s, nil
}

func readSamplesFile(name string) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(file, mostOfSamples+1))
	if err == nil && len(text) > mostOfSamples {
		err = fmt.Errorf("%s is larger than %d MiB", name, mostOfSamples>>20)
	}
	return text, err
}

// listedSamples is the highest number of names in an error.
const listedSamples = 20

// String returns the first names.
func (s samples) String() string {
	text := strings.Join(s.names[:min(len(s.names), listedSamples)], ", ")
	if more := len(s.names) - listedSamples; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// message returns a message from a sample, with that id, or a new one if it is empty. sets are
// changes of its body, such as path=value.
func (s samples) message(name, id string, sets []string) (*wire.Message, error) {
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
		if sample, err = setField(sample, append([]string{"body"}, strings.Split(path, ".")...), sampleValue(text)); err != nil {
			return nil, fmt.Errorf("%q: %w", change, err)
		}
	}
	if id == "" {
		id = "msg_" + ulid.Make().String()
	}
	now := time.Now().UTC().Format("2006-01-02T15:04:05.000Z")
	filled := strings.NewReplacer("{{id}}", id, "{{now}}", now).Replace(string(sample))
	m := &wire.Message{Topic: name}
	dec := stdjson.NewDecoder(strings.NewReader(filled))
	dec.DisallowUnknownFields()
	if err := dec.Decode(m); err != nil {
		return nil, fmt.Errorf("sample %q: must be a message as in the API, with its body in \"body\": %w", name, err)
	}
	if m.ID != "" {
		return nil, fmt.Errorf("sample %q: leave out its id, because each message gets a new one; use {{id}} in its texts", name)
	}
	m.ID = id
	return m, nil
}

// sampleValue returns the value of a change: JSON, or text.
func sampleValue(text string) jsontext.Value {
	if v := jsontext.Value(text); v.IsValid() {
		return v
	}
	quoted, _ := jsontext.AppendQuote(nil, strings.ToValidUTF8(text, "\uFFFD")) // it is valid UTF-8
	return quoted
}

// setField returns the JSON with the value at path replaced by now. It keeps the order and the
// spelling of all other values.
func setField(in jsontext.Value, path []string, now jsontext.Value) (jsontext.Value, error) {
	if len(path) == 0 {
		return now, nil
	}
	branches := branchesOf(in)
	at := slices.IndexFunc(branches, func(p branch) bool { return p.name == path[0] })
	switch {
	case at >= 0:
		value, err := setField(branches[at].value, path[1:], now)
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
	return joinBranches(in.Kind(), branches), nil
}

// branch is a member of an object, or a value of a list with its index as the name.
type branch struct {
	name  string
	value jsontext.Value
}

// branchesOf returns the branches of valid JSON. Only objects and lists have branches.
func branchesOf(in jsontext.Value) (branches []branch) {
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

func joinBranches(kind jsontext.Kind, branches []branch) jsontext.Value {
	out, end := jsontext.Value("{"), byte('}')
	if kind == '[' {
		out, end = jsontext.Value("["), ']'
	}
	for i, p := range branches {
		if i > 0 {
			out = append(out, ',')
		}
		if kind == '{' {
			out, _ = jsontext.AppendQuote(out, p.name) // a name from the file, or from a flag
			out = append(out, ':')
		}
		out = append(out, p.value...)
	}
	return append(out, end)
}
