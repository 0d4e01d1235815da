package console_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/internal/console"
)

func TestTimesAndNumbersAreWrittenForPeople(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", time.Millisecond: "1ms", 999 * time.Millisecond: "999ms", 15 * time.Second: "15s", 3*time.Minute + 4*time.Second: "3m4s",
		time.Hour: "1h", 25 * time.Hour: "1d1h", 61 * time.Minute: "1h1m", time.Hour + time.Second: "1h", -time.Minute: "1m",
	} {
		require.Equal(t, want, console.Span(d))
	}
	for n, want := range map[any]string{0: "0", 999: "999", 1000: "1,000", int64(1234567): "1,234,567", -1234: "−1,234", "x": "x"} {
		require.Equal(t, want, console.Count(n))
	}
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.00 KiB", 1536: "1.50 KiB", 1 << 20: "1.00 MiB", 5 << 40: "5.00 TiB"} {
		require.Equal(t, want, console.Size(n))
	}
	for ms, want := range map[int64]string{0: "0 ms", 999: "999 ms", 1500: "1.5 s", 15_000: "15.0 s", 90_000: "1m30s"} {
		require.Equal(t, want, console.Millis(ms))
	}
}

func TestATimeIsToldFromNow(t *testing.T) {
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	require.Equal(t, `<time datetime="2026-03-04T12:08:47Z" title="2026-03-04 12:08:47 UTC" data-rel>in 8m47s</time>`, string(console.Rel(now, now.Add(8*time.Minute+47*time.Second))))
	require.Contains(t, string(console.Rel(now, now.Add(-time.Hour))), ">1h ago<")
	require.Contains(t, string(console.Rel(now, now)), ">now<")
	require.Equal(t, "–", string(console.Rel(now, time.Time{})))
	require.Equal(t, "11:59:00", console.Clock(now, now.Add(-time.Minute)))
	require.Equal(t, "Fri 12:00", console.Clock(now, now.Add(48*time.Hour)))
	require.Equal(t, "4 Apr 2026 12:00", console.Clock(now, now.AddDate(0, 1, 0)))
}

// A receiver's answer must not turn the text around it, or hide a part of it.
func TestWhatHidesInATextIsShown(t *testing.T) {
	require.Equal(t, "a\nb\tc é 中", console.Visible("a\nb\tc é 中"))
	require.Equal(t, `x\u202ey\u0000\u001b[31m\u200b\ufeff`, console.Visible("x\u202ey\x00\x1b[31m\u200b\ufeff"))
}

func TestASignInLeadsNowhereElse(t *testing.T) {
	for _, to := range []string{"", "https://evil.example/", "//evil.example", "/\\evil.example", "/console", "/v1/stats", "javascript:alert(1)",
		"/console/\\evil", "/console/\n/evil", "/console/sign-in", "/console/sign-out", "/console/\r\nx: y", "/link/", "/consolex/", "/console//../..//evil.example"} {
		require.Equal(t, "/console/", console.OwnPath(to), to)
	}
	require.Equal(t, "/console/deliveries?status=dead", console.OwnPath("/console/deliveries?status=dead"))
}
