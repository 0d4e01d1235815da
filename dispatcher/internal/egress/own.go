package egress

import (
	"net"
	"net/netip"
	"slices"
	"sync"
)

// Listeners are the addresses where this process, and the other instances that it knows, serve
// their APIs and metrics. They are never called, whatever is allowed. A call from here would come
// from this host, which may have more rights than the publisher of the message. The zero
// value has none.
type Listeners struct {
	mu     sync.RWMutex // guards the fields below
	mine   []netip.AddrPort
	others []netip.AddrPort
}

// mostPublished bounds the addresses that an instance publishes, some 25 bytes each. A host with
// more addresses publishes only the first ones of its listeners at a wildcard address.
const mostPublished = 16

// Add adds the address of a listener of this process.
func (l *Listeners) Add(at net.Addr) {
	tcp, ok := at.(*net.TCPAddr)
	if !ok {
		return
	}
	to := tcp.AddrPort()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mine = append(l.mine, netip.AddrPortFrom(to.Addr().Unmap().WithZone(""), to.Port()))
}

// SetOthers replaces the addresses of the other instances.
func (l *Listeners) SetOthers(all []netip.AddrPort) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.others = all
}

// Published returns the addresses by which the listeners of this process are reached, at most
// mostPublished. Those on a loopback address are reached from this host only.
func (l *Listeners) Published() (all []netip.AddrPort) {
	if l == nil {
		return nil
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	for _, at := range l.mine {
		if !at.Addr().IsUnspecified() {
			all = append(all, at)
			continue
		}
		for _, here := range interfaces() {
			if (at.Addr().Is6() || here.Is4()) && !here.IsLinkLocalUnicast() { // many hosts have the same link-local one
				all = append(all, netip.AddrPortFrom(here, at.Port()))
			}
		}
	}
	return all[:min(len(all), mostPublished)]
}

// has reports whether a connection to an address would reach one of the listeners.
func (l *Listeners) has(to netip.AddrPort) bool {
	if l == nil {
		return false
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	return slices.ContainsFunc(l.mine, func(at netip.AddrPort) bool { return at.Port() == to.Port() && reaches(to.Addr(), at.Addr()) }) ||
		slices.ContainsFunc(l.others, func(at netip.AddrPort) bool {
			return at == to || at.Port() == to.Port() && at.Addr().IsLoopback() && to.Addr().IsUnspecified()
		})
}

// reaches reports whether a connection to an address would reach a listener of this host at
// another one, of the same port.
func reaches(to, at netip.Addr) bool {
	switch {
	case to == at, to.IsUnspecified(): // the system connects to the host itself
		return true
	case at.IsUnspecified():
		return local(to)
	default:
		return false
	}
}

// local reports whether an address is one of this host's. It asks the system each time, because
// addresses come and go. It is asked only about the port of a listener.
func local(a netip.Addr) bool {
	return a.IsLoopback() || slices.Contains(interfaces(), a)
}

// interfaces returns the addresses of this host.
func interfaces() (all []netip.Addr) {
	nets, _ := net.InterfaceAddrs() // it fails only where there are none
	for _, one := range nets {
		if n, ok := one.(*net.IPNet); ok {
			here, _ := netip.AddrFromSlice(n.IP)
			all = append(all, here.Unmap())
		}
	}
	return all
}
