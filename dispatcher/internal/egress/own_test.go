package egress_test

import (
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/egress"
)

// newTestGuard allows every address but those of listeners.
func newTestGuard(t testing.TB, listeners ...string) *egress.Guard {
	t.Helper()
	g := egress.NewGuard(mustPrefixes(t, "0.0.0.0/0", "::/0"))
	g.Own = new(egress.Listeners)
	for _, s := range listeners {
		g.Own.Add(net.TCPAddrFromAddrPort(netip.MustParseAddrPort(s)))
	}
	return g
}

func TestOwnListenersAreNeverCalledWhateverIsAllowed(t *testing.T) {
	addrs, err := net.InterfaceAddrs()
	require.NoError(t, err)
	here := addrs[len(addrs)-1].(*net.IPNet).IP.String()
	for listener, tc := range map[string]struct{ refused, open []string }{
		"127.0.0.1:8080": {[]string{"127.0.0.1:8080", "[::ffff:127.0.0.1]:8080", "0.0.0.0:8080", "[::]:8080", "[64:ff9b::7f00:1]:8080"}, []string{"127.0.0.1:9000", "127.0.0.2:8080", "[::1]:8080", "10.1.2.3:8080"}},
		"[::1]:8080":     {[]string{"[::1]:8080", "[::]:8080"}, []string{"127.0.0.1:8080", "[::1]:80"}},
		"0.0.0.0:8080":   {[]string{"127.0.0.1:8080", "127.9.9.9:8080", net.JoinHostPort(here, "8080")}, []string{"127.0.0.1:8081", "192.0.2.1:8080"}},
		"[::]:8080":      {[]string{"127.0.0.1:8080", "[::1]:8080", net.JoinHostPort(here, "8080"), "0.0.0.0:8080"}, []string{"[2001:db8::1]:8080", "[::1]:9000", net.JoinHostPort(here, "9000")}},
	} {
		g := newTestGuard(t, listener)
		for _, s := range tc.refused {
			var refused *egress.RefusedError
			require.ErrorAs(t, g.Addr(netip.MustParseAddrPort(s)), &refused, "%s, called at %s", listener, s)
			require.Equal(t, egress.OurListener, refused.Word)
			require.Error(t, g.URL(mustURL(t, "http://"+s+"/v1/lanes/*/pause")), "refused when it is published already")
		}
		for _, s := range tc.open {
			require.NoError(t, g.Addr(netip.MustParseAddrPort(s)), "%s, called at %s", listener, s)
		}
	}
	require.ErrorContains(t, newTestGuard(t, "127.0.0.1:80", "[::1]:80").URL(mustURL(t, "http://LocalHost./")), "LocalHost. (127.0.0.1) is our own listener, which is never called")
	require.NoError(t, newTestGuard(t, "127.0.0.1:80").URL(mustURL(t, "http://localhost:81/")))
}

func TestListenersOfOtherInstancesAreNeverCalledEither(t *testing.T) {
	g := newTestGuard(t)
	g.Own.SetOthers([]netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:8081"), netip.MustParseAddrPort("10.1.2.3:8080")})
	for _, s := range []string{"127.0.0.1:8081", "0.0.0.0:8081", "10.1.2.3:8080", "[::ffff:10.1.2.3]:8080"} {
		require.ErrorContains(t, g.Addr(netip.MustParseAddrPort(s)), "our own listener", s)
	}
	for _, s := range []string{"127.0.0.1:8080", "127.0.0.2:8081", "10.1.2.3:8081", "0.0.0.0:8080"} {
		require.NoError(t, g.Addr(netip.MustParseAddrPort(s)), s)
	}
	g.Own.SetOthers(nil)
	require.NoError(t, g.Addr(netip.MustParseAddrPort("10.1.2.3:8080")), "it has left")
}

// TestListenersArePublished: a wildcard is published as the addresses of this host.
func TestListenersArePublished(t *testing.T) {
	require.Empty(t, new(egress.Listeners).Published())
	own := newTestGuard(t, "127.0.0.1:8080", "0.0.0.0:9464").Own
	published := own.Published()
	require.Contains(t, published, netip.MustParseAddrPort("127.0.0.1:8080"))
	require.Contains(t, published, netip.MustParseAddrPort("127.0.0.1:9464"))
	for _, at := range published {
		require.True(t, at.Addr().Is4(), "%s: 0.0.0.0 is not all of IPv6", at)
	}
	many := newTestGuard(t, slices.Repeat([]string{"127.0.0.1:8080"}, 20)...)
	require.Len(t, many.Own.Published(), 16)
}

// TestOwnListenerIsNotDialled: neither by its address, nor by a name, nor through a proxy.
func TestOwnListenerIsNotDialled(t *testing.T) {
	ours := newTestReceiver(t, serve(plainOK))
	p, _ := newTestTunnel(t, nil)
	port := strconv.Itoa(int(ours.addr().Port()))
	for _, proxy := range []*url.URL{nil, p.url(t)} {
		c := newTestClient(t, known(names{"shop.test": {"127.0.0.1"}}), func(o *egress.Options) {
			o.Guard, o.Proxy = newTestGuard(t, ours.addr().String()), proxy
		})
		for _, host := range []string{"127.0.0.1", "shop.test", "0x7f.1"} {
			a := send(t, c, newTestCall(mustURL(t, "http://"+host+":"+port+"/")))
			require.Equal(t, dispatcher.ClassRefused, a.Class, "%s: %v", host, a.Err)
			require.EqualError(t, a.Err, "127.0.0.1 is our own listener, which is never called")
		}
		_, err := egress.Connect(t.Context(), egress.Options{Guard: newTestGuard(t, ours.addr().String()), Proxy: proxy}, ours.addr())
		require.ErrorContains(t, err, "our own listener", "the last check before the connection")
	}
	require.Zero(t, ours.accepted.Load())
	require.Empty(t, p.targets())
}

func TestAllowNetsMayNameAPort(t *testing.T) {
	g := egress.NewGuard([]egress.Net{
		{Prefix: netip.MustParsePrefix("127.0.0.0/8"), Port: 9000}, {Prefix: netip.MustParsePrefix("fd00::/8"), Port: 443}, {Prefix: netip.MustParsePrefix("fd00:1::/32")},
	})
	for _, s := range []string{"127.0.0.1:9000", "127.1.2.3:9000", "[fd00::1]:443", "[fd00:1::1]:80", "8.8.8.8:80"} {
		require.NoError(t, g.Addr(netip.MustParseAddrPort(s)), s)
	}
	for _, s := range []string{"127.0.0.1:9001", "[fd00::1]:80", "[::1]:9000"} {
		require.ErrorContains(t, g.Addr(netip.MustParseAddrPort(s)), "allow it with ALLOW_NETS=", s)
	}
	require.NoError(t, g.URL(mustURL(t, "https://[fd00::1]/")), "the port of the scheme")
	require.Error(t, g.URL(mustURL(t, "http://[fd00::1]/")))
	require.NoError(t, g.URL(mustURL(t, "http://localhost:9000/")))
	require.Error(t, g.URL(mustURL(t, "http://localhost/")))

	r := newTestReceiver(t, serve(plainOK))
	c := newTestClient(t, func(o *egress.Options) {
		o.Guard = egress.NewGuard([]egress.Net{{Prefix: netip.MustParsePrefix("127.0.0.0/8"), Port: r.addr().Port()}})
	})
	require.Equal(t, 200, send(t, c, newTestCall(r.url(t))).Status)
	require.Equal(t, dispatcher.ClassRefused, send(t, c, newTestCall(mustURL(t, "http://127.0.0.1:"+freePort(t)+"/"))).Class)
}
