package egress_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/egress"
	"github.com/hookladder/hookladder/dispatcher/internal/wait"
)

// sendUnder makes a call as an engine does: many calls have one parent, and a deadline each.
func sendUnder(parent context.Context, c *egress.Client, call dispatcher.Call, limit time.Duration) dispatcher.Answer {
	ctx := wait.NewUntil(parent, time.Now().Add(limit))
	defer ctx.Stop()
	return c.Send(ctx, call)
}

// TestTheEndOfTheParentCutsEachCall, whatever it waits for, and on connections that have
// served a call before as well.
func TestTheEndOfTheParentCutsEachCall(t *testing.T) {
	for _, reused := range []bool{false, true} {
		for _, answer := range []string{"", okHead, okHead + "Content-Length: 9\r\n\r\nok"} {
			parent, stop := context.WithCancel(t.Context())
			asked := make(chan struct{}, 2)
			r := newTestReceiver(t, func(r *receiver, c *net.TCPConn, _ int) {
				b := bufio.NewReader(c)
				if reused {
					r.request(b)
					_, _ = io.WriteString(c, plainOK)
				}
				r.request(b)
				_, _ = io.WriteString(c, answer)
				asked <- struct{}{}
				_, _ = io.Copy(io.Discard, c)
			})
			c := newTestClient(t, quickRetries(3))
			if reused {
				require.Equal(t, 200, sendUnder(parent, c, newTestCall(r.url(t)), safety).Status)
			}
			go func() {
				<-asked
				stop()
			}()
			a := sendUnder(parent, c, newTestCall(r.url(t)), safety)
			if a.Status == 0 {
				require.ErrorIs(t, a.Err, context.Canceled)
				require.EqualError(t, a.Err, "the attempt was cancelled")
			} else {
				require.True(t, a.Cut, "its head was read before the end")
			}
			require.EqualValues(t, 1, r.accepted.Load())
			conns, _ := egress.Idle(c)
			require.Zero(t, conns)
			r.wait(t)
		}
	}
}

// TestNoCallBeginsUnderAParentThatEnded even if an idle connection is there.
func TestNoCallBeginsUnderAParentThatEnded(t *testing.T) {
	why := errors.New("the process stops")
	parent, stop := context.WithCancelCause(t.Context())
	r := newTestReceiver(t, serve(plainOK))
	c := newTestClient(t)
	require.Equal(t, 200, sendUnder(parent, c, newTestCall(r.url(t)), safety).Status)
	stop(why)
	a := sendUnder(parent, c, newTestCall(r.url(t)), safety)
	require.ErrorIs(t, a.Err, why)
	require.EqualValues(t, 1, r.requests.Load())
}

// TestAnotherParentUsesTheConnectionsOfTheFirst, and the end of the first cuts none of its
// calls.
func TestAnotherParentUsesTheConnectionsOfTheFirst(t *testing.T) {
	first, stop := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	r := newTestReceiver(t, func(r *receiver, c *net.TCPConn, _ int) {
		for b, n := bufio.NewReader(c), 0; r.request(b) != nil; n++ {
			if n == 2 {
				stop()
				<-stopped
			}
			_, _ = io.WriteString(c, plainOK)
		}
	})
	c := newTestClient(t)
	require.Equal(t, 200, sendUnder(first, c, newTestCall(r.url(t)), safety).Status)
	require.Equal(t, 200, sendUnder(t.Context(), c, newTestCall(r.url(t)), safety).Status)
	context.AfterFunc(first, func() { close(stopped) })
	require.Equal(t, 200, sendUnder(t.Context(), c, newTestCall(r.url(t)), safety).Status)
	require.Equal(t, 200, send(t, c, newTestCall(r.url(t))).Status, "a caller of its own")
	require.Equal(t, 200, sendUnder(t.Context(), c, newTestCall(r.url(t)), safety).Status)
	require.EqualValues(t, 1, r.accepted.Load())
}

// TestADeadlineDoesNotOutliveItsCall: it is the socket's, and passes while the connection is
// idle. Neither the next call nor the sweep notices.
func TestADeadlineDoesNotOutliveItsCall(t *testing.T) {
	t.Parallel()
	r := newTestReceiver(t, serve(plainOK))
	leaves := newTestReceiver(t, func(r *receiver, c *net.TCPConn, _ int) {
		r.request(bufio.NewReader(c))
		_, _ = io.WriteString(c, plainOK)
		_ = c.CloseWrite()
		_, _ = io.Copy(io.Discard, c)
	})
	c := newTestClient(t)
	const short = 500 * time.Millisecond
	passed := wait.NewUntil(t.Context(), time.Now().Add(short))
	defer passed.Stop()
	for range 2 {
		require.Equal(t, 200, sendUnder(t.Context(), c, newTestCall(r.url(t)), patient).Status)
	}
	require.Equal(t, 200, c.Send(passed, newTestCall(r.url(t))).Status)
	<-passed.Done()
	require.Equal(t, 200, send(t, c, newTestCall(leaves.url(t))).Status)
	require.Eventually(t, func() bool { // the sweep has closed the other one
		conns, _ := egress.Idle(c)
		return conns == 1
	}, safety, 10*time.Millisecond)
	require.Equal(t, 200, send(t, c, newTestCall(r.url(t))).Status)
	require.EqualValues(t, 1, r.accepted.Load())
}
