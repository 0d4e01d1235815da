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
)

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
