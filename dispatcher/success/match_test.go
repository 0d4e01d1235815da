package success_test

import (
	"fmt"
	"regexp/syntax"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/success"
)

func matching(t testing.TB, pattern string) string {
	t.Helper()
	quoted, err := json.Marshal(pattern)
	require.NoError(t, err)
	return `{"body":{"matches":` + string(quoted) + `}}`
}

func TestPatternThatWouldCostTooMuchIsRefused(t *testing.T) {
	for pattern, want := range map[string]string{
		`\pL{990}\pN{990}`:                          "more than 256 steps",
		`^(?:` + strings.Repeat(`\pL|`, 60) + `a)$`: `has \p more than 2 times`,
		`(?i)[\pL\PL\p{Lu}]`:                        `has \p more than 2 times`,
		`\pL\PL`:                                    "ranges of characters, more than 1000",
		strings.Repeat(".{1000}", 30):               "more than 256 steps",
		`(?:a{16}){16}b`:                            "more than 256 steps",
		`(?:(?:(?:a?){10}){10}){10}`:                "more than 256 steps",
		strings.Repeat("a{1000}", 30):               "more than 256 steps",
		"(?i)[B-\U0001e900]":                        "ranges over more than 4096 characters",
		`(?i)[B-\x{1e900}]`:                         "ranges over more than 4096 characters",
		"(?i:" + strings.Repeat("[b-ӿ]", 9) + ")":   "ranges over more than 4096 characters",
		`((a{1000}){1000}){1000}`:                   "error parsing regexp",
	} {
		_, err := success.Parse(matching(t, pattern))
		require.ErrorContains(t, err, want, pattern)
	}
}

func TestPatternsAsPeopleWriteThemAreTaken(t *testing.T) {
	for pattern, body := range map[string]string{
		`(?i)^\s*ok\b`:                         " OK, thanks",
		`"code"\s*:\s*0\b`:                     `{"code" : 0}`,
		`^(?:success|SUCCESS|0000|成功)$`:        "成功",
		`(?i)[а-яё]{3,20}`:                     "Привет",
		`[\x{4e00}-\x{9fff}]+`:                 "收到",
		`\p{L}+ \d{1,3}(?:\.\d{1,3}){3}`:       "hôte 10.0.0.1",
		`<result>\s*(?:0|OK)\s*</result>`:      "<xml><result> OK </result></xml>",
		`^[A-Za-z0-9+/]{40}={0,2}$`:            strings.Repeat("A", 40) + "=",
		`^[[:alnum:]_-]{8}(?:-[0-9a-f]{4}){3}`: "deadbeef-0000-1111-2222",
	} {
		require.True(t, mustSuccess(t, matching(t, pattern)).Body([]byte(body)), pattern)
	}
}

// What a pattern with many steps is judged on shrinks with their number.
func TestPatternWithManyStepsIsJudgedOnLess(t *testing.T) {
	fill := func(n int) []byte { return append([]byte(strings.Repeat(" ", n)), strings.Repeat("x", 240)...) }
	few := mustSuccess(t, matching(t, "x"))
	require.True(t, few.Body(fill(success.AnswerLimit-1)))
	require.False(t, few.Body(fill(success.AnswerLimit)))

	many := mustSuccess(t, matching(t, "x{240}"))
	require.True(t, many.Body(fill(3000)))
	require.False(t, many.Body(fill(success.AnswerLimit/2)))

	o := dispatcher.Judge(dispatcher.Case{Answer: dispatcher.Answer{Status: 200, Body: fill(success.AnswerLimit / 2)}, Success: many})
	require.Regexp(t, `^status 200, but the first \d+ bytes of the body do not match`, o.Error)
}

func TestStoredSuccessIsReadOnlyWhereItIsJudged(t *testing.T) {
	text := `{"status":["200"],"body":{"matches":"^(?:a|b){9}$"}}`
	s := success.Stored(text)
	require.Equal(t, text, s.String())
	require.True(t, s.Equal(mustSuccess(t, text)))
	require.NoError(t, s.Check())
	require.True(t, s.Status(200))
	require.True(t, s.Body([]byte("abababaab")))
	require.False(t, s.Body([]byte("abababaa")))

	broken := success.Stored(`{"body":{"matches":"("}}`)
	require.Error(t, broken.Check())
	require.False(t, broken.Status(200))
	require.False(t, broken.Body(nil))
	o := dispatcher.Judge(dispatcher.Case{Answer: dispatcher.Answer{Status: 200}, Success: broken})
	require.Equal(t, dispatcher.ClassInternal, o.Class)
	require.False(t, o.Blame)
}

// A text is compiled once, however often it is met, and the memory for it is bounded.
func TestPatternIsCompiledOnce(t *testing.T) {
	text := matching(t, `(?:`+strings.Repeat("ab|", 50)+`c)once`)
	mustSuccess(t, text)
	again := testing.AllocsPerRun(10, func() { mustSuccess(t, text) })
	stored := success.Stored(mustSuccess(t, text).String())
	require.LessOrEqual(t, again, 5.0)
	require.LessOrEqual(t, testing.AllocsPerRun(10, func() { _ = stored.Check() }), 0.0)
	bad := matching(t, `(?:`+strings.Repeat("ab|", 50)+`c){100}`)
	_, first := success.Parse(bad)
	_, second := success.Parse(bad)
	require.Error(t, first)
	require.Same(t, first, second, "what is wrong is remembered too")

	for i := range 3 * success.MostTexts {
		mustSuccess(t, matching(t, fmt.Sprintf("^%d$", i)))
		require.LessOrEqual(t, success.KnownTexts(), success.MostTexts)
	}
}

// FuzzMatches: what is taken compiles to no more steps than its weight says.
func FuzzMatches(f *testing.F) {
	for _, pattern := range []string{`^(?i)ok\b`, `(?:a{2,5}|b*?)+c?$`, `[^\x00-\x{10ffff}]|x{0}`, `(?s).{3,}(a|b)+\pL`, `(a*)*?(?:){5}`} {
		f.Add(pattern)
	}
	f.Fuzz(func(t *testing.T, pattern string) {
		steps, err := success.PatternSteps(pattern)
		if err != nil {
			return
		}
		tree, err := syntax.Parse(pattern, syntax.Perl)
		require.NoError(t, err)
		prog, err := syntax.Compile(tree.Simplify())
		require.NoError(t, err)
		require.LessOrEqual(t, len(prog.Inst), steps+4, "fail, match and the whole's capture are not counted")
	})
}

// The worst that is taken: to read, and to judge.
func BenchmarkSuccessRead(b *testing.B) {
	for name, pattern := range worstPatterns {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := success.PatternSteps(pattern); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkSuccessJudge(b *testing.B) {
	for name, pattern := range worstPatterns {
		for _, fill := range []string{"a", "é", "0a "} {
			b.Run(name+"/"+fill, func(b *testing.B) {
				s := mustSuccess(b, matching(b, pattern))
				body := []byte(strings.Repeat(fill, success.AnswerLimit/len(fill)))
				for b.Loop() {
					s.Body(body)
				}
			})
		}
	}
}

var worstPatterns = map[string]string{
	"letters":      `\pL{124}0{120}`,
	"optional":     `(?:a?){80}!`,
	"classes":      strings.Repeat(`[^!]`, 63) + "!",
	"folded class": `(?i)[\pL\p{Lu}]{120}!`,
	"alternatives": strings.Repeat(`\w|`, 80) + "!",
	"prefixes":     strings.Repeat(`ab|cd|`, 20) + `x`,
	"nested":       strings.Repeat("(?:", 40) + "a" + strings.Repeat(")*", 40) + "!",
}
