package traces_test

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/trace"
)

// The span of a caller.
const (
	callersTrace = "0af7651916cd43dd8448eb211c80319c"
	callersSpan  = "b7ad6b7169203331"
	traceparent  = "00-" + callersTrace + "-" + callersSpan + "-01"
)

func TestAMessageIsFollowedFromItsCallerToItsReceivers(t *testing.T) {
	c := newSpans(t)
	w := newWorld(t, append(pageSettings(t, c), "OTEL_RESOURCE_ATTRIBUTES=deployment.environment.name=te%20st",
		"OTEL_EXPORTER_OTLP_HEADERS=x-token=a%2Cb", "OTEL_EXPORTER_OTLP_COMPRESSION=gzip")...)
	joins, plain := newReceiver(t, 1), newReceiver(t, 1)
	traced := w.endpoint(map[string]any{"url": joins.URL + "/hooks?token=secret-in-query", "tenant": "shop", "trace": true})
	other := w.endpoint(map[string]any{"url": plain.URL, "tenant": "shop"})
	w.publish(traceparent, map[string]any{"id": "m-1", "topic": "order.paid", "tenant": "shop", "subject": "subject-private", "body": map[string]any{"card": "body-private"}, "headers": map[string]any{"x-secret": "value-private"}})

	published := c.wait(t, 1, "of the publish", named("POST /v1/messages", "m-1"))[0]
	require.Equal(t, "SERVER", published.kind)
	require.Equal(t, []string{callersTrace, callersSpan}, []string{published.traceID, published.parent})
	require.False(t, published.failed)
	require.Equal(t, map[string]any{
		trace.System: "hookladder", trace.Operation: "publish", trace.OperationType: "send", trace.MessageID: "m-1", trace.BodySize: len(`{"card":"body-private"}`),
		trace.Method: "POST", trace.Route: "/v1/messages", trace.Status: 202, trace.Topic: "order.paid", trace.Tenant: "shop", trace.Outcome: "accepted", trace.Deliveries: 2,
	}, published.attributes)
	require.Equal(t, "shop-hooks", published.process["service.name"])
	require.Equal(t, "te st", published.process["deployment.environment.name"])
	require.NotEmpty(t, published.process["service.instance.id"])
	require.Equal(t, "github.com/hookladder/hookladder", published.scope)

	stored := c.wait(t, 1, "of the store", func(s span) bool { return s.name == "schedule" })[0]
	require.Equal(t, "CLIENT", stored.kind)
	require.Equal(t, []string{callersTrace, published.id}, []string{stored.traceID, stored.parent})
	require.Equal(t, map[string]any{trace.Database: "redis", trace.DatabaseCall: "schedule", trace.DatabaseBatch: 1}, stored.attributes)
	require.LessOrEqual(t, published.began, stored.began)
	require.LessOrEqual(t, stored.ended, published.ended)

	attempts := c.wait(t, 4, "of attempts", named("attempt", "m-1"))
	for _, a := range attempts {
		require.Equal(t, "CLIENT", a.kind)
		require.Equal(t, []string{callersTrace, published.id}, []string{a.traceID, a.parent})
		require.Equal(t, []string{published.id}, a.linkedTo)
		require.Equal(t, []string{callersTrace}, a.linkedToTrace)
		require.Equal(t, "127.0.0.1", a.attributes[trace.ServerAddress])
		require.Equal(t, "http", a.attributes[trace.Scheme])
		lane := a.attributes[trace.Destination].(string)
		require.Contains(t, []string{traced, other}, lane)
		require.Equal(t, lane+":m-1", a.attributes[trace.DeliveryID])
		if a.attributes[trace.Attempt] == 1 {
			require.Equal(t, []any{500, "500", "retry", true}, []any{a.attributes[trace.Status], a.attributes[trace.ErrorType], a.attributes[trace.Outcome], a.failed})
		} else {
			require.Equal(t, []any{2, 200, nil, "delivered", false}, []any{a.attributes[trace.Attempt], a.attributes[trace.Status], a.attributes[trace.ErrorType], a.attributes[trace.Outcome], a.failed})
		}
	}

	for i, h := range joins.wait(t, 2) { // each is called with the span of its attempt
		sent, ok := trace.Parse(h.Get("Traceparent"))
		require.True(t, ok, h)
		require.Equal(t, h.Get("Traceparent"), "00-"+callersTrace+"-"+attemptOf(attempts, traced, i+1)+"-01")
		require.EqualValues(t, trace.Sampled, sent.Flags)
	}
	for _, h := range plain.wait(t, 2) {
		require.Empty(t, h.Values("Traceparent"))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	require.Equal(t, "a,b", c.headers[0].Get("X-Token"))
	require.Equal(t, "gzip", c.headers[0].Get("Content-Encoding"))
	require.Equal(t, "/v1/traces", c.paths[0])
	for _, s := range c.all { // no content, no secret and no URL
		for name, value := range s.attributes {
			text, _ := value.(string)
			require.NotContains(t, text, "private", name)
			require.NotContains(t, text, "secret", name)
			require.NotContains(t, text, "/hooks", name)
		}
	}
}

// pageSettings returns the settings of the command on the page about traces, with this collector.
func pageSettings(t testing.TB, c *spans) []string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "traces.md"))
	require.NoError(t, err)
	line := regexp.MustCompile(`(?m)^(OTEL_.*) hookladder serve$`).FindSubmatch(page)
	require.NotNil(t, line, "the page has no command")
	settings := strings.Fields(strings.Replace(string(line[1]), "http://127.0.0.1:4318", c.URL, 1))
	require.Contains(t, settings, "OTEL_EXPORTER_OTLP_ENDPOINT="+c.URL)
	return append(settings, "OTEL_BSP_SCHEDULE_DELAY=20")
}

// attemptOf returns the id of the span of an attempt.
func attemptOf(all []span, lane string, number int) string {
	for _, s := range all {
		if s.attributes[trace.Destination] == lane && s.attributes[trace.Attempt] == number {
			return s.id
		}
	}
	return ""
}

func TestStatesOfTracesAreNeverSent(t *testing.T) {
	c := newSpans(t)
	w := newWorld(t, to(c)...)
	r := newReceiver(t, 0)
	w.endpoint(map[string]any{"url": r.URL, "trace": true})
	status, _ := w.call("POST", "/v1/messages", map[string]string{"traceparent": traceparent, "tracestate": "vendor=1", "baggage": "user=1"},
		map[string]any{"id": "m-1", "topic": "order.paid", "body": 1})
	require.Equal(t, http.StatusAccepted, status)
	h := r.wait(t, 1)[0]
	require.NotEmpty(t, h.Get("Traceparent"))
	require.Empty(t, h.Values("Tracestate"))
	require.Empty(t, h.Values("Baggage"))
	for _, name := range []string{"traceparent", "Trace_State", "tracestate", "baggage"} {
		status, answer := w.call("POST", "/v1/messages", nil, map[string]any{"topic": "order.paid", "body": 1, "headers": map[string]any{name: "x"}})
		if name == "Trace_State" { // another name
			require.Equal(t, http.StatusAccepted, status)
			continue
		}
		require.Equal(t, http.StatusUnprocessableEntity, status, "%s: %v", name, answer)
	}
}

func TestABatchIsOneSpanAndAnInvalidTraceparentIsNone(t *testing.T) {
	c := newSpans(t)
	w := newWorld(t, to(c)...)
	r := newReceiver(t, 0)
	w.endpoint(map[string]any{"url": r.URL})
	message := func(id string) map[string]any { return map[string]any{"id": id, "topic": "order.paid", "body": 1} }
	status, _ := w.call("POST", "/v1/messages/batch", map[string]string{"traceparent": strings.ToUpper(traceparent)},
		map[string]any{"messages": []any{message("b-1"), message("b-2"), map[string]any{"id": "b-3"}}})
	require.Equal(t, http.StatusAccepted, status)
	batch := c.wait(t, 1, "of the batch", func(s span) bool { return s.name == "POST /v1/messages/batch" })[0]
	require.Empty(t, batch.parent)
	require.NotEqual(t, callersTrace, batch.traceID)
	require.Equal(t, 3, batch.attributes[trace.Messages])
	require.Nil(t, batch.attributes[trace.MessageID])
	for _, id := range []string{"b-1", "b-2"} {
		a := c.wait(t, 1, "of its attempt", named("attempt", id))[0]
		require.Equal(t, []string{batch.traceID, batch.id}, []string{a.traceID, a.parent})
	}
	r.wait(t, 2)
	status, _ = w.call("POST", "/v1/messages", map[string]string{"traceparent": traceparent}, map[string]any{"topic": "order.paid"})
	require.Equal(t, http.StatusUnprocessableEntity, status)
	refused := c.wait(t, 1, "of a refusal", func(s span) bool { return s.attributes[trace.Status] == 422 })[0]
	require.False(t, refused.failed, "it is the caller's error")
}

func TestATraceparentIsNoContent(t *testing.T) {
	w := newWorld(t) // without traces
	r := newReceiver(t, 0)
	w.endpoint(map[string]any{"url": r.URL, "trace": true})
	message := map[string]any{"id": "m-1", "topic": "order.paid", "body": 1}
	w.publish(traceparent, message)
	require.Equal(t, traceparent, r.wait(t, 1)[0].Get("Traceparent"), "it is passed on as it came")
	for _, again := range []string{"", strings.Replace(traceparent, "0af", "1af", 1)} {
		header := map[string]string{}
		if again != "" {
			header["traceparent"] = again
		}
		status, answer := w.call("POST", "/v1/messages", header, message)
		require.Equal(t, http.StatusOK, status)
		require.Equal(t, true, answer["duplicate"])
	}
	status, answer := w.call("POST", "/v1/messages/m-1/retry?all=true", nil, map[string]any{})
	require.Equal(t, http.StatusAccepted, status, "%v", answer)
	require.Equal(t, traceparent, r.wait(t, 2)[1].Get("Traceparent"), "a resend has the first one")
}

func TestAMessageWithoutATraceparentIsSentWithoutOne(t *testing.T) {
	w := newWorld(t)
	r := newReceiver(t, 0)
	w.endpoint(map[string]any{"url": r.URL, "trace": true})
	w.publish("", map[string]any{"topic": "order.paid", "body": 1})
	w.publish("00-"+callersTrace+"-"+callersSpan, map[string]any{"topic": "order.paid", "body": 1})
	w.publish(traceparent, map[string]any{"topic": "order.paid", "body": 1, "url": r.URL}) // a bare URL has no endpoint
	for _, h := range r.wait(t, 3) {
		require.Empty(t, h.Values("Traceparent"))
	}
}

func TestTakeAndSettleAreLinked(t *testing.T) {
	c := newSpans(t)
	w := newWorld(t, to(c)...)
	pull := w.endpoint(map[string]any{"kind": "pull", "uid": "stock", "trace": true})
	w.publish(traceparent, map[string]any{"id": "m-1", "topic": "order.paid", "body": 1, "endpoint": "stock"})
	published := c.wait(t, 1, "of the publish", named("POST /v1/messages", "m-1"))[0]
	require.Equal(t, pull, published.attributes[trace.Destination])
	take := "/v1/queues/" + pull + "/take"
	status, answer := w.call("POST", take, map[string]string{"traceparent": "00-" + strings.Repeat("a", 32) + "-" + callersSpan + "-01"}, map[string]any{"wait": "10s"})
	require.Equal(t, http.StatusOK, status)
	given := answer["data"].([]any)[0].(map[string]any)
	require.Equal(t, "00-"+callersTrace+"-"+published.id+"-01", given["headers"].(map[string]any)["traceparent"])
	taken := c.wait(t, 1, "of the take", func(s span) bool { return s.attributes[trace.Operation] == "take" })[0]
	require.Equal(t, []string{"SERVER", "POST /v1/queues/{name}/take", strings.Repeat("a", 32), callersSpan}, []string{taken.kind, taken.name, taken.traceID, taken.parent})
	require.Equal(t, []string{published.id}, taken.linkedTo)
	require.Equal(t, []any{"receive", pull, "m-1", 1}, []any{taken.attributes[trace.OperationType], taken.attributes[trace.Destination], taken.attributes[trace.MessageID], taken.attributes[trace.Messages]})

	status, answer = w.call("POST", take, nil, map[string]any{"wait": "0s"})
	require.Equal(t, http.StatusOK, status)
	require.Empty(t, answer["data"])
	status, _ = w.call("POST", "/v1/queues/"+pull+"/settle", nil, map[string]any{"results": []any{map[string]any{"id": given["id"], "lease": given["lease"], "outcome": "delivered"}}})
	require.Equal(t, http.StatusOK, status)
	settled := c.wait(t, 1, "of the settle", func(s span) bool { return s.attributes[trace.Operation] == "settle" })[0]
	require.Equal(t, []any{"settle", pull, "m-1", "delivered", 200}, []any{settled.attributes[trace.OperationType], settled.attributes[trace.Destination], settled.attributes[trace.MessageID], settled.attributes[trace.Outcome], settled.attributes[trace.Status]})
	c.wait(t, 1, "of takes: an empty one has none", func(s span) bool { return s.attributes[trace.Operation] == "take" })
}
