package egress_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/egress"
)

// The answers of a DNS server, RFC 1035, section 4.1.1.
const (
	rcodeOK       = 0
	rcodeServFail = 2
	rcodeNXDomain = 3
	rcodeRefused  = 5
)

// nameServer answers every question over UDP, as often as it is asked.
type nameServer struct {
	conn    net.PacketConn
	queries atomic.Int64
	answer  func(query []byte) []byte // nil: silence
}

// newTestResolver is a resolver of Go's own, whose only server is this one.
func newTestResolver(t testing.TB, answer func(query []byte) []byte) (*net.Resolver, *nameServer) {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &nameServer{conn: conn, answer: answer}
	var running sync.WaitGroup
	running.Go(s.run)
	t.Cleanup(func() {
		_ = conn.Close()
		running.Wait()
	})
	return resolverAt(conn.LocalAddr().String()), s
}

func resolverAt(addr string) *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", addr)
	}}
}

func (s *nameServer) run() {
	b := make([]byte, 1500)
	for {
		n, from, err := s.conn.ReadFrom(b)
		if err != nil {
			return
		}
		s.queries.Add(1)
		if answer := s.answer(bytes.Clone(b[:n])); answer != nil {
			_, _ = s.conn.WriteTo(answer, from)
		}
	}
}

// reply answers a query with addresses, those of the family that it asks for.
func reply(query []byte, rcode byte, addrs ...string) []byte {
	const header = 12
	end := header + bytes.IndexByte(query[header:], 0) + 5 // the root label, type and class
	kind := binary.BigEndian.Uint16(query[end-4:])
	b := bytes.Clone(query[:end])
	count := byte(0)
	for _, s := range addrs {
		a := netip.MustParseAddr(s)
		if a.Is4() != (kind == 1) { // A; else AAAA
			continue
		}
		raw := a.AsSlice()
		b = append(b, 0xc0, header, 0, byte(kind), 0, 1, 0, 0, 0, 0, 0, byte(len(raw)))
		b = append(b, raw...)
		count++
	}
	copy(b[2:header], []byte{0x81, 0x80 | rcode, 0, 1, 0, count, 0, 0, 0, 0})
	return b
}

// TestResolverThatFails: where the resolver answers no query, the check fails too.
func TestResolverThatFails(t *testing.T) {
	t.Parallel()
	with := func(rcode byte) func([]byte) []byte {
		return func(q []byte) []byte { return reply(q, rcode) }
	}
	for name, tc := range map[string]struct {
		answer func([]byte) []byte
		text   string
		class  dispatcher.Class
		slow   bool
	}{
		"knows no such name": {with(rcodeNXDomain), "lookup shop.example: no such host", dispatcher.ClassDNS, false},
		"fails":              {with(rcodeServFail), "lookup shop.example: server misbehaving", dispatcher.ClassEgress, false},
		"refuses to say":     {with(rcodeRefused), "lookup shop.example: ", dispatcher.ClassEgress, false},
		"has no address":     {with(rcodeOK), "lookup shop.example: no such host", dispatcher.ClassDNS, false},
		"is silent":          {func([]byte) []byte { return nil }, "lookup", dispatcher.ClassEgress, true},
		"answers another":    {func(q []byte) []byte { q[0]++; return reply(q, rcodeOK, "127.0.0.1") }, "lookup", dispatcher.ClassEgress, true},
		"breaks off":         {func(q []byte) []byte { return reply(q, rcodeOK, "127.0.0.1", "::1")[:20] }, "lookup", dispatcher.ClassEgress, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			resolver, s := newTestResolver(t, tc.answer)
			c := newTestClient(t, quickRetries(3), func(o *egress.Options) { o.Resolver = resolver })
			limit := safety
			if tc.slow {
				limit = brief
			}
			a := sendWithin(t, c, newTestCall(mustURL(t, "http://u:hunter2@shop.example/?token=hunter2")), limit)
			require.Equal(t, tc.class, a.Class, "%v", a.Err)
			require.ErrorContains(t, a.Err, tc.text)
			require.NotContains(t, a.Err.Error(), "hunter2")
			require.NotContains(t, a.Err.Error(), "127.0.0.1", "the resolver's address")
			require.Eventually(t, func() bool { return s.queries.Load() > 0 }, safety, time.Millisecond)
		})
	}
}

func TestResolverThatIsDownIsOurOwnFault(t *testing.T) {
	c := newTestClient(t, func(o *egress.Options) { o.Resolver = resolverAt("127.0.0.1:" + freePort(t)) })
	a := send(t, c, newTestCall(mustURL(t, "http://shop.example/")))
	requireOurs(t, a, dispatcher.FaultResolver)
	require.EqualError(t, a.Err, "our own network: lookup shop.example: connection refused")
}

// TestNameIsJudgedWheneverItIsDialled: the first answer may be called, the
// second may not. Loopback stands in for the internet, .2 of it for the inside.
func TestNameIsJudgedWheneverItIsDialled(t *testing.T) {
	var rebound atomic.Bool
	resolver, _ := newTestResolver(t, func(q []byte) []byte {
		if rebound.Load() {
			return reply(q, rcodeOK, "127.0.0.2")
		}
		return reply(q, rcodeOK, "127.0.0.1")
	})
	h, port := newTestHostile(t)
	c := newTestClient(t, quickRetries(3), func(o *egress.Options) { o.Resolver = resolver })
	u := mustURL(t, "http://shop.example:"+port+"/1.0") // closes after it
	require.Equal(t, 200, send(t, c, newTestCall(u)).Status)
	rebound.Store(true)
	a := send(t, c, newTestCall(u))
	require.Equal(t, dispatcher.ClassRefused, a.Class, "%v", a.Err)
	require.EqualError(t, a.Err, "127.0.0.2 is loopback; allow it with ALLOW_NETS=127.0.0.2/32")
	require.EqualValues(t, 1, h.accepted.Load())

	// It is the answer to the very question before the dial that counts: one
	// answer serves both the judgement and the connection.
	rebound.Store(false)
	require.Equal(t, 200, send(t, c, newTestCall(u)).Status)
}

// TestNameIsAskedForOnceADial: a second question could have a second answer.
func TestNameIsAskedForOnceADial(t *testing.T) {
	lookups := &counting{}
	h, port := newTestHostile(t)
	c := newTestClient(t, func(o *egress.Options) { o.Resolver = lookups })
	for n := range int64(3) {
		require.Equal(t, 200, send(t, c, newTestCall(mustURL(t, "http://shop.example:"+port+"/1.0"))).Status)
		require.Equal(t, n+1, lookups.n.Load())
	}
	require.EqualValues(t, 3, h.accepted.Load())
}
