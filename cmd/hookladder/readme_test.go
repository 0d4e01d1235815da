package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/cmd/hookladder/internal/settings"
)

// page returns a page of deploy/docs.
func page(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "deploy", "docs", name+".md"))
	require.NoError(t, err)
	return string(text)
}

// section returns the text of README.md between a heading and the next one.
func section(t testing.TB, heading string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(text), "\n## "+heading+"\n")
	require.True(t, ok, "README.md has no %q", heading)
	found, _, _ := strings.Cut(rest, "\n## ")
	return found
}

func TestTheSettingsPageListsTheSettingsThatAFileMayHave(t *testing.T) {
	text := page(t, "settings")
	for _, s := range settings.Table() {
		require.Equal(t, s.File, strings.Contains(text, "`"+s.Name+"_FILE`"), s.Name)
	}
}

func TestTheDocumentsUseNoUnknownCommand(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "deploy", "docs", "*.md"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	var all strings.Builder
	for _, file := range append(files, filepath.Join("..", "..", "README.md")) {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		all.WriteString(code(string(text)))
	}
	known := map[string]bool{}
	for _, cmd := range newRoot(world{}).Commands() {
		known[cmd.Name()] = true
	}
	text := strings.ReplaceAll(all.String(), "user hookladder", "user") // of Redis' access rules
	used := regexp.MustCompile(`(?m)(?:^|[ ;&|])(?:bin/hookladder|hookladder|\./cmd/hookladder) ([a-z]+)`).FindAllStringSubmatch(text, -1)
	require.NotEmpty(t, used)
	for _, u := range used {
		require.True(t, known[u[1]], u[0])
	}
}

// code returns the text between the fences.
func code(text string) string {
	var out strings.Builder
	for i, part := range strings.Split(text, "\n```") {
		if i%2 == 1 {
			out.WriteString(part + "\n")
		}
	}
	return out.String()
}

func TestTheFirstThingThatTheReadmeSendsGoesToAReceiverThatIsThere(t *testing.T) {
	run := section(t, "Run it")
	addr := newListen(world{}).Flags().Lookup("addr").DefValue
	require.Contains(t, run, "bin/hookladder listen &")
	require.Contains(t, run, "--url http://"+addr+"/")
	require.NotContains(t, run, "shop.example")
	for _, file := range []string{".gitignore", ".dockerignore"} { // that folder is where it was started
		text, err := os.ReadFile(filepath.Join("..", "..", file))
		require.NoError(t, err)
		require.Regexp(t, `(?m)^/?appendonlydir/?$`, string(text), file)
	}
}
