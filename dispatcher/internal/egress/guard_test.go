package egress_test

import (
	"fmt"
	"net/netip"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/internal/egress"
)

// at is an address with a port that no rule names.
func at(s string) netip.AddrPort { return netip.AddrPortFrom(netip.MustParseAddr(s), 443) }

func TestAddressesThatTheWholeInternetReachesMayBeCalled(t *testing.T) {
	g := egress.NewGuard(nil)
	for _, s := range []string{
		"1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0",
		"126.255.255.255", "128.0.0.1", "169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0",
		"192.0.1.0", "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0", "223.255.255.255",
		"2606:4700:4700::1111", "2a00:1450::1", "2001:4860:4860::8888", "2400:cb00::1",
		"::ffff:8.8.8.8", "64:ff9b::8.8.8.8",
	} {
		require.NoError(t, g.Addr(at(s)), s)
	}
}

func TestAddressesThatAreRefusedAreNamed(t *testing.T) {
	words := map[string][]string{
		"private":       {"10.0.0.0", "10.255.255.255", "172.16.0.1", "172.31.255.255", "192.168.0.1"},
		"loopback":      {"127.0.0.1", "127.255.255.255", "::1"},
		"link-local":    {"169.254.0.1", "169.254.255.255", "fe80::1", "febf::1", "fe80::1%eth0"},
		"metadata":      {"169.254.169.254", "169.254.170.2", "100.100.100.200", "192.0.0.192", "168.63.129.16", "fd00:ec2::254", "fd20:ce::254"},
		"unspecified":   {"0.0.0.0", "0.1.2.3", "::"},
		"shared":        {"100.64.0.0", "100.127.255.255"},
		"documentation": {"192.0.2.1", "198.51.100.1", "203.0.113.1", "2001:db8::1", "3fff::1"},
		"benchmarking":  {"198.18.0.1", "198.19.255.255"},
		"multicast":     {"224.0.0.1", "239.255.255.255", "ff02::1"},
		"broadcast":     {"255.255.255.255"},
		"reserved":      {"240.0.0.1", "192.0.0.1", "192.88.99.1", "1000::1", "4000::1", "9000::1", "2001:2::1", "5f00::1"},
		"unique local":  {"fc00::1", "fd12:3456::1"},
		"site-local":    {"fec0::1"},
		"discarded":     {"100::1"},
	}
	g := egress.NewGuard(nil)
	for word, texts := range words {
		for _, s := range texts {
			a := netip.MustParseAddr(s)
			bare := a.WithZone("")
			require.EqualError(t, g.Addr(netip.AddrPortFrom(a, 443)),
				fmt.Sprintf("%s is %s; allow it with ALLOW_NETS=%s/%d", bare, word, bare, bare.BitLen()), s)
			require.NoError(t, egress.NewGuard([]egress.Net{{Prefix: netip.PrefixFrom(bare, bare.BitLen())}}).Addr(at(s)), "the cure cures %s", s)
		}
	}
}

func TestAddressInsideAnAddressIsJudgedToo(t *testing.T) {
	g := egress.NewGuard(nil)
	for s, want := range map[string]string{
		"::ffff:10.1.2.3":             "10.1.2.3 is private; allow it with ALLOW_NETS=10.1.2.3/32",
		"::ffff:169.254.169.254":      "169.254.169.254 is metadata; allow it with ALLOW_NETS=169.254.169.254/32",
		"64:ff9b::10.1.2.3":           "64:ff9b::a01:203 (10.1.2.3) is private; allow it with ALLOW_NETS=10.1.2.3/32",
		"64:ff9b::169.254.169.254":    "64:ff9b::a9fe:a9fe (169.254.169.254) is metadata; allow it with ALLOW_NETS=169.254.169.254/32",
		"64:ff9b:1::10.1.2.3":         "64:ff9b:1::a01:203 (10.1.2.3) is private; allow it with ALLOW_NETS=10.1.2.3/32",
		"64:ff9b:1:a01:2:300::":       "64:ff9b:1:a01:2:300:: (10.1.2.3) is private; allow it with ALLOW_NETS=10.1.2.3/32",
		"64:ff9b:1::8.8.8.8":          "64:ff9b:1::808:808 is translated; allow it with ALLOW_NETS=64:ff9b:1::808:808/128",
		"2002:a01:203::1":             "2002:a01:203::1 (10.1.2.3) is private; allow it with ALLOW_NETS=10.1.2.3/32",
		"2002:7f00:1::":               "2002:7f00:1:: (127.0.0.1) is loopback; allow it with ALLOW_NETS=127.0.0.1/32",
		"2001:0:808:808::f5fe:fdfc":   "2001:0:808:808::f5fe:fdfc (10.1.2.3) is private; allow it with ALLOW_NETS=10.1.2.3/32",
		"2001:0:808:808::f7f7:f7f7":   "2001:0:808:808::f7f7:f7f7 is reserved; allow it with ALLOW_NETS=2001:0:808:808::f7f7:f7f7/128",
		"::10.1.2.3":                  "::a01:203 (10.1.2.3) is private; allow it with ALLOW_NETS=10.1.2.3/32",
		"::8.8.8.8":                   "::808:808 is reserved; allow it with ALLOW_NETS=::808:808/128",
		"::ffff:0:10.1.2.3":           "::ffff:0:a01:203 is reserved; allow it with ALLOW_NETS=::ffff:0:a01:203/128",
		"fe80::5efe:10.1.2.3%docker0": "fe80::5efe:a01:203 is link-local; allow it with ALLOW_NETS=fe80::5efe:a01:203/128",
	} {
		require.EqualError(t, g.Addr(at(s)), want, s)
	}
}

func TestAllowNetsOpensWhatItNamesAndNoMore(t *testing.T) {
	g := egress.NewGuard(mustPrefixes(t, "10.1.0.0/16", "::ffff:192.168.7.0/120", "::/0"))
	for _, s := range []string{"10.1.2.3", "::ffff:10.1.2.3", "64:ff9b::10.1.2.3", "192.168.7.9", "::1", "fd00::1"} {
		require.NoError(t, g.Addr(at(s)), s)
	}
	for _, s := range []string{"10.2.0.1", "192.168.8.1", "127.0.0.1", "::ffff:127.0.0.1", "64:ff9b::169.254.169.254"} {
		require.Error(t, g.Addr(at(s)), "all of IPv6 is not IPv4: %s", s)
	}
	require.Error(t, g.Addr(netip.AddrPort{}))
}

func TestURLWithARefusedAddressIsRefusedInEveryForm(t *testing.T) {
	g := egress.NewGuard(nil)
	for host, want := range map[string]string{
		"10.1.2.3":                 "10.1.2.3 is private; allow it with ALLOW_NETS=10.1.2.3/32",
		"10.1.2.3.":                "10.1.2.3. (10.1.2.3) is private; allow it with ALLOW_NETS=10.1.2.3/32",
		"10.1.515":                 "10.1.515 (10.1.2.3) is private; allow it with ALLOW_NETS=10.1.2.3/32",
		"10.66051":                 "10.66051 (10.1.2.3) is private; allow it with ALLOW_NETS=10.1.2.3/32",
		"2130706433":               "2130706433 (127.0.0.1) is loopback; allow it with ALLOW_NETS=127.0.0.1/32",
		"0x7f000001":               "0x7f000001 (127.0.0.1) is loopback; allow it with ALLOW_NETS=127.0.0.1/32",
		"0X7F.1":                   "0X7F.1 (127.0.0.1) is loopback; allow it with ALLOW_NETS=127.0.0.1/32",
		"0177.0.0.01":              "0177.0.0.01 (127.0.0.1) is loopback; allow it with ALLOW_NETS=127.0.0.1/32",
		"017700000001":             "017700000001 (127.0.0.1) is loopback; allow it with ALLOW_NETS=127.0.0.1/32",
		"0":                        "0 (0.0.0.0) is unspecified; allow it with ALLOW_NETS=0.0.0.0/32",
		"0251.0376.0251.0376":      "0251.0376.0251.0376 (169.254.169.254) is metadata; allow it with ALLOW_NETS=169.254.169.254/32",
		"[::1]":                    "::1 is loopback; allow it with ALLOW_NETS=::1/128",
		"[0:0:0:0:0:0:0:1]":        "0:0:0:0:0:0:0:1 (::1) is loopback; allow it with ALLOW_NETS=::1/128",
		"[::ffff:127.0.0.1]":       "::ffff:127.0.0.1 (127.0.0.1) is loopback; allow it with ALLOW_NETS=127.0.0.1/32",
		"[fe80::1%25eth0]":         "fe80::1%eth0 (fe80::1) is link-local; allow it with ALLOW_NETS=fe80::1/128",
		"[64:ff9b::10.1.2.3]":      "64:ff9b::a01:203 (10.1.2.3) is private; allow it with ALLOW_NETS=10.1.2.3/32",
		"localhost":                "localhost (127.0.0.1) is loopback; allow it with ALLOW_NETS=127.0.0.1/32",
		"LocalHost.":               "LocalHost. (127.0.0.1) is loopback; allow it with ALLOW_NETS=127.0.0.1/32",
		"shop.localhost":           "shop.localhost (127.0.0.1) is loopback; allow it with ALLOW_NETS=127.0.0.1/32",
		"1.2.3.256":                `"1.2.3.256" is not an address`,
		"1.2.3.4.5":                `"1.2.3.4.5" is not an address`,
		"4294967296":               `"4294967296" is not an address`,
		"09.1.1.1":                 `"09.1.1.1" is not an address`,
		"shop.example.7":           `"shop.example.7" is not an address`,
		"99999999999999999999.1":   `"99999999999999999999.1" is not an address`,
		"1..2":                     `"1..2" is not an address`,
		"0x100000000000000000.0x1": `"0x100000000000000000.0x1" is not an address`,
	} {
		err := g.URL(mustURL(t, "https://user@"+host+":8443/path?q=1"))
		require.EqualError(t, err, want, host)
		var refused *egress.RefusedError
		require.ErrorAs(t, err, &refused)
	}
}

func TestURLWithANameOrAPublicAddressPasses(t *testing.T) {
	g := egress.NewGuard(nil)
	for _, host := range []string{
		"shop.example", "8.8.8.8", "0x08080808", "134744072", "[2606:4700::1]", "[2606:4700::1%25eth0]",
		"7.shop", "localhost.example", "notlocalhost", "xn--bcher-kva.example", "a-1", "0xg", "1.2.3.4e",
	} {
		require.NoError(t, g.URL(mustURL(t, "https://"+host+"/")), host)
	}
	require.NoError(t, egress.NewGuard(mustPrefixes(t, "127.0.0.0/8")).URL(mustURL(t, "http://localhost:8080")))
	require.NoError(t, egress.NewGuard(mustPrefixes(t, "::1/128")).URL(mustURL(t, "http://localhost:8080")))
}

// FuzzGuardURL: whatever the host, the guard answers, and never lets through
// in one form what it refuses in another.
func FuzzGuardURL(f *testing.F) {
	for _, host := range []string{"127.1", "0x7f.1", "[::1]", "shop.example", "1.2.3.4.", "::ffff:7f00:1", "%31"} {
		f.Add(host)
	}
	g := egress.NewGuard(nil)
	f.Fuzz(func(t *testing.T, host string) {
		u := &url.URL{Scheme: "http", Host: host}
		err := g.URL(u)
		a, bad := netip.ParseAddr(u.Hostname())
		if bad == nil && (err == nil) != (g.Addr(netip.AddrPortFrom(a, 80)) == nil) {
			t.Errorf("%q: URL says %v, Addr says %v", host, err, g.Addr(netip.AddrPortFrom(a, 80)))
		}
		if err != nil && len(err.Error()) > 1024 {
			t.Errorf("%d bytes of error", len(err.Error()))
		}
	})
}
