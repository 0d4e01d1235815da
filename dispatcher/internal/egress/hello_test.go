package egress_test

import (
	"bufio"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/egress"
)

// onePacket is the payload of a packet on most networks.
const onePacket = 1460

// box is a TLS receiver behind a balancer that reads one packet of a ClientHello.
type box struct {
	refuse func(net.Conn) // a ClientHello of more; nil: it is taken
	all    bool           // refuse every ClientHello

	mu      sync.Mutex // guards refuse, all and the fields below
	config  *tls.Config
	hellos  []int  // their sizes
	resumed []bool // of the handshakes that succeeded
}

// serve answers the requests of a connection.
func (b *box) serve(c net.Conn) {
	defer c.Close() //nolint:errcheck // it is over
	r := bufio.NewReader(c)
	head, err := r.Peek(5)
	if err != nil {
		return
	}
	size := 5 + int(binary.BigEndian.Uint16(head[3:]))
	b.mu.Lock()
	b.hellos = append(b.hellos, size)
	if b.config == nil { // one for all connections, so that sessions can be resumed
		b.config = &tls.Config{Certificates: []tls.Certificate{authority().issue("good.test", nil)}}
	}
	refuse, all := b.refuse, b.all
	b.mu.Unlock()
	if refuse != nil && (all || size > onePacket) {
		_, _ = r.Discard(size)
		refuse(c)
		return
	}
	secure := tls.Server(&peeked{c, r}, b.config)
	if secure.Handshake() != nil {
		return
	}
	b.mu.Lock()
	b.resumed = append(b.resumed, secure.ConnectionState().DidResume)
	b.mu.Unlock()
	requests := bufio.NewReader(secure)
	for {
		q, err := http.ReadRequest(requests)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, q.Body)
		if _, err := io.WriteString(secure, plainOK); err != nil {
			return
		}
	}
}

// sizes lists the ClientHellos since the last call, true for one that fits one packet.
func (b *box) sizes() (short []bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, n := range b.hellos {
		short = append(short, n <= onePacket)
	}
	b.hellos = nil
	return short
}

func (b *box) set(refuse func(net.Conn), all bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refuse, b.all = refuse, all
}

// ignore keeps a connection until the other side gives up.
func ignore(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

// withBox runs a test with a client whose receiver, good.test, is in memory. Each call is made
// on a connection of its own.
func withBox(t *testing.T, b *box, quick int, do func(t *testing.T, call func(limit time.Duration) dispatcher.Answer)) {
	authority()
	synctest.Test(t, func(t *testing.T) {
		var running sync.WaitGroup
		c := egress.NewOver(egress.Options{
			QuickRetries: quick, RootCAs: authority().pool, Resolver: names{"good.test": {"8.8.4.4"}},
		}, pipes(b.serve, &running))
		defer running.Wait()
		defer c.Close()
		do(t, func(limit time.Duration) dispatcher.Answer {
			a := sendWithin(t, c, newTestCall(mustURL(t, "https://good.test/")), limit)
			c.Close()
			return a
		})
	})
}

func TestReceiverThatReadsOnePacketOfAHandshakeIsReached(t *testing.T) {
	for _, e := range ends {
		b := &box{}
		r := newTestReceiver(t, func(_ *receiver, c *net.TCPConn, _ int) { b.serve(c) })
		b.set(func(net.Conn) {}, false)
		r2 := newTestReceiver(t, func(_ *receiver, c *net.TCPConn, _ int) {
			tcp := c
			(&box{refuse: func(net.Conn) { e.do(tcp) }}).serve(c)
		})
		for _, r := range []*receiver{r, r2} {
			c := newTestClient(t, quickRetries(1), known(names{"good.test": {"127.0.0.1"}}), func(o *egress.Options) { o.RootCAs = authority().pool })
			u := mustURL(t, "https://good.test:"+r.url(t).Port()+"/")
			for n, connections := range []int64{2, 2, 3} {
				if n == 2 {
					c.Close()
				}
				a := send(t, c, newTestCall(u))
				require.Equal(t, 200, a.Status, "%s: %v", e.name, a.Err)
				require.True(t, a.ShortHello, "also the record of an attempt on its idle connection says so")
				require.Equal(t, connections, r.accepted.Load())
			}
		}
	}
}

func TestReceiverThatIgnoresALongHandshakeIsReachedWithinTheAttempt(t *testing.T) {
	b := &box{refuse: ignore}
	withBox(t, b, 1, func(t *testing.T, call func(time.Duration) dispatcher.Answer) {
		began := time.Now()
		a := call(10 * time.Second)
		require.Equal(t, 200, a.Status, "%v", a.Err)
		require.True(t, a.ShortHello)
		require.Equal(t, 5050*time.Millisecond, time.Since(began), "half of the time, and the wait before a retry")
		require.Equal(t, []bool{false, true}, b.sizes())

		require.Equal(t, 200, call(10*time.Second).Status)
		require.Equal(t, []bool{true}, b.sizes(), "it is remembered")
		time.Sleep(24 * time.Hour)
		b.set(nil, false)
		a = call(10 * time.Second)
		require.Equal(t, 200, a.Status)
		require.False(t, a.ShortHello)
		require.Equal(t, []bool{false}, b.sizes(), "after a day the long one is tried again")
	})
}

func TestWithoutQuickRetriesTheNextAttemptIsShort(t *testing.T) {
	b := &box{refuse: ignore}
	withBox(t, b, 0, func(t *testing.T, call func(time.Duration) dispatcher.Answer) {
		a := call(10 * time.Second)
		require.Equal(t, dispatcher.ClassTimeout, a.Class)
		require.EqualError(t, a.Err, "TLS handshake: timed out, before any answer; the next handshake offers a ClientHello of one packet")
		require.Equal(t, 200, call(10*time.Second).Status)
		require.Equal(t, []bool{false, true}, b.sizes())
	})
}

// TestReceiverThatAnswersNoHandshakeGetsNoMoreConnections: it is down or slow, and twice the
// connections would not help it.
func TestReceiverThatAnswersNoHandshakeGetsNoMoreConnections(t *testing.T) {
	b := &box{refuse: ignore, all: true}
	withBox(t, b, 1, func(t *testing.T, call func(time.Duration) dispatcher.Answer) {
		a := call(10 * time.Second)
		require.EqualError(t, a.Err, "TLS handshake: timed out, also after a ClientHello of one packet")
		require.Equal(t, []bool{false, true}, b.sizes())
		for range 3 {
			a = call(10 * time.Second)
			require.EqualError(t, a.Err, "TLS handshake: timed out")
			require.Equal(t, 10*time.Second, a.Took)
			require.Equal(t, []bool{false}, b.sizes())
		}
		b.set(func(net.Conn) {}, true)
		require.EqualError(t, call(10*time.Second).Err, "the connection was closed during the TLS handshake")
		require.Equal(t, []bool{false}, b.sizes())
		time.Sleep(time.Hour)
		require.EqualError(t, call(10*time.Second).Err, "the connection was closed during the TLS handshake, also after a ClientHello of one packet")
		require.Equal(t, []bool{false, true}, b.sizes())
	})
}

// TestAnOutageDoesNotForgetWhatHelped: a target whose short handshake was answered keeps it.
func TestAnOutageDoesNotForgetWhatHelped(t *testing.T) {
	b := &box{refuse: func(net.Conn) {}}
	withBox(t, b, 1, func(t *testing.T, call func(time.Duration) dispatcher.Answer) {
		require.Equal(t, 200, call(time.Minute).Status)
		b.set(func(net.Conn) {}, true)
		require.Equal(t, dispatcher.ClassReset, call(time.Minute).Class)
		b.set(func(net.Conn) {}, false)
		require.Equal(t, 200, call(time.Minute).Status)
		require.Equal(t, []bool{false, true, true, true}, b.sizes())
	})
}

// TestAShortHandshakeResumesNoSession: a ticket may have more than a packet. The sessions of the
// long ones stay.
func TestAShortHandshakeResumesNoSession(t *testing.T) {
	b := &box{}
	withBox(t, b, 1, func(t *testing.T, call func(time.Duration) dispatcher.Answer) {
		for range 2 {
			require.Equal(t, 200, call(time.Minute).Status)
		}
		b.set(func(net.Conn) {}, false)
		for range 2 {
			require.Equal(t, 200, call(time.Minute).Status)
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		require.Equal(t, []bool{false, true, false, false}, b.resumed)
	})
}

// TestTargetsThatAnswerNoHandshakeAreBounded: any tenant can name one. The least recently used is
// forgotten first, and gets the long ClientHello again.
func TestTargetsThatAnswerNoHandshakeAreBounded(t *testing.T) {
	b := &box{refuse: ignore}
	synctest.Test(t, func(t *testing.T) {
		var running sync.WaitGroup
		c := egress.NewOver(egress.Options{RootCAs: authority().pool, Resolver: names{"good.test": {"8.8.4.4"}}}, pipes(b.serve, &running))
		defer running.Wait()
		defer c.Close()
		call := func(port int) (short bool) {
			sendWithin(t, c, newTestCall(mustURL(t, fmt.Sprintf("https://good.test:%d/", port))), time.Millisecond)
			c.Close()
			synctest.Wait()
			return b.sizes()[0]
		}
		for port := range egress.MaxHellos {
			require.False(t, call(1+port))
		}
		require.True(t, call(1), "the first one is remembered")
		require.False(t, call(1+egress.MaxHellos))
		require.False(t, call(2), "it was not used for the longest time")
		require.True(t, call(1))
	})
}
