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
