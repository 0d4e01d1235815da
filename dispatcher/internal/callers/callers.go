// Package callers shares out what is scarce in this process among those that call it:
// connections, places to wait, turns of lists, places of tests, lines of the log. Each has
// its own rule, but all of them count by Identity, so that one caller that takes all it can
// get leaves enough to the others.
package callers

import (
	"context"
	"net"
	"net/netip"
	"strings"
)

// Rank orders callers: where room is short, those of a lower rank make room first.
type Rank uint8

// The ranks.
const (
	Stranger Rank = iota + 1 // without a key that is known
	Linked                   // merchants, by their links
	Keyed                    // API keys
)

// Identity is one caller: an API key, all links of a tenant together, or an address
// without a key. The zero value is this process itself.
type Identity struct {
	Rank Rank
	Name string
}

// Key is the caller with an API key, by the key's owner text.
func Key(owner string) Identity { return Identity{Keyed, owner} }

// Link is the caller that came by a link of a tenant.
func Link(tenant string) Identity { return Identity{Linked, tenant} }

// Address is the caller at an address. One network of IPv6 (a /64) is one caller: each
// host has so many addresses.
func Address(a netip.Addr) Identity {
	a = a.Unmap().WithZone("")
	if a.Is6() {
		p, _ := a.Prefix(64)
		a = p.Addr()
	}
	if !a.IsValid() {
		return Identity{Stranger, ""}
	}
	return Identity{Stranger, a.String()}
}

type identityKey struct{}

// With makes the calls under a context those of a caller.
func With(ctx context.Context, who Identity) context.Context {
	return context.WithValue(ctx, identityKey{}, who)
}

// Of is the caller of With; the zero value is this process itself.
func Of(ctx context.Context) Identity {
	who, _ := ctx.Value(identityKey{}).(Identity)
	return who
}

// Proxies are the networks of proxies whose word on the address of a caller is taken.
type Proxies []netip.Prefix

// Trust reports whether an address is that of such a proxy.
func (p Proxies) Trust(a netip.Addr) bool {
	for _, net := range p {
		if net.Contains(a.Unmap().WithZone("")) {
			return true
		}
	}
	return false
}

// mostHops bounds the addresses of X-Forwarded-For that are looked at.
const mostHops = 16

// Address is the address of a caller whose connection comes from remote. Where that is a
// trusted proxy, it is the last address in the values of X-Forwarded-For that is none.
// If all are proxies, or one is no address, it is the last that was understood.
func (p Proxies) Address(remote netip.Addr, forwarded []string) netip.Addr {
	for hop := 0; hop < mostHops && p.Trust(remote); hop++ {
		var text string
		if text, forwarded = lastOf(forwarded); text == "" {
			break
		}
		a, err := parseAddress(text)
		if err != nil {
			break
		}
		remote = a
	}
	return remote
}

// lastOf takes the last element off lists of elements with commas between.
func lastOf(lists []string) (last string, rest []string) {
	if len(lists) == 0 {
		return "", nil
	}
	n := len(lists) - 1
	before, after, found := cutLast(lists[n])
	if !found {
		return strings.TrimSpace(lists[n]), lists[:n]
	}
	return strings.TrimSpace(after), append(lists[:n:n], before)
}

func cutLast(list string) (before, after string, found bool) {
	at := strings.LastIndexByte(list, ',')
	if at < 0 {
		return "", list, false
	}
	return list[:at], list[at+1:], true
}

// parseAddress reads an address, with or without a port.
func parseAddress(text string) (netip.Addr, error) {
	if a, err := netip.ParseAddr(strings.Trim(text, "[]")); err == nil {
		return a, nil
	}
	host, _, err := net.SplitHostPort(text)
	if err != nil {
		return netip.Addr{}, err
	}
	return netip.ParseAddr(host)
}
