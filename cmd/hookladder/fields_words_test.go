package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

// ourWords are words that other programs have not, and what explains each. The same line has it where
// a page has the word first.
var ourWords = map[string]struct{ word, explained *regexp.Regexp }{
	"lane":   {regexp.MustCompile(`\b[Ll]anes?\b`), regexp.MustCompile(`\bqueues?\b`)},
	"rung":   {regexp.MustCompile(`\b[Rr]ungs?\b`), regexp.MustCompile(`\bwait\b`)},
	"permit": {regexp.MustCompile(`\b[Pp]ermits?\b`), regexp.MustCompile(`\bslots?\b`)},
	"lease":  {regexp.MustCompile(`\b[Ll]eases?d?\b`), regexp.MustCompile(`visibility timeout|belongs to|a lease, `)},
	"settle": {regexp.MustCompile(`\b[Ss]ettle[sd]?\b`), regexp.MustCompile(`\b(outcome|acknowledge)`)},
	"notice": {regexp.MustCompile(`\b(a|the|no|sends|[Nn]otices?\]\(|of) ?[Nn]otices?\b`), regexp.MustCompile(`operational webhook|#notices\)`)},
}

// neverOurs are words of ours that a user has no need of: attempt n of m, and webhook, say the same.
var neverOurs = regexp.MustCompile(`(?i)\bcallbacks?\b|\bclimb(s|ed|ing)?\b`)

var spans = regexp.MustCompile("(?s)\n```.*?\n```|`[^`\n]*`|\\]\\([^)]*\\)|<!--.*?-->")

// prose returns a page without what is code: it has the names of the API, which stay.
func prose(text string) string {
	return spans.ReplaceAllStringFunc(text, func(code string) string {
		if strings.HasSuffix(code, "#notices)") {
			return code
		}
		return strings.Repeat("\n", strings.Count(code, "\n"))
	})
}

func TestEachPageExplainsOurWordsWhereItHasThemFirst(t *testing.T) {
	for _, file := range documents(t) {
		name := filepath.Base(file)
		if name == "CHANGELOG.md" || name == "CONTRIBUTING.md" {
			continue
		}
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		readable := prose(string(text))
		require.NotRegexp(t, neverOurs, readable, name)
		for word, w := range ourWords {
			for line := range strings.Lines(readable) {
				if w.word.MatchString(line) {
					require.Regexp(t, w.explained, line, "%s does not explain %q here", name, word)
					break
				}
			}
		}
	}
}

func TestTheHelpHasTheWordsOfTheField(t *testing.T) {
	for _, cmd := range everyCommand(newRoot(world{})) {
		text := cmd.Short + "\n" + cmd.Long + "\n" + cmd.Example
		cmd.Flags().VisitAll(func(f *pflag.Flag) { text += "\n" + f.Usage })
		require.NotRegexp(t, neverOurs, text, cmd.CommandPath())
		require.NotRegexp(t, `(?i)\b(rungs?|permits?)\b`, text, cmd.CommandPath())
	}
}
