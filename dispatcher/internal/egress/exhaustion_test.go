package egress_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/egress"
)

// newTestScarce is a client for which the system has room for so many
// connections, and else says errno.
func newTestScarce(t testing.TB, room int64, errno syscall.Errno) (c *egress.Client, dials *atomic.Int64) {
	t.Helper()
	var open atomic.Int64
	dials = &atomic.Int64{}
	o := egress.Options{Guard: egress.NewGuard(mustPrefixes(t, "127.0.0.0/8")), Resolver: names{"shop.example": {"127.0.0.1", "127.0.0.2"}}}
	c = egress.NewOver(o, func(ctx context.Context, network, address string) (net.Conn, error) {
		dials.Add(1)
		if open.Add(1) > room {
			open.Add(-1)
			return nil, &net.OpError{Op: "dial", Net: network, Err: os.NewSyscallError("socket", errno)}
		}
		var d net.Dialer
		conn, err := d.DialContext(ctx, network, address)
		return &placed{conn, &open}, err
	})
	t.Cleanup(c.Close)
	return c, dials
}

// placed gives its place back when it is closed.
type placed struct {
	net.Conn
	open *atomic.Int64
}

func (c *placed) Close() error {
	c.open.Add(-1)
	return c.Conn.Close()
}

func TestOwnExhaustionIsNoFaultOfTheReceiver(t *testing.T) {
	r := newTestReceiver(t, serve(plainOK))
	for _, errno := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EADDRNOTAVAIL} {
		c, dials := newTestScarce(t, 0, errno)
		a := send(t, c, newTestCall(r.url(t)))
		require.Zero(t, a.Status)
		require.Equal(t, dispatcher.ClassInternal, a.Class)
		require.ErrorIs(t, a.Err, dispatcher.ErrExhausted)
		require.ErrorIs(t, a.Err, errno)
		require.EqualError(t, a.Err, "connect to "+r.addr().String()+": "+dispatcher.ErrExhausted.Error()+": "+errno.Error())
		require.EqualValues(t, 1, dials.Load(), "there is no idle connection to drop")
	}
	require.Zero(t, r.accepted.Load())
}

func TestOwnExhaustionOfOneAddressCountsForAll(t *testing.T) {
	var n atomic.Int64
	o := egress.Options{Guard: egress.NewGuard(mustPrefixes(t, "127.0.0.0/8")), Resolver: names{"shop.example": {"127.0.0.1", "127.0.0.2"}}}
	c := egress.NewOver(o, func(context.Context, string, string) (net.Conn, error) {
		if n.Add(1) == 1 {
			return nil, os.NewSyscallError("connect", syscall.ECONNREFUSED)
		}
		return nil, os.NewSyscallError("socket", syscall.EMFILE)
	})
	a := send(t, c, newTestCall(mustURL(t, "http://shop.example/hook")))
	require.ErrorIs(t, a.Err, dispatcher.ErrExhausted, "one of its addresses was not called")
}

func TestOwnExhaustionOfALookupOrAProxyIsNoFaultOfTheReceiver(t *testing.T) {
	o := egress.Options{Resolver: brokenResolver{&net.DNSError{Err: "dial udp 10.0.0.1:53: socket: too many open files", Name: "shop.example"}}}
	a := send(t, egress.New(o), newTestCall(mustURL(t, "http://shop.example/hook")))
	require.ErrorIs(t, a.Err, dispatcher.ErrExhausted)
	require.NotContains(t, a.Err.Error(), "10.0.0.1")

	u, err := egress.ParseProxy("http://127.0.0.1:3128")
	require.NoError(t, err)
	o = egress.Options{Guard: egress.NewGuard(mustPrefixes(t, "127.0.0.1/32")), Proxy: u}
	c := egress.NewOver(o, func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Err: os.NewSyscallError("socket", syscall.EMFILE)}
	})
	a = send(t, c, newTestCall(mustURL(t, "http://127.0.0.1/hook")))
	require.ErrorIs(t, a.Err, dispatcher.ErrExhausted)
	require.Equal(t, dispatcher.ClassInternal, a.Class)
}

type brokenResolver struct{ err error }

func (r brokenResolver) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return nil, r.err
}

// TestAnAddressThatIsNotThereIsNoExhaustion: a host without IPv6 says of each
// IPv6 address what one without ports says.
func TestAnAddressThatIsNotThereIsNoExhaustion(t *testing.T) {
	o := egress.Options{Guard: egress.NewGuard(mustPrefixes(t, "0.0.0.0/0", "::/0"))}
	c := egress.NewOver(o, func(context.Context, string, string) (net.Conn, error) {
		return nil, os.NewSyscallError("connect", syscall.EADDRNOTAVAIL)
	})
	// UDP can't reach this one either: such an address needs a zone.
	a := send(t, c, newTestCall(mustURL(t, "http://[fe80::1]/hook")))
	require.Equal(t, dispatcher.ClassConnect, a.Class)
	require.False(t, errors.Is(a.Err, dispatcher.ErrExhausted))
}

func TestIdleConnectionsMakeRoomForNewOnes(t *testing.T) {
	c, dials := newTestScarce(t, 3, syscall.EMFILE)
	for range 10 {
		r := newTestReceiver(t, serve(plainOK))
		a := send(t, c, newTestCall(r.url(t)))
		require.Equal(t, 200, a.Status, "%v", a.Err)
	}
	require.Greater(t, dials.Load(), int64(10))
	conns, _ := egress.Idle(c)
	require.LessOrEqual(t, conns, 3)
	c.Close()
}

func TestClientKeepsNoMoreIdleConnectionsThanItMay(t *testing.T) {
	var all []*receiver
	c := newTestClient(t, func(o *egress.Options) { o.MaxIdle = 2 })
	for n := range 3 {
		all = append(all, newTestReceiver(t, serve(plainOK)))
		require.Equal(t, 200, send(t, c, newTestCall(all[n].url(t))).Status)
	}
	conns, _ := egress.Idle(c)
	require.Equal(t, 2, conns)
	c.Close()
}
