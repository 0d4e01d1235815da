package success

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/hookladder/hookladder/dispatcher/internal/fields"
)

// The bounds of a pattern. They hold before anything is compiled: `\pL` is
// three bytes and 650 ranges, `.{1000}` seven bytes and a thousand steps.
const (
	maxRegexp = 256 // bytes
	// maxSteps bounds the instructions of the compiled pattern: any plain text fits.
	maxSteps = 256
	// maxRanges bounds the ranges of characters: one \pL and some more.
	maxRanges = 1000
	// maxTables bounds \p and \P, which the parser unfolds before they can be
	// counted: 0.1 ms each (measured), in alternatives more.
	maxTables = 2
	// maxFolded bounds how many characters ranges may span beside a flag such as
	// (?i): the parser looks each of them up, 50 ns each (measured).
	maxFolded = 4 << 10
	// matchWork bounds steps times bytes for one answer. The worst takes some
	// 20 ns each (measured), so that a judgement stays within 20 ms.
	matchWork = 1_000_000
)

// matchRule wants the answer to match a regular expression somewhere.
type matchRule struct {
	text  string
	re    *regexp.Regexp
	steps int // at most, for each byte
	most  int // bytes of an answer that are judged
}

func parseMatches(raw jsontext.Value) (matchRule, error) {
	text, err := parseString(raw, maxRegexp)
	if err == nil {
		var m matchRule
		if m, err = newMatchRule(text); err == nil {
			return m, nil
		}
	}
	return matchRule{}, fields.At("$.matches", err)
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
		return matchRule{}, fmt.Errorf("stands for %d ranges of characters, more than %d", ranges, maxRanges)
	}
	if steps > maxSteps {
		return matchRule{}, fmt.Errorf("stands for more than %d steps: repeat less, or a shorter part", maxSteps)
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return matchRule{}, err
	}
	return matchRule{text: text, re: re, steps: steps, most: min(AnswerLimit, matchWork/max(steps, 1))}, nil
}

func (m matchRule) holds(b []byte) bool { return m.re.Match(b[:min(len(b), m.most)]) }

func (m matchRule) broken() string {
	if m.most < AnswerLimit {
		return fmt.Sprintf("the first %d bytes of the body do not match the pattern asked for", m.most)
	}
	return "the body does not match the pattern asked for"
}

// checkUnfolding refuses what would cost the parser itself too much. It looks
// at the text alone, and takes an escaped backslash before p for a table too.
func checkUnfolding(text string) error {
	if strings.Count(text, `\p`)+strings.Count(text, `\P`) > maxTables {
		return fmt.Errorf(`has \p more than %d times`, maxTables)
	}
	if strings.Contains(text, "(?") && spanned(text) > maxFolded {
		return fmt.Errorf("has ranges over more than %d characters beside a flag such as (?i): leave out one of them", maxFolded)
	}
	return nil
}

// spanned is how many characters the ranges of a pattern have at most. A bound
// that is written as an escape counts from 0, and to the last character.
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

// weigh counts what a pattern compiles to, from above: its steps, where a part
// that is repeated counts each time, and its ranges of characters, which are
// shared. Steps stop growing once they are more than is taken.
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
		// So many copies, and a branch before each beyond the first Min.
		times := max(re.Min, re.Max, 1)
		steps = steps*times + max(re.Max-re.Min, 2)
	default:
		steps += 2
	}
	return min(steps, maxSteps+1), ranges
}
