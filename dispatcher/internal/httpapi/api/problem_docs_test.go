package api_test

import (
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
		wait := m[4] + " s"
		if m[4] == "0" {
			wait = "none"
		}
		rows[m[1]] += fmt.Sprintf("| %d | %s | %s |\n", statuses[m[2]], m[3], wait)
	}
	return words, rows
}

func TestTheProblemsPageListsTheProblemsOfTheCode(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "deploy", "docs", "problems.md"))
	require.NoError(t, err)
	words, rows := kindsOfSource(t)
	sections := strings.Split(string(page), "\n## ")[1:]
	var listed []string
	for _, s := range sections {
		word, text, _ := strings.Cut(s, "\n")
		listed = append(listed, word)
		require.Contains(t, text, "\n| --- | --- | --- |\n"+rows[word]+"\n", word)
		require.Regexp(t, `(?m)^\*\*When:\*\* .{10,}\n\n\*\*Cure:\*\* .{10,}`, text, word)
	}
	require.Equal(t, words, listed)
}
