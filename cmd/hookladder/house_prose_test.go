//go:build !race

package main_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// mostWords is how long a sentence of a comment may be: a second reading is
// needed beyond, if English is not one's first language.
const mostWords = 32

// heavy are the sentences that break the rules of prose today, by the longest
// of these paths that a file lies below. The numbers may only shrink.
var heavy = map[string]int{
	"":                              0,
	"cmd/hookladder":                0,
	"cmd/hookladder/internal/bench": 0,
	"deploy":                        0,
	"dispatcher":                    0,
	"dispatcher/app":                0,
	"dispatcher/client":             0,
	"dispatcher/internal/egress":    0,
	"dispatcher/internal/embedded":  0,
	"dispatcher/internal/httpapi":   0,
	"dispatcher/internal/redisq":    0,
	"ladder":                        0,
	"signer":                        0,
}

var (
	sentenceEnd = regexp.MustCompile(`[.!?]["')]*(\s+|$)`)
	abbreviated = regexp.MustCompile(`\b(e\.g|i\.e|etc|cf|vs)\.$`)
	readable    = regexp.MustCompile(`[\pL\pN]`)

	// personal finds a clause whose subject is that pronoun: at the start of a
	// sentence, after a mark, and after a word that it can't refer to.
	personal = regexp.MustCompile(`(?i)(^|[,;:(—–]\s*|\b(and|but|or|nor|that|because|if|when|so|for|while|as|than|what|to|of|by|from|with|on|in|at|` +
		`is|are|was|were|be|see|tells|tell|says|say|asks|ask|knows|know|shows|show|out|about|not|only|where|which|until|unless|before|after|once|also)\s+)who\b`)
	impersonal = regexp.MustCompile(`(?i)\b(whoever|nobody)\b`)

	// tableRow begins a row of a script's contract: what the script takes or
	// answers, or what a key holds. Lines that are indented further continue it.
	tableRow = regexp.MustCompile(`^\s*((KEYS|ARGV|returns|(:\S+ +)+(hash|zset|list|stream))\b|needs: [a-z_]+\(|\S+ {2,}\S+ {2,}\S+ {2,}\S)`)
)

func TestTheHouseIsWrittenInPlainSentences(t *testing.T) {
	found := map[string][]string{}
	mustWalkHouse(t, func(file, text string) {
		for _, c := range commentsOf(file, text) {
			for _, s := range heavySentences(c.text) {
				below := longestPrefix(file, heavy)
				found[below] = append(found[below], fmt.Sprintf("%s:%d: %s", file, c.line, s))
			}
		}
	})
	for below, most := range heavy {
		require.LessOrEqual(t, len(found[below]), most, "below %q at most %d sentences may be of these:\n%s", below, most, strings.Join(found[below], "\n"))
	}
}

func TestTheHouseFindsAHeavySentence(t *testing.T) {
	long := strings.Repeat("word ", mostWords)
	for _, text := range []string{
		long + "more.",
		"Short. " + long + "more. Short.",
		"Whoever calls waits.", "It waits, and nobody calls.", "It tells who called.", "Who calls waits.", "It waits; who calls does not.",
	} {
		require.Len(t, heavySentences(text), 1, text)
	}
	for _, text := range []string{
		long, long + ". " + long, long + "\n\n" + long, "An operator who calls waits.", "It may wait, e.g. " + strings.Repeat("word ", mostWords-5),
	} {
		require.Empty(t, heavySentences(text), text)
	}
	for file, text := range map[string]string{
		"a.go":     "package a\n\n// f waits for whoever calls.\nfunc f() {}\n",
		"a.lua":    "local a -- what whoever calls wants\n",
		"Makefile": "# for whoever calls\nbuild:\n",
		"run":      "#!/bin/sh\n# for whoever calls\n",
	} {
		comments := commentsOf(file, text)
		require.NotEmpty(t, comments, file)
		require.Len(t, heavySentences(comments[len(comments)-1].text), 1, file)
	}
	require.Empty(t, commentsOf("a.txt", "# for whoever calls"))
}

func TestTheHouseReadsNoSentencesInAScriptsContract(t *testing.T) {
	heavyOf := func(lines ...string) (found []string) {
		for _, c := range commentsOf("a.lua", "-- "+strings.Join(lines, "\n-- ")+"\nreturn 1\n") {
			found = append(found, heavySentences(c.text)...)
		}
		return found
	}
	long := strings.Repeat("word ", mostWords+1)
	for _, row := range []string{"KEYS[1] tag ", "ARGV[3..] for each: ", "returns now, due, ", "  :lanes zset  ", ":done :dead zset ", "needs: common(call), ", "  due   ready   move   "} {
		require.Empty(t, heavyOf(row+long, "       "+long, "       for whoever calls"), row)
		require.Len(t, heavyOf("It waits for whoever calls.", row+"one"), 1, "before %q", row)
		require.Len(t, heavyOf(row+"one", "", "It waits for whoever calls."), 1, "in the paragraph after %q", row)
		require.Len(t, heavyOf(row+"one", "It waits for whoever calls."), 1, "behind %q, no further indented", row)
	}
	require.Len(t, heavyOf("It returns "+long), 1)
	require.Len(t, heavyOf(":lanes is "+long), 1)
	require.Len(t, heavySentences(commentsOf("Makefile", "# returns what whoever calls wants\n")[0].text), 1, "only scripts of Redis have a contract")
}

// longestPrefix is the longest key that file lies below.
func longestPrefix(file string, keys map[string]int) string {
	dir := path.Dir(file)
	for ; dir != "."; dir = path.Dir(dir) {
		if _, ok := keys[dir]; ok {
			return dir
		}
	}
	return ""
}

// heavySentences are the sentences of a comment that break a rule, each with
// what is wrong.
func heavySentences(text string) (found []string) {
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		for _, s := range sentences(paragraph) {
			words := slices.DeleteFunc(strings.Fields(s), func(w string) bool { return !readable.MatchString(w) })
			switch {
			case len(words) > mostWords:
				found = append(found, fmt.Sprintf("%d words: %s", len(words), s))
			case aboutSomebody(s) && (personal.MatchString(s) || impersonal.MatchString(s)):
				found = append(found, "a clause begins with who, whoever or nobody: "+s)
			}
		}
	}
	return found
}

// aboutSomebody reports whether a sentence may have one of the words in question, as
// few do: to match the patterns takes a hundred times as long.
func aboutSomebody(s string) bool {
	s = strings.ToLower(s)
	return strings.Contains(s, "who") || strings.Contains(s, "nobody")
}

func sentences(paragraph string) (found []string) {
	rest := strings.Join(strings.Fields(paragraph), " ")
	begin := 0
	for _, end := range sentenceEnd.FindAllStringIndex(rest, -1) {
		if !abbreviated.MatchString(rest[:end[0]+1]) {
			found = append(found, strings.TrimSpace(rest[begin:end[1]]))
			begin = end[1]
		}
	}
	return append(found, rest[begin:])
}

// A comment is one block of them, as text.
type comment struct {
	line int // of its beginning
	text string
}

// commentsOf reads the comments of a Go file, a Lua script, a Makefile or a
// script with an interpreter; of other files there are none.
func commentsOf(file, text string) []comment {
	switch {
	case path.Ext(file) == ".go":
		return goComments(file, text)
	case path.Ext(file) == ".lua":
		return lineComments("--", text)
	case path.Base(file) == "Makefile", strings.HasPrefix(text, "#!"):
		return lineComments("#", text)
	}
	return nil
}

func goComments(name, text string) (found []comment) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil // it does not compile either
	}
	for _, group := range file.Comments {
		var b strings.Builder
		for _, c := range group.List {
			line := strings.TrimPrefix(c.Text, "//")
			item := strings.HasPrefix(strings.TrimSpace(line), "- ")
			switch {
			case strings.HasPrefix(line, "\t"), strings.HasPrefix(line, "     ") && !item, strings.HasPrefix(line, " #"), strings.HasPrefix(line, "go:"):
				b.WriteString("\n\n") // code, a heading or a directive
				continue
			case item, strings.TrimSpace(line) == "":
				b.WriteString("\n\n")
			}
			b.WriteString(line + "\n")
		}
		found = append(found, comment{files.Position(group.Pos()).Line, b.String()})
	}
	return found
}

// lineComments reads comments that begin with mark and end with their line,
// without the rows of a script's contract.
func lineComments(mark, text string) (found []comment) {
	var block comment
	row := -1 // how far the row is indented that the line above belongs to; -1: none
	for i, line := range strings.Split(text+"\n", "\n") {
		own, whole := strings.CutPrefix(strings.TrimSpace(line), mark)
		if !whole {
			if block.text != "" {
				found, block = append(found, block), comment{}
			}
			row = -1
			if _, behind, ok := strings.Cut(line, " "+mark+" "); ok {
				found = append(found, comment{i + 1, behind})
			}
			continue
		}
		if block.text == "" {
			block.line = i + 1
		}
		indent := len(own) - len(strings.TrimLeft(own, " "))
		switch {
		case mark == "--" && tableRow.MatchString(own):
			block.text, row = block.text+"\n\n", indent
			continue
		case row >= 0 && indent > row:
			continue
		case row >= 0, strings.TrimSpace(own) == "":
			block.text += "\n\n"
		}
		row = -1
		block.text += own + "\n"
	}
	return found
}
