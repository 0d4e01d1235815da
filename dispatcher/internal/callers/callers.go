// Package callers shares the scarce resources of this process among its callers:
// connections (Guests), log lines (LogRate), and with Shares the places of long polls, of
// lists that are read, and of tests of endpoints. All of them count by Identity. So a
// caller that takes as much as it can get leaves enough to the others.
//
// The HTTP server identifies the caller of a request (Identify) and puts it into the
// context (With). The handlers then enter the other limits with it.
//
// keys.go has the keys with which the API may be called: how API_KEYS is read, what each key
// allows, and how the key of a request is found.
package callers

import (
	"context"
	"net"
	"net/netip"
	"strings"
)

// Rank orders callers. If a resource is scarce, callers of a lower rank lose it first.
type Rank uint8

// The ranks, lowest first.
const (
	Stranger Rank = iota + 1 // without a valid key
	Linked                   // merchants with a link
	Keyed                    // API keys
)

// Identity is one caller: an API key, all links of a tenant together, or an address
// without a key. The zero value is this process itself.
type Identity struct {
	Rank Rank
	Name string
}

// Key returns the caller with an API key, by the key's owner.
func Key(owner string) Identity { return Identity{Keyed, owner} }

// Link returns the caller with a link of a tenant.
func Link(tenant string) Identity { return Identity{Linked, tenant} }

// Address returns the caller at an address. An IPv6 network (a /64) is one caller,
// because each host has that many addresses.
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

// With returns a context whose calls belong to a caller.
func With(ctx context.Context, who Identity) context.Context {
	return context.WithValue(ctx, identityKey{}, who)
}

// Of returns the caller of With. The zero value is this process itself.
func Of(ctx context.Context) Identity {
	who, _ := ctx.Value(identityKey{}).(Identity)
	return who
}

// Proxies are the networks of trusted proxies. Their X-Forwarded-For is used.
type Proxies []netip.Prefix

// Trust reports whether an address belongs to a trusted proxy.
func (p Proxies) Trust(a netip.Addr) bool {
	for _, net := range p {
		if net.Contains(a.Unmap().WithZone("")) {
			return true
		}
	}
	return false
}

// maxHops bounds the addresses of X-Forwarded-For that are read.
const maxHops = 16

// Address returns the address of a caller whose connection comes from remote. If that is
// a trusted proxy, it is the last address in X-Forwarded-For that does not belong to one.
// If all belong to proxies, or one can't be parsed, it is the last address before that.
func (p Proxies) Address(remote netip.Addr, forwarded []string) netip.Addr {
	for hop := 0; hop < maxHops && p.Trust(remote); hop++ {
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

// lastOf splits the last element off comma-separated lists.
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

// parseAddress parses an address with or without a port.
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

// IsLoopback reports whether an address, with or without a port, is reached from this host only. The
// only name that it knows is localhost.
func IsLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = strings.Trim(address, "[]")
	}
	a, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && a.Unmap().IsLoopback()
}
