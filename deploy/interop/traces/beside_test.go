package traces_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	otel "go.opentelemetry.io/otel/trace"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/deploy/kit/pgtest"
	"github.com/hookladder/hookladder/dispatcher/outbox"
	"github.com/hookladder/hookladder/dispatcher/queue"
	"github.com/hookladder/hookladder/dispatcher/trace"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

func TestARowOfTheOutboxBeginsATrace(t *testing.T) {
	c := newSpans(t)
	url := pgtest.New(t)
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	_, err = conn.Exec(t.Context(), outbox.Schema())
	require.NoError(t, err)
	w := newWorld(t, to(c, "OUTBOX_URL="+url)...)
	r := newReceiver(t, 0)
	id := w.endpoint(map[string]any{"url": r.URL, "trace": true})
	_, err = outbox.Publish(t.Context(), conn, &wire.Message{ID: "row-1", Topic: "order.paid", Endpoint: id, Body: json.RawMessage(`1`)})
	require.NoError(t, err)
	row := c.wait(t, 1, "of the row", named("outbox row", "row-1"))[0]
	require.Equal(t, []any{"PRODUCER", "", "accepted", id, "send"}, []any{row.kind, row.parent, row.attributes[trace.Outcome], row.attributes[trace.Destination], row.attributes[trace.OperationType]})
	attempt := c.wait(t, 1, "of the attempt", named("attempt", "row-1"))[0]
	require.Equal(t, []string{row.traceID, row.id}, []string{attempt.traceID, attempt.parent})
	require.Equal(t, []string{row.id}, attempt.linkedTo)
	require.Equal(t, "00-"+row.traceID+"-"+attempt.id+"-01", r.wait(t, 1)[0].Get("Traceparent"))

	_, err = outbox.Publish(t.Context(), conn, &wire.Message{ID: "row-2", Topic: "order.paid", Endpoint: "nobody", Body: json.RawMessage(`1`)})
	require.NoError(t, err)
	refused := c.wait(t, 1, "of the refused row", named("outbox row", "row-2"))[0]
	require.True(t, refused.failed)
	require.Equal(t, "422", refused.attributes[trace.ErrorType])
}

// With a provider, a handler's context has the span of its call, so spans of the handler are
// children of it. Without one, it has the span of the publish.
func TestSpansOfAGoHandlerAreChildrenOfItsCall(t *testing.T) {
	w := newWorld(t)
	for _, withProvider := range []bool{true, false} {
		t.Run(fmt.Sprintf("provider %t", withProvider), func(t *testing.T) {
			own := tracetest.NewInMemoryExporter()
			provider := sdk.NewTracerProvider(sdk.WithSyncer(own))
			var o queue.Options
			if withProvider {
				o.TracerProvider = provider
			}
			name := fmt.Sprintf("orders-%t", withProvider)
			q, err := queue.Open(t.Context(), w.redis, o)
			require.NoError(t, err)
			seen := make(chan otel.SpanContext, 4)
			q.Handle(name, func(ctx context.Context, d queue.Delivery) error {
				seen <- otel.SpanContextFromContext(ctx)
				_, mine := provider.Tracer("shop").Start(ctx, "handler's own")
				mine.End()
				if d.Attempt == 1 {
					return queue.RetryAfter(0, nil)
				}
				return nil
			})
			ctx, stop := context.WithCancel(t.Context())
			ran := make(chan error, 1)
			go func() { ran <- q.Run(ctx) }()
			w.publish(traceparent, map[string]any{"id": name, "topic": "order.paid", "body": 1, "queue": name})
			first, second := <-seen, <-seen
			stop()
			require.NoError(t, <-ran)
			parent := first
			var calls tracetest.SpanStubs
			for _, s := range own.GetSpans() {
				require.Equal(t, callersTrace, s.SpanContext.TraceID().String())
				if s.Name == "process" {
					calls = append(calls, s)
				}
			}
			require.Equal(t, callersTrace, parent.TraceID().String())
			if !withProvider {
				require.Empty(t, calls)
				require.Equal(t, []string{callersSpan, callersSpan}, []string{first.SpanID().String(), second.SpanID().String()})
				return
			}
			require.Len(t, calls, 2)
			require.Equal(t, []string{first.SpanID().String(), second.SpanID().String()}, []string{calls[0].SpanContext.SpanID().String(), calls[1].SpanContext.SpanID().String()})
			for i, call := range calls {
				require.Equal(t, otel.SpanKindConsumer, call.SpanKind)
				require.Equal(t, callersSpan, call.Parent.SpanID().String())
				require.Equal(t, callersSpan, call.Links[0].SpanContext.SpanID().String())
				has := map[string]any{}
				for _, a := range call.Attributes {
					has[string(a.Key)] = a.Value.AsInterface()
				}
				require.Equal(t, []any{"process", "q_" + name, int64(i + 1)}, []any{has[trace.OperationType], has[trace.Destination], has[trace.Attempt]})
				require.Equal(t, []any{"retry", "delivered"}[i], has[trace.Outcome])
			}
			for _, s := range own.GetSpans() {
				if s.Name == "handler's own" {
					require.Contains(t, []string{first.SpanID().String(), second.SpanID().String()}, s.Parent.SpanID().String())
				}
			}
		})
	}
}

// A publish by a Go program keeps the span of its context.
func TestAPublishOfAGoProgramKeepsItsSpan(t *testing.T) {
	w := newWorld(t)
	r := newReceiver(t, 0)
	w.endpoint(map[string]any{"url": r.URL, "trace": true})
	q, err := queue.Open(t.Context(), w.redis, queue.Options{})
	require.NoError(t, err)
	defer q.Close() //nolint:errcheck // the test is over
	ctx, span := sdk.NewTracerProvider().Tracer("shop").Start(t.Context(), "checkout")
	_, err = q.Send(ctx, queue.Callback{Topic: "order.paid", Body: 1})
	require.NoError(t, err)
	c := span.SpanContext()
	require.Equal(t, fmt.Sprintf("00-%s-%s-01", c.TraceID(), c.SpanID()), r.wait(t, 1)[0].Get("Traceparent"))
}

func TestACollectorThatIsAwayOrHangsDelaysNothing(t *testing.T) {
	for name, refuse := range map[string]func(http.ResponseWriter, *http.Request) bool{
		"it is away": nil,
		"it hangs": func(_ http.ResponseWriter, r *http.Request) bool {
			_, _ = io.Copy(io.Discard, r.Body) // else the server does not notice that the connection is closed
			<-r.Context().Done()
			return true
		},
		"it refuses": func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(http.StatusBadRequest)
			return true
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newSpans(t)
			if c.refuse = refuse; refuse == nil {
				c.Server.Close()
			}
			w := newWorld(t, to(c, "OTEL_BSP_MAX_QUEUE_SIZE=16", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE=16", "OTEL_BSP_EXPORT_TIMEOUT=200")...)
			r := newReceiver(t, 0)
			w.endpoint(map[string]any{"url": r.URL})
			for range 4 {
				var batch []any
				for range 50 {
					batch = append(batch, map[string]any{"topic": "order.paid", "body": 1})
				}
				status, _ := w.call("POST", "/v1/messages/batch", nil, map[string]any{"messages": batch})
				require.Equal(t, http.StatusAccepted, status)
			}
			r.wait(t, 200)
			_, err := w.instance.Line(t.Context(), "traces are not sent; deliveries continue")
			require.NoError(t, err)
			require.Regexp(t, `(?m)^hookladder_traces_dropped_total [1-9]`, w.get("/metrics"))
			require.NoError(t, w.instance.Terminate())
			require.Equal(t, 1, strings.Count(w.instance.Output.String(), "traces are not sent; deliveries continue"), "one line a minute")
			require.Contains(t, w.instance.Output.String(), `"msg":"stopped"`)
		})
	}
}

// The last spans of a process reach the collector, although no export is due for an hour.
func TestAStopSendsTheLastSpans(t *testing.T) {
	c := newSpans(t)
	w := newWorld(t, to(c, "OTEL_BSP_SCHEDULE_DELAY=600000")...)
	r := newReceiver(t, 0)
	w.endpoint(map[string]any{"url": r.URL})
	w.publish("", map[string]any{"id": "m-1", "topic": "order.paid", "body": 1})
	r.wait(t, 1)
	require.NoError(t, w.instance.Terminate())
	c.wait(t, 1, "of the publish", named("POST /v1/messages", "m-1"))
	c.wait(t, 1, "of the attempt", named("attempt", "m-1"))
}

// Traces are off without an endpoint, and when a variable turns them off. Then the process has no
// goroutine for them.
func TestWithoutTheVariablesNothingIsTraced(t *testing.T) {
	c := newSpans(t)
	for name, more := range map[string][]string{
		"no endpoint":         {"OTEL_SERVICE_NAME=hooks", "OTEL_BSP_SCHEDULE_DELAY=20", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc"},
		"the SDK is disabled": to(c, "OTEL_SDK_DISABLED=true"),
		"no exporter":         to(c, "OTEL_TRACES_EXPORTER=none"),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, more...)
			r := newReceiver(t, 0)
			w.endpoint(map[string]any{"url": r.URL, "trace": true})
			w.publish(traceparent, map[string]any{"topic": "order.paid", "body": 1})
			require.Equal(t, traceparent, r.wait(t, 1)[0].Get("Traceparent"))
			require.NotContains(t, w.goroutines(), "opentelemetry")
			require.NotContains(t, w.get("/metrics"), "hookladder_traces")
			require.NoError(t, w.instance.Terminate())
			require.Zero(t, c.requests())
			require.NotContains(t, w.instance.Output.String(), "traces are on")
		})
	}
	on := newWorld(t, to(c)...)
	require.Contains(t, on.goroutines(), "opentelemetry", "it sees the goroutines of traces")
}

// goroutines returns the stacks of the process.
func (w *world) goroutines() string {
	w.t.Helper()
	return w.get("/debug/pprof/goroutine?debug=2")
}

// get returns a page of the process.
func (w *world) get(path string) string {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), "GET", w.instance.URL+path, nil)
	require.NoError(w.t, err)
	r.Header.Set("Authorization", "Bearer "+key)
	resp, err := http.DefaultClient.Do(r)
	require.NoError(w.t, err)
	defer resp.Body.Close() //nolint:errcheck // it was read
	text, err := io.ReadAll(resp.Body)
	require.NoError(w.t, err)
	require.Equal(w.t, http.StatusOK, resp.StatusCode, "%s", text)
	return string(text)
}

// A sampler that takes nothing sends nothing, and messages keep the caller's span.
func TestASpanThatIsNotSampledIsNotNamed(t *testing.T) {
	c := newSpans(t)
	w := newWorld(t, to(c, "OTEL_TRACES_SAMPLER=always_off")...)
	r := newReceiver(t, 0)
	w.endpoint(map[string]any{"url": r.URL, "trace": true})
	w.publish(traceparent, map[string]any{"topic": "order.paid", "body": 1})
	require.Equal(t, traceparent, r.wait(t, 1)[0].Get("Traceparent"))
	require.NoError(t, w.instance.Terminate())
	require.Zero(t, c.requests())
}

func TestAProtocolThatIsNotBuiltInEndsTheStart(t *testing.T) {
	path, err := kit.FastBinary()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), path, "serve")
	cmd.Env = []string{"REDIS_URL=redis://127.0.0.1:1", "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4317", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc"}
	var out bytes.Buffer
	cmd.Stderr = &out
	require.Error(t, cmd.Run())
	require.Equal(t, 2, cmd.ProcessState.ExitCode(), out.String())
	require.Contains(t, out.String(), `OTEL_EXPORTER_OTLP_PROTOCOL="grpc": must be http/protobuf`)
	require.Contains(t, out.String(), "4318")
}
