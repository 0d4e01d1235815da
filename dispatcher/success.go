package dispatcher

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// AnswerLimit is how much of an answer's body is read and judged, in bytes.
const AnswerLimit = 64 << 10

// The bounds of a Success. They keep it small beside the message it is stored
// with, and quick to judge.
const (
	maxSuccessText = 16 << 10 // of the whole text; more than all its parts together, escapes included
	maxPatterns    = 16
)

// Success says what a receiver must answer for a delivery to count as
// delivered: a status, and where asked for, a body. Both must hold. A nil
// *Success, and its zero value, want any 2xx. It is not changed once it is made.
//
// It carries its text, and what that says is read where an answer is judged: a
// list or a claim of a thousand deliveries compiles no pattern.
type Success struct {
	text string // what String answers; empty in the zero value
}

// successRules are what the text of a Success says.
type successRules struct {
	text   string // in its canonical form
	status []statusSpan
	body   bodyRule // nil: any body
}

// statusSpan is one status pattern: the codes from low to high, both included.
type statusSpan struct {
	low, high int
	pattern   string
}

const anySuccessText = `{"status":["2xx"]}`

// AnySuccess is the Success that wants any 2xx, as a nil one does.
func AnySuccess() *Success {
	return &Success{text: anySuccessText}
}

var anySuccess = &successRules{text: anySuccessText, status: []statusSpan{{200, 299, "2xx"}}}

// ParseSuccess reads a list of status patterns (2xx or 200,204 or *), or the
// JSON that String writes: {"status":["2xx"],"body":...}, where body is a word
// equal to the trimmed answer, {"path":"code","equals":"SUCCESS"} or
// {"matches":"<RE2>"}. Without status any 2xx is meant.
func ParseSuccess(text string) (*Success, error) {
	r, err := readSuccess(text)
	if err == nil {
		err = r.possible()
	}
	if err != nil {
		return nil, err
	}
	return &Success{text: r.text}, nil
}

// StoredSuccess is a Success whose text String once wrote. It is not read
// before an answer is judged; Check tells whether it can be.
func StoredSuccess(text string) *Success { return &Success{text: text} }

// Check says why the text can't be read, or nothing. Only a text that was
// stored can be broken.
func (s *Success) Check() error {
	_, err := s.read()
	return err
}

// read finds what the text says.
func (s *Success) read() (*successRules, error) {
	if s == nil || s.text == "" || s.text == anySuccessText {
		return anySuccess, nil
	}
	return readSuccess(s.text)
}

// String is the canonical form that the queue keeps: compact JSON that
// ParseSuccess reads back to an equal value.
func (s *Success) String() string {
	if s == nil || s.text == "" {
		return anySuccessText
	}
	return s.text
}

// Equal reports whether both want the same.
func (s *Success) Equal(o *Success) bool { return s.String() == o.String() }

// MarshalJSON writes what String answers.
func (s *Success) MarshalJSON() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalJSON reads the JSON form; null changes nothing.
func (s *Success) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		return nil
	}
	if len(b) == 0 || b[0] != '{' {
		return errors.New(`success: not an object; write {"status":["2xx"]}`)
	}
	read, err := ParseSuccess(string(b))
	if err != nil {
		return err
	}
	*s = *read
	return nil
}

// Status reports whether an answer's status is one of those asked for. No 1xx
// ever is: it announces an answer, or leaves HTTP. A text that can't be read
// asks for what no answer has.
func (s *Success) Status(code int) bool {
	r, err := s.read()
	return err == nil && r.holdsStatus(code)
}

// Body reports whether the body of an answer is as asked for. What follows the
// first AnswerLimit bytes does not count, and of a pattern that has many steps
// less does.
func (s *Success) Body(b []byte) bool {
	r, err := s.read()
	return err == nil && r.holdsBody(b)
}

func (r *successRules) holdsStatus(code int) bool {
	for _, span := range r.status {
		if code >= 200 && span.low <= code && code <= span.high {
			return true
		}
	}
	return false
}

func (r *successRules) holdsBody(b []byte) bool {
	return r.body == nil || r.body.holds(b[:min(len(b), AnswerLimit)])
}

// patterns lists the statuses asked for, as a person reads them.
func (r *successRules) patterns() string {
	names := make([]string, len(r.status))
	for i, span := range r.status {
		names[i] = span.pattern
	}
	return strings.Join(names, ", ")
}

// successJSON is the written form. It is read member by member, since null and
// the several shapes of a body are told apart by their kind.
type successJSON struct {
	Status jsontext.Value `json:"status,omitzero"`
	Body   jsontext.Value `json:"body,omitzero"`
}

func successFromList(patterns []string) (*successRules, error) {
	spans, err := parseStatus(patterns)
	if err != nil {
		return nil, inside(".status", err)
	}
	return newSuccess(spans, nil, nil)
}

func successFromJSON(text []byte) (*successRules, error) {
	var raw successJSON
	if err := readMembers(text, map[string]*jsontext.Value{"status": &raw.Status, "body": &raw.Body}); err != nil {
		return nil, err
	}
	patterns := []string{"2xx"}
	if raw.Status != nil {
		if raw.Status.Kind() != '[' {
			return nil, FieldError{"$.status", `not a list; write ["2xx"]`}
		}
		if err := json.Unmarshal(raw.Status, &patterns); err != nil {
			return nil, FieldError{"$.status", `not a list of texts; write ["2xx"] or ["200","204"]`}
		}
	}
	spans, err := parseStatus(patterns)
	if err != nil {
		return nil, inside(".status", err)
	}
	if raw.Body == nil {
		return newSuccess(spans, nil, nil)
	}
	rule, canonical, err := parseBody(raw.Body)
	if err != nil {
		return nil, inside(".body", err)
	}
	return newSuccess(spans, rule, canonical)
}

// newSuccess joins checked parts; canonical is the body's written form.
func newSuccess(spans []statusSpan, rule bodyRule, canonical jsontext.Value) (*successRules, error) {
	names := make([]string, len(spans))
	for i, span := range spans {
		names[i] = span.pattern
	}
	status, err := json.Marshal(names)
	if err != nil {
		return nil, fmt.Errorf("status: %w", err)
	}
	text, err := json.Marshal(successJSON{Status: status, Body: canonical})
	if err != nil {
		return nil, err
	}
	return &successRules{text: string(text), status: spans, body: rule}, nil
}

func parseStatus(patterns []string) ([]statusSpan, error) {
	if len(patterns) == 0 {
		return nil, errors.New("the list is empty")
	}
	if len(patterns) > maxPatterns {
		return nil, fmt.Errorf("more than %d patterns", maxPatterns)
	}
	spans := make([]statusSpan, len(patterns))
	for i, p := range patterns {
		span, err := parsePattern(strings.ToLower(strings.TrimSpace(p)))
		if err != nil {
			return nil, inside(fmt.Sprintf("[%d]", i), err)
		}
		spans[i] = span
	}
	return spans, nil
}

func parsePattern(p string) (statusSpan, error) {
	if p == "*" {
		return statusSpan{200, 999, p}, nil
	}
	digits := len(p) == 3 && '1' <= p[0] && p[0] <= '9' &&
		(p[1:] == "xx" || '0' <= p[1] && p[1] <= '9' && '0' <= p[2] && p[2] <= '9')
	if !digits {
		return statusSpan{}, fmt.Errorf("%.20q is no pattern; write 2xx, 200 or *", p)
	}
	if p[0] == '1' {
		return statusSpan{}, fmt.Errorf("%s never holds: a 1xx is not yet an answer", p)
	}
	low := int(p[0]-'0') * 100
	if p[1] == 'x' {
		return statusSpan{low, low + 99, p}, nil
	}
	code := low + int(p[1]-'0')*10 + int(p[2]-'0')
	return statusSpan{code, code, p}, nil
}
