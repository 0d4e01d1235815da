package httpapi_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

func TestLanesAreListed(t *testing.T) {
	f := &fakeService{fakeEndpoints: fakeEndpoints{next: "c2", state: dispatcher.LaneState{
		Lane: "ep_123456789", URL: "https://a:443", Tenant: "t1", UID: "shop-7", Failing: testNow, By: "ops",
		Limits:    dispatcher.LaneLimits{Version: 3, MaxInFlight: 5, Interval: 10 * time.Millisecond, Ordered: true},
		LaneCount: dispatcher.LaneCount{InFlight: 1, Waiting: 9},
		Window:    4, Fails: 21, Opened: 2, Until: testNow.Add(time.Minute), Token: testNow,
	}}}
	h := newTestAPI(t, f)
	w := get(h, "/v1/lanes?limit=7&cursor=c1")
	require.Equal(t, `{"data":[{"lane":"ep_123456789","url":"https://a:443","tenant":"t1","endpoint":"ep_123456789","uid":"shop-7","state":"open","why":"breaker","since":"2026-01-31T11:00:00.123Z","by":"ops","in_flight":1,"waiting":9,"window":4,"max_in_flight":5,`+
		`"rate":"100/s","token_at":"2026-01-31T11:00:00.123Z","ordered":true,"fails":21,"opened":2,"until":"2026-01-31T11:01:00.123Z"}],"next_cursor":"c2"}`, w.Body.String())
	require.Equal(t, dispatcher.EndpointFilter{Limit: 7, Cursor: "c1"}, f.filterOf)

	all := &dispatcher.HeldLane{Held: dispatcher.HeldPaused, Since: testNow, By: "night"}
	for _, c := range []struct {
		lane            dispatcher.LaneState
		state, why, who string
	}{
		{dispatcher.LaneState{}, "active", "", ""},
		{dispatcher.LaneState{By: "ops", Limits: dispatcher.LaneLimits{Held: dispatcher.HeldPaused}, All: all, Opened: 1}, "paused", "paused", "ops"},
		{dispatcher.LaneState{By: "ops", Limits: dispatcher.LaneLimits{Held: dispatcher.HeldDisabled}, All: all}, "disabled", "operator", "ops"},
		{dispatcher.LaneState{By: "system", Cause: dispatcher.WhyGone, Limits: dispatcher.LaneLimits{Held: dispatcher.HeldDisabled}}, "disabled", "gone", "system"},
		{dispatcher.LaneState{By: "ops", Limits: dispatcher.LaneLimits{Held: dispatcher.HeldDeleted}}, "deleted", "deleted", "ops"},
		{dispatcher.LaneState{All: all, Opened: 1}, "paused", "all", "night"},
		{dispatcher.LaneState{Opened: 1, Limit: dispatcher.WhyRate, Failing: testNow}, "open", "breaker", ""},
		{dispatcher.LaneState{Opened: 1, Failing: testNow, FailsLong: true}, "failing", "failing", ""},
		{dispatcher.LaneState{Failing: testNow}, "active", "", ""},
		{dispatcher.LaneState{By: "system", Cause: dispatcher.WhyFailing, Failing: testNow, Limits: dispatcher.LaneLimits{Held: dispatcher.HeldDisabled}}, "disabled", "failing", "system"},
		{dispatcher.LaneState{Limit: dispatcher.WhyRetryAfter}, "limited", "retry_after", ""},
		{dispatcher.LaneState{Limit: dispatcher.WhyRate, Token: testNow}, "limited", "rate", ""},
	} {
		f.state = c.lane
		f.state.Lane = "u_1"
		got := decodeAnswer[wire.LanePage](t, get(h, "/v1/lanes"), 200).Data[0]
		require.Equal(t, []string{c.state, c.why, c.who}, []string{got.State, got.Why, got.By})
		require.Equal(t, c.why == "all" || c.state == "open" || c.state == "failing", !got.Since.IsZero(), "since when %s is %s", c.why, c.state)
		require.Equal(t, c.why == "rate", !got.Until.IsZero())
		require.Empty(t, got.Endpoint)
		require.Empty(t, got.Rate)
	}
	f.state = dispatcher.LaneState{}
	f.next = ""
	require.Equal(t, `{"data":[],"next_cursor":null}`, get(h, "/v1/lanes").Body.String())
	requireField(t, get(h, "/v1/lanes?limit=501"), "query.limit", "500")
	requireField(t, get(h, "/v1/lanes?state=open"), "query.state", "unknown")
	f.err = dispatcher.ErrCursor
	requireField(t, get(h, "/v1/lanes?cursor=x"), "query.cursor", "leave it out")
}

func TestTheLanesOfDestinationsAreTold(t *testing.T) {
	f := &fakeService{fakeEndpoints: fakeEndpoints{state: dispatcher.LaneState{Lane: "u_1", Limits: dispatcher.LaneLimits{Held: dispatcher.HeldPaused}}}}
	h := newTestAPI(t, f)
	got := decodeAnswer[wire.LanePage](t, get(h, "/v1/lanes?destination=u_1&destination=ep_123456789"), 200)
	require.Equal(t, []dispatcher.Lane{"u_1", "ep_123456789"}, f.lanes)
	require.Equal(t, "paused", got.Data[0].State)
	require.Nil(t, got.NextCursor)
	require.Equal(t, 200, get(h, "/v1/lanes?destination=https://a.example/b&tenant=t1&tenant=t2").Code)
	require.Len(t, f.lanes, 2, "one for each tenant")
	require.Equal(t, 200, get(h, "/v1/lanes?destination=q_"+strings.Repeat("x", 64)).Code, "the name of a queue")
	requireField(t, get(h, "/v1/lanes?destination=q_"+strings.Repeat("x", 65)), "query.destination", "the name of a queue")
	f.state = dispatcher.LaneState{}
	require.Equal(t, `{"data":[],"next_cursor":null}`, get(h, "/v1/lanes?destination=u_1").Body.String())
	requireField(t, get(h, "/v1/lanes?destination=nobody"), "query.destination", "no endpoint")
	requireField(t, get(h, "/v1/lanes?destination=u_1&cursor=c"), "query.cursor", "without destination")
	requireField(t, get(h, "/v1/lanes?tenant=t1"), "query.tenant", "destination")
}

func TestInstancesAreListed(t *testing.T) {
	f := &fakeService{fakeEndpoints: fakeEndpoints{next: "c2", instances: []dispatcher.InstanceState{
		{Name: "a-1", Instance: dispatcher.Instance{Permits: 1024, Version: "0.1.0", StartedAt: testNow}, SeenAt: testNow.Add(time.Second), InFlight: 9, Partitions: 2},
		{Name: "b-1"},
	}}}
	h := newTestAPI(t, f)
	require.Equal(t, `{"data":[{"name":"a-1","version":"0.1.0","started_at":"2026-01-31T11:00:00.123Z","seen_at":"2026-01-31T11:00:01.123Z","permits":1024,"in_flight":9,"holding":2},`+
		`{"name":"b-1","version":"","started_at":null,"seen_at":null,"permits":0,"in_flight":0,"holding":0}],"next_cursor":"c2"}`, get(h, "/v1/instances?limit=7&cursor=c1").Body.String())
	require.Equal(t, dispatcher.EndpointFilter{Limit: 7, Cursor: "c1"}, f.filterOf)
	requireField(t, get(h, "/v1/instances?name=x"), "query.name", "unknown")
	f.err = dispatcher.ErrCursor
	requireField(t, get(h, "/v1/instances?cursor=x"), "query.cursor", "leave it out")
}

func TestARateIsToldInTheTimeItWasGivenFor(t *testing.T) {
	for _, text := range []string{"1/s", "3/s", "100/s", "100000/s", "7/m", "59/m", "1/m", "50/h", "1/h", "7/h"} {
		rate, err := dispatcher.ParseRate(text)
		require.NoError(t, err)
		f := &fakeService{fakeEndpoints: fakeEndpoints{state: dispatcher.LaneState{Lane: "u_1", Limits: dispatcher.LaneLimits{Interval: rate.Interval()}}}}
		require.Equal(t, text, decodeAnswer[wire.LanePage](t, get(newTestAPI(t, f), "/v1/lanes"), 200).Data[0].Rate)
	}
}

func TestAnyDestinationIsPausedAndResumed(t *testing.T) {
	f := &fakeService{fakeEndpoints: fakeEndpoints{state: dispatcher.LaneState{Lane: "u_1", Limits: dispatcher.LaneLimits{Held: dispatcher.HeldPaused}}}}
	h := newTestAPI(t, f)
	for _, destination := range []string{
		"u_1", "ep_123456789", "q_mail", "merchant:7", ".m", "*", "https://shop.example", "https://shop.example/hooks/../a//b?x=1&y=%2F;z", "http://[::1]:8080/a.b/pause",
	} {
		for _, call := range []string{"pause", "resume"} {
			f.calls = nil
			got := decodeAnswer[wire.LaneState](t, serve(h, newRequest("POST", "/v1/lanes/"+url.PathEscape(destination)+"/"+call, "")), 200)
			require.Equal(t, "paused", got.State)
			require.Contains(t, f.calls, call)
			require.Equal(t, strings.Contains(destination, "://"), got.OtherTenants != nil)
			require.Equal(t, destination, f.asked)
		}
	}
	require.Equal(t, 200, serve(h, newRequest("POST", "/v1/lanes/*/pause", "")).Code)
	require.Empty(t, f.tenant)
	require.Equal(t, 200, serve(h, newRequest("POST", "/v1/lanes/https:%2F%2Fshop.example/pause?tenant=t%25", "")).Code)
	require.Equal(t, "t%", f.tenant)
	f.calls = nil
	for _, destination := range []string{"a b", "a/b", "ftp://a", "http://u:p@a", "http://a b", "u_" + strings.Repeat("a", 20), "ep_a:b", strings.Repeat("a", 129), "**", "\x00", "//a"} {
		requireField(t, serve(h, newRequest("POST", "/v1/lanes/"+url.PathEscape(destination)+"/pause", "")), "path.lane", "")
	}
	requireField(t, serve(h, newRequest("POST", "/v1/lanes/u_1/pause?x=1", "")), "query.x", "unknown")
	requireField(t, serve(h, newRequest("POST", "/v1/lanes/u_1/pause?tenant=t", "")), "query.tenant", "URL only")
	requireField(t, serve(h, newRequest("POST", "/v1/lanes/*/resume?tenant=t", "")), "query.tenant", "URL only")
	for _, query := range []string{"?tenant=", "?tenant=a%20b", "?tenant=a&tenant=b"} {
		requireField(t, serve(h, newRequest("POST", "/v1/lanes/https:%2F%2Fshop.example/pause"+query, "")), "query.tenant", "")
	}
	requireProblem(t, serve(h, newRequest("POST", "/v1/lanes/https://a/pause", "")), 404, "not-found")
	require.Empty(t, f.calls)
	f.err = dispatcher.ErrNoEndpoint
	requireProblem(t, serve(h, newRequest("POST", "/v1/lanes/nobody/pause", "")), 404, "not-found")
}

func TestAPauseByURLTellsOfOtherTenantsAndHoldsThemWhereAskedTo(t *testing.T) {
	const lane = "/v1/lanes/https:%2F%2Fshop.example/"
	f := &fakeService{fakeEndpoints: fakeEndpoints{state: dispatcher.LaneState{Lane: "u_1"}, others: dispatcher.OtherTenants{Lanes: 12}}}
	h := newTestAPI(t, f)
	post := func(path string) wire.OtherTenants {
		f.calls = nil
		w := serve(h, newRequest("POST", path, ""))
		return *decodeAnswer[wire.LaneState](t, w, 200).OtherTenants
	}
	require.Equal(t, wire.OtherTenants{Lanes: 12}, post(lane+"pause?tenant=t1"))
	require.Equal(t, []string{"pause", "other tenants"}, f.calls)
	require.Equal(t, "t1", f.tenant)
	post(lane + "resume?all_tenants=false")
	require.Equal(t, []string{"resume", "other tenants"}, f.calls)

	f.others = dispatcher.OtherTenants{Lanes: 1001, Changed: 1000, Failed: 1, Next: "3-17"}
	next := "3-17"
	require.Equal(t, wire.OtherTenants{Lanes: 1001, Changed: 1000, Failed: 1, NextCursor: &next}, post(lane+"pause?all_tenants=true"))
	require.Equal(t, []string{"pause tenants", "pause"}, f.calls)
	require.Equal(t, "https://shop.example", f.asked)
	post(lane + "resume?all_tenants=true&cursor=3-17")
	require.Equal(t, []string{"resume tenants", "resume"}, f.calls)
	require.Equal(t, "3-17", f.cursor)

	f.calls = nil
	for query, of := range map[string]string{
		"?all_tenants=true&tenant=t": "query.all_tenants", "?all_tenants=1": "query.all_tenants", "?all_tenants=true&all_tenants=true": "query.all_tenants", "?cursor=3-17": "query.cursor",
	} {
		requireField(t, serve(h, newRequest("POST", lane+"pause"+query, "")), of, "")
	}
	requireField(t, serve(h, newRequest("POST", "/v1/lanes/u_1/pause?all_tenants=true", "")), "query.all_tenants", "URL only")
	require.Empty(t, f.calls)
	f.err = dispatcher.ErrCursor
	requireField(t, serve(h, newRequest("POST", lane+"pause?all_tenants=true&cursor=x", "")), "query.cursor", "leave it out")
	f.err = dispatcher.ErrNoLane
	requireProblem(t, serve(h, newRequest("POST", "/v1/lanes/u_1/pause", "")), 404, "not-found")
}

// What was asked for is done: that nothing can be counted is no reason to fail.
func TestAPauseWhoseOtherTenantsCantBeCountedIsDone(t *testing.T) {
	f := &fakeService{fakeEndpoints: fakeEndpoints{state: dispatcher.LaneState{Lane: "u_1"}, countErr: dispatcher.ErrListing}}
	got := decodeAnswer[wire.LaneState](t, serve(newTestAPI(t, f), newRequest("POST", "/v1/lanes/https:%2F%2Fshop.example/pause", "")), 200)
	require.Equal(t, wire.OtherTenants{Failed: 1}, *got.OtherTenants)
}

func TestAURLInAFilterMeansTheLaneOfEachTenantThatIsAskedFor(t *testing.T) {
	f := &fakeService{fakeEndpoints: fakeEndpoints{there: testEndpoint(t)}}
	h := newTestAPI(t, f)
	u, err := dispatcher.ParseURL("https://shop.example")
	require.NoError(t, err)
	for query, want := range map[string][]dispatcher.Lane{
		"destination=https://shop.example/a":                        {dispatcher.URLLane(u, "")},
		"destination=https://shop.example/a&tenant=t":               {dispatcher.URLLane(u, "t")},
		"destination=https://shop.example&tenant=t&tenant=s":        {dispatcher.URLLane(u, "t"), dispatcher.URLLane(u, "s")},
		"destination=u_1&destination=merchant:7&tenant=t&tenant=s":  {"u_1", "ep_123456789"},
		"destination=u_1&destination=https://shop.example&tenant=t": {"u_1", dispatcher.URLLane(u, "t")},
	} {
		require.Equal(t, 200, get(h, "/v1/deliveries?"+query).Code)
		require.Equal(t, want, f.filter.Lanes, query)
	}
	f.calls = nil
	many := strings.Repeat("&destination=https://shop.example", 11)
	for i := range 10 {
		many += "&tenant=t" + strings.Repeat("x", i)
	}
	requireField(t, get(h, "/v1/deliveries?"+many[1:]), "query.destination", "more than 100 lanes")
	require.Empty(t, f.calls)
}

func TestADestinationMayBeAnEndpointsUid(t *testing.T) {
	f := &fakeService{fakeEndpoints: fakeEndpoints{there: testEndpoint(t)}}
	h := newTestAPI(t, f)
	require.Equal(t, 200, get(h, "/v1/deliveries?destination=merchant:7&destination=u_1").Code)
	require.Equal(t, []dispatcher.Lane{"ep_123456789", "u_1"}, f.filter.Lanes)
	serve(h, newRequest("DELETE", "/v1/messages/a?destination=merchant:7", ""))
	require.EqualValues(t, "ep_123456789", f.lane)
	f.calls = nil
	requireField(t, get(h, "/v1/deliveries?destination=nobody"), "query.destination", "no endpoint")
	requireField(t, serve(h, newRequest("DELETE", "/v1/messages/a?destination=nobody", "")), "query.destination", "no endpoint")
	requireField(t, get(h, "/v1/deliveries?destination=*"), "query.destination", "must be a lane")
	requireField(t, get(h, "/v1/deliveries?destination=http://u:p@a"), "query.destination", "user")
	require.Empty(t, f.calls)
}
