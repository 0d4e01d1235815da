package egress_test

import (
	"bufio"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/egress"
)

// end is how a connection ends.
type end struct {
	name string
	do   func(*net.TCPConn)
}

var ends = []end{{"reset", reset}, {"closed", func(*net.TCPConn) {}}}

// failing answers the first requests of each connection, and ends it at the
// one after them.
func failing(answers int, e end) func(*receiver, *net.TCPConn, int) {
	return func(r *receiver, c *net.TCPConn, _ int) {
		b := bufio.NewReader(c)
		for n := 0; r.request(b) != nil; n++ {
			if n == answers {
				e.do(c)
				return
			}
			_, _ = io.WriteString(c, plainOK)
		}
	}
}

// TestFreshConnectionThatEndsIsNotTriedAgain: the request may have arrived, and
// may be what the receiver died of.
func TestFreshConnectionThatEndsIsNotTriedAgain(t *testing.T) {
	for _, e := range ends {
		for _, name := range []string{"Webhook-Id", "Idempotency-Key", "X-Idempotency-Key"} {
			r := newTestReceiver(t, failing(0, e))
			call := newTestCall(r.url(t))
			call.Header[name] = []string{"key_1"}
			a := send(t, newTestClient(t, quickRetries(3)), call)
			require.Equal(t, dispatcher.ClassReset, a.Class, e.name)
			require.EqualValues(t, 1, r.requests.Load(), e.name)
			require.EqualValues(t, 1, r.accepted.Load(), e.name)
		}
	}
}

// TestReusedConnectionThatEndsIsTriedOnceMore however many quick retries there
// may be, since the request may have arrived.
func TestReusedConnectionThatEndsIsTriedOnceMore(t *testing.T) {
	for _, e := range ends {
		for quick, want := range map[int]int64{0: 2, 1: 3, 3: 3} {
			r := newTestReceiver(t, failing(1, e))
			c := newTestClient(t, quickRetries(quick))
			require.Equal(t, 200, send(t, c, newTestCall(r.url(t))).Status)
			a := send(t, c, newTestCall(r.url(t)))
			require.Equal(t, want, r.requests.Load(), "%s, %d quick retries", e.name, quick)
			if quick == 0 {
				require.Equal(t, dispatcher.ClassReset, a.Class)
			} else {
				require.Equal(t, 200, a.Status)
			}
		}
	}
}

// TestRepeatTakesANewConnection, as all that were idle are dead when a receiver
// was restarted. If that one ends too, so does the attempt.
func TestRepeatTakesANewConnection(t *testing.T) {
	const lane = 8
	for _, works := range []bool{true, false} {
		var all sync.WaitGroup // of the first requests: until they are here, none gets another's connection
		all.Add(lane)
		r := newTestReceiver(t, func(r *receiver, c *net.TCPConn, before int) {
			b := bufio.NewReader(c)
			if r.request(b) == nil {
				return
			}
			if before < lane {
				all.Done()
				all.Wait()
			}
			if before < lane || works {
				_, _ = io.WriteString(c, plainOK)
				r.request(b)
			}
			reset(c)
		})
		c := newTestClient(t, quickRetries(5), func(o *egress.Options) { o.MaxIdlePerHost = lane })
		done := make(chan dispatcher.Answer, lane)
		for range lane {
			go func() { done <- send(t, c, newTestCall(r.url(t))) }()
		}
		for range lane {
			require.Equal(t, 200, (<-done).Status)
		}
		a := send(t, c, newTestCall(r.url(t)))
		require.EqualValues(t, lane+2, r.requests.Load())
		if works {
			require.Equal(t, 200, a.Status)
		} else {
			require.Equal(t, dispatcher.ClassReset, a.Class)
		}
	}
}

// TestAnnouncementIsAnAnswerBegun: its sender has read the request.
func TestAnnouncementIsAnAnswerBegun(t *testing.T) {
	for _, e := range ends {
		r := newTestReceiver(t, func(r *receiver, c *net.TCPConn, _ int) {
			b := bufio.NewReader(c)
			r.request(b)
			_, _ = io.WriteString(c, plainOK)
			r.request(b)
			_, _ = io.WriteString(c, "HTTP/1.1 103 Early Hints\r\n\r\n")
			e.do(c)
		})
		c := newTestClient(t, quickRetries(3))
		require.Equal(t, 200, send(t, c, newTestCall(r.url(t))).Status)
		a := send(t, c, newTestCall(r.url(t)))
		require.Equal(t, dispatcher.ClassReset, a.Class)
		require.EqualValues(t, 2, r.requests.Load(), e.name)
	}
}

// TestConnectionThatIsRefusedIsTriedAgain, as nothing was sent.
func TestConnectionThatIsRefusedIsTriedAgain(t *testing.T) {
	for quick, want := range map[int]int{0: 1, 3: 4} {
		lookups := &counting{}
		c := newTestClient(t, quickRetries(quick), func(o *egress.Options) { o.Resolver = lookups })
		a := send(t, c, newTestCall(mustURL(t, "http://down.example:"+freePort(t)+"/")))
		require.Equal(t, dispatcher.ClassConnect, a.Class)
		require.EqualValues(t, want, lookups.n.Load())
	}
}

// answersOnce answers the first request of its first connection and closes
// without a word at the second, as a server does whose idle time ran out.
func answersOnce(r *receiver, c *net.TCPConn, before int) {
	b := bufio.NewReader(c)
	for n := 1; r.request(b) != nil; n++ {
		if before == 0 && n == 2 {
			return
		}
		_, _ = io.WriteString(c, plainOK)
	}
}

// TestReceiverIsAskedAsOftenAsWeDecide, even with an idempotency key and on a
// connection that was used before, where many clients ask again on their own.
func TestReceiverIsAskedAsOftenAsWeDecide(t *testing.T) {
	for _, name := range []string{"Webhook-Id", "Idempotency-Key", "X-Idempotency-Key"} {
		for _, body := range []string{`{"n":1}`, ""} {
			for quick, want := range map[int]int64{0: 2, 1: 3} {
				r := newTestReceiver(t, answersOnce)
				c := newTestClient(t, quickRetries(quick))
				call := newTestCall(r.url(t))
				call.Body = []byte(body)
				call.Header[name] = []string{"key_1"}
				shared := call.Header.Clone()
				require.Equal(t, 200, send(t, c, call).Status)
				a := send(t, c, call)
				require.Equal(t, want, r.requests.Load(), "%s, %d quick retries", name, quick)
				if quick == 0 {
					require.Equal(t, dispatcher.ClassReset, a.Class)
				} else {
					require.Equal(t, 200, a.Status)
				}
				require.Equal(t, shared, call.Header, "the caller's header is not changed")
			}
		}
	}
}

// TestRepeatLeavesNoConnection: it says so to the receiver, and takes none of the
// pool.
func TestRepeatLeavesNoConnection(t *testing.T) {
	var said [][]string
	r := newTestReceiver(t, func(r *receiver, c *net.TCPConn, before int) {
		b := bufio.NewReader(c)
		for n := 0; ; n++ {
			req := r.request(b)
			if req == nil || before == 0 && n == 1 {
				return
			}
			said = append(said, req.Header["Connection"])
			_, _ = io.WriteString(c, plainOK)
		}
	})
	c := newTestClient(t, quickRetries(1))
	for range 3 {
		require.Equal(t, 200, send(t, c, newTestCall(r.url(t))).Status)
	}
	require.EqualValues(t, 3, r.accepted.Load(), "the first, the repeat's, and the next one's")
	c.Close()
	r.wait(t)
	require.Equal(t, [][]string{nil, {"close"}, nil}, said)
}
