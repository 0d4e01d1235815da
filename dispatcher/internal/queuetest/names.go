package queuetest

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

// nameCases are about the origin and the tenant that a bare URL's lane tells.
var nameCases = []testCase{
	{name: "a lane tells the origin and the tenant of the messages that it was made for", run: func(r *rig) {
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
					lane := dispatcher.Lane(r.newID())
					e := r.entry(string(lane), to(lane), func(m *dispatcher.Message) { m.URL, m.Tenant, m.Topic = url, tenant, topic })
					r.schedule(e)
					got := r.laneState(lane)
					require.Equal(r, origin, got.URL, url)
					if origin == "" {
						tenant = ""
					}
					require.Equal(r, tenant, got.Tenant, url)
				}
			}
		}
	}},
	{name: "a lane is named also where the body lies apart", run: func(r *rig) {
		r.schedule(r.entry("m1", to("a"), body(strings.Repeat("x", dispatcher.ApartAbove+1))))
		require.Equal(r, "https://example.com", r.laneState("a").URL)
		require.Equal(r, "t1", r.laneState("a").Tenant)
	}},
	{name: "a lane keeps its name after all its messages were claimed", run: func(r *rig) {
		r.publish("a", "m1")
		r.deliver(named("a", "m1"))
		require.Equal(r, "https://example.com", r.laneState("a").URL)
		require.Equal(r, "t1", r.laneState("a").Tenant)
	}},
	{name: "a lane keeps its name when a message of another URL comes", run: func(r *rig) {
		r.publish("a", "m1")
		r.schedule(r.entry("m2", to("a"), func(m *dispatcher.Message) { m.URL = "https://other.example" }))
		require.Equal(r, "https://example.com", r.laneState("a").URL)
	}},
	{name: "a name goes with its lane, and a retry brings it back", run: func(r *rig) {
		r.publish("a", "m1")
		r.deliver(named("a", "m1"))
		r.pass(90 * time.Minute)
		r.trim(keepAll)
		require.Empty(r, r.State().Lanes)
		require.Equal(r, dispatcher.LaneState{Lane: "a", Window: 2}, r.laneState("a"))
		require.Equal(r, []bool{true}, r.retry(named("a", "m1")))
		require.Equal(r, "https://example.com", r.laneState("a").URL)
		require.Equal(r, "t1", r.laneState("a").Tenant)
	}},
	{name: "a lane may be named and held before its first message", run: func(r *rig) {
		at, err := url.Parse("https://shop.example/hooks")
		require.NoError(r, err)
		name := dispatcher.URLLaneName(at, "t2")
		r.limitAs("a", dispatcher.LaneLimits{Held: dispatcher.HeldPaused, Name: name}, false)
		got := r.laneState("a")
		require.Equal(r, "https://shop.example", got.URL)
		require.Equal(r, "t2", got.Tenant)
		require.True(r, got.Known)
		r.limitAs("a", dispatcher.LaneLimits{}, false)
		require.Equal(r, "t2", r.laneState("a").Tenant, "without one nothing is changed")
		r.pass(90 * time.Minute)
		r.trim(keepAll)
		require.Empty(r, r.State().Lanes)
	}},
	{name: "the names of all lanes are read page by page", run: func(r *rig) {
		want := map[dispatcher.Lane]string{}
		batch := make([]dispatcher.Entry, 700) // more than two pages
		for i := range batch {
			lane, tenant := dispatcher.Lane("l"+strconv.Itoa(i)), "t"+strconv.Itoa(i)
			batch[i] = r.entry("m"+strconv.Itoa(i), to(lane), func(m *dispatcher.Message) { m.Tenant = tenant })
			want[lane] = "https://example.com " + tenant
		}
		r.schedule(batch...)
		found := map[dispatcher.Lane]string{}
		for n := range r.Queue.Partitions() {
			for cursor := ""; ; {
				page, next, err := r.Queue.LaneNamesIn(r.ctx, n, cursor)
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
		_, _, err := r.Queue.LaneNamesIn(r.ctx, 0, "x")
		require.ErrorIs(r, err, dispatcher.ErrCursor)
	}},
}
