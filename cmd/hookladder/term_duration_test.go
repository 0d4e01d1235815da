package main

import (
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

func TestAFlagOfADurationReadsAndShowsDays(t *testing.T) {
	var lasts, delay time.Duration
	flags := pflag.NewFlagSet("any", pflag.ContinueOnError)
	durationVar(flags, &lasts, "lasts", 36*time.Hour, "how long")
	durationVar(flags, &delay, "delay", 0, "how late")
	require.Equal(t, 36*time.Hour, lasts)
	require.Contains(t, flags.FlagUsages(), "--lasts duration   how long (default 1d12h)")
	require.NotContains(t, flags.FlagUsages(), "0s", "no default is no default")
	require.NoError(t, flags.Parse([]string{"--lasts", "5d", "--delay", "1.5"}))
	require.Equal(t, 5*24*time.Hour, lasts)
	require.Equal(t, 1500*time.Millisecond, delay)
	require.ErrorContains(t, flags.Parse([]string{"--lasts", "soon"}), "use a duration such as 15s, 1h30m or 1d")
}
