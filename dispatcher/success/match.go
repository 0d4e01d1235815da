package success

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/hookladder/hookladder/dispatcher/internal/input"
)

// Limits of a pattern. They are checked before it is compiled, because `\pL` has three
// bytes and 650 ranges, and `.{1000}` has seven bytes and a thousand steps.
const (
	maxRegexp = 256 // bytes
	// maxSteps bounds the instructions of the compiled pattern. Any plain text fits.
	maxSteps = 256
	// maxRanges bounds the ranges of characters: one \pL and some more.
	maxRanges = 1000
	// maxTables bounds \p and \P, because the parser expands them before they can be
	// counted: 0.1 ms each (measured), and more in alternatives.
	maxTables = 2
	// maxFolded bounds the characters in ranges with a flag such as (?i), because the
	// parser looks up each one: 50 ns each (measured).
	maxFolded = 4 << 10
	// matchWork bounds steps times bytes for one response. The worst pattern takes some
	// 20 ns each (measured), so a match takes at most 20 ms.
	matchWork = 1_000_000
)

// matchRule requires a body that matches a regular expression.
type matchRule struct {
	text  string
	re    *regexp.Regexp
	steps int // at most, for each byte
	most  int // bytes of a body that are matched
}

func parseMatches(raw jsontext.Value) (matchRule, error) {
	text, err := parseString(raw, maxRegexp)
	if err == nil {
		var m matchRule
		if m, err = newMatchRule(text); err == nil {
			return m, nil
		}
	}
	return matchRule{}, input.FieldAt("$.matches", err)
}

func newMatchRule(text string) (matchRule, error) {
	if err := checkUnfolding(text); err != nil {
		return matchRule{}, err
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return matchRule{}, err
	}
	steps, ranges := weigh(tree)
	if ranges > maxRanges {
		return matchRule{}, fmt.Errorf("has %d ranges of characters, more than %d", ranges, maxRanges)
	}
	if steps > maxSteps {
		return matchRule{}, fmt.Errorf("compiles to more than %d steps: repeat less, or a shorter part", maxSteps)
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return matchRule{}, err
	}
	return matchRule{text: text, re: re, steps: steps, most: min(AnswerLimit, matchWork/max(steps, 1))}, nil
}

func (m matchRule) holds(text []byte, _ bool) bool { return m.re.Match(text[:min(len(text), m.most)]) }
func (m matchRule) unseen([]byte, bool) string     { return "" }

func (m matchRule) broken() string {
	if m.most < AnswerLimit {
		return fmt.Sprintf("the first %d bytes of the body do not match the pattern asked for", m.most)
	}
	return "the body does not match the pattern asked for"
}

// checkUnfolding returns an error if the parser itself would take too long. It reads only
// the text, and counts an escaped backslash before p as a table too.
func checkUnfolding(text string) error {
	if strings.Count(text, `\p`)+strings.Count(text, `\P`) > maxTables {
		return fmt.Errorf(`has \p more than %d times`, maxTables)
	}
	if strings.Contains(text, "(?") && spanned(text) > maxFolded {
		return fmt.Errorf("has ranges over more than %d characters beside a flag such as (?i): leave out one of them", maxFolded)
	}
	return nil
}

// spanned returns the most characters that the ranges of a pattern may contain. A bound
// that is an escape counts from 0, and to the last character.
func spanned(text string) (n int) {
	for i := range len(text) {
		if text[i] != '-' || i == 0 || i == len(text)-1 {
			continue
		}
		low, _ := utf8.DecodeLastRuneInString(text[:i])
		high, _ := utf8.DecodeRuneInString(text[i+1:])
		if high == '\\' {
			high = utf8.MaxRune
			low = 0
		}
		if low < utf8.RuneSelf {
			low = 0 // it may end an escape
		}
		if high >= utf8.RuneSelf {
			n += max(int(high-low), 0)
		}
	}
	return n
}

// weigh returns upper bounds of the compiled pattern: its steps, with each repetition of
// a part, and its ranges of characters, which are shared. It stops counting steps above
// the limit.
func weigh(re *syntax.Regexp) (steps, ranges int) {
	for _, sub := range re.Sub {
		s, r := weigh(sub)
		steps, ranges = steps+s, ranges+r
	}
	switch re.Op {
	case syntax.OpConcat:
	case syntax.OpLiteral:
		steps += len(re.Rune)
	case syntax.OpCharClass:
		steps, ranges = 1, len(re.Rune)/2
	case syntax.OpAlternate:
		steps += len(re.Sub)
	case syntax.OpRepeat:
		// This is the number of copies, with a branch before each one beyond the first
		// Min.
		times := max(re.Min, re.Max, 1)
		steps = steps*times + max(re.Max-re.Min, 2)
	default:
		steps += 2
	}
	return min(steps, maxSteps+1), ranges
}
