package queue

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/observe"
	"github.com/hookladder/hookladder/dispatcher/trace"
)

// trace begins the span of a publish, if there is a TracerProvider. The message keeps it, or
// else the span of ctx.
func (q *Queue) trace(ctx context.Context, m *dispatcher.Message) (context.Context, trace.Span) {
	var span trace.Span
	kept := observe.SpanOf(ctx)
	if q.tracer != nil {
		ctx, span = q.tracer.Begin(ctx, trace.Start{Name: "publish", Kind: trace.Producer, Attrs: []slog.Attr{
			trace.Ours(), slog.String(trace.Operation, "publish"), slog.String(trace.OperationType, trace.Send),
			slog.String(trace.MessageID, m.ID), slog.Int(trace.BodySize, len(m.Body)), slog.String(trace.Topic, m.Topic), slog.String(trace.Tenant, m.Tenant),
		}})
		if span.Recorded() {
			kept = span.Context()
		}
	}
	if !kept.IsZero() {
		m.Trace = &kept
	}
	return ctx, span
}

// endPublish ends the span of a publish with its result, which is nil after an error; nil: there is
// no span.
func endPublish(span trace.Span, r *dispatcher.Published, err error) {
	if span == nil {
		return
	}
	if r != nil {
		if err = r.Err; err == nil {
			span.Set(slog.String(trace.Outcome, r.Result.String()), slog.Int(trace.Deliveries, len(r.Deliveries)))
		}
		if len(r.Deliveries) == 1 {
			span.Set(slog.String(trace.Destination, string(r.Deliveries[0].ID.Lane)))
		}
	}
	failed := ""
	switch {
	case errors.Is(err, dispatcher.ErrFull):
		failed = "full"
	case errors.Is(err, dispatcher.ErrUnavailable):
		failed = "unavailable"
	case err != nil:
		failed = "refused"
	}
	span.End(failed, time.Time{})
}

// trace begins the span of a call of a handler, and returns the handler's context with it. The
// span is a child of the span that published the message, and linked to it. Without a
// TracerProvider, the context has the span that published the message.
func (a *attempt) trace(ctx context.Context) context.Context {
	m, tracer := a.claimed.Message, a.handlers.tracer
	var kept trace.Context
	if m.Trace != nil {
		kept = *m.Trace
	}
	if tracer == nil {
		return observe.WithSpan(ctx, kept)
	}
	ctx, a.span = tracer.Begin(ctx, trace.Start{Name: "process", Kind: trace.Consumer, Parent: kept, Links: []trace.Context{kept}, Attrs: []slog.Attr{
		trace.Ours(), slog.String(trace.Operation, "process"), slog.String(trace.OperationType, trace.Process),
		slog.String(trace.MessageID, m.ID), slog.Int(trace.BodySize, len(m.Body)), slog.String(trace.Destination, string(a.claimed.ID.Lane)),
		slog.String(trace.DeliveryID, a.delivery.ID), slog.Int(trace.Attempt, a.delivery.Attempt),
		slog.String(trace.Topic, m.Topic), slog.String(trace.Tenant, m.Tenant),
	}})
	return ctx
}

// endSpan ends the span of a call of a handler with its outcome. An overdue handler may run on.
func (a *attempt) endSpan(out dispatcher.Handled) {
	if a.span == nil {
		return
	}
	a.span.Set(slog.String(trace.Outcome, out.Verdict.String()))
	failed := ""
	if out.Verdict != dispatcher.Delivered && out.Verdict != dispatcher.Snoozed {
		failed = cmp.Or(string(out.Class), "back")
	}
	a.span.End(failed, time.Time{})
}
