package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
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

func TestTheCommandsPageHasTheCommandsBelowAndTheFlagsOfTheCode(t *testing.T) {
	described := tableRows(page(t, "commands"))
	flags, below := 0, 0
	for _, cmd := range newRoot(world{}).Commands() {
		row := described["hookladder "+cmd.Use]
		if cmd.Name() != "completion" { // its shells are arguments for people
			for _, sub := range cmd.Commands() {
				if sub.Hidden {
					continue
				}
				require.Regexp(t, `\b`+sub.Name()+`\b`, row, cmd.Name())
				below++
			}
		}
		for _, m := range regexp.MustCompile("`--([a-z-]+)").FindAllStringSubmatch(row, -1) {
			require.True(t, hasFlag(cmd, m[1]), "%s: --%s", cmd.Name(), m[1])
			flags++
		}
	}
	require.Greater(t, below, 15)
	require.Greater(t, flags, 8)
}

// hasFlag reports whether a command, or a command below it, has a flag.
func hasFlag(cmd *cobra.Command, name string) bool {
	cmd.InitDefaultHelpFlag()
	sets := []*pflag.FlagSet{cmd.Flags(), cmd.PersistentFlags()}
	for _, sub := range cmd.Commands() {
		sets = append(sets, sub.Flags())
	}
	return slices.ContainsFunc(sets, func(s *pflag.FlagSet) bool { return s.Lookup(name) != nil })
}
