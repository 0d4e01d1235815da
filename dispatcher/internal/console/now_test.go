package console_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
	"github.com/hookladder/hookladder/dispatcher/internal/console"
)

var quarterPast = time.Date(2026, 11, 22, 12, 15, 15, 0, time.UTC)

// nowOf asks for the page of what is counted, at a quarter past twelve and 15 s.
func nowOf(t *testing.T, path, stats string, minutes ...dispatcher.Minute) (page string, asked [2]time.Time) {
	api := &testAPI{answers: map[string]string{
		"GET /v1/stats": stats, "GET /v1/endpoints": `{"data":[{"id":"ep_3","uid":"atlas","state":"disabled","disabled_reason":"gone"}],"next_cursor":null}`,
		"GET /v1/lanes":     `{"data":[],"next_cursor":null}`,
		"GET /v1/instances": `{"data":[{"name":"hl-1","version":"1","permits":1024,"in_flight":9,"seen_at":"2026-11-22T12:15:15.000Z"}],"next_cursor":null}`,
		"GET /v1/jobs": `{"data":[{"id":"j1","kind":"retry","state":"failed","error":"old","started_at":"2026-11-20T12:00:00.000Z","ended_at":"2026-11-20T12:00:00.000Z"},
			{"id":"j2","kind":"retry","state":"running","matched":200,"done":50,"started_at":"2026-11-22T12:00:00.000Z"}],"next_cursor":null}`,
	}}
	pages, err := console.New(console.Options{
		May: mayAll,
		API: api, Keyless: func() bool { return true }, Project: "test", Now: func() time.Time { return quarterPast },
		Owned: func(string) (dispatcher.Browser, bool) { return dispatcher.Browser{}, false },
		Minutes: func(_ context.Context, since, until time.Time) ([]dispatcher.Minute, error) {
			asked = [2]time.Time{since, until}
			return minutes, nil
		},
		Archive: func() archive.Status { return archive.Status{Err: http.ErrServerClosed, Since: quarterPast} },
	})
	require.NoError(t, err)
	w := httptest.NewRecorder()
	pages.ServeHTTP(w, get(path))
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	return w.Body.String(), asked
}

// statsOf are the counts of some instances.
func statsOf(instances string) string { return strings.Replace(stats, "INSTANCES", instances, 1) }

const stats = `{"counts":{"scheduled":4210,"retrying":1719,"dead":347},"dead":{},"in_flight":22,"instances":INSTANCES,"oldest_due_at":"2026-11-22T12:11:15.000Z",
	"store":{"kind":"redis","version":"7.2.5","mode":"single","durability":"fsync","durable":"yes","would_lose":"last_second","used_bytes":1400000000,"max_bytes":4294967296},
	"lanes":[{"lane":"ep_1","endpoint":"ep_1","uid":"<b>harbor","state":"paused","waiting":512,"by":"olga","since":"2026-11-22T11:15:15.000Z"}]}`

func TestNowShowsWhatConcernsAPerson(t *testing.T) {
	one := dispatcher.Minute{At: quarterPast.Truncate(time.Minute), Accepted: 15, Delivered: 3, Failed: 1, Dead: 5}
	before := dispatcher.Minute{At: one.At.Add(-time.Minute), Accepted: 60}
	page, asked := nowOf(t, "/console/", statsOf("1"), before, one)
	for _, want := range []string{
		">1.0<small>/s", // 15 of this minute, and three quarters of 60
		">0.05<small>/s", "22 <small>of 1,024", "4m ago", `<span class="bad">+5</span> <small>in 3h, 347 kept</small>`, `Dead <span class="n">347</span>`, "Last three hours", `href="/console/?span=72h"`,
		"&lt;b&gt;harbor is paused", `href="/console/endpoints/ep_1"`, "512 wait and are kept, by olga.", "atlas is disabled", "Replay is running", "50 of 200 done",
		"The archive is away", "4,210", "the last second", "redis 7.2.5, single", "1.30 GiB of 4.00 GiB", "hl-1",
		"In 30 minutes until Sun 12:16 UTC 75 were accepted",
	} {
		require.Contains(t, page, want)
	}
	require.NotContains(t, page, "Replay failed", "it is older than a day")
	require.Equal(t, [2]time.Time{quarterPast.Add(-3*time.Hour - 2*time.Minute), quarterPast}, asked)
	page, asked = nowOf(t, "/console/?span=72h", statsOf("1"))
	require.Contains(t, page, "347 <small>kept", "none died")
	require.Equal(t, quarterPast.Add(-72*time.Hour-2*time.Minute), asked[0])
}

// Each of several adds its minute some time after its end.
func TestOfSeveralInstancesTheLastMinutesAreLeftOut(t *testing.T) {
	at := quarterPast.Truncate(time.Minute)
	page, _ := nowOf(t, "/console/", statsOf("3"),
		dispatcher.Minute{At: at.Add(-2 * time.Minute), Accepted: 120}, dispatcher.Minute{At: at.Add(-time.Minute), Accepted: 30}, dispatcher.Minute{At: at, Accepted: 1})
	require.Contains(t, page, ">2.0<small>/s")
	require.Contains(t, page, "In 30 minutes until Sun 12:14 UTC 120 were accepted")
}
