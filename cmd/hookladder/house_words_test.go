//go:build !race

package main_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A form is a way of speaking that the house counts, per thousand sentences.
type form struct {
	name    string
	pattern *regexp.Regexp
	most    float64 // 0 with least > 0: no upper bound
	least   float64
}

// forms are the habits that made this code hard to read for strangers, and the words of
// the field that they replaced. The numbers come from river and asynq, with some room.
var forms = []form{
	{name: "a noun made of “what”", most: 5, pattern: regexp.MustCompile(`\b[Ww]hat (is|was|are|were|has|had|ends?|ended|happens|happened|waits?|waited|comes?|came|died|dies|goes|went|follows|counts|they|it|we|a|an|the|one|nobody|somebody)\b`)},
	{name: "tell", most: 5, pattern: regexp.MustCompile(`\b([Tt]ells?|[Tt]old)\b`)},
	{name: "that of, those of", most: 2, pattern: regexp.MustCompile(`\b([Tt]hose|[Tt]hat) of\b`)},
	{name: "so many, so long, so often", most: 3, pattern: regexp.MustCompile(`\b[Ss]o (many|long|often)\b`)},
	{name: "stands", most: 1, pattern: regexp.MustCompile(`\b[Ss]tands?\b`)},
	{name: "a clause about “who”", most: 0, pattern: regexp.MustCompile(`(^|[,;:] )([Ww]ho|[Ww]hoever|[Nn]obody) `)},
	{name: "the field's words", least: 120, pattern: regexp.MustCompile(`\b(cache[sd]?|retr(y|ies|ied)|workers?|pool(ed|s)?|time-?outs?|backoff|quer(y|ies)|poll(s|ed)?|log(s|ged)?|report(s|ed)?|return(s|ed)?)\b`)},
}

// fewestWords is the length of the shortest text that counts as a sentence.
const fewestWords = 3

func TestTheHouseSpeaksPlainly(t *testing.T) {
	spoken := map[string][]string{}
	mustWalkHouse(t, func(file, text string) {
		if group := speaks(file); group != "" {
			for _, s := range spokenIn(file, text) {
				spoken[group] = append(spoken[group], file+": "+s)
			}
		}
	})
	require.Equal(t, []string{"Go", "Lua and SQL", "documents"}, slices.Sorted(maps.Keys(spoken)))
	for group, sentences := range spoken {
		require.Empty(t, faults(sentences), "in %s", group)
	}
}

func TestTheHouseFindsADialect(t *testing.T) {
	sentences := func(texts ...string) (all []string) {
		for _, text := range texts {
			all = append(all, "a.go: "+text)
		}
		return all
	}
	plain := "It returns the finished deliveries."
	require.Empty(t, faults(sentences(plain)))
	for _, text := range []string{
		"It returns what is there.", "It returns and tells others.", "It returns that of others.", "It returns after so many tries.", "It returns and stands there.", "It returns, nobody calls.",
	} {
		require.Len(t, faults(sentences(text)), 1, text)
	}
	require.Len(t, faults(sentences("It does the work.")), 1, "no word of the field")
}

func TestTheHouseFindsTheSpokenTextsOfAFile(t *testing.T) {
	text := "package a\n\n// f returns it. And it waits.\nfunc f() {\n\tuse(\"this is an error\", \"two words\", `a long text of help`) // why it is done\n}\n"
	require.Equal(t, []string{"f returns it.", "And it waits.", "why it is done", "this is an error", "a long text of help"}, spokenIn("a.go", text))
	require.Equal(t, []string{"returns the page", "one of a lane"}, spokenIn("a.lua", "-- returns the page\nlocal b = 2\nlocal a = 1 -- one of a lane\n"))
	require.Equal(t, []string{"A page here.", "It has two sentences.", "a cell here b |"}, spokenIn("a.md", "A page here. It has\ntwo sentences.\n\n```sh\nwhat is this\n```\n\n| a cell here | b |\n"))
	require.Empty(t, speaks("a_test.go"))
	require.Empty(t, speaks("a/testdata/a.md"))
}

// speaks returns the group of files whose sentences are counted together; empty: none.
func speaks(file string) string {
	if strings.HasSuffix(file, "_test.go") || strings.Contains(file, "testdata/") {
		return ""
	}
	switch path.Ext(file) {
	case ".go":
		return "Go"
	case ".lua", ".sql":
		return "Lua and SQL"
	case ".md", ".html":
		return "documents"
	}
	return ""
}

// faults lists the forms that occur too often, or not often enough, with their sentences.
func faults(sentences []string) (found []string) {
	for _, f := range forms {
		count, example := 0, []string{}
		for _, s := range sentences {
			_, text, _ := strings.Cut(s, ": ")
			if n := len(f.pattern.FindAllString(text, -1)); n > 0 {
				count += n
				example = append(example, s)
			}
		}
		rate := 1000 * float64(count) / float64(len(sentences))
		switch {
		case f.least > 0 && rate < f.least:
			found = append(found, fmt.Sprintf("%s: %.0f per thousand sentences, at least %.0f", f.name, rate, f.least))
		case f.least == 0 && rate > f.most:
			found = append(found, fmt.Sprintf("%s: %.1f per thousand sentences, at most %.0f:\n\t%s", f.name, rate, f.most, strings.Join(example[:min(len(example), 20)], "\n\t")))
		}
	}
	return found
}

var (
	codeBlock  = regexp.MustCompile("(?s)```.*?```")
	markup     = regexp.MustCompile(`(?s)<[^>]+>|\{\{.*?\}\}`)
	newPara    = regexp.MustCompile(`\n\s*\n|\n\s*[-*|] `)
	sqlComment = regexp.MustCompile(`^\s*--+ ?(.*)$|^.*\S\s+-- (.*)$`)
	pauses     = regexp.MustCompile(`[.!?;]\s+`)
)

// spokenIn returns the sentences of a file that people read: comments, and in Go also the
// texts of errors and help.
func spokenIn(file, text string) (found []string) {
	add := func(paragraph string) {
		rest := strings.Join(strings.Fields(paragraph), " ")
		for rest != "" {
			s := rest
			if end := pauses.FindStringIndex(rest); end != nil {
				s, rest = rest[:end[0]+1], rest[end[1]:]
			} else {
				rest = ""
			}
			if len(strings.Fields(s)) >= fewestWords {
				found = append(found, s)
			}
		}
	}
	switch path.Ext(file) {
	case ".go":
		for _, c := range goComments(file, text) {
			for paragraph := range strings.SplitSeq(c.text, "\n\n") {
				add(paragraph)
			}
		}
		for _, literal := range literals(file, text) {
			if len(strings.Fields(literal)) > fewestWords {
				for paragraph := range strings.SplitSeq(literal, "\n\n") {
					add(paragraph)
				}
			}
		}
	case ".lua", ".sql":
		block := ""
		for line := range strings.Lines(text + "\n") {
			m := sqlComment.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
			if m != nil {
				block += " " + m[1] + m[2]
				continue
			}
			add(block)
			block = ""
		}
	default:
		text = markup.ReplaceAllString(codeBlock.ReplaceAllString(text, ""), " ")
		for _, paragraph := range newPara.Split(text, -1) {
			add(strings.Trim(strings.ReplaceAll(paragraph, " | ", " "), "| "))
		}
	}
	return found
}

// literals returns the string literals of a Go file.
func literals(name, text string) (found []string) {
	file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
	if err != nil {
		return nil
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if s, err := strconv.Unquote(lit.Value); err == nil {
				found = append(found, s)
			}
		}
		return true
	})
	return found
}
