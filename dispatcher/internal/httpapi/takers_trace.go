package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/api"
	"github.com/hookladder/hookladder/dispatcher/trace"
)

// traceTake records a take that found something. It is linked to the spans that published the
// deliveries. An empty take is not recorded: a consumer makes one every few seconds.
func (s *takerServer) traceTake(ctx context.Context, q *api.Request, lane dispatcher.Lane, given []dispatcher.Given, began time.Time) {
	start := q.Span("take", trace.Receive, slog.String(trace.Destination, string(lane)))
	start.At = began
	for i := range given {
		if m := given[i].Message; m.Trace != nil {
			start.Links = append(start.Links, *m.Trace)
		}
	}
	start.Attrs = append(start.Attrs, slog.Int(trace.Messages, len(given)), slog.Int(trace.Status, http.StatusOK))
	if len(given) == 1 {
		start.Attrs = append(start.Attrs, slog.String(trace.MessageID, given[0].ID.Message), slog.String(trace.DeliveryID, given[0].ID.String()))
	}
	_, span := s.Tracer.Begin(ctx, start)
	span.End("", time.Time{})
}

// traced is a call that was made.
type traced struct {
	began time.Time
	err   error
}

// traceSettle records a settle. It has no links, because it has no messages: reading them would
// cost more than the settle.
func (s *takerServer) traceSettle(ctx context.Context, q *api.Request, lane dispatcher.Lane, list []dispatcher.TakerOutcome, call traced) {
	start := q.Span("settle", trace.Settle, slog.String(trace.Destination, string(lane)))
	start.At = call.began
	start.Attrs = append(start.Attrs, slog.Int(trace.Messages, len(list)))
	if len(list) == 1 {
		start.Attrs = append(start.Attrs, slog.String(trace.MessageID, list[0].ID.Message), slog.String(trace.DeliveryID, list[0].ID.String()))
		if list[0].Extend == 0 {
			start.Attrs = append(start.Attrs, slog.String(trace.Outcome, list[0].Handled.Verdict.String()))
		}
	}
	status, failed := api.SpanStatus(nil, call.err)
	start.Attrs = append(start.Attrs, slog.Int(trace.Status, status))
	_, span := s.Tracer.Begin(ctx, start)
	span.End(failed, time.Time{})
}
