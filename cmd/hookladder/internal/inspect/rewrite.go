package inspect

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// escapes are what a writer of JSON escapes beyond what it must.
type escapes struct{ ascii, slash, html bool }

// A style is how a writer of JSON lays it out.
type style struct {
	says    string
	indent  string // one step of it; empty: all in one line
	comma   string
	colon   string
	escapes escapes
	sorted  bool
	floats  bool // numbers go through float64
}

var layouts = []style{
	{says: "without white space", comma: ",", colon: ":"},
	{says: "with a space after each comma and colon", comma: ", ", colon: ": "},
	{says: "indented by two spaces", indent: "  ", comma: ",", colon: ": "},
	{says: "indented by four spaces", indent: "    ", comma: ",", colon: ": "},
	{says: "indented by tabs", indent: "\t", comma: ",", colon: ": "},
}

var escapings = []struct {
	says string
	escapes
}{
	{"", escapes{}},
	{"with all but ASCII escaped", escapes{ascii: true}},
	{"with all but ASCII and slashes escaped", escapes{ascii: true, slash: true}},
	{"with slashes escaped", escapes{slash: true}},
	{"with <, > and & escaped", escapes{html: true}},
}

// rewritings are the same JSON as usual writers put it. There is none for what is no
// JSON.
func rewritings(came []byte) (all []body) {
	value, err := parseJSON(came)
	if err != nil {
		return nil
	}
	for _, l := range layouts {
		for _, e := range escapings {
			for n := range 4 {
				s := l
				s.escapes, s.sorted, s.floats = e.escapes, n&1 != 0, n&2 != 0
				says := []string{"the same JSON written anew: " + l.says}
				if e.says != "" {
					says = append(says, e.says)
				}
				if s.sorted {
					says = append(says, "with sorted names")
				}
				if s.floats {
					says = append(says, "with numbers as floating point")
				}
				all = append(all, body{bytes: s.append(nil, value, 0), says: strings.Join(says, ", ")})
			}
		}
	}
	return all
}

// object keeps the order of its members, and those that come twice.
type object []member

type member struct {
	name  string
	value any
}

// parseJSON reads one value: objects in their order, numbers as they are written.
func parseJSON(text []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	value, err := parseValue(dec, 0)
	if err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, fmt.Errorf("more than one value: %w", err)
	}
	return value, nil
}

// deepest is how far values may lie within one another. encoding/json reads to a depth
// of 10,000 into a value, and a writer by recursion needs its stack.
const deepest = 1000

var errDeep = errors.New("values lie too deep within one another")

func parseValue(dec *json.Decoder, depth int) (any, error) {
	token, err := dec.Token()
	if err != nil {
		return nil, err
	}
	if depth > deepest {
		return nil, errDeep
	}
	switch token {
	case json.Delim('['):
		list := []any{}
		for dec.More() {
			value, err := parseValue(dec, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, value)
		}
		_, err := dec.Token()
		return list, err
	case json.Delim('{'):
		members := object{}
		for dec.More() {
			name, err := dec.Token()
			if err != nil {
				return nil, err
			}
			value, err := parseValue(dec, depth+1)
			if err != nil {
				return nil, err
			}
			members = append(members, member{fmt.Sprint(name), value})
		}
		_, err := dec.Token()
		return members, err
	}
	return token, nil
}

// append writes a value in a style.
func (s style) append(to []byte, value any, depth int) []byte {
	switch v := value.(type) {
	case object:
		if s.sorted {
			v = sorted(v)
		}
		return s.items(to, "{}", len(v), depth, func(to []byte, i int) []byte {
			to = append(appendJSONString(to, v[i].name, s.escapes), s.colon...)
			return s.append(to, v[i].value, depth+1)
		})
	case []any:
		return s.items(to, "[]", len(v), depth, func(to []byte, i int) []byte {
			return s.append(to, v[i], depth+1)
		})
	case string:
		return appendJSONString(to, v, s.escapes)
	case json.Number:
		if f, err := v.Float64(); s.floats && err == nil {
			text, _ := json.Marshal(f) // finite: it was parsed
			return append(to, text...)
		}
		return append(to, v...)
	case bool:
		return strconv.AppendBool(to, v)
	default:
		return append(to, "null"...)
	}
}

// items writes a list or an object.
func (s style) items(to []byte, brackets string, n, depth int, item func([]byte, int) []byte) []byte {
	to = append(to, brackets[0])
	for i := range n {
		if i > 0 {
			to = append(to, s.comma...)
		}
		to = s.line(to, depth+1)
		to = item(to, i)
	}
	if n > 0 {
		to = s.line(to, depth)
	}
	return append(to, brackets[1])
}

func (s style) line(to []byte, depth int) []byte {
	if s.indent == "" {
		return to
	}
	return append(append(to, '\n'), strings.Repeat(s.indent, depth)...)
}
