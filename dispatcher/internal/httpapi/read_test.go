package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

func TestAMessageIsReadWithItsDeliveries(t *testing.T) {
	f := &Fake{View: Record(t)}
	w := Get(newTestAPI(t, f), "/v1/messages/a")
	got := DecodeAnswer[wire.MessageView](t, w, 200)
	require.Contains(t, w.Body.String(), `"body":{ "n" : 12345678901234567890, "h":"<" }`, "the body keeps its bytes")
	require.Contains(t, w.Body.String(), `"delay":"1m30s"`)
	require.Contains(t, w.Body.String(), `"created_at":"2026-01-31T11:00:00.123Z"`)
	require.Contains(t, w.Body.String(), `"history":[{"attempt":1,"at":"2026-01-31T11:00:00.123Z","duration_ms":1,"status_code":500,"outcome":"retry","error":"status 500","response_excerpt":"oops�","next_attempt_at":"2026-01-31T11:01:00.123Z"}]`)
	require.Equal(t, `http://a/x?q="<&`, got.URL)
	require.Equal(t, map[string]string{"x-b": "***"}, got.Headers, "they may be secret")
	require.NotContains(t, w.Body.String(), "body_bytes")
	require.NotContains(t, w.Body.String(), "response_bytes")
	require.Equal(t, "k:1", got.OrderingKey)
	require.Equal(t, "order 17", got.Subject)
	require.Equal(t, 2, got.Ladder.Len())
	require.Equal(t, 2, got.MaxAttempts)
	require.Equal(t, wire.Duration(2*time.Second), got.Timeout)
	require.Equal(t, []string{"200"}, got.Success.Status)
	require.JSONEq(t, `{"path":"code","equals":"SUCCESS"}`, string(got.Success.Body))
	require.Len(t, got.Deliveries, 3)
	require.Equal(t, "u_1:a", got.Deliveries[0].ID)
	require.Equal(t, "u_1", got.Deliveries[0].Destination)
	require.Equal(t, "rung", got.Deliveries[0].WaitingFor)
	require.False(t, got.Deliveries[1].DeliveredAt.IsZero())
	require.Empty(t, got.Deliveries[1].DeadReason)
	require.Equal(t, "exhausted", got.Deliveries[2].DeadReason)
	require.True(t, got.Deliveries[2].DeliveredAt.IsZero())
}

func TestABodyIsReadAsWhatItIs(t *testing.T) {
	for name, c := range map[string]struct{ media, body, says string }{
		"JSON":               {"application/json; charset=utf-8", `[1]`, `"body":[1]`},
		"JSON of a kind":     {"application/vnd.shop+json", `null`, `"body":null`},
		"JSON that is none":  {"application/json", `{`, `"raw_body":"{"`},
		"text":               {"text/plain", `{"a":1}`, `"raw_body":"{\"a\":1}"`},
		"no body":            {"text/plain", ``, `"raw_body":""`},
		"bytes":              {"text/xml; charset=GBK", "\xc4\xe3", `"raw_body_base64":"xOM="`},
		"JSON that is bytes": {"application/json", "\"\xff\"", `"raw_body_base64":"Iv8i"`},
	} {
		t.Run(name, func(t *testing.T) {
			f := &Fake{View: dispatcher.MessageView{Message: dispatcher.Message{ID: "a", Topic: "t", URL: "http://a", ContentType: c.media, Body: []byte(c.body)}}}
			w := Get(newTestAPI(t, f), "/v1/messages/a")
			DecodeAnswer[wire.MessageView](t, w, 200)
			require.Contains(t, w.Body.String(), c.says)
			require.Contains(t, w.Body.String(), `"deliveries":[]`)
		})
	}
}

func TestAMessageOfWhichTheArchiveMayHaveMoreIsIncomplete(t *testing.T) {
	for _, incomplete := range []bool{true, false} {
		f := &Fake{View: Record(t)}
		f.View.Incomplete = incomplete
		got := DecodeAnswer[wire.MessageView](t, Get(newTestAPI(t, f), "/v1/messages/a"), 200)
		require.Equal(t, incomplete, got.Incomplete)
	}
}

func TestCancelAndRetryNameTheirDelivery(t *testing.T) {
	for _, c := range []struct {
		method, path string
		status       int
	}{{"DELETE", "/v1/messages/a", 200}, {"POST", "/v1/messages/a/retry", 202}} {
		f := &Fake{View: Record(t)}
		h := newTestAPI(t, f)
		got := DecodeAnswer[wire.Retried](t, Serve(h, newTestRequest(c.method, c.path, "")), c.status)
		require.Equal(t, "a", got.ID)
		require.Len(t, got.Deliveries, 3)
		require.Empty(t, f.InLane)
		Serve(h, newTestRequest(c.method, c.path+"?destination=u_1", ""))
		require.EqualValues(t, "u_1", f.InLane)
		Serve(h, newTestRequest(c.method, c.path+"?destination=http://a/y", ""))
		u, err := dispatcher.ParseURL("http://a:80/")
		require.NoError(t, err)
		require.Equal(t, dispatcher.URLLane(u, "of a"), f.InLane, "of the message's own tenant")

		f.Calls = nil
		for query, path := range map[string]string{
			"?destination=": "query.destination", "?destination=a:b": "query.destination", "?destination=u_1&destination=u_2": "query.destination",
			"?destination=ftp://a": "query.destination", "?lane=u_1": "query.lane", "?destination=%00": "query.destination",
		} {
			RequireField(t, Serve(h, newTestRequest(c.method, c.path+query, "")), path, "")
		}
		require.Empty(t, f.Calls)

		f.Err = fmt.Errorf("cancel a: %w", dispatcher.ErrNotFound)
		RequireProblem(t, Serve(h, newTestRequest(c.method, c.path, "")), 404, "not-found")
		f.Err = fmt.Errorf("message a to u_1: %w", dispatcher.ErrNoDelivery)
		p := RequireProblem(t, Serve(h, newTestRequest(c.method, c.path+"?destination=u_1", "")), 404, "not-found")
		require.Contains(t, p.Detail, "does not go to this destination")
		require.NotContains(t, p.Detail, "never published")
	}
}

func TestWhatCannotBeAnIDIsNotFound(t *testing.T) {
	f := &Fake{}
	h := newTestAPI(t, f)
	for _, id := range []string{"a.b", "%7Ba%7D", "%00", "a%2Fb", "%20", strings.Repeat("a", 129), "a:b", "*", "%C3%A9"} {
		RequireProblem(t, Get(h, "/v1/messages/"+id), 404, "not-found")
	}
	require.Empty(t, f.Calls)
}

func TestAListIsFiltered(t *testing.T) {
	f := &Fake{Page: dispatcher.Page{Deliveries: Record(t).Deliveries, Next: "c2"}}
	h := newTestAPI(t, f)
	w := Get(h, "/v1/deliveries?status=dead&status=cancelled&topic=a.b&subject=order%2017&failed=true&tenant=m7&tenant=m8&destination=u_1&destination=http://a&dead_reason=gone&since=2026-01-01T00:00:00Z&until=2026-02-01T00:00:00%2B01:00&limit=500&cursor=c1")
	got := DecodeAnswer[wire.Page](t, w, 200)
	require.Len(t, got.Data, 3)
	require.Nil(t, got.Data[0].History, "lists are without histories")
	require.Equal(t, "c2", *got.NextCursor)
	require.Equal(t, []dispatcher.Status{"dead", "cancelled"}, f.Filter.Statuses)
	require.Equal(t, []string{"a.b"}, f.Filter.Topics)
	require.Equal(t, []string{"order 17"}, f.Filter.Subjects)
	require.True(t, f.Filter.Failed)
	require.Equal(t, []string{"m7", "m8"}, f.Filter.Tenants)
	require.Len(t, f.Filter.Lanes, 3, "that of each tenant")
	require.Equal(t, []dispatcher.DeadReason{"gone"}, f.Filter.Reasons)
	require.True(t, f.Filter.Since.Equal(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)))
	require.True(t, f.Filter.Until.Equal(time.Date(2026, 1, 31, 23, 0, 0, 0, time.UTC)))
	require.Equal(t, 500, f.Filter.Limit)
	require.Equal(t, "c1", f.Filter.Cursor)

	f.Page = dispatcher.Page{}
	require.Equal(t, `{"data":[],"next_cursor":null}`, Get(h, "/v1/deliveries").Body.String())
	require.Equal(t, 50, f.Filter.Limit)
	f.Err = dispatcher.ErrCursor
	RequireField(t, Get(h, "/v1/deliveries?cursor=x"), "query.cursor", "leave it out")
}

func TestTheDeadAreCounted(t *testing.T) {
	f := &Fake{Groups: dispatcher.DeadPage{Next: "c2", Groups: []dispatcher.DeadGroup{
		{Lane: "ep_123456789", URL: "https://shop.example", Tenant: "m7", UID: "merchant:7", Reason: "gone", Count: 3, Newest: Now, LastStatus: 410, LastError: "status 410"},
		{Lane: "u_1", Reason: "exhausted", Count: 1},
	}}}
	h := newTestAPI(t, f)
	w := Get(h, "/v1/dead?tenant=m7&tenant=m8&destination=u_1&destination=http://a&dead_reason=gone&limit=500&cursor=c1")
	require.Equal(t, 200, w.Code)
	require.Equal(t, `{"data":[{"destination":"ep_123456789","url":"https://shop.example","endpoint":"ep_123456789","uid":"merchant:7","reason":"gone","count":3,`+
		`"newest":"`+Now.UTC().Format("2006-01-02T15:04:05.000Z")+`","last_status_code":410,"last_error":"status 410"},`+
		`{"destination":"u_1","reason":"exhausted","count":1,"newest":null}],"next_cursor":"c2"}`, w.Body.String())
	require.Len(t, f.DeadOf.Lanes, 3, "that of each tenant")
	f.DeadOf.Lanes = nil
	require.Equal(t, dispatcher.DeadFilter{Tenants: []string{"m7", "m8"}, Reasons: []dispatcher.DeadReason{"gone"}, Limit: 500, Cursor: "c1"}, f.DeadOf)
	RequireField(t, Get(h, "/v1/dead?status=dead"), "query.status", "unknown")
	RequireField(t, Get(h, "/v1/dead?dead_reason=x"), "query.dead_reason", "")
	f.Err = dispatcher.ErrCursor
	RequireField(t, Get(h, "/v1/dead?cursor=x"), "query.cursor", "leave it out")
}

func TestABadFilterIs422(t *testing.T) {
	f := &Fake{}
	h := newTestAPI(t, f)
	for query, path := range map[string]string{
		"status=gone": "query.status", "status=": "query.status", "status=dead&status=x": "query.status", "dead_reason=x": "query.dead_reason",
		"topic=a..b": "query.topic", "topic=a*": "query.topic", "subject=": "query.subject", "subject=a%00": "query.subject", "failed=1": "query.failed", "tenant=": "query.tenant", "destination=a:b": "query.destination", "since=yesterday": "query.since",
		"since=2026-01-01T00:00:00+01:00": "query.since", "until=": "query.until", "limit=0": "query.limit", "limit=501": "query.limit",
		"limit=-1": "query.limit", "limit=1.5": "query.limit", "limit=99999999999999999999": "query.limit", "limit=1&limit=2": "query.limit",
		"cursor=": "query.cursor", "page=2": "query.page", "Status=dead": "query.Status", strings.Repeat("topic=a&", 101): "query.topic",
	} {
		RequireField(t, Get(h, "/v1/deliveries?"+query), path, "")
	}
	RequireProblem(t, Get(h, "/v1/deliveries?a;b"), 400, "malformed")
	RequireProblem(t, Get(h, "/v1/deliveries?topic=%zz"), 400, "malformed")
	require.Empty(t, f.Calls)
}

func TestStatsAndHealth(t *testing.T) {
	yes := true
	f := &Fake{
		Store: dispatcher.StoreInfo{Kind: "redis", AppendOnly: &yes, Fsync: "everysec", Loses: dispatcher.LosesLastSecond},
		Counts: dispatcher.Stats{
			Counts: map[dispatcher.Status]int64{"dead": 3, "in_flight": 2}, Dead: map[dispatcher.DeadReason]int64{"gone": 3},
			EverDead: map[dispatcher.DeadReason]int64{"gone": 5}, Cancelled: 4,
			Now: Now, Instances: 2, Lanes: []dispatcher.LaneState{{Lane: "u_1", URL: "http://a:80", LaneCount: dispatcher.LaneCount{InFlight: 1, Waiting: 9}}},
		},
	}
	f.Counts.Store = f.Store
	h := newTestAPI(t, f)
	got := DecodeAnswer[wire.Stats](t, Get(h, "/v1/stats"), 200)
	require.EqualValues(t, 3, got.Counts["dead"])
	require.Contains(t, got.Counts, "delivered")
	require.EqualValues(t, 2, got.InFlight)
	require.EqualValues(t, 5, got.Ends.Dead["gone"])
	require.Contains(t, got.Ends.Dead, "poison", "also those at 0")
	require.EqualValues(t, 4, got.Ends.Cancelled)
	require.True(t, got.OldestDueAt.IsZero())
	require.Equal(t, "last_second", got.Store.WouldLose)
	require.Equal(t, []wire.LaneState{{Lane: "u_1", URL: "http://a:80", State: "active", InFlight: 1, Waiting: 9}}, got.Lanes)

	require.Equal(t, `{"status":"ok"}`, Get(h, "/healthz").Body.String())
	require.Equal(t, "ready", DecodeAnswer[wire.Ready](t, Get(h, "/readyz"), 200).Status)
	f.Err = errors.New("redis: connection refused")
	w := Get(h, "/readyz")
	require.Contains(t, RequireProblem(t, w, 503, "unavailable").Detail, "connection refused")
	require.NotEmpty(t, w.Header().Get("Retry-After"))
	require.Equal(t, 200, Get(h, "/healthz").Code, "alive, though not ready")
	f.Stuck = errors.New("stuck: settle has not moved for 30s")
	w = Get(h, "/healthz")
	require.Contains(t, RequireProblem(t, w, 503, "unavailable").Detail, "settle has not moved")
}

// testStore has every field.
func testStore() dispatcher.StoreInfo {
	yes, used, limit := true, int64(7), int64(70)
	return dispatcher.StoreInfo{
		Kind: "valkey", Version: "8.1.0", Mode: "cluster", Nodes: 3, UsedBytes: &used, MaxBytes: &limit,
		AppendOnly: &yes, Fsync: "everysec", Eviction: "noeviction",
		Durability: dispatcher.Durability{Replicas: 2}, Durable: dispatcher.Yes, Loses: dispatcher.LosesUnreplicated,
		Checks: []dispatcher.Check{
			{Name: "eviction", Holds: dispatcher.Yes, Needed: true, Detail: "nothing is removed"},
			{Name: "durability", Holds: dispatcher.Yes, Detail: "2 replicas"},
		},
	}
}

func TestTheStoreIsToldAsItIs(t *testing.T) {
	store := testStore()
	h := newTestAPI(t, &Fake{Store: store, Counts: dispatcher.Stats{Store: store, Retention: 90 * time.Minute}})
	want := `{"kind":"valkey","version":"8.1.0","mode":"cluster","nodes":3,"used_bytes":7,"max_bytes":70,"append_only":true,` +
		`"fsync":"everysec","eviction":"noeviction","durability":"replicas:2","durable":"yes","would_lose":"unreplicated",` +
		`"checks":[{"name":"eviction","holds":"yes","needed":true,"detail":"nothing is removed"},` +
		`{"name":"durability","holds":"yes","needed":false,"detail":"2 replicas"}]}`
	require.Equal(t, `{"status":"ready","store":`+want+`}`, Get(h, "/readyz").Body.String())
	stats := Get(h, "/v1/stats")
	require.Contains(t, stats.Body.String(), `"store":`+want)
	require.EqualValues(t, 5400, DecodeAnswer[wire.Stats](t, stats, 200).Retention)

	h = newTestAPI(t, &Fake{})
	require.JSONEq(t, `{"status":"ready","store":{"kind":"","mode":"","nodes":0,"durability":"none","durable":"unknown","would_lose":"unknown","checks":[]}}`,
		Get(h, "/readyz").Body.String(), "what the store hides is left out")
}

func TestAStoreThatIsNotAsDurableAsAskedIsNotReady(t *testing.T) {
	store := testStore()
	store.Durable, store.Checks[1].Detail = dispatcher.No, "one of them is away"
	h := newTestAPI(t, &Fake{Store: store, Counts: dispatcher.Stats{Store: store}})
	w := Get(h, "/readyz")
	require.Contains(t, RequireProblem(t, w, 503, "not-durable").Detail, "one of them is away")
	require.NotEmpty(t, w.Header().Get("Retry-After"))
	require.Equal(t, "no", DecodeAnswer[wire.Stats](t, Get(h, "/v1/stats"), 200).Store.Durable, "stats tell it too")

	store.Durable = dispatcher.Unknown
	require.Equal(t, 200, Get(newTestAPI(t, &Fake{Store: store}), "/readyz").Code, "what is unknown is taken")
}

func TestUnknownRoutesAndMethodsAreProblems(t *testing.T) {
	h := newTestAPI(t, &Fake{})
	for _, path := range []string{"/", "/v1", "/v1/messages/", "/v1//messages", "/v1/messages/../messages", "/v1/messages/a/b", "/docs", "/schemas/Message.json", "/openapi.yaml", "/V1/messages", "//evil.example/v1/messages"} {
		RequireProblem(t, Serve(h, newTestRequest("GET", path, "")), 404, "not-found")
		RequireProblem(t, Serve(h, newTestRequest("POST", path, "")), 404, "not-found")
	}
	for path, allow := range map[string]string{
		"/v1/messages": "POST", "/v1/messages/a": "GET, DELETE, HEAD", "/v1/messages/a/retry": "POST",
		"/v1/deliveries": "GET, HEAD", "/v1/endpoints/a/secret": "GET, HEAD", "/v1/lanes/http%3A%2F%2Fa/pause": "POST", "/healthz": "GET, HEAD", "/openapi.json": "GET, HEAD",
	} {
		w := Serve(h, newTestRequest("PATCH", path, ""))
		RequireProblem(t, w, 405, "method-not-allowed")
		require.Equal(t, allow, w.Header().Get("Allow"))
	}
	require.Equal(t, 405, Serve(h, newTestRequest("GET", "/v1/messages", "")).Code)
	require.Equal(t, 200, Serve(h, newTestRequest("HEAD", "/healthz", "")).Code)
}

func TestAPanicIsA500AndLogged(t *testing.T) {
	var log bytes.Buffer
	h := newTestAPI(t, &Fake{Panics: "boom 42"}, WithLog(&log))
	w := Get(h, "/v1/stats")
	RequireProblem(t, w, 500, "internal")
	require.NotContains(t, w.Body.String(), "boom")
	require.Contains(t, log.String(), "boom 42")
	require.PanicsWithValue(t, http.ErrAbortHandler, func() {
		Get(newTestAPI(t, &Fake{Panics: http.ErrAbortHandler}), "/v1/stats")
	})
}

func TestAnUnforeseenErrorIsLoggedAndKeptFromTheCaller(t *testing.T) {
	var log bytes.Buffer
	w := Get(newTestAPI(t, &Fake{Err: errors.New("redis://:hunter2@host")}, WithLog(&log)), "/v1/stats")
	RequireProblem(t, w, 500, "internal")
	require.NotContains(t, w.Body.String(), "hunter2")
	require.Contains(t, log.String(), "request failed")
}

func TestAGivenUpRequestIsNoFault(t *testing.T) {
	var log bytes.Buffer
	for _, err := range []error{context.Canceled, context.DeadlineExceeded} {
		w := Get(newTestAPI(t, &Fake{Err: fmt.Errorf("stats: %w", err)}, WithLog(&log)), "/v1/stats")
		RequireProblem(t, w, 503, "unavailable")
	}
	require.Empty(t, log.String())
}

func TestTheDocumentListsEveryRoute(t *testing.T) {
	w := Get(newTestAPI(t, &Fake{}), "/openapi.json")
	var doc struct {
		OpenAPI    string
		Info       struct{ Version string }
		Paths      map[string]map[string]json.RawMessage
		Components struct{ Schemas map[string]json.RawMessage }
	}
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &doc))
	require.Equal(t, "3.1.0", doc.OpenAPI)
	require.Equal(t, "1.2.3", doc.Info.Version)
	for _, o := range Operations {
		path := strings.Replace(o.Path, "lanes/a", "lanes/{lane}", 1)
		path = strings.Replace(path, "/a", "/{id}", 1)
		require.Contains(t, doc.Paths, path)
		require.Contains(t, doc.Paths[path], strings.ToLower(o.Method))
	}
	require.Contains(t, doc.Paths, "/healthz")
	require.Contains(t, doc.Paths, "/readyz")
	publish := string(doc.Paths["/v1/messages"]["post"])
	require.Contains(t, publish, `"schema":{"$ref":"#/components/schemas/Message"}}},"required":true}`)
	for _, status := range []string{"202", "200", "400", "401", "403", "408", "409", "413", "415", "422", "500", "503"} {
		require.Contains(t, publish, `"`+status+`":{`)
	}
	require.Contains(t, publish, `#/components/schemas/Published`)
	require.Contains(t, publish, `Idempotency-Key`)
	require.Contains(t, string(doc.Paths["/v1/messages/batch"]["post"]), `#/components/schemas/Batch`)
	for _, field := range []string{"id", "topic", "url", "body", "raw_body", "raw_body_base64", "delay", "deliver_at", "expires_at", "headers", "ladder", "max_attempts", "timeout", "success"} {
		require.Contains(t, string(doc.Components.Schemas["Message"]), `"`+field+`":{`)
	}
	require.Contains(t, string(doc.Components.Schemas["Message"]), `"additionalProperties":false`)
	require.Contains(t, string(doc.Components.Schemas["Published"]), `"additionalProperties":true`)
	require.Contains(t, string(doc.Components.Schemas["Result"]), `"required":["status"]`)
	require.Contains(t, string(doc.Components.Schemas["Message"]), `"required":["topic"]`)
	require.NotContains(t, string(doc.Components.Schemas["Page"]), `"array","null"`)
	require.NotContains(t, doc.Components.Schemas, "ErrorModel")
	for name := range doc.Components.Schemas { // every reference has its end
		require.NotEmpty(t, doc.Components.Schemas[name])
	}
	for _, ref := range strings.Split(w.Body.String(), `"$ref":"#/components/schemas/`)[1:] {
		name, _, _ := strings.Cut(ref, `"`)
		require.Contains(t, doc.Components.Schemas, name)
	}
}

func TestHandlersNeedALimit(t *testing.T) {
	_, err := httpapi.New(PortsOf(&Fake{}))
	require.Error(t, err)
}
