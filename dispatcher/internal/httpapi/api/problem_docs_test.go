package api_test

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// kindsOfSource returns the rows of the table that each type of problem should have on the page
// of problems. It reads the source, so that no kind can be missing.
func kindsOfSource(t testing.TB) (words []string, rows map[string]string) {
	t.Helper()
	source, err := os.ReadFile("problem.go")
	require.NoError(t, err)
	statuses := map[string]int{}
	for status := 400; status < 600; status++ {
		statuses[strings.ReplaceAll(http.StatusText(status), " ", "")] = status
	}
	rows = map[string]string{}
	found := regexp.MustCompile(`&Kind\{"([a-z-]+)", http\.Status(\w+), "([^"]+)", (\d+)\}`).FindAllStringSubmatch(string(source), -1)
	require.Len(t, found, strings.Count(string(source), "&Kind{"), "a kind is written in another way")
	for _, m := range found {
		require.NotZero(t, statuses[m[2]], m[2])
		if rows[m[1]] == "" {
			words = append(words, m[1])
		}
		title := m[3]
		if m[4] != "0" {
			title += " (" + m[4] + " s)"
		}
		if rows[m[1]] == "" {
			rows[m[1]] = fmt.Sprintf("| `%s` | %d | %s", m[1], statuses[m[2]], title)
			continue
		}
		rows[m[1]] += " · " + title
	}
	return words, rows
}

// update writes what the page has of the code: go test ./dispatcher/internal/httpapi/api -run ProblemsPage -update
var update = flag.Bool("update", false, "write what is generated from the code")

// The page has the type, the status and the titles from the code, and beside them in words when it
// comes and what helps.
func TestTheProblemsPageIsGeneratedFromTheProblems(t *testing.T) {
	file := filepath.Join("..", "..", "..", "..", "deploy", "docs", "problems.md")
	was, err := os.ReadFile(file)
	require.NoError(t, err)
	const head = "| --- | --- | --- | --- | --- |\n"
	before, table, ok := strings.Cut(string(was), head)
	require.True(t, ok)
	texts := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\|[^|]*\\|[^|]*( \\|.*)$").FindAllStringSubmatch(table, -1) {
		texts[m[1]] = strings.TrimPrefix(m[2], " ")
	}
	words, rows := kindsOfSource(t)
	now := before + head
	for _, word := range words {
		if texts[word] == "" {
			texts[word] = "| | |"
		}
		now += rows[word] + " " + texts[word] + "\n"
	}
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(now), 0o600))
		return
	}
	require.Equal(t, now, string(was), "write it with: go test ./dispatcher/internal/httpapi/api -run ProblemsPage -update")
	for word, text := range texts {
		require.Regexp(t, `^\| .{10,} \| .{10,} \|$`, text, word)
	}
}
