package console_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/console"
)

// No page reports that nothing failed in a time of which there are no figures.
func TestNoneIsSaidOnlyOfTheTimeThatHasFigures(t *testing.T) {
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	made := now.Add(-90 * 24 * time.Hour)
	none := []dispatcher.Bar(nil)
	some := []dispatcher.Bar{{At: now.Add(-time.Hour), Failed: dispatcher.Failures{DNS: 2}}, {At: now, Delivered: 7, Failed: dispatcher.Failures{DNS: 1, Server: 4}}}
	for name, c := range map[string]struct {
		bars  []dispatcher.Bar
		began time.Time
		want  string
	}{
		"no figures for days":    {none, now.Add(-48 * time.Hour), "None in the last 24 hours."},
		"older than figures":     {none, now.Add(-3 * time.Hour), "None is counted since <time"},
		"younger than figures":   {none, now.Add(-time.Hour - time.Second), "None in the last 24 hours."},
		"figures without a time": {none, time.Time{}, "None is counted. It is not known since when."},
		"failures":               {some, now.Add(-48 * time.Hour), "Attempts of the last 24 hours."},
		"counted with others":    {[]dispatcher.Bar{{At: now, Unsure: true}}, now.Add(-48 * time.Hour), "None is counted. But in some half hours"},
		"some with others":       {append(some, dispatcher.Bar{At: now, Unsure: true}), now.Add(-48 * time.Hour), "There can be more:"},
		"failures since a loss":  {some, now.Add(-3 * time.Hour), "What failed before is not known."},
	} {
		t.Run(name, func(t *testing.T) {
			made := made
			if name == "younger than figures" {
				made = now.Add(-time.Hour)
			}
			page := endpointPage(t, made, func(o *console.Options) {
				o.Now = func() time.Time { return now }
				o.Bars = func(context.Context, []dispatcher.Lane, time.Time) (map[dispatcher.Lane][]dispatcher.Bar, error) {
					return map[dispatcher.Lane][]dispatcher.Bar{"ep_1": c.bars}, nil
				}
				o.FiguresSince = func(lane dispatcher.Lane) time.Time {
					require.EqualValues(t, "ep_1", lane)
					return c.began
				}
			})
			require.Contains(t, page, c.want)
			if len(c.bars) > 1 {
				require.NotContains(t, page, "None ")
				require.Regexp(t, `(?s)4×</span> <span>answered with a status 5xx.*3×</span> <span>DNS: the name`, page)
			}
		})
	}
	page := endpointPage(t, made, func(*console.Options) {})
	require.Contains(t, page, "How many failed is not known")
	require.NotContains(t, page, "None ")
}

// endpointPage is the page of an endpoint that was made then.
func endpointPage(t *testing.T, made time.Time, change func(*console.Options)) string {
	t.Helper()
	answers := map[string]string{
		"GET /v1/endpoints/ep_1": `{"id":"ep_1","url":"https://api.shop.example/hooks","state":"active","created_at":"` + made.Format(time.RFC3339) + `"}`,
		"GET /v1/lanes":          `{"data":[{"lane":"ep_1","endpoint":"ep_1","state":"active"}],"next_cursor":null}`,
		"GET /v1/deliveries":     `{"data":[],"next_cursor":null}`,
	}
	w := newTestConsole(t, (&testAPI{answers: answers}).ServeHTTP, always, change)(get("/console/endpoints/ep_1"))
	require.Equal(t, http.StatusOK, w.Code)
	return w.Body.String()
}
