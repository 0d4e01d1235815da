package egress

import (
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Guard decides which addresses may be called: all public addresses, and the networks
// that its setting allows.
type Guard struct {
	setting string // its name
	allow   []netip.Prefix
}

// NewGuard returns a guard that also allows the networks of ALLOW_NETS.
func NewGuard(allow []netip.Prefix) *Guard { return newGuard("ALLOW_NETS", allow) }

// NewLinkGuard returns the guard for URLs that were set through a link, with the networks
// of LINK_ALLOW_NETS.
func NewLinkGuard(allow []netip.Prefix) *Guard { return newGuard("LINK_ALLOW_NETS", allow) }

func newGuard(setting string, allow []netip.Prefix) *Guard {
	g := &Guard{setting: setting}
	for _, p := range allow {
		if p.Addr().Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		g.allow = append(g.allow, p.Masked())
	}
	return g
}

// own reports whether networks of our own may be called.
func (g *Guard) own() bool { return len(g.allow) > 0 }

// RefusedError says that an address may not be called, and how to allow it.
type RefusedError struct {
	Host    string     // as it was written, if that is not the address
	Addr    netip.Addr // invalid if Host looks like an address but is none
	Word    string     // the kind of the address: private, loopback, ...
	Setting string     // the setting that can allow it
}

// Error returns one sentence with the cure.
func (e *RefusedError) Error() string {
	if !e.Addr.IsValid() {
		return fmt.Sprintf("%.80q is %s", e.Host, e.Word)
	}
	name := e.Addr.String()
	if e.Host != "" && e.Host != name {
		name = fmt.Sprintf("%.80s (%s)", e.Host, name)
	}
	return fmt.Sprintf("%s is %s; allow it with %s=%s/%d", name, e.Word, e.Setting, e.Addr, e.Addr.BitLen())
}

// Addr returns nil if address a may be called, and a *RefusedError if not. If a carries
// another address, as in NAT64, both must be allowed.
func (g *Guard) Addr(a netip.Addr) error {
	a = a.Unmap().WithZone("")
	if inner, ok := carried(a); ok {
		if word := g.word(inner); word != "" {
			return g.refused(a.String(), inner, word)
		}
	}
	if word := g.word(a); word != "" {
		return g.refused("", a, word)
	}
	return nil
}

// refused returns an error, not a *RefusedError, so that no nil pointer becomes an error.
func (g *Guard) refused(host string, a netip.Addr, word string) error {
	return &RefusedError{Host: host, Addr: a, Word: word, Setting: g.setting}
}

// word returns the reason why a may not be called, or "" if it may.
func (g *Guard) word(a netip.Addr) string {
	if !a.IsValid() {
		return "not an address"
	}
	for _, p := range g.allow {
		if p.Contains(a) {
			return ""
		}
	}
	return wordFor(a)
}

// URL returns a *RefusedError if the host of u is an address that may not be called, in
// any form. It returns nil for names, because their addresses are checked when they are
// dialled.
func (g *Guard) URL(u *url.URL) error {
	host := u.Hostname()
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	if name == "localhost" || strings.HasSuffix(name, ".localhost") { // RFC 6761
		return g.localhost(host)
	}
	a, is := literal(host)
	switch {
	case !is && !ascii(host):
		return foreign(host)
	case !is:
		return nil
	}
	if err := g.Addr(a); err != nil {
		r := err.(*RefusedError) // Addr returns no other type
		if r.Host == "" {
			r.Host = host
		}
		return r
	}
	return nil
}

// foreign returns the refusal of a name that is not in ASCII. Programs disagree about
// such names: some read ① as 1, and ß as ss.
func foreign(host string) error {
	return &RefusedError{Host: host, Word: "not a name in ASCII; write it in punycode, as xn--…"}
}

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// localhost allows the name if one of its addresses may be called.
func (g *Guard) localhost(host string) error {
	v4, v6 := netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()
	if g.word(v4) == "" || g.word(v6) == "" {
		return nil
	}
	return g.refused(host, v4, g.word(v4))
}

// literal parses a host that is an address. It accepts the usual forms, and also the
// forms of inet_aton and browsers, such as 2130706433, 0x7f.1 or 0177.0.0.1. A resolver
// might accept them too, so they are not names. A host that ends in a number but is no
// address returns the invalid Addr, as browsers refuse it.
func literal(host string) (a netip.Addr, is bool) {
	if strings.Contains(host, ":") {
		a, _ := netip.ParseAddr(host)
		return a, true
	}
	parts := strings.Split(strings.TrimSuffix(host, "."), ".")
	last := len(parts) - 1
	if !numeric(parts[last]) {
		return netip.Addr{}, false
	}
	if last > 3 {
		return netip.Addr{}, true
	}
	var v uint64
	for i, part := range parts {
		bits := 8
		if i == last {
			bits = 8 * (4 - i) // the last part has the remaining bytes
		}
		n, ok := number(part, bits)
		if !ok {
			return netip.Addr{}, true
		}
		v = v<<bits | n
	}
	return netip.AddrFrom4([4]byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)}), true
}

// numeric reports whether a part looks like a number, even if it is not valid (09).
func numeric(s string) bool {
	digits, hex := "0123456789", s
	if len(s) > 1 && (s[:2] == "0x" || s[:2] == "0X") { // some programs read 0x alone as 0
		digits, hex = "0123456789abcdefABCDEF", s[2:]
	}
	return s != "" && strings.Trim(hex, digits) == ""
}

// number parses one part of an IPv4 address: decimal, 0x hexadecimal, 0 octal.
func number(s string, bits int) (uint64, bool) {
	base := 10
	switch {
	case len(s) > 2 && (s[:2] == "0x" || s[:2] == "0X"):
		base, s = 16, s[2:]
	case len(s) > 1 && s[0] == '0':
		base, s = 8, s[1:]
	}
	n, err := strconv.ParseUint(s, base, bits)
	return n, err == nil
}
