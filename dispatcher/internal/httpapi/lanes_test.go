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
	f := &Fake{FakeEndpoints: FakeEndpoints{Next: "c2", State: dispatcher.LaneState{
		Lane: "ep_123456789", URL: "https://a:443", Tenant: "t1", UID: "shop-7", Failing: Now, By: "ops",
		Limits:    dispatcher.LaneLimits{Version: 3, MaxInFlight: 5, Interval: 10 * time.Millisecond, Ordered: true},
		LaneCount: dispatcher.LaneCount{InFlight: 1, Waiting: 9},
		Window:    4, Fails: 21, Opened: 2, Until: Now.Add(time.Minute), Token: Now,
		LastFailure: &dispatcher.LaneFailure{Message: "m1", Attempt: dispatcher.Attempt{At: Now, Status: 503, Class: dispatcher.ClassStatus, Error: "status 503", Excerpt: []byte("busy\xff")}},
	}}}
	h := newTestAPI(t, f)
	w := Get(h, "/v1/lanes?limit=7&cursor=c1")
	require.Equal(t, `{"data":[{"lane":"ep_123456789","url":"https://a:443","tenant":"t1","endpoint":"ep_123456789","uid":"shop-7","state":"open","why":"breaker","since":"2026-01-31T11:00:00.123Z","by":"ops","in_flight":1,"waiting":9,"ready":0,"window":4,"max_in_flight":5,`+
		`"rate":"100/s","token_at":"2026-01-31T11:00:00.123Z","ordered":true,"fails":21,"opened":2,"until":"2026-01-31T11:01:00.123Z","failing_since":"2026-01-31T11:00:00.123Z",`+
		`"last_failure":{"message_id":"m1","at":"2026-01-31T11:00:00.123Z","status_code":503,"class":"status","error":"status 503","response_excerpt":"busy�"}}],"next_cursor":"c2"}`, w.Body.String())
	require.Equal(t, dispatcher.EndpointFilter{Limit: 7, Cursor: "c1"}, f.FilterOf)

	require.Equal(t, 2, strings.Count(Get(h, "/v1/lanes?failing=true").Body.String(), `"failing_since":"2026-01-31T11:00:00.123Z"`))
	require.Contains(t, f.Calls, "failing-lanes")
	require.Equal(t, 1, strings.Count(Get(h, "/v1/lanes?failing=true&limit=1").Body.String(), `"failing_since"`))
	RequireField(t, Get(h, "/v1/lanes?failing=true&destination=u_1"), "query.failing", "without destination")
	RequireField(t, Get(h, "/v1/lanes?failing=true&cursor=c1"), "query.failing", "cursor")

	all := &dispatcher.StoppedLane{Mode: dispatcher.LanePaused, Since: Now, By: "night"}
	for _, c := range []struct {
		lane            dispatcher.LaneState
		state, why, who string
	}{
		{dispatcher.LaneState{}, "active", "", ""},
		{dispatcher.LaneState{By: "ops", Limits: dispatcher.LaneLimits{Mode: dispatcher.LanePaused}, All: all, Opened: 1}, "paused", "paused", "ops"},
		{dispatcher.LaneState{By: "ops", Limits: dispatcher.LaneLimits{Mode: dispatcher.LaneDisabled}, All: all}, "disabled", "operator", "ops"},
		{dispatcher.LaneState{By: "system", Cause: dispatcher.WhyGone, Limits: dispatcher.LaneLimits{Mode: dispatcher.LaneDisabled}}, "disabled", "gone", "system"},
		{dispatcher.LaneState{By: "ops", Limits: dispatcher.LaneLimits{Mode: dispatcher.LaneDeleted}}, "deleted", "deleted", "ops"},
		{dispatcher.LaneState{All: all, Opened: 1}, "paused", "all", "night"},
		{dispatcher.LaneState{Opened: 1, Limit: dispatcher.WhyRate, Failing: Now}, "open", "breaker", ""},
		{dispatcher.LaneState{Opened: 1, Failing: Now, FailsLong: true}, "failing", "failing", ""},
		{dispatcher.LaneState{Failing: Now}, "active", "", ""},
		{dispatcher.LaneState{By: "system", Cause: dispatcher.WhyFailing, Failing: Now, Limits: dispatcher.LaneLimits{Mode: dispatcher.LaneDisabled}}, "disabled", "failing", "system"},
		{dispatcher.LaneState{Limit: dispatcher.WhyRetryAfter}, "limited", "retry_after", ""},
		{dispatcher.LaneState{Limit: dispatcher.WhyRate, Token: Now}, "limited", "rate", ""},
	} {
		f.State = c.lane
		f.State.Lane = "u_1"
		got := DecodeAnswer[wire.LanePage](t, Get(h, "/v1/lanes"), 200).Data[0]
		require.Equal(t, []string{c.state, c.why, c.who}, []string{got.State, got.Why, got.By})
		require.Equal(t, c.why == "all" || c.state == "open" || c.state == "failing", !got.Since.IsZero(), "since when %s is %s", c.why, c.state)
		require.Equal(t, c.why == "rate", !got.Until.IsZero())
		require.Empty(t, got.Endpoint)
		require.Empty(t, got.Rate)
	}
	f.State = dispatcher.LaneState{}
	f.Next = ""
	require.Equal(t, `{"data":[],"next_cursor":null}`, Get(h, "/v1/lanes").Body.String())
	RequireField(t, Get(h, "/v1/lanes?limit=501"), "query.limit", "500")
	RequireField(t, Get(h, "/v1/lanes?state=open"), "query.state", "unknown")
	f.Err = dispatcher.ErrCursor
	RequireField(t, Get(h, "/v1/lanes?cursor=x"), "query.cursor", "leave it out")
}

func TestTheLanesOfDestinationsAreTold(t *testing.T) {
	f := &Fake{FakeEndpoints: FakeEndpoints{State: dispatcher.LaneState{Lane: "u_1", Limits: dispatcher.LaneLimits{Mode: dispatcher.LanePaused}}}}
	h := newTestAPI(t, f)
	got := DecodeAnswer[wire.LanePage](t, Get(h, "/v1/lanes?destination=u_1&destination=ep_123456789"), 200)
	require.Equal(t, []dispatcher.Lane{"u_1", "ep_123456789"}, f.AskedLanes)
	require.Equal(t, "paused", got.Data[0].State)
	require.Nil(t, got.NextCursor)
	require.Equal(t, 200, Get(h, "/v1/lanes?destination=https://a.example/b&tenant=t1&tenant=t2").Code)
	require.Len(t, f.AskedLanes, 2, "one for each tenant")
	require.Equal(t, 200, Get(h, "/v1/lanes?destination=q_"+strings.Repeat("x", 64)).Code, "the name of a queue")
	RequireField(t, Get(h, "/v1/lanes?destination=q_"+strings.Repeat("x", 65)), "query.destination", "the name of a queue")
	f.State = dispatcher.LaneState{}
	require.Equal(t, `{"data":[],"next_cursor":null}`, Get(h, "/v1/lanes?destination=u_1").Body.String())
	RequireField(t, Get(h, "/v1/lanes?destination=nobody"), "query.destination", "no endpoint")
	RequireField(t, Get(h, "/v1/lanes?destination=u_1&cursor=c"), "query.cursor", "without destination")
	RequireField(t, Get(h, "/v1/lanes?tenant=t1"), "query.tenant", "destination")
}

func TestInstancesAreListed(t *testing.T) {
	f := &Fake{FakeEndpoints: FakeEndpoints{Next: "c2", InstanceList: []dispatcher.InstanceState{
		{Name: "a-1", Instance: dispatcher.Instance{Permits: 1024, Version: "0.1.0", StartedAt: Now}, SeenAt: Now.Add(time.Second), InFlight: 9, Partitions: 2},
		{Name: "b-1"},
	}}}
	h := newTestAPI(t, f)
	require.Equal(t, `{"data":[{"name":"a-1","version":"0.1.0","started_at":"2026-01-31T11:00:00.123Z","seen_at":"2026-01-31T11:00:01.123Z","permits":1024,"in_flight":9,"holding":2},`+
		`{"name":"b-1","version":"","started_at":null,"seen_at":null,"permits":0,"in_flight":0,"holding":0}],"next_cursor":"c2"}`, Get(h, "/v1/instances?limit=7&cursor=c1").Body.String())
	require.Equal(t, dispatcher.EndpointFilter{Limit: 7, Cursor: "c1"}, f.FilterOf)
	RequireField(t, Get(h, "/v1/instances?name=x"), "query.name", "unknown")
	f.Err = dispatcher.ErrCursor
	RequireField(t, Get(h, "/v1/instances?cursor=x"), "query.cursor", "leave it out")
}

func TestARateIsToldInTheTimeItWasGivenFor(t *testing.T) {
	for _, text := range []string{"1/s", "3/s", "100/s", "100000/s", "7/m", "59/m", "1/m", "50/h", "1/h", "7/h"} {
		rate, err := dispatcher.ParseRate(text)
		require.NoError(t, err)
		f := &Fake{FakeEndpoints: FakeEndpoints{State: dispatcher.LaneState{Lane: "u_1", Limits: dispatcher.LaneLimits{Interval: rate.Interval()}}}}
		require.Equal(t, text, DecodeAnswer[wire.LanePage](t, Get(newTestAPI(t, f), "/v1/lanes"), 200).Data[0].Rate)
	}
}

func TestAnyDestinationIsPausedAndResumed(t *testing.T) {
	f := &Fake{FakeEndpoints: FakeEndpoints{State: dispatcher.LaneState{Lane: "u_1", Limits: dispatcher.LaneLimits{Mode: dispatcher.LanePaused}}}}
	h := newTestAPI(t, f)
	for _, destination := range []string{
		"u_1", "ep_123456789", "q_mail", "merchant:7", ".m", "*", "https://shop.example", "https://shop.example/hooks/../a//b?x=1&y=%2F;z", "http://[::1]:8080/a.b/pause",
	} {
		for _, call := range []string{"pause", "resume"} {
			f.Calls = nil
			got := DecodeAnswer[wire.LaneState](t, Serve(h, newTestRequest("POST", "/v1/lanes/"+url.PathEscape(destination)+"/"+call, "")), 200)
			require.Equal(t, "paused", got.State)
			require.Contains(t, f.Calls, call)
			require.Equal(t, strings.Contains(destination, "://"), got.OtherTenants != nil)
			require.Equal(t, destination, f.Asked)
		}
	}
	require.Equal(t, 200, Serve(h, newTestRequest("POST", "/v1/lanes/*/pause", "")).Code)
	require.Empty(t, f.Tenant)
	require.Equal(t, 200, Serve(h, newTestRequest("POST", "/v1/lanes/https:%2F%2Fshop.example/pause?tenant=t%25", "")).Code)
	require.Equal(t, "t%", f.Tenant)
	f.Calls = nil
	for _, destination := range []string{"a b", "a/b", "ftp://a", "http://u:p@a", "http://a b", "u_" + strings.Repeat("a", 20), "ep_a:b", strings.Repeat("a", 129), "**", "\x00", "//a"} {
		RequireField(t, Serve(h, newTestRequest("POST", "/v1/lanes/"+url.PathEscape(destination)+"/pause", "")), "path.lane", "")
	}
	RequireField(t, Serve(h, newTestRequest("POST", "/v1/lanes/u_1/pause?x=1", "")), "query.x", "unknown")
	RequireField(t, Serve(h, newTestRequest("POST", "/v1/lanes/u_1/pause?tenant=t", "")), "query.tenant", "URL only")
	RequireField(t, Serve(h, newTestRequest("POST", "/v1/lanes/*/resume?tenant=t", "")), "query.tenant", "URL only")
	for _, query := range []string{"?tenant=", "?tenant=a%20b", "?tenant=a&tenant=b"} {
		RequireField(t, Serve(h, newTestRequest("POST", "/v1/lanes/https:%2F%2Fshop.example/pause"+query, "")), "query.tenant", "")
	}
	RequireProblem(t, Serve(h, newTestRequest("POST", "/v1/lanes/https://a/pause", "")), 404, "not-found")
	require.Empty(t, f.Calls)
	f.Err = dispatcher.ErrNoEndpoint
	RequireProblem(t, Serve(h, newTestRequest("POST", "/v1/lanes/nobody/pause", "")), 404, "not-found")
}

func TestAPauseByURLTellsOfOtherTenantsAndHoldsThemWhereAskedTo(t *testing.T) {
	const lane = "/v1/lanes/https:%2F%2Fshop.example/"
	f := &Fake{FakeEndpoints: FakeEndpoints{State: dispatcher.LaneState{Lane: "u_1"}, Others: dispatcher.OtherTenants{Lanes: 12}}}
	h := newTestAPI(t, f)
	post := func(path string) wire.OtherTenants {
		f.Calls = nil
		w := Serve(h, newTestRequest("POST", path, ""))
		return *DecodeAnswer[wire.LaneState](t, w, 200).OtherTenants
	}
	require.Equal(t, wire.OtherTenants{Lanes: 12}, post(lane+"pause?tenant=t1"))
	require.Equal(t, []string{"pause", "other tenants"}, f.Calls)
	require.Equal(t, "t1", f.Tenant)
	post(lane + "resume?all_tenants=false")
	require.Equal(t, []string{"resume", "other tenants"}, f.Calls)

	f.Others = dispatcher.OtherTenants{Lanes: 1001, Changed: 1000, Failed: 1, Next: "3-17"}
	next := "3-17"
	require.Equal(t, wire.OtherTenants{Lanes: 1001, Changed: 1000, Failed: 1, NextCursor: &next}, post(lane+"pause?all_tenants=true"))
	require.Equal(t, []string{"pause tenants", "pause"}, f.Calls)
	require.Equal(t, "https://shop.example", f.Asked)
	post(lane + "resume?all_tenants=true&cursor=3-17")
	require.Equal(t, []string{"resume tenants", "resume"}, f.Calls)
	require.Equal(t, "3-17", f.Cursor)

	f.Calls = nil
	for query, of := range map[string]string{
		"?all_tenants=true&tenant=t": "query.all_tenants", "?all_tenants=1": "query.all_tenants", "?all_tenants=true&all_tenants=true": "query.all_tenants", "?cursor=3-17": "query.cursor",
	} {
		RequireField(t, Serve(h, newTestRequest("POST", lane+"pause"+query, "")), of, "")
	}
	RequireField(t, Serve(h, newTestRequest("POST", "/v1/lanes/u_1/pause?all_tenants=true", "")), "query.all_tenants", "URL only")
	require.Empty(t, f.Calls)
	f.Err = dispatcher.ErrCursor
	RequireField(t, Serve(h, newTestRequest("POST", lane+"pause?all_tenants=true&cursor=x", "")), "query.cursor", "leave it out")
	f.Err = dispatcher.ErrNoLane
	RequireProblem(t, Serve(h, newTestRequest("POST", "/v1/lanes/u_1/pause", "")), 404, "not-found")
}

// What was asked for is done: that nothing can be counted is no reason to fail.
func TestAPauseWhoseOtherTenantsCantBeCountedIsDone(t *testing.T) {
	f := &Fake{FakeEndpoints: FakeEndpoints{State: dispatcher.LaneState{Lane: "u_1"}, CountErr: dispatcher.ErrListing}}
	got := DecodeAnswer[wire.LaneState](t, Serve(newTestAPI(t, f), newTestRequest("POST", "/v1/lanes/https:%2F%2Fshop.example/pause", "")), 200)
	require.Equal(t, wire.OtherTenants{Failed: 1}, *got.OtherTenants)
}

func TestAURLInAFilterMeansTheLaneOfEachTenantThatIsAskedFor(t *testing.T) {
	f := &Fake{FakeEndpoints: FakeEndpoints{There: Endpoint(t)}}
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
		require.Equal(t, 200, Get(h, "/v1/deliveries?"+query).Code)
		require.Equal(t, want, f.Filter.Lanes, query)
	}
	f.Calls = nil
	many := strings.Repeat("&destination=https://shop.example", 11)
	for i := range 10 {
		many += "&tenant=t" + strings.Repeat("x", i)
	}
	RequireField(t, Get(h, "/v1/deliveries?"+many[1:]), "query.destination", "more than 100 lanes")
	require.Empty(t, f.Calls)
}

func TestADestinationMayBeAnEndpointsUid(t *testing.T) {
	f := &Fake{FakeEndpoints: FakeEndpoints{There: Endpoint(t)}}
	h := newTestAPI(t, f)
	require.Equal(t, 200, Get(h, "/v1/deliveries?destination=merchant:7&destination=u_1").Code)
	require.Equal(t, []dispatcher.Lane{"ep_123456789", "u_1"}, f.Filter.Lanes)
	Serve(h, newTestRequest("DELETE", "/v1/messages/a?destination=merchant:7", ""))
	require.EqualValues(t, "ep_123456789", f.InLane)
	f.Calls = nil
	RequireField(t, Get(h, "/v1/deliveries?destination=nobody"), "query.destination", "no endpoint")
	RequireField(t, Serve(h, newTestRequest("DELETE", "/v1/messages/a?destination=nobody", "")), "query.destination", "no endpoint")
	RequireField(t, Get(h, "/v1/deliveries?destination=*"), "query.destination", "must be a lane")
	RequireField(t, Get(h, "/v1/deliveries?destination=http://u:p@a"), "query.destination", "user")
	require.Empty(t, f.Calls)
}
