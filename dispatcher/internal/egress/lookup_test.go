package egress_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/egress"
)

// pod is a resolver as a pod has it: ndots:5, and a search list whose second domain has a
// wildcard record.
type pod struct {
	outsideDown atomic.Bool // only names of the searched domains are answered

	mu    sync.Mutex
	asked []string // complete names, once for both families
}

func (p *pod) LookupNetIP(_ context.Context, network, host string) ([]netip.Addr, error) {
	bare, complete := strings.CutSuffix(host, ".")
	tried := []string{bare + ".shops.svc", bare + ".corp.internal", bare}
	if complete {
		tried = tried[2:]
	}
	for _, name := range tried {
		if network != "ip6" {
			p.mu.Lock()
			p.asked = append(p.asked, name)
			p.mu.Unlock()
		}
		inside := strings.HasSuffix(name, ".svc") || strings.HasSuffix(name, ".internal")
		switch {
		case name == "broken.test", !inside && p.outsideDown.Load():
			return nil, &net.DNSError{Err: "server misbehaving", Name: host, IsTemporary: true}
		case name == "receiver.shops.svc", name == "ledger.shops.corp.internal", name == "shop.test":
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
		case strings.HasSuffix(name, ".corp.internal"):
			return []netip.Addr{netip.MustParseAddr("127.0.0.2")}, nil // the operator's own host, which is not the receiver
		}
	}
	return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}

func TestHostOfAURLIsACompleteName(t *testing.T) {
	r := newTestReceiver(t, serve(plainOK))
	for name, tc := range map[string]struct {
		host  string
		nets  []string
		asked []string
		class dispatcher.Class // none: it is delivered
	}{
		"an outside name":               {"shop.test", []string{"127.0.0.1/32"}, []string{"shop.test"}, ""},
		"an outside name with its dot":  {"shop.test.", []string{"127.0.0.1/32"}, []string{"shop.test"}, ""},
		"a service with its namespace":  {"ledger.shops", []string{"127.0.0.1/32"}, []string{"ledger.shops", "ledger.shops.shops.svc", "ledger.shops.corp.internal"}, ""},
		"a service by one label":        {"receiver", []string{"127.0.0.1/32"}, []string{"receiver.shops.svc"}, ""},
		"one label with a dot":          {"receiver.", []string{"127.0.0.1/32"}, []string{"receiver"}, dispatcher.ClassDNS},
		"an unknown name with its dot":  {"gone.test.", []string{"127.0.0.1/32"}, []string{"gone.test"}, dispatcher.ClassDNS},
		"a name whose server fails":     {"broken.test", []string{"127.0.0.1/32"}, []string{"broken.test"}, dispatcher.ClassDNS},
		"an unknown name, none allowed": {"gone.test", nil, []string{"gone.test"}, dispatcher.ClassDNS},
		"one label, none allowed":       {"receiver", nil, []string{"receiver"}, dispatcher.ClassDNS},
	} {
		p := &pod{}
		c := newTestClient(t, allowed(t, tc.nets...), func(o *egress.Options) { o.Resolver = p })
		a := send(t, c, newTestCall(mustURL(t, "http://"+tc.host+":"+r.url(t).Port()+"/")))
		require.Equal(t, tc.class, a.Class, "%s: %v", name, a.Err)
		require.Equal(t, tc.asked, p.asked, name)
	}
}

// The search list is for services that may be called, so a link's URLs use it only with
// networks of their own.
func TestALinksURLUsesTheSearchListOnlyWithLinkAllowNets(t *testing.T) {
	r := newTestReceiver(t, serve(plainOK))
	loop := []string{"127.0.0.1/32"}
	for _, open := range []bool{false, true} {
		p := &pod{}
		c := newTestClient(t, networksOf(t, loop, map[bool][]string{true: loop}[open]), func(o *egress.Options) { o.Resolver = p })
		call := newTestCall(mustURL(t, "http://receiver:"+r.url(t).Port()+"/"))
		call.Linked = true
		require.Equal(t, open, send(t, c, call).Status == 200)
	}
}

func TestControlIsNotAnsweredByASearchedDomain(t *testing.T) {
	r := newTestReceiver(t, serve(plainOK))
	p := &pod{}
	c := newTestClient(t, func(o *egress.Options) { o.Resolver = p })
	to := func(host string) dispatcher.Answer {
		return send(t, c, newTestCall(mustURL(t, "http://"+host+":"+r.url(t).Port()+"/")))
	}
	for _, host := range []string{"receiver", "ledger.shops", "shop.test"} {
		require.Equal(t, 200, to(host).Status, host)
	}
	p.outsideDown.Store(true)
	requireOurs(t, to("cafe.test"), dispatcher.FaultResolver)
	require.Equal(t, 200, to("receiver").Status, "services of our own go on")
}

func TestDotOfACompleteNameIsOnlyForTheResolver(t *testing.T) {
	u, asked := newTestSink(t)
	c := newTestClient(t, known(names{"shop.example": {"127.0.0.1"}}))
	for _, host := range []string{"shop.example", "shop.example."} {
		require.Equal(t, 200, send(t, c, newTestCall(mustURL(t, "http://"+host+":"+u.Port()+"/"))).Status)
	}
	require.Equal(t, asked()[0].host, asked()[1].host)

	h, port := newTestHostile(t)
	c = newTestClient(t, known(names{"good.test": {"127.0.0.1"}}), func(o *egress.Options) { o.RootCAs = authority().pool })
	a := send(t, c, newTestCall(mustURL(t, "https://good.test.:"+port+"/ok")))
	require.Equal(t, 200, a.Status, "the certificate is for the name without the dot: %v", a.Err)
	require.EqualValues(t, 1, h.accepted.Load())
}

func TestNamesOfTheHostsFileAreFound(t *testing.T) {
	r := newTestReceiver(t, serve(plainOK))
	for _, host := range []string{"localhost", "LocalHost", "localhost."} {
		a := send(t, newTestClient(t), newTestCall(mustURL(t, "http://"+host+":"+r.url(t).Port()+"/")))
		require.Equal(t, 200, a.Status, "%s: %v", host, a.Err)
		a = send(t, newTestClient(t, func(o *egress.Options) { o.Guard = nil }), newTestCall(mustURL(t, "http://"+host+":"+r.url(t).Port()+"/")))
		require.Equal(t, dispatcher.ClassRefused, a.Class, "it is found, and not allowed: %v", a.Err)
	}
}

// families answers for each family after a while. One without an answer is silent.
type families map[string]struct {
	after time.Duration
	addrs []string
}

func (f families) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	if network == "ip" { // as Go's resolver: both, when the last one is there
		v4, err := f.LookupNetIP(ctx, "ip4", host)
		v6, err6 := f.LookupNetIP(ctx, "ip6", host)
		return append(v4, v6...), errors.Join(err, err6)
	}
	a, ok := f[network]
	if !ok {
		<-ctx.Done()
		return nil, &net.DNSError{Err: "i/o timeout", Name: host, IsTimeout: true}
	}
	time.Sleep(a.after)
	return names{"shop.test": a.addrs}.LookupNetIP(ctx, network, host)
}

func TestFamiliesAreAskedForSideBySide(t *testing.T) {
	const v4, other4, inside4, v6, inside6 = "8.8.4.4", "8.8.8.8", "10.1.2.3", "2606:4700::1", "fd00::1"
	type answer = struct {
		after time.Duration
		addrs []string
	}
	at := func(ms int, addrs ...string) answer { return answer{time.Duration(ms) * time.Millisecond, addrs} }
	many := []string{"8.8.4.1", "8.8.4.2", "8.8.4.3", "8.8.4.5", "8.8.4.6", "8.8.4.7", "8.8.4.8"}
	for name, tc := range map[string]struct {
		answers families
		dialled []string // in this order; the last one opens unless there is an error
		took    int      // ms
		class   dispatcher.Class
	}{
		"IPv6 never answers":                    {families{"ip4": at(0, v4)}, []string{v4}, 50, ""},
		"IPv4 never answers":                    {families{"ip6": at(7, v6)}, []string{v6}, 57, ""},
		"IPv6 has no address":                   {families{"ip4": at(3, v4), "ip6": at(0)}, []string{v4}, 3, ""},
		"a late one waits for its turn":         {families{"ip4": at(0, "8.8.8.9"), "ip6": at(60, v6)}, []string{"8.8.8.9", v6}, 300, ""},
		"a late one whose turn has come":        {families{"ip4": at(0, "8.8.8.9"), "ip6": at(400, v6)}, []string{"8.8.8.9", v6}, 400, ""},
		"a late one after a failure":            {families{"ip4": at(0, other4), "ip6": at(2000, v6)}, []string{other4, v6}, 2000, ""},
		"a late one is next":                    {families{"ip4": at(0, "8.8.8.9", v4), "ip6": at(60, v6)}, []string{"8.8.8.9", v6}, 300, ""},
		"a late one inside":                     {families{"ip4": at(0, other4), "ip6": at(60, inside6)}, []string{other4}, 60, dispatcher.ClassConnect},
		"a late one mixed":                      {families{"ip4": at(0, other4), "ip6": at(60, inside6, v6)}, []string{other4, v6}, 60, ""},
		"the first ones are inside":             {families{"ip4": at(0, inside4), "ip6": at(900, v6)}, []string{v6}, 900, ""},
		"all are inside":                        {families{"ip4": at(0, inside4), "ip6": at(900, inside6)}, nil, 900, dispatcher.ClassRefused},
		"a failure, and the rest never answers": {families{"ip4": at(0, other4)}, []string{other4}, 9000, dispatcher.ClassConnect},
		"nothing answers":                       {families{}, nil, 9000, dispatcher.ClassDNS},
		"no more than eight":                    {families{"ip4": at(0, append(many, "8.8.8.9")...), "ip6": at(60, v6)}, append(many[:7:7], "8.8.8.9"), 9000, dispatcher.ClassConnect},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var dialled []string
				var mu sync.Mutex // guards dialled
				var running sync.WaitGroup
				open := pipes(func(c net.Conn) {
					defer c.Close()
					_, _ = c.Read(make([]byte, 4096))
					_, _ = io.WriteString(c, "HTTP/1.0 200 OK\r\n\r\n")
				}, &running)
				c := egress.NewOver(egress.Options{Resolver: tc.answers}, func(ctx context.Context, network, address string) (net.Conn, error) {
					host, _, _ := net.SplitHostPort(address)
					mu.Lock()
					dialled = append(dialled, host)
					mu.Unlock()
					switch host {
					case v4, v6:
						return open(ctx, network, address)
					case "8.8.8.9":
						<-ctx.Done()
						return nil, ctx.Err()
					}
					return nil, syscall.ECONNREFUSED
				})
				defer running.Wait()
				defer c.Close()
				began := time.Now()
				a := sendWithin(t, c, newTestCall(mustURL(t, "http://shop.test/")), 9*time.Second)
				require.Equal(t, tc.class, a.Class, "%v", a.Err)
				require.Equal(t, tc.class == "", a.Status == 200)
				require.Equal(t, time.Duration(tc.took)*time.Millisecond, time.Since(began))
				require.Equal(t, tc.dialled, dialled)
			})
		})
	}
}

// A unique local address is less likely to be reached from here than an IPv4 one.
func TestFamilyThatThisHostPrefersIsFirst(t *testing.T) {
	var first atomic.Value
	o := egress.Options{
		Guard:    egress.NewGuard(mustPrefixes(t, "fd00::/8")),
		Resolver: names{"shop.test": {"fd00::1", "8.8.4.4"}},
	}
	c := egress.NewOver(o, func(_ context.Context, _, address string) (net.Conn, error) {
		first.CompareAndSwap(nil, address)
		return nil, syscall.ECONNREFUSED
	})
	defer c.Close()
	require.Equal(t, dispatcher.ClassConnect, send(t, c, newTestCall(mustURL(t, "http://shop.test/"))).Class)
	require.Equal(t, "8.8.4.4:80", first.Load())
}

// TestControlNeedsOneFamily: a name server that never answers for IPv6 works all the same.
func TestControlNeedsOneFamily(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := families{"ip4": {addrs: []string{"8.8.4.4"}}}
		c := egress.NewOver(egress.Options{Resolver: perName{"broken.test": failing6{}, "shop.test": answers}}, func(context.Context, string, string) (net.Conn, error) {
			return nil, syscall.ECONNREFUSED
		})
		defer c.Close()
		require.Equal(t, dispatcher.ClassConnect, sendWithin(t, c, newTestCall(mustURL(t, "http://shop.test/")), time.Second).Class)
		require.Equal(t, dispatcher.ClassDNS, sendWithin(t, c, newTestCall(mustURL(t, "http://broken.test/")), time.Second).Class)
		require.Equal(t, dispatcher.NetworkUp, c.NetworkState())
	})
}

// perName has a resolver for each name.
type perName map[string]egress.Resolver

func (p perName) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	return p[strings.TrimSuffix(host, ".")].LookupNetIP(ctx, network, host)
}

type failing6 struct{}

func (failing6) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	return nil, &net.DNSError{Err: "server misbehaving", Name: host, IsTemporary: true}
}

// asking is a connection to a name server that keeps the error of its last read.
type asking struct {
	*net.UDPConn
	ended chan error
}

func (a *asking) Read(b []byte) (int, error) {
	n, err := a.UDPConn.Read(b)
	if err != nil {
		a.ended <- err
	}
	return n, err
}

// TestQueryEndsWithItsCall: else each call to a name whose server is silent for one family
// would leave a socket until the resolver's timeout.
func TestQueryEndsWithItsCall(t *testing.T) {
	r := newTestReceiver(t, serve(plainOK))
	_, s := newTestResolver(t, func(q []byte) []byte {
		if kind := q[12+bytes.IndexByte(q[12:], 0)+2]; kind == 28 { // AAAA
			return nil
		}
		return reply(q, rcodeOK, "127.0.0.1")
	})
	ended := make(chan error, 16)
	before := net.DefaultResolver
	defer func() { net.DefaultResolver = before }()
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		c, err := net.DialUDP("udp", nil, s.conn.LocalAddr().(*net.UDPAddr))
		return &asking{c, ended}, err
	}}
	a := send(t, newTestClient(t), newTestCall(mustURL(t, "http://shop.example:"+r.url(t).Port()+"/")))
	require.Equal(t, 200, a.Status, "%v", a.Err)
	require.ErrorIs(t, <-ended, net.ErrClosed)
}

// names is a resolver that knows a few names and no network.
type names map[string][]string

func (n names) LookupNetIP(ctx context.Context, _, host string) ([]netip.Addr, error) {
	host = strings.TrimSuffix(host, ".")
	if host == "slow.example" {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	texts, ok := n[host]
	if !ok {
		return nil, &net.DNSError{Err: "no such host", Name: host, Server: "192.0.2.53:53", IsNotFound: true}
	}
	var found []netip.Addr
	for _, s := range texts {
		found = append(found, netip.MustParseAddr(s))
	}
	return found, nil
}

func known(n names) func(*egress.Options) {
	return func(o *egress.Options) { o.Resolver = n }
}

// counting finds 127.0.0.1 for every name, and counts the questions for IPv4.
type counting struct{ n atomic.Int64 }

func (c *counting) LookupNetIP(_ context.Context, network, _ string) ([]netip.Addr, error) {
	if network == "ip6" {
		return nil, nil
	}
	c.n.Add(1)
	return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
}

// freePort is a port of 127.0.0.1 that refuses connections until the test ends: it
// is taken, so that no other test can listen there.
func freePort(t testing.TB) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	require.NoError(t, err)
	syscall.CloseOnExec(fd)
	t.Cleanup(func() { _ = syscall.Close(fd) })
	require.NoError(t, syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	at, err := syscall.Getsockname(fd)
	require.NoError(t, err)
	return strconv.Itoa(at.(*syscall.SockaddrInet4).Port)
}

func allowed(t testing.TB, nets ...string) func(*egress.Options) {
	return func(o *egress.Options) { o.Guard = egress.NewGuard(mustPrefixes(t, nets...)) }
}
