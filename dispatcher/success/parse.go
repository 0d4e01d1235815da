package success

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/hookladder/hookladder/dispatcher/internal/input"
)

// Limits of a Rule. They keep it small, because it is stored with the message, and quick
// to evaluate.
const (
	maxText     = 16 << 10 // of the whole text; more than all its parts together, with escapes
	maxPatterns = 16
)

func parse(text string) (p *parts, err error) {
	text = strings.TrimSpace(text)
	if strings.HasPrefix(text, "{") {
		p, err = fromJSON([]byte(text))
	} else {
		p, err = newParts(strings.Split(text, ","), nil)
	}
	if err != nil {
		return nil, fmt.Errorf("success: %w", err)
	}
	return p, nil
}

// ruleJSON is the JSON form. It is parsed member by member, because the kind of a value
// distinguishes null and the shapes of a body.
type ruleJSON struct {
	Status jsontext.Value `json:"status,omitzero"`
	Body   jsontext.Value `json:"body,omitzero"`
}

func fromJSON(text []byte) (*parts, error) {
	var raw ruleJSON
	if err := readMembers(text, map[string]*jsontext.Value{"status": &raw.Status, "body": &raw.Body}); err != nil {
		return nil, err
	}
	patterns := []string{"2xx"}
	if raw.Status != nil {
		if raw.Status.Kind() != '[' {
			return nil, input.FieldError{Path: "$.status", Detail: `not a list; write ["2xx"]`}
		}
		if err := json.Unmarshal(raw.Status, &patterns); err != nil {
			return nil, input.FieldError{Path: "$.status", Detail: `not a list of texts; write ["2xx"] or ["200","204"]`}
		}
	}
	return newParts(patterns, raw.Body)
}

// newParts parses the status patterns and the optional rule of the body, and writes both
// in canonical form.
func newParts(patterns []string, body jsontext.Value) (*parts, error) {
	spans, err := parseStatus(patterns)
	if err != nil {
		return nil, input.FieldAt("$.status", err)
	}
	p := &parts{status: spans}
	var canonical ruleJSON
	if body != nil {
		if p.body, canonical.Body, err = parseBody(body); err != nil {
			return nil, input.FieldAt("$.body", err)
		}
	}
	if canonical.Status, err = json.Marshal(patternsOf(spans)); err != nil {
		return nil, fmt.Errorf("status: %w", err)
	}
	text, err := json.Marshal(canonical)
	p.text = string(text)
	return p, err
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
			return nil, input.FieldAt(fmt.Sprintf("$[%d]", i), err)
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

// readMembers reads an object with known members. A null member counts as missing. Its
// errors name the member, without the words of Go.
func readMembers(text []byte, known map[string]*jsontext.Value) error {
	var all map[string]jsontext.Value
	if err := json.Unmarshal(text, &all); err != nil {
		var syntax *jsontext.SyntacticError
		if errors.As(err, &syntax) {
			return syntax
		}
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		to, ok := known[name]
		switch {
		case !ok:
			return input.FieldError{Path: "$" + input.Member(name), Detail: "is unknown; known are " + strings.Join(slices.Sorted(maps.Keys(known)), ", ")}
		case all[name].Kind() != 'n':
			*to = all[name]
		}
	}
	return nil
}
