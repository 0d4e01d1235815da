package queue_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/hookladder/hookladder/dispatcher/queue"
)

func TestWithoutRedisEachCallIsUnavailableAndAPeriodicTaskWaits(t *testing.T) {
	t.Parallel()
	store, log := miniredis.RunT(t), newLogged()
	q, err := queue.Open(t.Context(), "redis://"+store.Addr(), queue.Options{
		Forgetful: true, Log: slog.New(log), TracerProvider: noop.NewTracerProvider(), Grace: -1,
	})
	require.NoError(t, err)
	defer func() { _ = q.Close() }()
	handled := make(chan queue.Delivery, 1)
	q.Handle("work", reporting(handled))
	publish(t, q, queue.Task{ID: "one"})
	q.Every("soon", func(t time.Time) time.Time { return t.Add(20 * time.Millisecond) }, func(time.Time) queue.Task {
		return queue.Task{Queue: "later", Topic: "test"}
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- q.Run(ctx) }()
	require.Equal(t, "one", receive(t, handled).MessageID)
	store.Close()
	log.waitFor(t, "WARN a periodic task is not published yet")
	results, err := q.PublishBatch(t.Context(), []queue.Task{{Queue: "work", Topic: "test"}})
	require.NoError(t, err)
	_, got := q.Get(t.Context(), "one")
	_, counted := q.Stats(t.Context())
	_, replayed := q.Replay(t.Context(), queue.Filter{})
	listed := error(nil)
	for _, err := range q.List(t.Context(), queue.Filter{}) {
		listed = err
	}
	for name, err := range map[string]error{
		"batch": results[0].Err, "get": got, "stats": counted, "replay": replayed, "list": listed,
		"pause": q.Pause(t.Context(), "work"), "reschedule": q.Reschedule(t.Context(), "one", time.Now().Add(time.Hour)),
	} {
		require.ErrorIs(t, err, queue.ErrUnavailable, name)
	}
	stop()
	<-ended
}
