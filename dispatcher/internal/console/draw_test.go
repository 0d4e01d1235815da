package console_test

import (
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/console"
)

var chartNoon = time.Date(2026, 11, 22, 12, 10, 0, 0, time.UTC)

// mustBeSVG reads a picture: it is whole, and has neither a style nor a script.
func mustBeSVG(t testing.TB, picture string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader("<all>" + picture + "</all>"))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err, picture)
		if e, ok := token.(xml.StartElement); ok {
			require.NotContains(t, []string{"style", "script"}, e.Name.Local)
			for _, a := range e.Attr {
				require.NotEqual(t, "style", a.Name.Local)
				require.False(t, strings.HasPrefix(a.Name.Local, "on"), a.Name.Local)
			}
		}
	}
}

// columns are the bars of one class: x, y, width and height of each.
func columns(picture, class string) (list [][]string) {
	path := regexp.MustCompile(`class="` + class + `" d="([^"]*)"`).FindStringSubmatch(picture)
	if path == nil {
		return nil
	}
	for _, m := range regexp.MustCompile(`M(\S+) (\S+?)h(\S+?)v(\S+?)h`).FindAllStringSubmatch(path[1], -1) {
		list = append(list, m[1:])
	}
	return list
}

func bar(ago time.Duration, delivered, server int64) dispatcher.Bar {
	return dispatcher.Bar{At: chartNoon.Truncate(dispatcher.HalfHour).Add(-ago), Delivered: delivered, Failed: dispatcher.Failures{Server: server}}
}

func TestBarsJoinTwoHalvesOfAnHour(t *testing.T) {
	got := string(console.Bars([]dispatcher.Bar{bar(0, 30, 0), bar(30*time.Minute, 20, 50), bar(time.Hour, 0, 1), bar(25*time.Hour, 900, 0)}, chartNoon))
	mustBeSVG(t, got)
	require.Contains(t, got, `aria-label="The last 24 hours: 50 delivered, 51 failed"`)
	ok, failed := columns(got, "b-ok"), columns(got, "b-fail")
	require.Len(t, ok, 1, "both halves are one bar, and the day before is none")
	require.Equal(t, "13", ok[0][3], "half of the tallest")
	require.Equal(t, "0", ok[0][1], "what was delivered stands on what failed")
	require.Len(t, failed, 2)
	require.Equal(t, []string{"113.1", "13", "3.9", "13"}, failed[1])
	require.Equal(t, "1.5", failed[0][3], "one failure is seen")
}

// Hours before the first attempt say nothing.
func TestWideBarsBeginBeforeTheFirstAttempt(t *testing.T) {
	for ago, want := range map[time.Duration]string{
		30 * time.Minute: "<span>−4 h</span><span>−3 h</span><span>−2 h</span><span>−1 h</span><span>now</span>",
		5 * time.Hour:    "<span>−8 h</span><span>−6 h</span><span>−4 h</span><span>−2 h</span><span>now</span>",
		23 * time.Hour:   "<span>−24 h</span><span>−18 h</span><span>−12 h</span><span>−6 h</span><span>now</span>",
	} {
		got := string(console.WideBars([]dispatcher.Bar{bar(ago, 3, 1)}, chartNoon))
		mustBeSVG(t, got)
		require.Contains(t, got, want)
		require.Len(t, columns(got, "b-ok"), 1)
	}
}

func TestWideBarsTellTheirNumbers(t *testing.T) {
	got := string(console.WideBars([]dispatcher.Bar{bar(0, 3, 1), bar(23*time.Hour+30*time.Minute, 8, 0)}, chartNoon))
	mustBeSVG(t, got)
	require.Equal(t, 48, strings.Count(got, "<title>"))
	require.Contains(t, got, "<title>12:00–12:30: 3 delivered, 1 failed</title>")
	require.Contains(t, got, "<title>12:30–13:00: 8 delivered, 0 failed</title>")
	require.Equal(t, "0", columns(got, "b-ok")[0][0])
}

func TestADayWithoutAnythingHasNoBar(t *testing.T) {
	got := string(console.Bars(nil, chartNoon))
	mustBeSVG(t, got)
	require.Nil(t, columns(got, "b-ok"))
	require.Contains(t, got, "0 delivered, 0 failed")
}

func TestAStackShowsWhatIsThereAtAll(t *testing.T) {
	got := string(console.Stack(console.StackPart{Class: "scheduled", N: 1_000_000}, console.StackPart{Class: "ready"}, console.StackPart{Class: "retrying", N: 1}))
	mustBeSVG(t, got)
	require.Nil(t, columns(got, "f-ready"))
	require.Equal(t, []string{"994", "0", "6", "10"}, columns(got, "f-retrying")[0])
	require.Empty(t, console.Stack(console.StackPart{Class: "ready"}), "no room for nothing")
	require.Contains(t, string(console.Stack(console.StackPart{Class: `"><script>`, N: 1})), "&lt;script&gt;")
}

func TestProgressIsOfTheWhole(t *testing.T) {
	got := string(console.ProgressBar(50, 10, 200))
	mustBeSVG(t, got)
	require.Equal(t, []string{"0", "0", "250", "10"}, columns(got, "f-done")[0])
	require.Equal(t, []string{"250", "0", "50", "10"}, columns(got, "f-dead")[0])
	mustBeSVG(t, string(console.ProgressBar(0, 0, 0)))
	require.Equal(t, "1000", columns(string(console.ProgressBar(3, 0, 2)), "f-done")[0][2], "it was found while it was counted")
}

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
