package httpapi_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/internal/callers"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

func given(contentType, body string) dispatcher.Given {
	return dispatcher.Given{
		Claimed: dispatcher.Claimed{
			ID: dispatcher.DeliveryID{Lane: "q_orders", Message: "msg_1"}, Attempt: 2,
			Message: &dispatcher.Message{
				ID: "msg_1", Topic: "order.unpaid", Tenant: "acme", Subject: "o-7", Body: []byte(body), ContentType: contentType, CreatedAt: Now,
			},
		},
		Lease: "2.TOKEN.0123456789", Until: Now.Add(time.Minute),
		Header: http.Header{"Webhook-Id": {"msg_1"}, "X-Shop": {"7"}},
	}
}

func TestATakeAnswersWhatACallWouldBring(t *testing.T) {
	f := &Fake{}
	f.OnTake = func(context.Context, dispatcher.TakerAsk) ([]dispatcher.Given, error) {
		return []dispatcher.Given{given("application/json", `{"b": 1,  "a":"<é>"}`), given("text/plain", "hi")}, nil
	}
	w := Post(newTestAPI(t, f), "/v1/queues/orders/take", "")
	require.Equal(t, 200, w.Code, w.Body.String())
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	head := `"id":"q_orders:msg_1","lease":"2.TOKEN.0123456789","lease_until":"2026-01-31T11:01:00.123Z","attempt":2,` +
		`"message":{"id":"msg_1","topic":"order.unpaid","tenant":"acme","subject":"o-7","content_type":"%s","created_at":"2026-01-31T11:00:00.123Z"},` +
		`"headers":{"webhook-id":"msg_1","x-shop":"7"}`
	require.Equal(t, `{"data":[{`+fmt.Sprintf(head, "application/json")+`,"body":{"b": 1,  "a":"<é>"}},`+
		`{`+fmt.Sprintf(head, "text/plain")+`,"raw_body_base64":"aGk="}]}`, w.Body.String())
	require.Equal(t, []dispatcher.TakerAsk{{Lane: "q_orders", Owner: (callers.APIKey{}).Owner(), Most: 10, For: 30 * time.Second}}, f.Asks)
	require.Zero(t, f.Given())
}

func TestABodyIsShownByteForByte(t *testing.T) {
	for _, body := range []string{`{"a":1}`, "{\n \"a\" : 1.0e5 }", ` {"a":1}`, `[1]` + "\n", `{"a":1,"a":2}`, `"\ud800"`, "\"\xff\"", `{`, ``, `null`} {
		f := &Fake{}
		f.OnTake = func(context.Context, dispatcher.TakerAsk) ([]dispatcher.Given, error) {
			return []dispatcher.Given{given("application/cloudevents+json; charset=utf-8", body)}, nil
		}
		w := Post(newTestAPI(t, f), "/v1/queues/orders/take", "")
		var got wire.Taken
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &got), w.Body.String())
		require.Equal(t, body, string(got.Data[0].Bytes()))
	}
}

func TestATakeSaysWhatItWants(t *testing.T) {
	f := &Fake{}
	h := newTestAPI(t, f)
	w := Post(h, "/v1/queues/a.b-c_D/take", `{"max":100,"lease":"1h","wait":30}`)
	require.Equal(t, 200, w.Code, w.Body.String())
	require.JSONEq(t, `{"data":[]}`, w.Body.String())
	require.Equal(t, dispatcher.TakerAsk{Lane: "q_a.b-c_D", Owner: (callers.APIKey{}).Owner(), Most: 100, For: time.Hour, Wait: 30 * time.Second}, f.Asks[0])
	for body, path := range map[string]string{
		`{"max":0}`: "$.max", `{"max":101}`: "$.max", `{"max":"1"}`: "$.max", `{"lease":"999ms"}`: "$.lease", `{"lease":"1h1s"}`: "$.lease",
		`{"wait":"31s"}`: "$.wait", `{"wait":"-1s"}`: "$.wait", `{"limit":1}`: "$.limit", `[]`: "$",
	} {
		p := RequireProblem(t, Post(h, "/v1/queues/orders/take", body), 422, "invalid")
		require.Equal(t, path, p.Errors[0].Path, body)
	}
	require.Len(t, f.Asks, 1)
}

func TestOnlyQueuesAndPullEndpointsAreTakenFrom(t *testing.T) {
	f := &Fake{}
	f.There = Endpoint(t)
	h := newTestAPI(t, f)
	for _, call := range []string{"take", "settle"} {
		body := ""
		if call == "settle" {
			body = `{"results":[{"id":"q_a:b","outcome":"delivered"}]}`
		}
		for _, name := range []string{"u_1", "q_orders", "a%20b", "a~b", strings.Repeat("x", 65), "a%2Fb"} {
			p := RequireProblem(t, Post(h, "/v1/queues/"+name+"/"+call, body), 422, "invalid")
			require.Equal(t, "path.name", p.Errors[0].Path, name)
		}
		p := RequireProblem(t, Post(h, "/v1/queues/ep_123456789/"+call, body), 422, "invalid")
		require.Contains(t, p.Errors[0].Detail, "kind pull")
	}
	f.There.Pull = true
	require.Equal(t, 200, Post(h, "/v1/queues/ep_123456789/take", "").Code)
	require.Equal(t, dispatcher.Lane("ep_123456789"), f.Asks[0].Lane)
	f.There = nil
	RequireProblem(t, Post(h, "/v1/queues/ep_123456789/take", ""), 404, "not-found")
	RequireProblem(t, Post(h, "/v1/queues/ep_/take", ""), 404, "not-found")
	settles := `{"results":[{"id":"ep_123456789:m","outcome":"delivered"}]}`
	require.Equal(t, 200, Post(h, "/v1/queues/ep_123456789/settle", settles).Code, "it was deleted while this was taken")
}

// The queue would stay empty, and its caller would wait for ever.
func TestTheUIDOfAPullEndpointIsNoUnknownQueue(t *testing.T) {
	f := &Fake{FakeEndpoints: FakeEndpoints{There: Endpoint(t)}}
	f.There.UID = "pull-1"
	h := newTestAPI(t, f)
	f.There.Pull = true
	p := RequireProblem(t, Post(h, "/v1/queues/pull-1/take", `{"wait":"30s"}`), 422, "invalid")
	require.Equal(t, []string{"path.name", "is no queue, but the uid of an endpoint: take from its id, ep_123456789"}, []string{p.Errors[0].Path, p.Errors[0].Detail})
	require.Empty(t, f.Asks)
	require.Equal(t, []dispatcher.Lane{"q_pull-1"}, f.AskedLanes)
	require.Equal(t, 200, Post(h, "/v1/queues/other/take", "").Code)
	f.State.Lane = "q_pull-1"
	require.Equal(t, 200, Post(h, "/v1/queues/pull-1/take", "").Code, "a queue of that name is there")
	f.State.Lane = ""
	require.Equal(t, 200, Post(h, "/v1/queues/pull-1/take", "").Code, "it is known")

	push := &Fake{FakeEndpoints: FakeEndpoints{There: Endpoint(t)}}
	push.There.UID = "push-1"
	require.Equal(t, 200, Post(newTestAPI(t, push), "/v1/queues/push-1/take", "").Code)
}

func TestAKeyTakesOnlyFromItsQueues(t *testing.T) {
	const all, orders, reads = "consume-all-0123456789", "consume-orders-0123456", "read-0123456789abcdef"
	f := &Fake{}
	h := newTestAPI(t, f, WithKeys(t, all+":consume,"+orders+":consume@orders+consume@ep_123456789,"+reads+":read+publish"))
	take := func(key, queue string) int {
		r := newTestRequest("POST", "/v1/queues/"+queue+"/take", "")
		r.Header.Set("Authorization", "Bearer "+key)
		return Serve(h, r).Code
	}
	require.Equal(t, 200, take(all, "orders"))
	require.Equal(t, 200, take(all, "other"))
	require.Equal(t, 200, take(orders, "orders"))
	require.Equal(t, 403, take(orders, "other"))
	require.Equal(t, 403, take(orders, "Orders"))
	require.Equal(t, 403, take(reads, "orders"))
	require.Equal(t, 401, take("unknown-0123456789abc", "orders"))
	require.NotEqual(t, f.Asks[0].Owner, f.Asks[2].Owner)
	require.Equal(t, f.Asks[0].Owner, f.Asks[1].Owner)
}

func TestSoManyMayWait(t *testing.T) {
	f := &Fake{}
	entered, leave := make(chan struct{}), make(chan struct{})
	f.OnTake = func(context.Context, dispatcher.TakerAsk) ([]dispatcher.Given, error) {
		entered <- struct{}{}
		<-leave
		return nil, nil
	}
	h := newTestAPI(t, f, func(o *httpapi.Options) { o.Waiting = 1 })
	over := make(chan int)
	go func() { over <- Post(h, "/v1/queues/orders/take", `{"wait":"5s"}`).Code }()
	<-entered
	w := Post(h, "/v1/queues/orders/take", `{"wait":"5s"}`)
	RequireProblem(t, w, 429, "waiting")
	require.NotEmpty(t, w.Header().Get("Retry-After"))
	go func() { over <- Post(h, "/v1/queues/orders/take", "").Code }()
	<-entered // it does not wait
	close(leave)
	require.Equal(t, 200, <-over)
	require.Equal(t, 200, <-over)
}

// brokenWriter is the connection of a caller that is gone.
type brokenWriter struct{ *httptest.ResponseRecorder }

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestAnAnswerThatCanNotBeWrittenIsGivenBack(t *testing.T) {
	f := &Fake{}
	f.OnTake = func(context.Context, dispatcher.TakerAsk) ([]dispatcher.Given, error) {
		return []dispatcher.Given{given("text/plain", "a"), given("text/plain", "b")}, nil
	}
	h := newTestAPI(t, f)
	h.ServeHTTP(brokenWriter{httptest.NewRecorder()}, newTestRequest("POST", "/v1/queues/orders/take", ""))
	require.Equal(t, 2, f.Given())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	Serve(h, newTestRequest("POST", "/v1/queues/orders/take", "").WithContext(ctx))
	require.Equal(t, 4, f.Given())
}

func TestACallerThatHangsUpEndsItsWait(t *testing.T) {
	f := &Fake{}
	entered, ended := make(chan struct{}), make(chan error, 1)
	f.OnTake = func(ctx context.Context, _ dispatcher.TakerAsk) ([]dispatcher.Given, error) {
		close(entered)
		<-ctx.Done()
		ended <- ctx.Err()
		return nil, ctx.Err()
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		newTestAPI(t, f).ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-entered
		cancel()
	}()
	c, err := client.New(srv.URL, "")
	require.NoError(t, err)
	_, err = c.Take(ctx, "orders", wire.Take{Wait: wire.Duration(30 * time.Second)})
	require.Error(t, err)
	require.ErrorIs(t, <-ended, context.Canceled)
}

func TestAKeyThatIsTakenAwayWhileItWaitsGetsNothing(t *testing.T) {
	const key = "consume-orders-0123456"
	f := &Fake{}
	keys, err := callers.ParseAPIKeys(key + ":consume@orders")
	require.NoError(t, err)
	ring := callers.NewKeyRing(keys)
	f.OnTake = func(context.Context, dispatcher.TakerAsk) ([]dispatcher.Given, error) {
		other, err := callers.ParseAPIKeys(key + ":consume@other")
		ring.Renew(other)
		return []dispatcher.Given{given("text/plain", "a")}, err
	}
	h := newTestAPI(t, f, func(o *httpapi.Options) { o.Keys = ring })
	r := newTestRequest("POST", "/v1/queues/orders/take", "")
	r.Header.Set("Authorization", "Bearer "+key)
	RequireProblem(t, Serve(h, r), 401, "unauthorized")
	require.Equal(t, 1, f.Given())
}

func TestASettleSaysWhatBecameOfEach(t *testing.T) {
	f := &Fake{}
	f.Settled = []dispatcher.TakerSettled{
		{ID: dispatcher.DeliveryID{Lane: "q_orders", Message: "a"}, Result: dispatcher.TakerOK, Status: dispatcher.StatusInFlight, Until: Now},
		{ID: dispatcher.DeliveryID{Lane: "q_orders", Message: "b"}, Result: dispatcher.TakerUnknown},
	}
	h := newTestAPI(t, f)
	w := Post(h, "/v1/queues/orders/settle", `{"results":[
		{"id":"q_orders:a","lease":"1.t.h","outcome":"extend","after":"1m"},{"id":"q_orders:b","outcome":"retry","after":0,"error":"no stock"},
		{"id":"q_orders:c","lease":"1.t.h","outcome":"retry"},{"id":"q_orders:d","outcome":"dead","after":null},{"id":"q_orders:e","outcome":"delivered"}]}`)
	require.Equal(t, 200, w.Code, w.Body.String())
	require.Equal(t, `{"results":[{"id":"q_orders:a","result":"ok","status":"in_flight","lease_until":"2026-01-31T11:00:00.123Z"},{"id":"q_orders:b","result":"unknown"}]}`, w.Body.String())
	id := func(m string) dispatcher.DeliveryID { return dispatcher.DeliveryID{Lane: "q_orders", Message: m} }
	none := time.Duration(0)
	require.Equal(t, []dispatcher.TakerOutcome{
		{ID: id("a"), Lease: "1.t.h", Extend: time.Minute},
		{ID: id("b"), Handled: dispatcher.Handled{Verdict: dispatcher.Retry, After: &none, Error: "no stock"}},
		{ID: id("c"), Lease: "1.t.h", Handled: dispatcher.Handled{Verdict: dispatcher.Retry}},
		{ID: id("d"), Handled: dispatcher.Handled{Verdict: dispatcher.Dead}},
		{ID: id("e"), Handled: dispatcher.Handled{Verdict: dispatcher.Delivered}},
	}, f.OnSettle)
	require.Equal(t, dispatcher.Lane("q_orders"), f.From)
}

func TestASettleNamesEachMistake(t *testing.T) {
	f := &Fake{}
	h := newTestAPI(t, f)
	one := func(more string) string {
		return `{"results":[{"id":"q_a:b","outcome":"delivered"},{"id":"q_a:b",` + more + `}]}`
	}
	for body, path := range map[string]string{
		`{}`: "$.results", `{"results":[]}`: "$.results", `{"results":{}}`: "$.results", `[]`: "$", `{"more":1,"results":[]}`: "$.more",
		`{"results":[1]}`: "$.results[0]", `{"results":[{"outcome":"dead"}]}`: "$.results[0].id", `{"results":[{"id":"x","outcome":"dead"}]}`: "$.results[0].id",
		one(`"outcome":"done"`): "$.results[1].outcome", one(`"lease":"x"`): "$.results[1].outcome",
		one(`"outcome":"delivered","after":"1s"`): "$.results[1].after", one(`"outcome":"dead","after":"1s"`): "$.results[1].after",
		one(`"outcome":"retry","after":"24h1s"`): "$.results[1].after", one(`"outcome":"retry","after":"-1s"`): "$.results[1].after",
		one(`"outcome":"extend"`): "$.results[1].after", one(`"outcome":"extend","after":"2h"`): "$.results[1].after",
		one(`"outcome":"extend","after":"0s"`): "$.results[1].after", one(`"outcome":"retry","more":1`): "$.results[1].more",
		one(`"outcome":"retry","error":7`): "$.results[1].error", one(`"outcome":"retry","after":"soon"`): "$.results[1].after",
	} {
		p := RequireProblem(t, Post(h, "/v1/queues/orders/settle", body), 422, "invalid")
		require.Equal(t, path, p.Errors[0].Path, body)
	}
	many := strings.Repeat(`{"id":"q_a:b","outcome":"delivered"},`, 1001)
	p := RequireProblem(t, Post(h, "/v1/queues/orders/settle", `{"results":[`+strings.TrimSuffix(many, ",")+`]}`), 422, "invalid")
	require.Contains(t, p.Errors[0].Detail, "1000")
	RequireProblem(t, Post(h, "/v1/queues/orders/settle", ""), 415, "unsupported-media-type")
	require.Nil(t, f.OnSettle)
}

func TestTheClientTakesAndSettles(t *testing.T) {
	f := &Fake{}
	f.OnTake = func(context.Context, dispatcher.TakerAsk) ([]dispatcher.Given, error) {
		return []dispatcher.Given{given("application/json", `{"a":1.0}`)}, nil
	}
	f.Settled = []dispatcher.TakerSettled{{ID: dispatcher.DeliveryID{Lane: "q_orders", Message: "msg_1"}, Result: dispatcher.TakerOK, Status: dispatcher.StatusRetrying}}
	srv := httptest.NewServer(newTestAPI(t, f))
	t.Cleanup(srv.Close)
	c, err := client.New(srv.URL, "")
	require.NoError(t, err)
	got, err := c.Take(t.Context(), "orders", wire.Take{Max: 5, Wait: wire.Duration(time.Second)})
	require.NoError(t, err)
	require.Len(t, got, 1)
	require.Equal(t, `{"a":1.0}`, string(got[0].Bytes()))
	require.Equal(t, 5, f.Asks[0].Most)
	after := wire.Duration(0)
	results, err := c.Settle(t.Context(), "orders", []wire.Settlement{{ID: got[0].ID, Lease: got[0].Lease, Outcome: "retry", After: &after, Error: "no"}})
	require.NoError(t, err)
	require.Equal(t, []wire.SettledDelivery{{ID: "q_orders:msg_1", Result: "ok", Status: "retrying"}}, results)
	require.Equal(t, time.Duration(0), *f.OnSettle[0].Handled.After)
}

func TestALongWaitOutlastsTheServersDeadlines(t *testing.T) {
	f := &Fake{}
	f.OnTake = func(ctx context.Context, _ dispatcher.TakerAsk) ([]dispatcher.Given, error) {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(1500 * time.Millisecond):
			return []dispatcher.Given{given("text/plain", "hi")}, nil
		}
	}
	srv := httptest.NewUnstartedServer(newTestAPI(t, f))
	srv.Config.ReadTimeout, srv.Config.WriteTimeout = time.Second, time.Second
	srv.Start()
	t.Cleanup(srv.Close)
	resp, err := http.Post(srv.URL+"/v1/queues/orders/take", "application/json", strings.NewReader(`{"wait":"5s"}`))
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(bufio.NewReader(resp.Body))
	require.NoError(t, err)
	require.Contains(t, string(b), "aGk=")
	require.Zero(t, f.Given())
}
