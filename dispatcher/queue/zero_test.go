package queue_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher/queue"
)

func TestAQueueThatWasNotOpenedReturnsErrors(t *testing.T) {
	t.Parallel()
	for _, q := range []*queue.Queue{nil, {}} {
		for name, err := range calls(t.Context(), q) {
			require.ErrorIs(t, err, queue.ErrUnopened, name)
		}
		h := func(context.Context, queue.Delivery) error { return nil }
		require.PanicsWithValue(t, `queue: Handle("work"): the queue was not made by queue.Open`, func() { q.Handle("work", h) })
	}
	_, err := queue.Open(t.Context(), "", queue.Options{})
	require.ErrorIs(t, err, queue.ErrInvalid)
	require.EqualError(t, err, "open queue: invalid: url is empty: want redis://host:port")
}

// calls returns the errors of all methods of a Queue with zero values.
func calls(ctx context.Context, q *queue.Queue) map[string]error {
	_, published := q.Publish(ctx, queue.Task{})
	_, sent := q.Send(ctx, queue.Callback{})
	_, batch := q.PublishBatch(ctx, nil)
	_, got := q.Get(ctx, "")
	_, counted := q.Stats(ctx)
	_, replayed := q.Replay(ctx, queue.Filter{})
	listed := error(nil)
	for _, err := range q.List(ctx, queue.Filter{}) {
		listed = err
	}
	return map[string]error{
		"publish batch": batch, "get": got, "list": listed, "stats": counted, "replay": replayed, "pause": q.Pause(ctx, ""), "resume": q.Resume(ctx, ""), "reschedule": q.Reschedule(ctx, "", time.Now()),
		"publish": published, "send": sent, "cancel": q.Cancel(ctx, ""), "run": q.Run(ctx), "close": q.Close(),
	}
}

func TestZeroAndNilArgumentsAreErrors(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL()
	var none context.Context
	_, err := queue.Open(none, url, queue.Options{})
	require.ErrorContains(t, err, "the context is nil")
	_, err = queue.AcceptLoss(none, url, queue.Options{})
	require.ErrorContains(t, err, "the context is nil")
	_, err = queue.Open(t.Context(), url, queue.Options{Log: &slog.Logger{}})
	require.ErrorContains(t, err, "Options.Log must be made by slog.New")
	p := newTestProgram(t, url, queue.Options{})
	for name, err := range calls(none, p.Queue) {
		if name != "close" {
			require.ErrorContains(t, err, "the context is nil", name)
		}
	}
	p = newTestProgram(t, url, queue.Options{})
	_, err = p.Publish(t.Context(), queue.Task{})
	require.ErrorIs(t, err, queue.ErrInvalid)
	_, err = p.Send(t.Context(), queue.Callback{})
	require.ErrorIs(t, err, queue.ErrInvalid)
	for _, id := range []string{"", "a:b"} {
		require.ErrorIs(t, p.Cancel(t.Context(), id), queue.ErrInvalid)
	}
	require.ErrorIs(t, p.Cancel(t.Context(), "unknown"), queue.ErrNotFound)

	for _, id := range []string{"q_work:one", "ep_1:one"} {
		require.ErrorContains(t, p.Cancel(t.Context(), id), "id is of a delivery: give the id of its message, one")
		require.ErrorContains(t, p.Reschedule(t.Context(), id, time.Now()), "id is of a delivery: give the id of its message, one")
	}

	require.PanicsWithValue(t, `queue: Handle("work"): a nil option`, func() {
		p.Handle("work", func(context.Context, queue.Delivery) error { return nil }, nil)
	})
	var mux *queue.Mux
	require.ErrorIs(t, mux.Serve(t.Context(), queue.Delivery{Topic: "test"}), queue.ErrNoHandler)
	require.PanicsWithValue(t, `queue: Mux.Handle("test"): the Mux is nil`, func() { mux.Handle("test", mux.Serve) })
	_, ok := queue.FromContext(none)
	require.False(t, ok)
	var invalid *queue.InvalidError
	require.Equal(t, "invalid", invalid.Error())
	var retry *queue.RetryError
	require.Equal(t, "the handler requested a retry", fmt.Sprint(retry))
	require.NoError(t, retry.Unwrap())
}

func TestAfterCloseEverythingIsErrClosed(t *testing.T) {
	t.Parallel()
	p := newTestQueue(t, queue.Options{})
	require.NoError(t, p.Close())
	for name, err := range calls(t.Context(), p.Queue) {
		if name == "close" {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, queue.ErrClosed, name)
		require.NotErrorIs(t, err, queue.ErrUnavailable, name)
	}
}
