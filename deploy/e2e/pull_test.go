package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// longPoll waits as long as a take may. Where a test expects something it gives up
// before, since the last thing that a take does is to ask once more.
const longPoll, soon = wire.Duration(30 * time.Second), 20 * time.Second

type took struct {
	data []wire.TakenDelivery
	err  error
}

// taker waits for deliveries of a queue, and tells what its take answered.
func taker(ctx context.Context, i *instance, queue string) <-chan took {
	done := make(chan took, 1)
	go func() {
		data, err := i.Take(ctx, queue, wire.Take{Wait: longPoll})
		done <- took{data, err}
	}()
	return done
}

// Take goes on while the instance may lease nothing: before its first beat.
func (i *instance) Take(ctx context.Context, queue string, t wire.Take) ([]wire.TakenDelivery, error) {
	for {
		data, err := i.Client.Take(ctx, queue, t)
		var refused *client.Problem
		if !errors.As(err, &refused) || refused.Status != http.StatusServiceUnavailable || ctx.Err() != nil {
			return data, err
		}
	}
}

func (i *instance) takeAll(queue string, lease time.Duration) []wire.TakenDelivery {
	i.t.Helper()
	data, err := i.Take(i.t.Context(), queue, wire.Take{Max: 100, Lease: wire.Duration(lease)})
	require.NoError(i.t, err)
	return data
}

// takeOne waits for the only delivery of a queue.
func (i *instance) takeOne(queue string, lease time.Duration) wire.TakenDelivery {
	i.t.Helper()
	ctx, cancel := context.WithTimeout(i.t.Context(), soon)
	defer cancel()
	data, err := i.Take(ctx, queue, wire.Take{Lease: wire.Duration(lease), Wait: longPoll})
	require.NoError(i.t, err)
	require.Len(i.t, data, 1)
	return data[0]
}

// settle says what became of one delivery, and answers the result and the status.
func (i *instance) settle(c *client.Client, queue string, r wire.Settlement) [2]string {
	i.t.Helper()
	out, err := c.Settle(i.t.Context(), queue, []wire.Settlement{r})
	require.NoError(i.t, err)
	require.Len(i.t, out, 1)
	require.Equal(i.t, r.ID, out[0].ID)
	return [2]string{out[0].Result, out[0].Status}
}

// outcomeOf is the outcome of what was taken.
func outcomeOf(d *wire.TakenDelivery, outcome string) wire.Settlement {
	return wire.Settlement{ID: d.ID, Lease: d.Lease, Outcome: outcome}
}

// asks counts the questions of takers and calls of settle, the only ones with this command.
func (w *world) asks() (calls int) {
	w.t.Helper()
	text, err := w.rdb.Info(context.WithoutCancel(w.t.Context()), "commandstats").Result()
	require.NoError(w.t, err)
	if _, figures, ok := strings.Cut(text, "cmdstat_zmscore:calls="); ok {
		_, err = fmt.Sscanf(figures, "%d,", &calls)
		require.NoError(w.t, err)
	}
	return calls
}

// asked waits until takers have asked for something n times in all.
func (w *world) asked(n int) {
	w.t.Helper()
	eventually(w.t, fmt.Sprint("takers have asked ", n, " times"), func() bool {
		return w.asks() >= n
	})
}

func TestWhatIsPublishedAtOneInstanceGoesToAWaitingTakerAtAnother(t *testing.T) {
	t.Parallel()
	for name, more := range map[string][]string{"told": nil, "polls": {"WAKE=poll"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			publishes, gives := w.serve(more...), w.serve(more...)
			for n := range 3 {
				asks := w.asks()
				ctx, cancel := context.WithTimeout(t.Context(), soon) // it would ask in the end, but that is later
				defer cancel()
				waits := taker(ctx, gives, "orders")
				w.asked(asks + 1)
				id := fmt.Sprint("m", n)
				publishes.publish(wire.Message{ID: id, Queue: "orders"})
				got := <-waits
				require.NoError(t, got.err)
				require.Len(t, got.data, 1)
				require.Equal(t, []any{id, 1}, []any{got.data[0].Message.ID, got.data[0].Attempt})
				require.Equal(t, [2]string{"ok", "delivered"}, publishes.settle(publishes.Client, "orders", outcomeOf(&got.data[0], "delivered")))
				gives.until(id, "delivered")
			}
		})
	}
}

func TestALeaseOutlivesTheInstanceThatGaveIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dies, stays := w.serve(), w.serve()
	for _, id := range []string{"done", "failed"} {
		dies.publish(wire.Message{ID: id, Queue: "orders"})
	}
	taken := dies.takeAll("orders", time.Hour)
	require.Len(t, taken, 2)
	require.NoError(t, dies.Signal(syscall.SIGKILL))
	dies.Kill()
	w.alive(1)
	require.Equal(t, "in_flight", stays.delivery("done").Status, "what a dead instance held is taken over, but not this")
	require.Empty(t, stays.takeAll("orders", time.Hour))
	require.Equal(t, [2]string{"ok", "delivered"}, stays.settle(stays.Client, "orders", outcomeOf(&taken[0], "delivered")))
	require.Equal(t, [2]string{"ok", "retrying"}, stays.settle(stays.Client, "orders", outcomeOf(&taken[1], "retry")))
	require.Equal(t, 1, stays.until("done", "delivered").Attempts)
	require.Equal(t, "handler", stays.until("failed", "retrying").History[0].Class)
}
