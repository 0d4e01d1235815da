package main

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/cmd/hookladder/internal/settings"
)

// tableRows returns the lines of a table, by the code with which each begins.
func tableRows(text string) map[string]string {
	found := map[string]string{}
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, "| `"); ok {
			name, _, _ := strings.Cut(rest, "`")
			found[name] = line
		}
	}
	return found
}

func TestTheSettingsPageHasTheBoundsAndWordsOfTheCode(t *testing.T) {
	described := tableRows(page(t, "settings"))
	bounds, words := 0, 0
	for _, s := range settings.Table() {
		row := described[s.Name]
		_, meaning, _ := strings.Cut(strings.TrimPrefix(row, "| `"+s.Name+"` | "), " | ")
		require.Greater(t, len(meaning), len("refuses"), s.Name)
		for _, bound := range regexp.MustCompile(`\d[\w.]* to \d[\w.]*`).FindAllString(meaning, -1) {
			require.Contains(t, s.Accepts, strings.TrimSuffix(bound, "."), s.Name)
			bounds++
		}
		list := regexp.MustCompile(`^[a-z]+(?:, [a-z]+)* or [a-z]+$`).FindString(s.Accepts)
		if list == "" || list == "true or false" {
			continue
		}
		for _, word := range regexp.MustCompile(`, | or `).Split(list, -1) {
			require.Contains(t, row, "`"+word+"`", s.Name)
			words++
		}
	}
	require.Greater(t, bounds, 3)
	require.Greater(t, words, 12)
}

func TestTheMetricsPageHasTheLabelsOfTheCode(t *testing.T) {
	kept, _ := mustReadContract(t) // which is compared with the code
	var listed []string
	for _, row := range tableRows(page(t, "metrics")) {
		cell, _, _ := strings.Cut(strings.TrimPrefix(row, "| "), " | ")
		for _, m := range regexp.MustCompile("`(hookladder_[a-z_]+)(?:{([a-z,]+)})?`").FindAllStringSubmatch(cell, -1) {
			name := m[1]
			if m[2] != "" {
				labels := strings.Split(m[2], ",")
				slices.Sort(labels)
				name += "{" + strings.Join(labels, ",") + "}"
			}
			listed = append(listed, name)
		}
	}
	var want []string
	for name := range kept["metric"] {
		want = append(want, name)
	}
	require.ElementsMatch(t, want, listed)
}

// update writes the tables of commands and settings: go test ./cmd/hookladder -run Page -update
var update = flag.Bool("update", false, "write what is generated from the code")

// commandTable returns the table of all commands, and of the commands below them.
func commandTable() string {
	table := &strings.Builder{}
	table.WriteString("| command | does |\n| --- | --- |\n")
	for _, cmd := range everyCommand(newRoot(world{}))[1:] {
		use := strings.TrimSpace(cmd.Parent().CommandPath() + " " + cmd.Use)
		if shell := cmd.Parent().Name() == "completion"; cmd.Hidden || shell {
			continue
		}
		if cmd.Name() == "completion" {
			use += " <shell>"
		}
		fmt.Fprintf(table, "| `%s` | %s |\n", use, strings.ReplaceAll(lowered(cmd.Short), "|", "\\|"))
	}
	return table.String()
}

// The settings' page has the names and defaults of the code, in its order, and beside them in words
// what each is for.
func TestTheSettingsPageIsGeneratedFromTheSettings(t *testing.T) {
	was := page(t, "settings")
	const head = "| variable | default | meaning |\n| --- | --- | --- |\n"
	before, rest, ok := strings.Cut(was, head)
	require.True(t, ok)
	table, after, ok := strings.Cut(rest, "\n\n")
	require.True(t, ok)
	described := tableRows(table + "\n")
	now := before + head
	for _, s := range settings.Table() {
		usual := "unset"
		if s.Default != "" {
			usual = "`" + s.Default + "`"
		}
		_, meaning, _ := strings.Cut(strings.TrimPrefix(described[s.Name], "| `"+s.Name+"` | "), " | ")
		now += fmt.Sprintf("| `%s` | %s | %s", s.Name, usual, cmp.Or(meaning, " |\n"))
	}
	now += "\n" + after
	if *update {
		require.NoError(t, os.WriteFile(filepath.Join("..", "..", "deploy", "docs", "settings.md"), []byte(now), 0o600))
		return
	}
	require.Equal(t, now, was, "write it with: go test ./cmd/hookladder -run SettingsPage -update")
}

// lowered returns a sentence without its capital letter.
func lowered(text string) string { return strings.ToLower(text[:1]) + text[1:] }

func TestTheCommandsPageIsGeneratedFromTheCommands(t *testing.T) {
	file := filepath.Join("..", "..", "deploy", "docs", "commands.md")
	was := page(t, "commands")
	before, rest, ok := strings.Cut(was, "| command | does |\n")
	require.True(t, ok)
	_, after, ok := strings.Cut(rest, "\n\n")
	require.True(t, ok)
	now := before + commandTable() + "\n" + after
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(now), 0o600))
		return
	}
	require.Equal(t, now, was, "write it with: go test ./cmd/hookladder -run CommandsPage -update")
}

// The text beside the table names flags too.
func TestTheCommandsPageNamesFlagsOfTheCode(t *testing.T) {
	all := map[string]bool{}
	for _, cmd := range everyCommand(newRoot(world{})) {
		cmd.InitDefaultHelpFlag()
		cmd.Flags().VisitAll(func(f *pflag.Flag) { all[f.Name] = true })
	}
	named := regexp.MustCompile(`--([a-z][a-z-]*)`).FindAllStringSubmatch(page(t, "commands"), -1)
	require.NotEmpty(t, named)
	for _, m := range named {
		require.True(t, all[m[1]], "--%s", m[1])
	}
}
