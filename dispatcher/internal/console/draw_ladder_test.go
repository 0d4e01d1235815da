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

var waits = []time.Duration{15 * time.Second, 3 * time.Minute, 10 * time.Minute, 30 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 6 * time.Hour, 15 * time.Hour}

func TestAMeterHasABarForEachAttempt(t *testing.T) {
	count := func(c console.LadderPosition) map[string]int {
		got := string(console.LadderMeter(c))
		mustBeSVG(t, got)
		bars := map[string]int{}
		for _, class := range []string{"failed", "next", "left", "delivered", "dead"} {
			if n := strings.Count(got, `class="m-`+class+`"`); n > 0 {
				bars[class] = n
			}
		}
		return bars
	}
	for _, c := range []struct {
		name string
		of   console.LadderPosition
		want map[string]int
	}{
		{"three failed and one comes", console.LadderPosition{Waits: waits, Spent: 3, Last: console.Next}, map[string]int{"failed": 3, "next": 1, "left": 6}},
		{"the first one comes", console.LadderPosition{Waits: waits, Last: console.Next}, map[string]int{"next": 1, "left": 9}},
		{"the last one comes", console.LadderPosition{Waits: waits, Spent: 9, Last: console.Next}, map[string]int{"failed": 9, "next": 1}},
		{"delivered at once", console.LadderPosition{Waits: waits, Last: console.Delivered}, map[string]int{}},
		{"delivered at the third", console.LadderPosition{Waits: waits, Spent: 2, Last: console.Delivered}, map[string]int{"failed": 2, "delivered": 1}},
		{"dead after all", console.LadderPosition{Waits: waits, Spent: 9, Last: console.Dead}, map[string]int{"failed": 9, "dead": 1}},
		{"a ladder that became shorter", console.LadderPosition{Waits: waits[:2], Spent: 7, Last: console.Next}, map[string]int{"failed": 2, "next": 1}},
		{"a hundred rungs", console.LadderPosition{Waits: make([]time.Duration, 100), Spent: 1, Last: console.Next}, map[string]int{"failed": 1, "next": 1, "left": 18}},
	} {
		require.Equal(t, c.want, count(c.of), c.name)
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

func between(text, from, to string) string {
	_, rest, _ := strings.Cut(text, from)
	part, _, _ := strings.Cut(rest, to)
	return part
}
