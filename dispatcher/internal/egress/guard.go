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
// that its setting allows, but not our own listeners.
type Guard struct {
	Own *Listeners // our own, which are never called; nil: none

	setting string // its name
	allow   []Net
}

// Net is a network that may be called, or one port of it.
type Net struct {
	netip.Prefix
	Port uint16 // 0: every port
}

// NewGuard returns a guard that also allows the networks of ALLOW_NETS.
func NewGuard(allow []Net) *Guard { return newGuard("ALLOW_NETS", allow) }

// NewLinkGuard returns the guard for URLs that were set through a link, with the networks
// of LINK_ALLOW_NETS.
func NewLinkGuard(allow []Net) *Guard { return newGuard("LINK_ALLOW_NETS", allow) }

func newGuard(setting string, allow []Net) *Guard {
	g := &Guard{setting: setting}
	for _, n := range allow {
		if n.Addr().Is4In6() && n.Bits() >= 96 {
			n.Prefix = netip.PrefixFrom(n.Addr().Unmap(), n.Bits()-96)
		}
		n.Prefix = n.Masked()
		g.allow = append(g.allow, n)
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
	Setting string     // the setting that can allow it; empty: none can
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
	if e.Setting == "" {
		return name + " is " + e.Word
	}
	return fmt.Sprintf("%s is %s; allow it with %s=%s/%d", name, e.Word, e.Setting, e.Addr, e.Addr.BitLen())
}

// OurListener is the word for an address where this program itself listens.
const OurListener = "our own listener, which is never called"

// Addr returns nil if an address may be called, and a *RefusedError if not. If it carries
// another address, as in NAT64, both must be allowed.
func (g *Guard) Addr(to netip.AddrPort) error {
	a := to.Addr().Unmap().WithZone("")
	if inner, ok := carried(a); ok {
		if err := g.one(a.String(), inner, to.Port()); err != nil {
			return err
		}
	}
	return g.one("", a, to.Port())
}

// one judges one address. It returns an error, not a *RefusedError, so that no nil pointer
// becomes an error.
func (g *Guard) one(host string, a netip.Addr, port uint16) error {
	if g.Own.has(netip.AddrPortFrom(a, port)) {
		return &RefusedError{Host: host, Addr: a, Word: OurListener}
	}
	if word := g.word(a, port); word != "" {
		return &RefusedError{Host: host, Addr: a, Word: word, Setting: g.setting}
	}
	return nil
}

// word returns the reason why a may not be called, or "" if it may.
func (g *Guard) word(a netip.Addr, port uint16) string {
	if !a.IsValid() {
		return "not an address"
	}
	for _, n := range g.allow {
		if n.Contains(a) && (n.Port == 0 || n.Port == port) {
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
	port, _ := strconv.ParseUint(portOf(u), 10, 16)
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	if name == "localhost" || strings.HasSuffix(name, ".localhost") { // RFC 6761
		return g.localhost(host, uint16(port))
	}
	a, is := literal(host)
	switch {
	case !is && !ascii(host):
		return foreign(host)
	case !is:
		return nil
	}
	if err := g.Addr(netip.AddrPortFrom(a, uint16(port))); err != nil {
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
func (g *Guard) localhost(host string, port uint16) error {
	err := g.one(host, netip.AddrFrom4([4]byte{127, 0, 0, 1}), port)
	if err == nil || g.one(host, netip.IPv6Loopback(), port) == nil {
		return nil
	}
	return err
}

// portOf returns the port of a URL, also if it is its scheme's.
func portOf(u *url.URL) string {
	switch port := u.Port(); {
	case port != "":
		return port
	case u.Scheme == "https":
		return "443"
	default:
		return "80"
	}
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
