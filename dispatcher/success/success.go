// Package success decides which responses of a receiver count as delivered. A Rule is a
// list of statuses, or JSON with statuses and a rule for the body. Parse parses it once
// when it is set, the store keeps its text, and Judge applies it to each response.
package success

import (
	"errors"
	"fmt"
	"strings"

	"github.com/hookladder/hookladder/dispatcher/internal/input"
)

// AnswerLimit is how many bytes of a response's body are checked.
const AnswerLimit = 64 << 10

// Rule says which responses count as delivered: a status, and optionally a body. Both
// must match. A nil *Rule and its zero value accept any 2xx. It is immutable.
//
// It stores only its text, and parses that when a response is checked. So a list or a
// claim of a thousand deliveries compiles no pattern.
type Rule struct {
	text string // the result of String; empty in the zero value
}

const anyText = `{"status":["2xx"]}`

var anyParts = &parts{text: anyText, status: []statusSpan{{200, 299, "2xx"}}}

// Parse parses a list of status patterns (2xx or 200,204 or *), or the JSON of String:
// {"status":["2xx"],"body":...}. There body is a word that must equal the trimmed
// response, {"path":"code","equals":"SUCCESS"} or {"matches":"<RE2>"}. The default status
// is any 2xx.
func Parse(text string) (*Rule, error) {
	p, err := cachedParts(text)
	if err == nil {
		err = p.possible()
	}
	if err != nil {
		return nil, err
	}
	return &Rule{text: p.text}, nil
}

// Stored returns a Rule for a text of String. It is not parsed before a response is
// checked. Check reports whether it can be parsed.
func Stored(text string) *Rule { return &Rule{text: text} }

// Check returns the error of the text, or nil. Only a stored text can be invalid.
func (r *Rule) Check() error {
	_, err := r.parts()
	return err
}

func (r *Rule) parts() (*parts, error) {
	if r == nil || r.text == "" || r.text == anyText {
		return anyParts, nil
	}
	return cachedParts(r.text)
}

// String returns the canonical form that the queue stores: compact JSON that Parse parses
// to an equal value.
func (r *Rule) String() string {
	if r == nil || r.text == "" {
		return anyText
	}
	return r.text
}

// Equal reports whether both rules are the same.
func (r *Rule) Equal(o *Rule) bool { return r.String() == o.String() }

// MarshalJSON returns the text of String.
func (r *Rule) MarshalJSON() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalJSON parses the JSON form. null changes nothing.
func (r *Rule) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		return nil
	}
	if len(b) == 0 || b[0] != '{' {
		return errors.New(`success: not an object; write {"status":["2xx"]}`)
	}
	read, err := Parse(string(b))
	if err != nil {
		return err
	}
	*r = *read
	return nil
}

// Status reports whether a status matches. A 1xx never does, because it precedes a
// response, or leaves HTTP. A text that can't be parsed matches no status.
func (r *Rule) Status(code int) bool {
	p, err := r.parts()
	return err == nil && p.holdsStatus(code)
}

// Body reports whether a body matches. It checks only the first AnswerLimit bytes, and
// fewer with a pattern of many steps. A byte order mark of UTF-8 before it does not count.
func (r *Rule) Body(b []byte) bool {
	p, err := r.parts()
	return err == nil && p.holdsBody(b)
}

// Result is the result of Judge.
type Result uint8

// The results of Judge.
const (
	Met         Result = iota // the response is a success
	Unreadable                // the stored text can't be parsed
	WrongStatus               // the status does not match
	WrongBody                 // the body does not match
)

// Judge checks a status and a body. why lists the required statuses, or says why the body
// does not match, also if a person who reads the body can't see it.
func (r *Rule) Judge(status int, body []byte) (result Result, why string) {
	p, err := r.parts()
	switch {
	case err != nil:
		return Unreadable, ""
	case !p.holdsStatus(status):
		return WrongStatus, strings.Join(patternsOf(p.status), ", ")
	case !p.holdsBody(body):
		return WrongBody, p.body.broken() + p.unseen(body)
	}
	return Met, ""
}

// parts is a parsed Rule.
type parts struct {
	text   string // in canonical form
	status []statusSpan
	body   bodyRule // nil: any body
}

// statusSpan is one status pattern: the codes from low to high, inclusive.
type statusSpan struct {
	low, high int
	pattern   string
}

func (p *parts) holdsStatus(code int) bool {
	for _, span := range p.status {
		if code >= 200 && span.low <= code && code <= span.high {
			return true
		}
	}
	return false
}

func (p *parts) holdsBody(b []byte) bool {
	if p.body == nil {
		return true
	}
	return p.body.holds(checked(b))
}

// patternsOf returns the required statuses as people write them.
func patternsOf(spans []statusSpan) []string {
	names := make([]string, len(spans))
	for i, span := range spans {
		names[i] = span.pattern
	}
	return names
}

// possible returns an error if no response can have a required status. A stored text is
// still accepted, because it may be older than this check.
func (p *parts) possible() error {
	const highest = 599 // of HTTP
	for i, span := range p.status {
		if span.high > highest && span.pattern != "*" {
			return fmt.Errorf("success: %w", input.FieldError{
				Path: fmt.Sprintf("$.status[%d]", i), Detail: span.pattern + " never holds: no status is above 599; write 2xx, 200 or *",
			})
		}
	}
	return nil
}
