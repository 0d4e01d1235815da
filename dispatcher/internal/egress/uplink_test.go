package egress_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
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

// zones is a name server in which each zone may be broken.
type zones struct {
	mu     sync.Mutex
	asked  []string
	broken map[string]byte // zone -> rcode; "." is all of them
}

// name is the name that a query asks for, without the dot at its end.
func name(query []byte) string {
	var labels []string
	for i := 12; query[i] != 0; i += int(query[i]) + 1 {
		labels = append(labels, string(query[i+1:i+1+int(query[i])]))
	}
	return strings.Join(labels, ".")
}

func (z *zones) answer(query []byte) []byte {
	z.mu.Lock()
	defer z.mu.Unlock()
	asked := name(query)
	z.asked = append(z.asked, asked)
	for zone, rcode := range z.broken {
		if zone == "." || asked == zone || strings.HasSuffix(asked, "."+zone) {
			return reply(query, rcode)
		}
	}
	return reply(query, rcodeOK, "127.0.0.1")
}

// fail has zones answered with an rcode from now on.
func (z *zones) fail(rcode byte, names ...string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.asked, z.broken = nil, map[string]byte{}
	for _, zone := range names {
		z.broken[zone] = rcode
	}
}

// questions lists what was asked for since fail.
func (z *zones) questions() map[string]bool {
	z.mu.Lock()
	defer z.mu.Unlock()
	all := map[string]bool{}
	for _, name := range z.asked {
		all[name] = true
	}
	return all
}

// newTestZones is a client whose only resolver is such a name server.
func newTestZones(t testing.TB) (*zones, *egress.Client, func(host string) dispatcher.Answer) {
	z := &zones{}
	resolver, _ := newTestResolver(t, z.answer)
	r := newTestReceiver(t, serve(plainOK))
	c := newTestClient(t, func(o *egress.Options) { o.Resolver = resolver })
	return z, c, func(host string) dispatcher.Answer {
		return send(t, c, newTestCall(mustURL(t, fmt.Sprintf("http://%s:%d/", host, r.addr().Port()))))
	}
}

// requireOurs checks that an attempt failed by our own network.
func requireOurs(t testing.TB, a dispatcher.Answer, why dispatcher.EgressFault) {
	t.Helper()
	require.Equal(t, dispatcher.ClassEgress, a.Class, "%v", a.Err)
	var fault *dispatcher.EgressError
	require.ErrorAs(t, a.Err, &fault)
	require.Equal(t, why, fault.Why)
	require.Zero(t, a.Status)
}

func TestResolverThatAnswersNothingIsOurOwnFault(t *testing.T) {
	z, c, to := newTestZones(t)
	require.Equal(t, 200, to("shop.example").Status)
	require.Equal(t, dispatcher.NetworkUnknown, c.NetworkState(), "no attempt makes a control as long as all is well")

	z.fail(rcodeServFail, ".")
	a := to("other.test")
	requireOurs(t, a, dispatcher.FaultResolver)
	require.EqualError(t, a.Err, "our own network: lookup other.test: server misbehaving")
	require.Equal(t, dispatcher.NetworkDown, c.NetworkState())
	asked := z.questions()
	require.True(t, asked["shop.example"], "the control asks for the name that was resolved last: %v", asked)
}

func TestControlAsksForTheRootBeforeAnyNameWasResolved(t *testing.T) {
	z, c, to := newTestZones(t)
	z.fail(rcodeServFail, "shop.example")
	require.Equal(t, dispatcher.ClassDNS, to("shop.example").Class)
	require.True(t, z.questions()[""], "%v", z.questions())
	require.Equal(t, dispatcher.NetworkUp, c.NetworkState())
}

func TestBrokenZoneIsTheReceiversFault(t *testing.T) {
	z, c, to := newTestZones(t)
	for _, host := range []string{"a.good.test", "a.shop.co.uk", "b.shop.co.uk"} {
		require.Equal(t, 200, to(host).Status)
	}
	z.fail(rcodeServFail, "shop.co.uk")
	require.Equal(t, dispatcher.ClassDNS, to("c.shop.co.uk").Class)
	require.Equal(t, dispatcher.NetworkUp, c.NetworkState())
	asked := z.questions()
	require.True(t, asked["a.good.test"], "of another registrable domain: %v", asked)
	require.False(t, asked["a.shop.co.uk"] || asked["b.shop.co.uk"], "%v", asked)
}

func TestNameThatDoesNotExistNeedsNoControl(t *testing.T) {
	for _, rcode := range []byte{rcodeNXDomain, rcodeOK} {
		z, c, to := newTestZones(t)
		require.Equal(t, 200, to("good.test").Status)
		z.fail(rcode, ".")
		require.Equal(t, dispatcher.ClassDNS, to("shop.example").Class)
		require.Equal(t, map[string]bool{"shop.example": true}, z.questions())
		require.Equal(t, dispatcher.NetworkUnknown, c.NetworkState())
	}
}

func TestControlWhoseNameIsGoneIsAnswered(t *testing.T) {
	z, c, to := newTestZones(t)
	require.Equal(t, 200, to("good.test").Status)
	z.fail(rcodeServFail, "shop.example")
	z.mu.Lock()
	z.broken["good.test"] = rcodeNXDomain
	z.mu.Unlock()
	require.Equal(t, dispatcher.ClassDNS, to("shop.example").Class)
	require.Equal(t, dispatcher.NetworkUp, c.NetworkState())
}

// TestTenantCannotMakeItsZonesOurFault: a tenant has its names resolved last, and then breaks
// all of its zones at once.
func TestTenantCannotMakeItsZonesOurFault(t *testing.T) {
	for name, others := range map[string][]string{"nobody else": nil, "another tenant": {"www.honest.test"}} {
		t.Run(name, func(t *testing.T) {
			z, c, to := newTestZones(t)
			for _, host := range others {
				require.Equal(t, 200, to(host).Status)
			}
			var own []string
			for n := range 3 {
				own = append(own, fmt.Sprintf("evil%d.example", n))
				require.Equal(t, 200, to("www."+own[n]).Status)
			}
			z.fail(rcodeServFail, own...)
			for _, host := range own {
				require.Equal(t, dispatcher.ClassDNS, to("hook."+host).Class)
			}
			require.Equal(t, dispatcher.NetworkUp, c.NetworkState())
		})
	}
}

// scripted is a resolver without a network, for tests with a clock of their own.
type scripted struct {
	down    atomic.Bool
	silent  atomic.Bool
	lookups atomic.Int64
	roots   atomic.Int64
}

func (s *scripted) fault(ctx context.Context, host string) error {
	switch {
	case s.silent.Load():
		<-ctx.Done()
		return ctx.Err()
	case s.down.Load():
		return &net.DNSError{Err: "server misbehaving", Name: host, IsTemporary: true}
	}
	return nil
}

func (s *scripted) LookupNetIP(ctx context.Context, _, host string) ([]netip.Addr, error) {
	s.lookups.Add(1)
	return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, s.fault(ctx, host)
}

func (s *scripted) LookupNS(ctx context.Context, host string) ([]*net.NS, error) {
	s.roots.Add(1)
	return nil, s.fault(ctx, host)
}

// newTestScripted is a client over that resolver, of which no connection succeeds.
func newTestScripted(t testing.TB) (*scripted, *egress.Client) {
	s := &scripted{}
	o := egress.Options{Guard: egress.NewGuard(mustPrefixes(t, "127.0.0.0/8")), Resolver: s}
	return s, egress.NewOver(o, func(context.Context, string, string) (net.Conn, error) {
		return nil, os.NewSyscallError("connect", syscall.ECONNREFUSED)
	})
}

func TestLookupsShareOneControlASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := newTestScripted(t)
		s.down.Store(true)
		for second := range int64(3) {
			var calls sync.WaitGroup
			for n := range 50 {
				calls.Go(func() {
					a := c.Send(t.Context(), newTestCall(mustURL(t, fmt.Sprintf("http://shop%d.example/", n))))
					requireOurs(t, a, dispatcher.FaultResolver)
				})
			}
			calls.Wait()
			require.Equal(t, second+1, s.roots.Load())
			time.Sleep(time.Second)
		}
	})
}

func TestControlThatGetsNoAnswerEndsInTwoSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := newTestScripted(t)
		s.silent.Store(true)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		began := time.Now()
		a := c.Send(ctx, newTestCall(mustURL(t, "http://shop.example/")))
		requireOurs(t, a, dispatcher.FaultResolver)
		require.Equal(t, 7*time.Second, time.Since(began))
	})
}

func TestCallThatIsCutDoesNotWaitForAControl(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := newTestScripted(t)
		s.silent.Store(true)
		ctx, cut := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cut)
		began := time.Now()
		a := c.Send(ctx, newTestCall(mustURL(t, "http://shop.example/")))
		require.Equal(t, dispatcher.ClassInternal, a.Class)
		require.Equal(t, time.Second, time.Since(began))
	})
}

func TestControlsGoOnWhileOurNetworkIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := newTestScripted(t)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var reported []bool
		c.WatchNetwork(ctx, func(why dispatcher.EgressFault, err error) {
			require.Equal(t, dispatcher.FaultResolver, why)
			reported = append(reported, err == nil)
		})
		s.down.Store(true)
		requireOurs(t, c.Send(ctx, newTestCall(mustURL(t, "http://shop.example/"))), dispatcher.FaultResolver)
		time.Sleep(10*time.Second + time.Millisecond)
		require.EqualValues(t, 11, s.roots.Load(), "one a second")
		synctest.Wait()
		require.Equal(t, []bool{false}, reported)

		s.down.Store(false)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, []bool{false, true}, reported)
		time.Sleep(time.Minute)
		require.EqualValues(t, 12, s.roots.Load(), "and none once it is up")

		s.down.Store(true)
		requireOurs(t, c.Send(ctx, newTestCall(mustURL(t, "http://shop.example/"))), dispatcher.FaultResolver)
		stop()
		time.Sleep(time.Minute)
		require.EqualValues(t, 13, s.roots.Load(), "and none once nobody watches")
	})
}

// newTestRoutes is a client whose connections end as the test says, by address, and the
// errors of datagram sockets.
func newTestRoutes(t testing.TB, known names) (c *egress.Client, tcp map[string]error, udp map[string]error) {
	tcp, udp = map[string]error{}, map[string]error{}
	o := egress.Options{Guard: egress.NewGuard(mustPrefixes(t, "0.0.0.0/0", "::/0")), Resolver: known}
	r := newTestReceiver(t, serve(plainOK))
	c = egress.NewOver(o, func(ctx context.Context, _, address string) (net.Conn, error) {
		host, _, err := net.SplitHostPort(address)
		if err == nil && tcp[host] != nil {
			return nil, &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", tcp[host])}
		}
		var d net.Dialer
		return d.DialContext(ctx, "tcp", r.addr().String())
	})
	egress.DatagramOver(c, func(to netip.AddrPort) error { return udp[to.Addr().String()] })
	t.Cleanup(c.Close)
	return c, tcp, udp
}

func TestRouteThatIsMissingIsOurOwnFaultIfItWorkedBefore(t *testing.T) {
	const four, six = "203.0.113.1", "2001:db8::1"
	for name, tc := range map[string]struct {
		worked   string // addresses that answered before
		fails    []error
		datagram error
		class    dispatcher.Class
	}{
		"lost":                      {four, []error{syscall.ENETUNREACH}, syscall.ENETUNREACH, dispatcher.ClassEgress},
		"host unreachable":          {four, []error{syscall.EHOSTUNREACH}, syscall.ENETUNREACH, dispatcher.ClassEgress},
		"no address of ours":        {four, []error{syscall.EADDRNOTAVAIL}, syscall.ENETUNREACH, dispatcher.ClassEgress},
		"only of this receiver":     {four, []error{syscall.ENETUNREACH}, nil, dispatcher.ClassConnect},
		"never worked":              {"", []error{syscall.ENETUNREACH}, syscall.ENETUNREACH, dispatcher.ClassConnect},
		"of the other family only":  {six, []error{syscall.ENETUNREACH}, syscall.ENETUNREACH, dispatcher.ClassConnect},
		"down":                      {"", []error{syscall.ENETDOWN}, nil, dispatcher.ClassEgress},
		"refused":                   {four, []error{syscall.ECONNREFUSED}, syscall.ENETUNREACH, dispatcher.ClassConnect},
		"another address refuses":   {four, []error{syscall.ENETUNREACH, syscall.ECONNREFUSED}, syscall.ENETUNREACH, dispatcher.ClassConnect},
		"both families, one worked": {four, []error{syscall.ENETUNREACH, syscall.ENETUNREACH}, syscall.ENETUNREACH, dispatcher.ClassEgress},
	} {
		t.Run(name, func(t *testing.T) {
			addrs := []string{"203.0.113.9", "2001:db8::9"}
			known := names{"good.test": {tc.worked}, "shop.example": addrs[:len(tc.fails)]}
			c, tcp, udp := newTestRoutes(t, known)
			if tc.worked != "" {
				require.Equal(t, 200, send(t, c, newTestCall(mustURL(t, "http://good.test/"))).Status)
			}
			udp[tc.worked], udp["203.0.113.9"], udp[netip.Addr{}.String()] = tc.datagram, syscall.ENETUNREACH, syscall.ENETUNREACH
			for i, err := range tc.fails {
				tcp[known["shop.example"][i]] = err
			}
			a := send(t, c, newTestCall(mustURL(t, "http://shop.example/")))
			require.Equal(t, tc.class, a.Class, "%v", a.Err)
			if tc.class == dispatcher.ClassEgress {
				requireOurs(t, a, dispatcher.FaultRoute)
			}
			require.Equal(t, tc.class == dispatcher.ClassEgress && tc.worked != "", c.NetworkState() == dispatcher.NetworkDown)
		})
	}
}

func TestRouteThatIsBackIsNoticed(t *testing.T) {
	c, tcp, udp := newTestRoutes(t, names{"good.test": {"203.0.113.1"}})
	require.Equal(t, 200, send(t, c, newTestCall(mustURL(t, "http://good.test/1.0"))).Status)
	c.Close() // its idle connection
	var mu sync.Mutex
	egress.DatagramOver(c, func(to netip.AddrPort) error {
		mu.Lock()
		defer mu.Unlock()
		return udp[to.Addr().String()]
	})
	tcp["203.0.113.1"], udp["203.0.113.1"] = syscall.ENETUNREACH, syscall.ENETUNREACH
	requireOurs(t, send(t, c, newTestCall(mustURL(t, "http://good.test/"))), dispatcher.FaultRoute)
	back := make(chan error, 1)
	c.WatchNetwork(t.Context(), func(_ dispatcher.EgressFault, err error) { back <- err })
	mu.Lock()
	delete(udp, "203.0.113.1")
	mu.Unlock()
	require.NoError(t, <-back)
	require.Equal(t, dispatcher.NetworkUp, c.NetworkState())
}

func TestProxyThatIsSlowOnlyForOneCallIsNotAtFault(t *testing.T) {
	p := newTestProxy(t, func(p *testProxy) { p.answer = "HTTP/1.1 502 Bad Gateway\r\n\r\n" })
	var hang atomic.Bool
	o := egress.Options{Proxy: p.url(t), Resolver: names{"good.test": {"8.8.4.4"}}}
	c := egress.NewOver(o, func(ctx context.Context, network, address string) (net.Conn, error) {
		if hang.CompareAndSwap(true, false) {
			<-ctx.Done()
			return nil, &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}
		}
		return (&net.Dialer{}).DialContext(ctx, network, address)
	})
	t.Cleanup(c.Close)
	require.Equal(t, dispatcher.ClassConnect, send(t, c, newTestCall(mustURL(t, "http://good.test/"))).Class, "the proxy was reached")
	hang.Store(true)
	a := sendWithin(t, c, newTestCall(mustURL(t, "http://good.test/")), 50*time.Millisecond)
	require.Equal(t, dispatcher.ClassTimeout, a.Class, "%v", a.Err)
	require.True(t, errors.Is(a.Err, os.ErrDeadlineExceeded))
	require.Equal(t, dispatcher.NetworkUp, c.NetworkState())
}
