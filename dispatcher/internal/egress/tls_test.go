package egress_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/egress"
)

func TestSchemeThatIsNotSpokenAtThePort(t *testing.T) {
	plain, _ := newTestSink(t)
	plain.Scheme = "https"
	blunt := newTestReceiver(t, func(_ *receiver, c *net.TCPConn, _ int) {
		_, _ = io.WriteString(c, "220 mail.example ESMTP\r\n")
		_, _ = io.Copy(io.Discard, c)
	})
	for _, u := range []*url.URL{plain, mustURL(t, "https://"+blunt.addr().String())} {
		a := send(t, newTestClient(t), newTestCall(u))
		require.Equal(t, dispatcher.ClassTLS, a.Class, "https at an http port: %v", a.Err)
		require.EqualError(t, a.Err, "TLS handshake: the receiver does not speak TLS")
	}

	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	a := send(t, newTestClient(t), newTestCall(mustURL(t, "http"+strings.TrimPrefix(s.URL, "https"))))
	require.Equal(t, 400, a.Status, "http at an https port: Go's servers say so")
}

func TestHandshakeThatBreaksOff(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name   string
		handle func(*receiver, *net.TCPConn, int)
		want   dispatcher.Class
		text   string
	}{
		{"closed", func(_ *receiver, c *net.TCPConn, _ int) { _, _ = c.Read(make([]byte, 4096)) }, dispatcher.ClassReset, "the connection was closed during the TLS handshake, before any answer; the next handshake offers a ClientHello of one packet"},
		{"reset", func(_ *receiver, c *net.TCPConn, _ int) {
			_, _ = c.Read(make([]byte, 4096))
			reset(c)
		}, dispatcher.ClassReset, "the connection was reset during the TLS handshake, before any answer; the next handshake offers a ClientHello of one packet"},
		{"hangs", func(_ *receiver, c *net.TCPConn, _ int) { _, _ = io.Copy(io.Discard, c) }, dispatcher.ClassTimeout, "the TLS handshake"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newTestReceiver(t, tc.handle)
			u := r.url(t)
			u.Scheme = "https"
			limit := safety
			if tc.want == dispatcher.ClassTimeout {
				limit = brief
			}
			a := sendWithin(t, newTestClient(t), newTestCall(u), limit)
			require.Equal(t, tc.want, a.Class, "%v", a.Err)
			if tc.want == dispatcher.ClassReset {
				require.EqualError(t, a.Err, tc.text)
			}
			r.wait(t)
		})
	}
}

// TestReceiversThatHangInTheHandshakeHoldUpNoOthers: their handshakes are bounded in number, but
// a slow one makes room for the next.
func TestReceiversThatHangInTheHandshakeHoldUpNoOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hostile{over: make(chan struct{})}
		var running, calls sync.WaitGroup
		c := egress.NewOver(hostileOptions(t), pipes(h.serve, &running))
		const hanging, limit = 600, 15 * time.Second
		for n := range hanging {
			call := row{url: "https://hangs.test/ok"}.call(t, "443")
			call.Lane = dispatcher.Lane(fmt.Sprint("u_", n))
			calls.Go(func() {
				ctx, stop := context.WithTimeout(t.Context(), limit)
				defer stop()
				if a := c.Send(ctx, call); a.Class != dispatcher.ClassTimeout || a.Took != limit {
					t.Errorf("%s after %v: %v", a.Class, a.Took, a.Err)
				}
			})
		}
		synctest.Wait()
		ctx, stop := context.WithTimeout(t.Context(), limit)
		defer stop()
		a := c.Send(ctx, row{url: "https://good.test/ok"}.call(t, "443"))
		require.Equal(t, 200, a.Status, "%v", a.Err)
		require.Less(t, a.Took, time.Second)
		calls.Wait()
		c.Close()
		running.Wait()
	})
}
