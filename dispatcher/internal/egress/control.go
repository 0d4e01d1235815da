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
	// maxDomains is how many registrable domains a control can choose from.
	maxDomains = 16
	// maxQuestions is how many look-ups a control makes if the first one fails. They are
	// of different domains, since a tenant may break a few of its own at once.
	maxQuestions = 4
	// firstAlone is how long a control waits for its first look-up before it makes the others.
	firstAlone = 500 * time.Millisecond
	// rootZone is asked for its name servers where too few names are known.
	rootZone = "."
)

// questions chooses the look-ups of controls, and makes them.
type questions struct {
	resolver Resolver

	mu    sync.Mutex     // guards known
	known []resolvedName // the last one first, one for each domain
}

// resolvedName is a name that was resolved.
type resolvedName struct {
	host, domain string
	public       bool // its domain is registrable, so that public name servers know it
}

// nameOf finds the registrable domain of a host. A host that has none, such as a name of
// one label in a local network, counts as its own domain.
func nameOf(host string) resolvedName {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if domain, err := publicsuffix.EffectiveTLDPlusOne(host); err == nil {
		return resolvedName{host, domain, true}
	}
	return resolvedName{host, host, false}
}

// resolved remembers a name that was resolved. localhost says nothing about a resolver.
func (q *questions) resolved(host string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.known) > 0 && q.known[0].host == host {
		return
	}
	name := nameOf(host)
	if name.domain == "localhost" || strings.HasSuffix(name.domain, ".localhost") {
		return
	}
	at := slices.IndexFunc(q.known, func(k resolvedName) bool { return k.domain == name.domain })
	switch {
	case at < 0 && len(q.known) < maxDomains:
		q.known = append(q.known, resolvedName{})
		at = len(q.known) - 1
	case at < 0:
		at = len(q.known) - 1 // the oldest
	}
	copy(q.known[1:at+1], q.known[:at])
	q.known[0] = name
}

// choose lists what a control asks for after a look-up of a host failed: the name of another
// domain that was resolved last, then others. A local name is no control for a public
// one, since a local resolver may know it by itself.
func (q *questions) choose(host string) []string {
	failed := nameOf(host)
	q.mu.Lock()
	var others []string
	for _, k := range q.known {
		if k.domain != failed.domain && k.public == failed.public {
			others = append(others, k.host)
		}
	}
	q.mu.Unlock()
	if len(others) < maxQuestions {
		if _, ok := q.resolver.(nsResolver); ok {
			others = append(others, rootZone)
		}
		return others
	}
	chosen := others[:1:1]
	for i := 1; i < maxQuestions; i++ { // spread: one tenant may have resolved the newest ones
		chosen = append(chosen, others[i*(len(others)-1)/(maxQuestions-1)])
	}
	return chosen
}

// nsResolver is a Resolver that can be asked for name servers; *net.Resolver is one.
type nsResolver interface {
	LookupNS(ctx context.Context, name string) ([]*net.NS, error)
}

// ask makes a control after a look-up of a host failed. It answers nil if the resolver
// answers at least one question, if only by saying that there is no such name.
func (q *questions) ask(ctx context.Context, host string) error {
	chosen := q.choose(host)
	if len(chosen) == 0 {
		return nil // nothing can be asked, so nothing speaks against our network
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

// lookup asks for one name. It answers nil if the resolver answered.
func (q *questions) lookup(ctx context.Context, name string) error {
	var err error
	if name == rootZone {
		_, err = q.resolver.(nsResolver).LookupNS(ctx, name)
	} else {
		_, err = q.resolver.LookupNetIP(ctx, "ip", name)
	}
	if answeredLookup(err) {
		return nil
	}
	return err
}

// answeredLookup reports whether the resolver answered: with addresses, or by saying that
// there are none.
func answeredLookup(err error) bool {
	var dns *net.DNSError
	return err == nil || errors.Is(err, errNoAddresses) || errors.As(err, &dns) && dns.IsNotFound
}

// datagramTo connects a datagram socket to an address, for which the system has to know
// a way. Nothing is sent.
func datagramTo(to netip.AddrPort) error {
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to))
	if err != nil {
		return bare(err)
	}
	return c.Close()
}
