package redisq_test

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// NameCases are about the origin and the tenant that the lane of a bare URL reports.
var NameCases = []redisqtest.Case{
	{Name: "a lane reports the origin and the tenant of its first message", Run: func(r *redisqtest.Rig) {
		long := strings.Repeat("x", 200)
		for url, origin := range map[string]string{
			"https://shop.example/hooks?token=x":        "https://shop.example",
			"http://Shop.Example:8080?a=/b":             "http://shop.example:8080",
			"https://[2001:DB8::1]:8443/":               "https://[2001:db8::1]:8443",
			"https://user:secret@shop.example/a@b":      "https://shop.example",
			"https://shop.example/" + long + "@a/b":     "https://shop.example",
			"https://" + long + ".example/" + long[:99]: "https://" + long + ".example",
			"nonsense": "",
			"":         "",
		} {
			for _, tenant := range []string{"", "t1", long[:128]} {
				for _, topic := range []string{"a.b", long[:128]} {
					lane := dispatcher.Lane(r.NewID())
					e := r.Entry(string(lane), redisqtest.To(lane), func(m *dispatcher.Message) { m.URL, m.Tenant, m.Topic = url, tenant, topic })
					r.Schedule(e)
					got := r.LaneState(lane)
					require.Equal(r, origin, got.URL, url)
					if origin == "" {
						tenant = ""
					}
					require.Equal(r, tenant, got.Tenant, url)
				}
			}
		}
	}},
	{Name: "a lane has a name also if the body is stored apart", Run: func(r *redisqtest.Rig) {
		r.Schedule(r.Entry("m1", redisqtest.To("a"), redisqtest.Body(strings.Repeat("x", dispatcher.ApartAbove+1))))
		require.Equal(r, "https://example.com", r.LaneState("a").URL)
		require.Equal(r, "t1", r.LaneState("a").Tenant)
	}},
	{Name: "a lane keeps its name after all its messages were claimed", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		r.Deliver(redisqtest.Named("a", "m1"))
		require.Equal(r, "https://example.com", r.LaneState("a").URL)
		require.Equal(r, "t1", r.LaneState("a").Tenant)
	}},
	{Name: "a lane keeps its name when a message of another URL comes", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		r.Schedule(r.Entry("m2", redisqtest.To("a"), func(m *dispatcher.Message) { m.URL = "https://other.example" }))
		require.Equal(r, "https://example.com", r.LaneState("a").URL)
	}},
	{Name: "a lane keeps its name while one of its deliveries is kept", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		r.Deliver(redisqtest.Named("a", "m1"))
		for range 3 {
			r.Pass(90 * time.Minute)
			require.Zero(r, r.Trim(redisqtest.KeepAll).Lanes)
			require.False(r, r.State().Lanes["a"].Known, "its state is trimmed")
			require.Equal(r, dispatcher.LaneState{Lane: "a", URL: "https://example.com", Tenant: "t1", Known: true, Window: 2}, r.LaneState("a"))
		}
		require.Equal(r, []bool{true}, r.Retry(redisqtest.Named("a", "m1")))
		require.Equal(r, "https://example.com", r.LaneState("a").URL)
		r.Deliver(redisqtest.Named("a", "m1"))
		r.Pass(90 * time.Minute)
		require.Zero(r, r.Trim(redisqtest.KeepAll).Lanes)
		require.Equal(r, 1, r.Trim(redisqtest.KeepNothing).Lanes, "the trim removes it with the delivery")
		require.Empty(r, r.State().Lanes)
	}},
	{Name: "a lane may be named and paused before its first message", Run: func(r *redisqtest.Rig) {
		at, err := url.Parse("https://shop.example/hooks")
		require.NoError(r, err)
		name := dispatcher.URLLaneName(at, "t2")
		r.LimitAs("a", dispatcher.LaneLimits{Mode: dispatcher.LanePaused, Name: name}, false)
		got := r.LaneState("a")
		require.Equal(r, "https://shop.example", got.URL)
		require.Equal(r, "t2", got.Tenant)
		require.True(r, got.Known)
		r.LimitAs("a", dispatcher.LaneLimits{}, false)
		require.Equal(r, "t2", r.LaneState("a").Tenant, "the name does not change without a new one")
		r.Pass(90 * time.Minute)
		r.Trim(redisqtest.KeepAll)
		require.Empty(r, r.State().Lanes)
	}},
	{Name: "a query returns the names of all lanes page by page", Run: func(r *redisqtest.Rig) {
		want := map[dispatcher.Lane]string{}
		batch := make([]dispatcher.Entry, 700) // more than two pages
		for i := range batch {
			lane, tenant := dispatcher.Lane("l"+strconv.Itoa(i)), "t"+strconv.Itoa(i)
			batch[i] = r.Entry("m"+strconv.Itoa(i), redisqtest.To(lane), func(m *dispatcher.Message) { m.Tenant = tenant })
			want[lane] = "https://example.com " + tenant
		}
		r.Schedule(batch...)
		found := map[dispatcher.Lane]string{}
		for n := range r.Queue.Partitions() {
			for cursor := ""; ; {
				page, next, err := r.Queue.LaneNamesIn(r.Ctx, n, cursor)
				require.NoError(r, err)
				for _, l := range page {
					found[l.Lane] = l.Name
				}
				if cursor = next; cursor == "" {
					break
				}
			}
		}
		require.Equal(r, want, found)
		_, _, err := r.Queue.LaneNamesIn(r.Ctx, 0, "x")
		require.ErrorIs(r, err, dispatcher.ErrCursor)
	}},
}
