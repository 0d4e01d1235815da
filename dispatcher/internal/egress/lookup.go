package egress

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// secondWait is how long a lookup waits for the addresses of the second family once it has
// those of the first. RFC 8305, section 3, recommends 50 ms.
const secondWait = 50 * time.Millisecond

// Resolver returns the addresses of a name. *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// system is the system's resolver. Each lookup has a net.Resolver of its own, because a shared
// one would leave a query running that its caller no longer waits for. A name server that
// never answers could so collect sockets.
type system struct{}

func (system) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	return newSystem().LookupNetIP(ctx, network, host)
}

func (system) LookupNS(ctx context.Context, name string) ([]*net.NS, error) {
	return newSystem().LookupNS(ctx, name)
}

// newSystem returns a copy of the system's resolver whose queries end with their contexts. Go's
// own would wait for the answer until the resolver's timeout.
func newSystem() *net.Resolver {
	of := net.DefaultResolver
	dial := of.Dial
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	return &net.Resolver{PreferGo: of.PreferGo, StrictErrors: of.StrictErrors, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err == nil {
			context.AfterFunc(ctx, func() { _ = conn.Close() })
		}
		return conn, err
	}}
}

// hostsFile knows only the names of the system's hosts file.
var hostsFile = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
	return nil, errNoAddresses
}}

// query is one way to look up a host.
type query struct {
	resolver Resolver
	name     string // with a dot at its end: the system's search list is not used
	file     bool   // only the hosts file is read
}

// queries returns how a host of a URL is looked up, in order. Each applies if the name of the
// one before does not exist.
//
// The host is a complete name, and the system's search list is not meant for it. A wildcard in
// a searched domain would answer for every receiver. The list is only for our own services,
// so only if there are networks of our own that may be called (own). A name of one label is
// never one of the internet's. It is not looked up there first, because a closed network
// has no name server that could say so.
func (d *dialer) queries(host string, own bool) []query {
	bare := strings.TrimSuffix(host, ".")
	complete, searched := query{resolver: d.resolver, name: bare + "."}, query{resolver: d.resolver, name: host}
	own = own && bare == host
	switch oneLabel := !strings.Contains(bare, "."); {
	case oneLabel && own:
		return []query{searched}
	case oneLabel && d.hosts != nil: // with the dot, the resolver would not find it in the hosts file
		return []query{{d.hosts, bare, true}, complete}
	case own:
		return []query{complete, searched}
	default:
		return []query{complete}
	}
}

// lookup returns the addresses of a host, which may be an address itself in any form. If late
// is not nil, one family's answer is still missing, and late gets its addresses. The end of
// ctx ends that query.
func (d *dialer) lookup(ctx context.Context, host string) (found []netip.Addr, late <-chan answer, err error) {
	if a, is := literal(host); is {
		return []netip.Addr{a}, nil, nil
	}
	for _, q := range d.queries(host, d.guardOf(ctx).own()) {
		found, late, err = q.run(ctx)
		if err == nil && !q.file {
			d.uplink.resolver.resolved(q.name)
		}
		if err == nil || !q.file && !answeredLookup(err) {
			break
		}
	}
	if err != nil {
		return nil, nil, &stageError{dispatcher.ClassDNS, "lookup " + host, markLookup(err)}
	}
	return found, late, nil
}

var errNoAddresses = errors.New("no addresses")

// answer is what a resolver says about one family of a name. If it has no address, err is set.
type answer struct {
	addrs []netip.Addr
	err   error
}

// run queries both families at the same time. Some name servers never answer for IPv6, so once
// it has addresses of one family, it waits only secondWait for the other one.
func (q query) run(ctx context.Context) (found []netip.Addr, late <-chan answer, err error) {
	answers := make(chan answer, 2)
	for _, network := range []string{"ip6", "ip4"} {
		go func() { answers <- q.family(ctx, network) }()
	}
	first := <-answers
	if first.err != nil {
		second := <-answers
		if second.err != nil {
			return nil, nil, worse(first.err, second.err)
		}
		return second.addrs, nil, nil
	}
	wait := time.NewTimer(secondWait)
	defer wait.Stop()
	select {
	case second := <-answers:
		return both(first.addrs, second.addrs), nil, nil
	case <-wait.C:
		return first.addrs, answers, nil
	}
}

// family queries the addresses of one family.
func (q query) family(ctx context.Context, network string) answer {
	addrs, err := q.resolver.LookupNetIP(ctx, network, q.name)
	addrs = slices.DeleteFunc(addrs, func(a netip.Addr) bool { return a.Unmap().Is4() != (network == "ip4") })
	var other *net.AddrError // the hosts file has only addresses of the other family
	if err == nil && len(addrs) == 0 || errors.As(err, &other) {
		err = errNoAddresses
	}
	return answer{addrs, err}
}

// worse returns the error that leaves more open: a failed query before a name that does not
// exist. Of two of one kind it returns the one with the more precise text.
func worse(a, b error) error {
	if answeredLookup(a) && !answeredLookup(b) || errors.Is(a, errNoAddresses) {
		return b
	}
	return a
}

// both joins the addresses of two families. The family that this host prefers is first.
func both(a, b []netip.Addr) []netip.Addr {
	if len(a) > 0 && len(b) > 0 {
		if a[0].Unmap().Is4() {
			a, b = b, a
		}
		if prefersIPv4(a[0]) {
			a, b = b, a
		}
	}
	return slices.Concat(a, b)
}

// prefersIPv4 reports whether this host calls a receiver at its IPv4 address rather than at an
// IPv6 one. It applies the rules of RFC 6724 that decide between the families: no route, or a
// source address of another scope. Connecting a datagram socket sends nothing.
func prefersIPv4(v6 netip.Addr) bool {
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(v6, 9)))
	if err != nil {
		return true
	}
	defer c.Close() //nolint:errcheck // nothing was sent
	from := c.LocalAddr().(*net.UDPAddr).AddrPort().Addr()
	return v6.IsPrivate() || from.IsPrivate() || from.IsLinkLocalUnicast() != v6.IsLinkLocalUnicast()
}
