package egress

import "net/netip"

// network is a range of addresses with one meaning.
type network struct {
	prefix netip.Prefix
	word   string // its kind; empty: may be called
}

// networks maps ranges of addresses to their kinds. The first range that contains an
// address counts, so narrow ranges come first. An IPv4 address in none of them may be
// called. The last rows contain all of IPv6 that is not allocated. The ranges are from
// IANA's registries of special-purpose addresses.
var networks = []network{
	// Clouds serve credentials to any process inside at these addresses.
	of("169.254.169.254/32", "metadata"), // AWS, Azure, Google and most others
	of("169.254.170.2/32", "metadata"),   // AWS, containers
	of("169.254.170.23/32", "metadata"),  // AWS, Kubernetes
	of("100.100.100.200/32", "metadata"), // Alibaba
	of("192.0.0.192/32", "metadata"),     // Oracle
	of("168.63.129.16/32", "metadata"),   // Azure; otherwise a public address
	of("fd00:ec2::254/128", "metadata"),  // AWS
	of("fd00:ec2::23/128", "metadata"),   // AWS, Kubernetes
	of("fd20:ce::254/128", "metadata"),   // Google

	of("0.0.0.0/8", "unspecified"),         // RFC 791: this network; the kernel connects to the host itself
	of("10.0.0.0/8", "private"),            // RFC 1918
	of("100.64.0.0/10", "shared"),          // RFC 6598: behind a carrier's NAT
	of("127.0.0.0/8", "loopback"),          // RFC 1122
	of("169.254.0.0/16", "link-local"),     // RFC 3927
	of("172.16.0.0/12", "private"),         // RFC 1918
	of("192.0.0.0/24", "reserved"),         // RFC 6890: protocol assignments
	of("192.0.2.0/24", "documentation"),    // RFC 5737
	of("192.88.99.0/24", "reserved"),       // RFC 7526: the former 6to4 relays
	of("192.168.0.0/16", "private"),        // RFC 1918
	of("198.18.0.0/15", "benchmarking"),    // RFC 2544
	of("198.51.100.0/24", "documentation"), // RFC 5737
	of("203.0.113.0/24", "documentation"),  // RFC 5737
	of("224.0.0.0/4", "multicast"),         // RFC 5771
	of("255.255.255.255/32", "broadcast"),  // RFC 919
	of("240.0.0.0/4", "reserved"),          // RFC 1112
	of("::/128", "unspecified"),            // RFC 4291
	of("::1/128", "loopback"),              // RFC 4291
	of("64:ff9b::/96", ""),                 // RFC 6052: the carried address is checked, see carried
	of("64:ff9b:1::/48", "translated"),     // RFC 8215: a site's own translator
	of("100::/64", "discarded"),            // RFC 6666
	of("2001::/23", "reserved"),            // RFC 2928: protocol assignments, including Teredo (RFC 4380)
	of("2001:db8::/32", "documentation"),   // RFC 3849
	of("2002::/16", "tunnelled"),           // RFC 3056: 6to4, whose relays RFC 7526 deprecated
	of("3fff::/20", "documentation"),       // RFC 9637
	of("5f00::/16", "reserved"),            // RFC 9602: segment routing
	of("fc00::/7", "unique local"),         // RFC 4193: the private addresses of IPv6
	of("fe80::/10", "link-local"),          // RFC 4291
	of("fec0::/10", "site-local"),          // RFC 3879
	of("ff00::/8", "multicast"),            // RFC 4291
	of("::/3", "reserved"),                 // RFC 4291: only 2000::/3 is allocated
	of("4000::/2", "reserved"),             // the same
	of("8000::/1", "reserved"),             // the same
}

func of(prefix, word string) network { return network{netip.MustParsePrefix(prefix), word} }

// networks4 and networks6 are the networks of one family each, so that a check reads only
// one of them.
var networks4, networks6 = func() (v4, v6 []network) {
	for _, n := range networks {
		if n.prefix.Addr().Is4() {
			v4 = append(v4, n)
		} else {
			v6 = append(v6, n)
		}
	}
	return v4, v6
}()

// wordFor returns the kind of address a, or "" if it may be called.
func wordFor(a netip.Addr) string {
	family := networks6
	if a.Is4() {
		family = networks4
	}
	for _, n := range family {
		if n.prefix.Contains(a) {
			return n.word
		}
	}
	return ""
}

// Ranges of IPv6 that carry an IPv4 address. A translator or a tunnel on the way would
// send the call there.
var (
	nat64     = netip.MustParsePrefix("64:ff9b::/96")   // RFC 6052
	nat64Site = netip.MustParsePrefix("64:ff9b:1::/48") // RFC 8215
	sixToFour = netip.MustParsePrefix("2002::/16")      // RFC 3056
	teredo    = netip.MustParsePrefix("2001::/32")      // RFC 4380
	compat    = netip.MustParsePrefix("::/96")          // RFC 4291, section 2.5.5.1
)

// carried returns the IPv4 address inside an IPv6 one. Mapped addresses (::ffff:a.b.c.d)
// are not handled here, because the caller has unmapped them.
func carried(a netip.Addr) (netip.Addr, bool) {
	if !a.Is6() {
		return netip.Addr{}, false
	}
	b := a.As16()
	v4 := func(x []byte) (netip.Addr, bool) { return netip.AddrFrom4([4]byte(x)), true }
	switch {
	case nat64.Contains(a):
		return v4(b[12:])
	case nat64Site.Contains(a):
		if [6]byte(b[6:12]) == [6]byte{} {
			return v4(b[12:]) // a /96 within, the usual setup
		}
		return v4([]byte{b[6], b[7], b[9], b[10]}) // RFC 6052 for a /48: octet 8 is left free
	case sixToFour.Contains(a):
		return v4(b[2:6])
	case teredo.Contains(a):
		return v4([]byte{^b[12], ^b[13], ^b[14], ^b[15]}) // the client's address, inverted
	case compat.Contains(a) && !a.IsLoopback() && !a.IsUnspecified():
		return v4(b[12:])
	}
	return netip.Addr{}, false
}
