package queue_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	otel "go.opentelemetry.io/otel/trace"

	"github.com/hookladder/hookladder/dispatcher/queue"
	"github.com/hookladder/hookladder/dispatcher/queue/queuetest"
	"github.com/hookladder/hookladder/dispatcher/trace"
)

func TestTheSpanOfAHandlerIsAChildOfThePublishAndSaysHowItEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		exported := tracetest.NewInMemoryExporter()
		q := queuetest.Open(t, queue.Options{Log: quiet.Log, TracerProvider: sdk.NewTracerProvider(sdk.WithSyncer(exported))})
		var inside []otel.SpanContext
		q.Handle("work", func(ctx context.Context, d queue.Delivery) error {
			inside = append(inside, otel.SpanContextFromContext(ctx))
			switch d.Attempt {
			case 1:
				if d.Snoozes == 0 {
					return queue.Snooze(time.Second)
				}
				return errors.New("no")
			}
			return nil
		})
		queuetest.Run(t, q)
		publish(t, q, queue.Task{ID: "one"})
		_, err := q.Publish(t.Context(), queue.Task{ID: "one", Queue: "work", Topic: "test", Body: "other"})
		require.ErrorIs(t, err, queue.ErrConflict)
		queuetest.Advance(time.Hour)

		var publishes, calls tracetest.SpanStubs
		for _, s := range exported.GetSpans() {
			switch s.Name {
			case "publish":
				publishes = append(publishes, s)
			case "process":
				calls = append(calls, s)
			}
		}
		require.Len(t, publishes, 2)
		require.Equal(t, "accepted", attribute(publishes[0], trace.Outcome))
		require.Equal(t, "conflict", attribute(publishes[1], trace.Outcome))
		require.Len(t, calls, 3)
		for i, outcome := range []string{"snoozed", "retry", "delivered"} {
			call := calls[i]
			require.Equal(t, outcome, attribute(call, trace.Outcome))
			require.Equal(t, outcome == "retry", call.Status.Code == codes.Error, outcome)
			require.Equal(t, inside[i], call.SpanContext)
			require.Equal(t, publishes[0].SpanContext.SpanID(), call.Parent.SpanID())
			require.Equal(t, publishes[0].SpanContext.SpanID(), call.Links[0].SpanContext.SpanID())
		}
	})
}

// attribute returns the value of an attribute, or nil.
func attribute(s tracetest.SpanStub, key string) any {
	for _, a := range s.Attributes {
		if string(a.Key) == key {
			return a.Value.AsInterface()
		}
	}
	return nil
}
