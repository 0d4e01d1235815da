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

// section is what README.md has between a heading and the next one.
func section(t testing.TB, heading string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(text), "\n## "+heading+"\n")
	require.True(t, ok, "README.md has no %q", heading)
	found, _, _ := strings.Cut(rest, "\n## ")
	return found
}

// rows are the first cells of each row of a table, without its head.
func rows(text string, cells int) (found [][]string) {
	for line := range strings.Lines(text) {
		parts := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if !strings.HasPrefix(line, "| `") || len(parts) < cells {
			continue
		}
		var row []string
		for _, p := range parts[:cells] {
			row = append(row, strings.Trim(strings.TrimSpace(p), "`"))
		}
		found = append(found, row)
	}
	return found
}

func TestTheSettingsOfTheReadmeAreThoseOfTheCode(t *testing.T) {
	var want [][]string
	for _, s := range settings.Table() {
		value := s.Default
		if value == "" {
			value = "unset"
		}
		want = append(want, []string{s.Name, value})
	}
	require.Equal(t, want, rows(section(t, "Settings"), 2))
}

func TestTheReadmeNamesTheSettingsThatAFileMayHold(t *testing.T) {
	text := section(t, "Settings")
	for _, s := range settings.Table() {
		require.Equal(t, s.File, strings.Contains(text, "`"+s.Name+"_FILE`"), s.Name)
	}
}

func TestTheCommandsOfTheReadmeAreThoseOfTheCode(t *testing.T) {
	var have, want []string
	for _, row := range rows(section(t, "Commands"), 1) {
		have = append(have, strings.TrimPrefix(row[0], "hookladder "))
	}
	for _, cmd := range newRoot(world{}).Commands() {
		want = append(want, cmd.Use)
	}
	require.ElementsMatch(t, want, have)
}

func TestTheReadmeUsesNoUnknownCommand(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	require.NoError(t, err)
	known := map[string]bool{}
	for _, cmd := range newRoot(world{}).Commands() {
		known[cmd.Name()] = true
	}
	used := regexp.MustCompile(`(?m)(?:^|[ ;&|])(?:bin/hookladder|hookladder|\./cmd/hookladder) ([a-z]+)`).FindAllStringSubmatch(code(string(text)), -1)
	require.NotEmpty(t, used)
	for _, u := range used {
		require.True(t, known[u[1]], u[0])
	}
}

// code is what stands between the fences.
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
