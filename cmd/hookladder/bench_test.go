package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestABenchRefusesWhatItCannotDo(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"no runs":                   {[]string{"--runs", "0"}, "--runs 0: must be at least 1"},
		"too few messages":          {[]string{"--messages", "10"}, "--messages 10: must be at least 64"},
		"an unknown part":           {[]string{"--only", "drain,drian"}, "--only drian: there are limit, drain"},
		"a load without a plan":     {[]string{"--per-day", "1M"}, "--per-day needs --plan"},
		"a load that is no number":  {[]string{"--plan", "--per-day", "many"}, "--per-day many: must be a number"},
		"a load of nothing":         {[]string{"--plan", "--per-day", "0"}, "--per-day must be above 0"},
		"an argument":               {[]string{"drain"}, "bench takes no arguments"},
		"an unknown flag":           {[]string{"--fast"}, "unknown flag"},
		"a receiver with no secret": {[]string{"receiver"}, "SIGNING_SECRET is not set"},
	} {
		t.Run(name, func(t *testing.T) {
			got := command(t, nil, "", append([]string{"bench"}, c.args...)...)
			require.Equal(t, exitUsage, got.code)
			require.Contains(t, got.err, c.says)
			require.Empty(t, got.out)
		})
	}
}

func TestABenchThatCannotWriteItsFiguresSaysSoBeforeItMeasures(t *testing.T) {
	got := command(t, nil, "", "bench", "--json", filepath.Join(t.TempDir(), "missing", "figures.json"))
	require.Equal(t, exitFailed, got.code)
	require.Contains(t, got.err, "write the figures")
	require.NotContains(t, got.err, "run 1")
}

func TestABenchWithoutAStoreSaysHowToGetOne(t *testing.T) {
	t.Parallel()
	got := command(t, nil, "", "bench", "--redis-server", "no-such-server")
	require.Equal(t, exitFailed, got.code)
	require.Contains(t, got.err, "there is no no-such-server: install it")
}
