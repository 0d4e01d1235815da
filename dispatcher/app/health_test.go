package app_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/home"
)

// What a process counted until its end is there after it, and instances are added up.
func TestFiguresOutliveTheirProcess(t *testing.T) {
	server := redistest.Start(t)
	began := time.Now().UTC()
	r := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/gone" {
			w.WriteHeader(http.StatusGone)
		}
	}))
	t.Cleanup(r.Close)
	u, err := url.Parse(r.URL)
	require.NoError(t, err)
	lane := dispatcher.URLLane(u, "")
	for round := range 2 {
		p := start(t, newTestOptions(server.URL()))
		for i, path := range []string{"/", "/", "/gone"} {
			_, err := p.client().Publish(t.Context(), message(fmt.Sprintf("m%d-%d", round, i), r.URL+path))
			require.NoError(t, err)
		}
		require.Eventually(t, func() bool {
			all, err := p.client().Deliveries(t.Context(), client.Filter{Statuses: []string{"delivered", "dead"}})
			return err == nil && len(all.Data) == 3*(round+1)
		}, patience, 10*time.Millisecond)
		require.NoError(t, p.end())
	}
	store, err := redisq.Open(t.Context(), redisq.Options{URL: server.URL(), Project: "test", LaneMaxInFlight: 1, Permits: 1})
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	figures := home.NewHealth(store.Conn())
	minutes, err := figures.Minutes(t.Context(), began, time.Now().Add(time.Minute))
	require.NoError(t, err)
	var sum dispatcher.Minute
	for _, m := range minutes {
		sum.Merge(m)
	}
	require.EqualValues(t, 6, sum.Late.Total())
	sum.Late = dispatcher.Durations{}
	require.Equal(t, dispatcher.Minute{Accepted: 6, Delivered: 4, Failed: 2, Dead: 2}, sum)

	bars, err := figures.Bars(t.Context(), []dispatcher.Lane{lane}, began)
	require.NoError(t, err)
	var bar dispatcher.Bar
	for _, b := range bars[lane] {
		bar.Merge(b)
	}
	require.EqualValues(t, 6, bar.Took.Total())
	bar.Took = dispatcher.Durations{}
	require.Equal(t, dispatcher.Bar{Delivered: 4, Failed: dispatcher.Failures{Refused: 2}}, bar)
}
