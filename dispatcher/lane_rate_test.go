package dispatcher_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	d "github.com/hookladder/hookladder/dispatcher"
)

func TestRatesThatAreTaken(t *testing.T) {
	cases := map[string]struct {
		rate     d.Rate
		interval time.Duration
	}{
		"100/s":    {d.Rate{Count: 100, Per: time.Second}, 10 * time.Millisecond},
		"1/s":      {d.Rate{Count: 1, Per: time.Second}, time.Second},
		"3/s":      {d.Rate{Count: 3, Per: time.Second}, 333333 * time.Microsecond},
		"7/m":      {d.Rate{Count: 7, Per: time.Minute}, 8571428 * time.Microsecond},
		"600/m":    {d.Rate{Count: 600, Per: time.Minute}, 100 * time.Millisecond},
		"50/h":     {d.Rate{Count: 50, Per: time.Hour}, 72 * time.Second},
		"1/h":      {d.Rate{Count: 1, Per: time.Hour}, time.Hour},
		"100000/s": {d.Rate{Count: 100_000, Per: time.Second}, 10 * time.Microsecond},
		"100000/h": {d.Rate{Count: 100_000, Per: time.Hour}, 36 * time.Millisecond},
	}
	for text, c := range cases {
		t.Run(text, func(t *testing.T) {
			rate, err := d.ParseRate(text)
			require.NoError(t, err)
			require.Equal(t, c.rate, rate)
			require.Equal(t, c.interval, rate.Interval())
			require.Equal(t, text, rate.String())
			require.False(t, rate.IsZero())
		})
	}
}

func TestRatesThatAreRefused(t *testing.T) {
	for _, text := range []string{
		"", "/", "/s", "100", "100/", "100/d", "100/sec", "100/S", "100/1s", "s/100", "100/s/s", " 100/s", "100 /s", "100/ s", "100/s ",
		"0/s", "-1/s", "+1/s", "1.5/s", "1e3/s", "0x10/s", "100001/s", "99999999999999999999/s", "१/s",
	} {
		t.Run(text, func(t *testing.T) {
			rate, err := d.ParseRate(text)
			require.Error(t, err)
			require.True(t, rate.IsZero())
			require.Regexp(t, `^(is not a rate: write 100/s|must be 1 to 100000 a second)`, err.Error(), "it says what to write")
		})
	}
}

func TestNoRateIsNoBound(t *testing.T) {
	var none d.Rate
	require.True(t, none.IsZero())
	require.Zero(t, none.Interval())
	require.Empty(t, none.String())
}

// FuzzParseRate: what is taken is written as it is read, and fits a lane.
func FuzzParseRate(f *testing.F) {
	for _, text := range []string{"100/s", "600/m", "50/h", "0/s", "007/s", "/", "99999999999999999999/h"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		rate, err := d.ParseRate(text)
		if err != nil {
			require.Zero(t, rate)
			if len(text) > 8 {
				require.NotContains(t, err.Error(), text, "it may be anything")
			}
			return
		}
		interval := rate.Interval()
		require.Positive(t, interval)
		require.Zero(t, interval%time.Microsecond)
		require.LessOrEqual(t, interval, time.Hour)
		again, err := d.ParseRate(rate.String())
		require.NoError(t, err)
		require.Equal(t, rate, again)
		require.Equal(t, rate.String(), strings.TrimLeft(text, "0"))
	})
}
