package console_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/console"
)

func TestTheGapsOfALadderShowItsOrder(t *testing.T) {
	for wait, want := range map[time.Duration]int{
		0: 28, -time.Second: 28, 75 * time.Millisecond: 28, 15 * time.Second: 28, 3 * time.Minute: 37, 30 * time.Minute: 47, 15 * time.Hour: 63,
	} {
		require.Equal(t, want, console.WaitHeight(wait), wait)
	}
}

func TestEachKnobIsAPicture(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range []console.Knob{console.Ground, console.Failed, console.Delivered, console.Dead, console.Cancelled, console.Next, console.Left, console.Bare} {
		got := string(console.Rung(k, 30*time.Minute))
		mustBeSVG(t, got)
		require.Contains(t, got, `height="47"`)
		require.False(t, seen[got], "%s looks like another one", k)
		seen[got] = true
	}
}

func minute(ago time.Duration, accepted, delivered, failed int64) dispatcher.Minute {
	return dispatcher.Minute{At: chartNoon.Add(-ago), Accepted: accepted, Delivered: delivered, Failed: failed}
}

func TestAChartIsOfTheTimeBeforeIt(t *testing.T) {
	got := string(console.Chart([]dispatcher.Minute{
		minute(0, 600, 0, 0), minute(time.Minute, 300, 240, 60), minute(3*time.Hour, 60, 60, 0), minute(3*time.Hour+time.Minute, 6000, 0, 0),
	}, chartNoon, 3*time.Hour))
	mustBeSVG(t, got)
	points := strings.Fields(between(got, `data-points="`, `"`))
	require.Len(t, points, 180)
	require.Equal(t, "5.00,4.00,1.00", points[179], "the minute that is not over is not in it")
	require.Equal(t, "1.00,1.00,0", points[0])
	require.Equal(t, "0,0,0", points[1])
	require.Contains(t, got, `aria-label="In 3 hours until Sun 12:10 UTC 360 were accepted, 300 delivered, 60 attempts failed. The busiest minute was Sun 12:09 with 300 accepted"`)
	require.Contains(t, between(got, `class="c-accepted" d="`, `"`), "L997.2 33.3", "5 of 6")
	require.Contains(t, got, ">12:00<")
	require.NotContains(t, got, ">09:00<")
}

func TestALongChartJoinsMinutes(t *testing.T) {
	got := string(console.Chart([]dispatcher.Minute{minute(time.Minute, 900, 0, 0), minute(15*time.Minute, 900, 0, 0)}, chartNoon, 72*time.Hour))
	mustBeSVG(t, got)
	points := strings.Fields(between(got, `data-points="`, `"`))
	require.Len(t, points, 288)
	require.Equal(t, "2.00,0,0", points[287])
	require.Contains(t, got, ">Sat 12:00<")
}

func TestTheAxisHasRoundNumbers(t *testing.T) {
	for accepted, want := range map[int64][]string{
		0: {"0", "0.5", "1"}, 60: {"0", "0.5", "1"}, 2900: {"0", "20", "40", "60"}, 72_000: {"0", "500", "1k", "1.5k"}, 3: {"0", "0.02", "0.04", "0.06"}, 59: {"0", "0.5", "1"}, 540: {"0", "5", "10"},
	} {
		got := string(console.Chart([]dispatcher.Minute{minute(time.Minute, accepted, 0, 0)}, chartNoon, 3*time.Hour))
		var labels []string
		for part := range strings.SplitSeq(between(got, `<svg class="chart-y"`, `</svg>`), `text-anchor="end">`) {
			if text, _, ok := strings.Cut(part, "</text>"); ok {
				labels = append(labels, text)
			}
		}
		require.Equal(t, want, labels, accepted)
	}
}

// Far more accepted messages do not press the others flat: they have an axis of their own, with the same lines.
func TestWhatIsAcceptedHasItsOwnAxisWhereItIsFarMore(t *testing.T) {
	for accepted, want := range map[int64][]string{240: nil, 241: {"0", "2.5", "5"}, 6000: {"0", "50", "100"}} {
		got := string(console.Chart([]dispatcher.Minute{minute(time.Minute, accepted, 60, 55)}, chartNoon, 3*time.Hour))
		mustBeSVG(t, got)
		require.Equal(t, want != nil, strings.Contains(got, "by the axis at the right"), accepted)
		if want == nil {
			require.Contains(t, between(got, `class="c-accepted" d="`, `"`), "L997.2 0", "its top is that of all")
			continue
		}
		require.Contains(t, between(got, `class="c-delivered" d="`, `"`), "L997.2 0", "the others have their own top")
		var labels []string
		for part := range strings.SplitSeq(between(got, `class="chart-y right"`, `</svg>`), `<text x="6"`) {
			if text := between(part, ">", "</text>"); strings.HasPrefix(part, " y=") {
				labels = append(labels, text)
			}
		}
		require.Equal(t, want, labels, accepted)
	}
}

func between(text, from, to string) string {
	_, rest, _ := strings.Cut(text, from)
	part, _, _ := strings.Cut(rest, to)
	return part
}
