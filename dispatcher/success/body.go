package success

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/hookladder/hookladder/dispatcher/internal/input"
)

// maxWord is the longest word or value of a body's rule, in characters.
const maxWord = 256

// bodyRule is the rule for the body of a response.
type bodyRule interface {
	// holds reports whether a text matches. If it was cut, it may end anywhere.
	holds(text []byte, cut bool) bool
	// broken returns the sentence for a body that fails the rule.
	broken() string
	// unseen returns the end of that sentence, see parts.unseen.
	unseen(text []byte, cut bool) string
}

type bodyJSON struct {
	Path    jsontext.Value `json:"path,omitzero"`
	Equals  jsontext.Value `json:"equals,omitzero"`
	Matches jsontext.Value `json:"matches,omitzero"`
}

// parseBody parses the body's rule, and also returns its canonical form.
func parseBody(raw jsontext.Value) (bodyRule, jsontext.Value, error) {
	switch raw.Kind() {
	case '"':
		word, err := parseString(raw, maxWord)
		if err != nil {
			return nil, nil, err
		}
		if strings.TrimSpace(word) != word {
			return nil, nil, errors.New("has space around it, which the trimmed answer never has")
		}
		canonical, err := json.Marshal(word)
		return wordRule(word), canonical, err
	case '{':
		var b bodyJSON
		if err := readMembers(raw, map[string]*jsontext.Value{"path": &b.Path, "equals": &b.Equals, "matches": &b.Matches}); err != nil {
			return nil, nil, err
		}
		return parseBodyObject(b)
	default:
		return nil, nil, errors.New(`neither a word nor an object; write "success", {"path":…,"equals":…} or {"matches":…}`)
	}
}

func parseBodyObject(b bodyJSON) (bodyRule, jsontext.Value, error) {
	var rule bodyRule
	var err error
	switch {
	case b.Matches != nil && b.Path == nil && b.Equals == nil:
		var m matchRule
		m, err = parseMatches(b.Matches)
		rule = m
		b.Matches, _ = json.Marshal(m.text) // parsed from JSON just before, so it can't fail
	case b.Matches == nil && b.Path != nil && b.Equals != nil:
		var p pathRule
		p, err = parsePathRule(b.Path, b.Equals)
		rule = p
		b.Path, _ = json.Marshal(p.path)
		b.Equals = p.equals
	default:
		err = errors.New("needs path and equals, or matches alone")
	}
	if err != nil {
		return nil, nil, err
	}
	canonical, err := json.Marshal(b)
	return rule, canonical, err
}

// parseString parses a JSON string of 1 to most characters.
func parseString(raw jsontext.Value, most int) (string, error) {
	var s string
	if raw.Kind() != '"' {
		return "", errors.New("not a text")
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		return "", err
	}
	if s == "" {
		return "", errors.New("is empty")
	}
	if utf8.RuneCountInString(s) > most {
		return "", fmt.Errorf("longer than %d characters", most)
	}
	return s, nil
}

// wordRule requires a trimmed body that is one word.
type wordRule string

func (w wordRule) holds(text []byte, _ bool) bool { return string(bytes.TrimSpace(text)) == string(w) }
func (w wordRule) broken() string                 { return fmt.Sprintf("the body is not %q", string(w)) }

func (w wordRule) unseen(text []byte, cut bool) string {
	text = bytes.TrimSpace(text)
	last := len(text) - 1
	switch {
	case last > 0 && (text[0] == '"' || text[0] == '\'') && text[last] == text[0] && w.holds(text[1:last], cut):
		return ": the word is in quotes"
	case w.holds(visible(text), cut):
		return ": it has characters that are not visible"
	default:
		return ""
	}
}

// pathRule requires one value inside a JSON body.
type pathRule struct {
	path   string
	steps  []string
	equals jsontext.Value // a string, number, true or false
	word   string         // the string, if equals is one
}

func parsePathRule(rawPath, rawEquals jsontext.Value) (pathRule, error) {
	path, err := parseString(rawPath, maxWord)
	if err != nil {
		return pathRule{}, input.FieldAt("$.path", err)
	}
	steps, err := pathSteps(path)
	if err != nil {
		return pathRule{}, input.FieldAt("$.path", err)
	}
	p := pathRule{path: strings.Join(steps, "."), steps: steps, equals: rawEquals}
	if err := p.parseEquals(); err != nil {
		return pathRule{}, input.FieldAt("$.equals", err)
	}
	return p, nil
}

// parseEquals checks the required value.
func (p *pathRule) parseEquals() error {
	tooLong := fmt.Errorf("longer than %d characters", maxWord)
	if len(p.equals) > 12*maxWord { // a character may be written as two escapes of six bytes
		return tooLong
	}
	switch p.equals.Kind() {
	case 't', 'f':
		return nil
	case '0':
		if len(p.equals) > maxWord {
			return tooLong
		}
		return nil
	case '"':
		if err := json.Unmarshal(p.equals, &p.word); err != nil {
			return err
		}
		if utf8.RuneCountInString(p.word) > maxWord {
			return tooLong
		}
		var err error
		p.equals, err = json.Marshal(p.word)
		return err
	default:
		return errors.New("neither a text, a number, true nor false")
	}
}

// pathSteps returns the names and positions of a path. Errors of this API and most tools
// write paths that begin with $, so $.data[0].code means data.0.code. A member with the
// name $ is $.$ then.
func pathSteps(path string) ([]string, error) {
	rest, rooted := strings.CutPrefix(path, "$")
	if !rooted || rest != "" && rest[0] != '.' && rest[0] != '[' {
		steps := strings.Split(path, ".")
		if slices.Contains(steps, "") {
			return nil, fmt.Errorf("%q has an empty step", path)
		}
		return steps, nil
	}
	var steps []string
	for rest != "" {
		step, after := "", ""
		if rest[0] == '[' {
			step, after, _ = strings.Cut(rest[1:], "]")
			if n, err := strconv.ParseUint(step, 10, 16); err != nil || step != strconv.FormatUint(n, 10) {
				step = "" // a filter, a slice or a quoted name
			}
		} else {
			end := strings.IndexAny(rest[1:], ".[")
			if end < 0 {
				end = len(rest) - 1
			}
			step, after = rest[1:1+end], rest[1+end:]
		}
		if step == "" || after != "" && after[0] != '.' && after[0] != '[' {
			return nil, fmt.Errorf("%q can't be read: write names and positions with dots between, as in data.0.code", path)
		}
		steps, rest = append(steps, step), after
	}
	if steps == nil {
		return nil, errors.New("names no member: write names and positions with dots between, as in data.0.code")
	}
	return steps, nil
}

func (p pathRule) broken() string {
	return fmt.Sprintf("%s in the body is not %s", p.path, p.equals)
}

func (p pathRule) holds(text []byte, cut bool) bool {
	equal, _ := p.check(text, cut)
	return equal
}

func (p pathRule) unseen(text []byte, cut bool) string {
	_, why := p.check(text, cut)
	return why
}

// check reports whether the text has the value at the path. If the whole text is not JSON, it
// has none, and why says so. All of it is read, because of several members with one name the
// last one counts, as in the libraries of most receivers.
func (p pathRule) check(text []byte, cut bool) (equal bool, why string) {
	// The receiver's JSON need not be strict, if it can be parsed.
	dec := jsontext.NewDecoder(bytes.NewBuffer(text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	equal, err := p.last(dec, p.steps)
	if cut {
		return equal, ""
	}
	if err != nil {
		return false, ": it is not JSON"
	}
	if _, err := dec.ReadToken(); err != io.EOF {
		return false, ": text follows the JSON"
	}
	return equal, ""
}

// last reads the next value, and reports whether it has the required value behind the steps. A
// value that breaks off was read up to there: what equals before does not change.
func (p pathRule) last(dec *jsontext.Decoder, steps []string) (equal bool, err error) {
	switch kind := dec.PeekKind(); {
	case len(steps) == 0:
		return p.value(dec, kind)
	case kind == '{':
		return p.member(dec, steps)
	case kind == '[':
		return p.element(dec, steps)
	default:
		return false, dec.SkipValue()
	}
}

// value compares the next value.
func (p pathRule) value(dec *jsontext.Decoder, kind jsontext.Kind) (bool, error) {
	if kind != p.equals.Kind() {
		return false, dec.SkipValue()
	}
	found, err := dec.ReadToken()
	if err != nil {
		return false, err
	}
	switch kind {
	case '"':
		return found.String() == p.word, nil
	case '0':
		equal := sameNumber(found.String(), string(p.equals))
		if dec.PeekKind() == 0 { // the body was cut here, and more digits may follow
			return false, io.ErrUnexpectedEOF
		}
		return equal, nil
	default: // true or false, because their kinds are equal
		return true, nil
	}
}

// member reads an object. The first step is the name of a member.
func (p pathRule) member(dec *jsontext.Decoder, steps []string) (equal bool, err error) {
	_, _ = dec.ReadToken() // was peeked
	for dec.PeekKind() == '"' {
		name, err := dec.ReadToken()
		if err != nil {
			return equal, err
		}
		if name.String() == steps[0] {
			equal, err = p.last(dec, steps[1:])
		} else {
			err = dec.SkipValue()
		}
		if err != nil {
			return equal, err
		}
	}
	_, err = dec.ReadToken()
	return equal, err
}

// element reads an array. The first step is a position in it.
func (p pathRule) element(dec *jsontext.Decoder, steps []string) (equal bool, err error) {
	want, err := strconv.ParseUint(steps[0], 10, 16) // a body has at most 2^15 elements
	known := err == nil && steps[0] == strconv.FormatUint(want, 10)
	_, _ = dec.ReadToken() // was peeked
	for n := uint64(0); dec.PeekKind() != ']'; n++ {
		if known && n == want {
			equal, err = p.last(dec, steps[1:])
		} else {
			err = dec.SkipValue()
		}
		if err != nil {
			return equal, err
		}
	}
	_, err = dec.ReadToken()
	return equal, err
}

// sameNumber compares two JSON numbers exactly, even large ones. Floats would treat
// 12345678901234567890 and its neighbours as equal. A receiver must not make us compute
// 1e999999999 either.
func sameNumber(a, b string) bool {
	an, ok1 := splitNumber(a)
	bn, ok2 := splitNumber(b)
	return ok1 && ok2 && an == bn
}

// number is digits × 10^exponent, without zeros at both ends.
type number struct {
	negative bool
	digits   string
	exponent int64
}

func splitNumber(s string) (n number, ok bool) {
	s, n.negative = strings.CutPrefix(s, "-")
	if i := strings.IndexFunc(s, unicode.IsLetter); i >= 0 {
		e, err := strconv.ParseInt(s[i+1:], 10, 32)
		if err != nil {
			return number{}, false
		}
		s, n.exponent = s[:i], e
	}
	whole, fraction, _ := strings.Cut(s, ".")
	n.exponent -= int64(len(fraction))
	digits := strings.TrimLeft(whole+fraction, "0")
	if digits == "" {
		return number{}, true // 0, -0 and 0e5 are one number
	}
	n.digits = strings.TrimRight(digits, "0")
	n.exponent += int64(len(digits) - len(n.digits))
	return n, true
}
