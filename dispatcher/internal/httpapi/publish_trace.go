package httpapi

import (
	"context"
	"log/slog"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/api"
	"github.com/hookladder/hookladder/dispatcher/trace"
)

// spanKey is the key of the span of a publish in its context.
type spanKey struct{}

// traced serves a publish within a span. The caller's traceparent names its parent.
func (s *messageServer) traced(ctx context.Context, q *api.Request, do func(context.Context, *api.Request) (*api.Response, error)) (*api.Response, error) {
	ctx, span := s.Tracer.Begin(ctx, q.Span("publish", trace.Send))
	answer, err := do(context.WithValue(ctx, spanKey{}, span), q)
	status, failed := api.SpanStatus(answer, err)
	span.Set(slog.Int(trace.Status, status))
	span.End(failed, time.Time{})
	return answer, err
}

// kept returns the context that the messages of a publish keep: its own span if the span is
// recorded, or else the caller's. So attempts are never linked to a span that no collector has.
func (s *messageServer) kept(ctx context.Context, q *api.Request) *trace.Context {
	if s.Tracer != nil {
		if span, ok := ctx.Value(spanKey{}).(trace.Span); ok && span.Recorded() {
			c := span.Context()
			return &c
		}
	}
	if q.HTTP.Header[trace.Header] == nil {
		return nil
	}
	c := q.TraceParent()
	if c.IsZero() {
		s.Log.DebugContext(ctx, "the traceparent of a publish is invalid and was ignored")
		return nil
	}
	return &c
}

// note describes a published message in the span of its publish.
func note(ctx context.Context, m *dispatcher.Message, r *dispatcher.Published) {
	span, ok := ctx.Value(spanKey{}).(trace.Span)
	if !ok || !span.Recorded() {
		return
	}
	attrs := []slog.Attr{
		slog.String(trace.MessageID, m.ID), slog.Int(trace.BodySize, len(m.Body)), slog.String(trace.Topic, m.Topic), slog.String(trace.Tenant, m.Tenant),
		slog.Int(trace.Deliveries, len(r.Deliveries)),
	}
	if r.Err == nil {
		attrs = append(attrs, slog.String(trace.Outcome, r.Result.String()))
	}
	if len(r.Deliveries) == 1 {
		attrs = append(attrs, slog.String(trace.Destination, string(r.Deliveries[0].ID.Lane)))
	}
	span.Set(attrs...)
}

// noteBatch counts the messages of a batch in its span.
func noteBatch(ctx context.Context, messages int) {
	if span, ok := ctx.Value(spanKey{}).(trace.Span); ok {
		span.Set(slog.Int(trace.Messages, messages))
	}
}
