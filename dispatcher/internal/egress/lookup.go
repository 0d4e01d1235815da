package egress

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/publicsuffix"

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

const (
	// maxDomains bounds the registrable domains that a resolver check can choose from.
	maxDomains = 16
	// maxQueries is how many lookups a resolver check makes if the first one fails. They
	// are of different domains, because one tenant may break a few domains of its own at
	// once.
	maxQueries = 4
	// firstAlone is how long a check waits for its first lookup before it starts the
	// others.
	firstAlone = 500 * time.Millisecond
	// rootZone is queried for its name servers if too few names are known.
	rootZone = "."
)

// resolverCheck finds out whether the resolver works. It queries names that were resolved
// before, and the root zone.
type resolverCheck struct {
	resolver Resolver

	mu    sync.Mutex     // guards known
	known []resolvedName // most recent first, at most one of each domain
}

// resolvedName is a name that was resolved.
type resolvedName struct {
	query, domain string // query: as the resolver got it
	public        bool   // its domain is registrable, so public name servers know it
}

// nameOf returns the registrable domain of a name. A name that has none, such as one of one
// label in a local network, counts as its own domain.
func nameOf(query string) resolvedName {
	host := strings.ToLower(strings.TrimSuffix(query, "."))
	if domain, err := publicsuffix.EffectiveTLDPlusOne(host); err == nil {
		return resolvedName{query, domain, true}
	}
	return resolvedName{query, host, false}
}

// resolved remembers a name that was resolved, as the resolver got it. If that is without the
// dot of a complete name, the system's search list may have found it, so it is local. It skips
// localhost, because a system knows that name without a resolver.
func (q *resolverCheck) resolved(query string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.known) > 0 && q.known[0].query == query {
		return
	}
	name := nameOf(query)
	name.public = name.public && strings.HasSuffix(query, ".")
	if name.domain == "localhost" || strings.HasSuffix(name.domain, ".localhost") {
		return
	}
	at := slices.IndexFunc(q.known, func(k resolvedName) bool { return k.domain == name.domain })
	switch {
	case at < 0 && len(q.known) < maxDomains:
		q.known = append(q.known, resolvedName{})
		at = len(q.known) - 1
	case at < 0:
		at = len(q.known) - 1 // overwrite the oldest
	}
	copy(q.known[1:at+1], q.known[:at])
	q.known[0] = name
}

// choose returns the names to query after the lookup of host failed. The first is the
// most recently resolved name of another domain. A local name does not check a public
// one, because a local resolver may know it by itself.
func (q *resolverCheck) choose(host string) []string {
	failed := nameOf(host)
	q.mu.Lock()
	var others []string
	for _, k := range q.known {
		if k.domain != failed.domain && k.public == failed.public {
			others = append(others, k.query)
		}
	}
	q.mu.Unlock()
	if len(others) < maxQueries {
		if _, ok := q.resolver.(nsResolver); ok {
			others = append(others, rootZone)
		}
		return others
	}
	chosen := others[:1:1]
	for i := 1; i < maxQueries; i++ { // spread over the list, because one tenant may have resolved the newest ones
		chosen = append(chosen, others[i*(len(others)-1)/(maxQueries-1)])
	}
	return chosen
}

// nsResolver is a Resolver that can also query name servers. *net.Resolver is one.
type nsResolver interface {
	LookupNS(ctx context.Context, name string) ([]*net.NS, error)
}

// run checks the resolver after the lookup of host failed. It returns nil if the resolver
// responds to at least one query, even with the response that there is no such name.
func (q *resolverCheck) run(ctx context.Context, host string) error {
	chosen := q.choose(host)
	if len(chosen) == 0 {
		return nil // no name to query, so there is no evidence against our network
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan error, len(chosen))
	begin := func(names []string) {
		for _, name := range names {
			go func() { answers <- q.lookup(ctx, name) }()
		}
	}
	begin(chosen[:1])
	rest := chosen[1:]
	others := time.NewTimer(firstAlone)
	defer others.Stop()
	var why error
	for left := len(chosen); left > 0; {
		select {
		case err := <-answers:
			if left--; err == nil {
				return nil
			}
			why = err
		case <-others.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		begin(rest)
		rest = nil
	}
	return why
}

// lookup queries one name. It returns nil if the resolver responded. It queries one family,
// because some name servers never answer for IPv6.
func (q *resolverCheck) lookup(ctx context.Context, name string) error {
	var err error
	if name == rootZone {
		_, err = q.resolver.(nsResolver).LookupNS(ctx, name)
	} else {
		_, err = q.resolver.LookupNetIP(ctx, "ip4", name)
	}
	if answeredLookup(err) {
		return nil
	}
	return err
}

// answeredLookup reports whether the resolver responded, with addresses or with "no such
// name".
func answeredLookup(err error) bool {
	var dns *net.DNSError
	var other *net.AddrError // the hosts file has only addresses of the other family
	return err == nil || errors.Is(err, errNoAddresses) || errors.As(err, &other) || errors.As(err, &dns) && dns.IsNotFound
}

// datagramTo connects a datagram socket to an address, which fails if the system has no
// route to it. Nothing is sent.
func datagramTo(to netip.AddrPort) error {
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to))
	if err != nil {
		return bare(err)
	}
	return c.Close()
}
