// Package success says which answers of a receiver count as delivered. A Rule is
// written as a list of statuses, or as JSON that says what the body must be like too.
package success

import (
	"errors"
	"fmt"
	"strings"

	"github.com/hookladder/hookladder/dispatcher/internal/fields"
)

// AnswerLimit is how much of an answer's body is judged, in bytes.
const AnswerLimit = 64 << 10

// Rule says what a receiver must answer for a delivery to count as delivered: a
// status, and where asked for, a body. Both must hold. A nil *Rule, and its zero
// value, want any 2xx. It is not changed once it is made.
//
// It carries its text, which is parsed where an answer is judged: a list or a claim
// of a thousand deliveries compiles no pattern.
type Rule struct {
	text string // what String answers; empty in the zero value
}

const anyText = `{"status":["2xx"]}`

var anyParts = &parts{text: anyText, status: []statusSpan{{200, 299, "2xx"}}}

// Parse reads a list of status patterns (2xx or 200,204 or *), or the JSON that
// String writes: {"status":["2xx"],"body":...}, where body is a word equal to the
// trimmed answer, {"path":"code","equals":"SUCCESS"} or {"matches":"<RE2>"}.
// Without status any 2xx is meant.
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

// Stored is a Rule whose text String once wrote. It is not parsed before an answer
// is judged; Check tells whether it can be.
func Stored(text string) *Rule { return &Rule{text: text} }

// Check says why the text can't be parsed, or nothing. Only a text that was stored
// can be broken.
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

// String is the canonical form that the queue keeps: compact JSON that Parse reads
// back to an equal value.
func (r *Rule) String() string {
	if r == nil || r.text == "" {
		return anyText
	}
	return r.text
}

// Equal reports whether both want the same.
func (r *Rule) Equal(o *Rule) bool { return r.String() == o.String() }

// MarshalJSON writes what String answers.
func (r *Rule) MarshalJSON() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalJSON reads the JSON form; null changes nothing.
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

// Status reports whether an answer's status is one of those asked for. No 1xx ever
// is: it announces an answer, or leaves HTTP. A text that can't be parsed asks for
// what no answer has.
func (r *Rule) Status(code int) bool {
	p, err := r.parts()
	return err == nil && p.holdsStatus(code)
}

// Body reports whether the body of an answer is as asked for. What follows the first
// AnswerLimit bytes does not count, and of a pattern that has many steps less does.
func (r *Rule) Body(b []byte) bool {
	p, err := r.parts()
	return err == nil && p.holdsBody(b)
}

// Result says whether an answer is as asked for, or else what is wrong with it.
type Result uint8

// The results of Judge.
const (
	Met         Result = iota // the answer is a success
	Unreadable                // the stored text can't be parsed
	WrongStatus               // the status is none of those asked for
	WrongBody                 // the body is not as asked for
)

// Judge compares status and body with the rule. why lists the statuses asked for, or
// says what the body lacks.
func (r *Rule) Judge(status int, body []byte) (result Result, why string) {
	p, err := r.parts()
	switch {
	case err != nil:
		return Unreadable, ""
	case !p.holdsStatus(status):
		return WrongStatus, strings.Join(patternsOf(p.status), ", ")
	case !p.holdsBody(body):
		return WrongBody, p.body.broken()
	}
	return Met, ""
}

// parts are what the text of a Rule says.
type parts struct {
	text   string // in its canonical form
	status []statusSpan
	body   bodyRule // nil: any body
}

// statusSpan is one status pattern: the codes from low to high, both included.
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
	return p.body == nil || p.body.holds(b[:min(len(b), AnswerLimit)])
}

// patternsOf lists the statuses asked for, as a person reads them.
func patternsOf(spans []statusSpan) []string {
	names := make([]string, len(spans))
	for i, span := range spans {
		names[i] = span.pattern
	}
	return names
}

// possible says why no answer can have a status asked for. A stored text is read
// all the same: it was taken before this was refused.
func (p *parts) possible() error {
	const highest = 599 // of HTTP
	for i, span := range p.status {
		if span.high > highest && span.pattern != "*" {
			return fmt.Errorf("success: %w", fields.Error{
				Path: fmt.Sprintf("$.status[%d]", i), Detail: span.pattern + " never holds: no status is above 599; write 2xx, 200 or *",
			})
		}
	}
	return nil
}
