package egress

import (
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Guard says which addresses may be called: all that the whole internet
// reaches, and what its setting names.
type Guard struct {
	setting string // its name
	allow   []netip.Prefix
}

// NewGuard makes a guard that also lets through what ALLOW_NETS holds.
func NewGuard(allow []netip.Prefix) *Guard { return newGuard("ALLOW_NETS", allow) }

// NewLinkGuard makes the guard of URLs that a link set, of LINK_ALLOW_NETS.
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

// RefusedError says that an address may not be called, and what would cure it.
type RefusedError struct {
	Host    string     // as it was written, where that is not the address
	Addr    netip.Addr // invalid where Host looks like an address and is none
	Word    string     // what the address is: private, loopback, ...
	Setting string     // that may allow it
}

// Error is one sentence with the cure.
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

// Addr is nil if address a may be called, and a *RefusedError if not. An
// address that carries another one needs leave for both.
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

// refused hides the concrete type, so that no nil pointer becomes an error.
func (g *Guard) refused(host string, a netip.Addr, word string) error {
	return &RefusedError{Host: host, Addr: a, Word: word, Setting: g.setting}
}

// word is why a may not be called, empty if it may.
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

// URL is a *RefusedError if the host of u is an address that may not be called, in
// whatever form it is written, and nil if not. Names pass: their addresses are
// judged when they are dialled.
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
		r := err.(*RefusedError) // Addr makes no other
		if r.Host == "" {
			r.Host = host
		}
		return r
	}
	return nil
}

// foreign refuses a name that is not in ASCII: some programs read ① as 1, and ß
// as ss.
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

// localhost lets the name through if one of the addresses that it has may be called.
func (g *Guard) localhost(host string) error {
	v4, v6 := netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()
	if g.word(v4) == "" || g.word(v6) == "" {
		return nil
	}
	return g.refused(host, v4, g.word(v4))
}

// literal reads a host that is an address: in the usual forms, and in those
// that inet_aton and browsers take too, such as 2130706433, 0x7f.1 or 0177.0.0.1.
// A resolver might take them as well, so they are no names. A host that ends in
// a number but is no address gives the invalid one, as browsers refuse it.
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
			bits = 8 * (4 - i) // the last part fills what is left
		}
		n, ok := number(part, bits)
		if !ok {
			return netip.Addr{}, true
		}
		v = v<<bits | n
	}
	return netip.AddrFrom4([4]byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)}), true
}

// numeric reports whether a part looks like a number, even one that is none (09).
func numeric(s string) bool {
	digits, hex := "0123456789", s
	if len(s) > 1 && (s[:2] == "0x" || s[:2] == "0X") { // 0x alone is 0 to some
		digits, hex = "0123456789abcdefABCDEF", s[2:]
	}
	return s != "" && strings.Trim(hex, digits) == ""
}

// number reads one part of an IPv4 address: decimal, 0x hexadecimal, 0 octal.
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
