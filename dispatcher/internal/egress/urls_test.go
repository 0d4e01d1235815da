package egress_test

import (
	"context"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/egress"
)

// Why a URL is not taken, before and after it was read.
const (
	loopback = "127.0.0.1 is loopback; allow it with ALLOW_NETS=127.0.0.1/32"
	metadata = "169.254.169.254 is metadata; allow it with ALLOW_NETS=169.254.169.254/32"
	unusual  = "looks like an address but is none"
	nonASCII = "write the name in punycode"
	percent  = "percent sign in its host"
	noUser   = "must not hold a user or password"
	mapped   = "is an IPv4-mapped IPv6 address: write "
	badPort  = "must have a port of 1 to 65535"
	control  = "must not hold control characters"
	notURL   = "is not a URL"
	scheme   = "must be absolute and begin with http"
)

// refusedURLs are URLs of places that must not be called, or that could be read
// in two ways, and what is said of each when it is published or registered.
var refusedURLs = map[string]string{
	// Addresses as they are usually written.
	"http://127.0.0.1/": loopback, "https://127.0.0.1:443": loopback, "HTTP://127.0.0.1:8080/x?y": loopback,
	"http://127.255.255.254/": "is loopback", "http://10.1.2.3/": "10.1.2.3 is private; allow it with ALLOW_NETS=10.1.2.3/32",
	"http://172.16.0.1/": "is private", "http://172.31.255.255/": "is private", "http://192.168.1.1/": "is private",
	"http://0.0.0.0/": "is unspecified", "http://0.1.2.3/": "is unspecified", "http://100.64.0.1/": "is shared", "http://100.127.255.255/": "is shared",
	"http://169.254.1.1/": "is link-local", "http://192.0.0.1/": "is reserved", "http://192.0.0.170/": "is reserved", "http://192.0.2.1/": "is documentation",
	"http://192.88.99.1/": "is reserved", "http://198.18.0.1/": "is benchmarking", "http://198.19.255.255/": "is benchmarking",
	"http://198.51.100.1/": "is documentation", "http://203.0.113.1/": "is documentation", "http://224.0.0.1/": "is multicast",
	"http://239.255.255.255/": "is multicast", "http://240.0.0.1/": "is reserved", "http://255.255.255.255/": "is broadcast",

	// Where clouds give away credentials.
	"http://169.254.169.254/latest/meta-data/": metadata, "http://169.254.170.2/v2/credentials": "is metadata", "http://169.254.170.23/": "is metadata",
	"http://100.100.100.200/latest/": "is metadata", "http://168.63.129.16/machine": "is metadata", "http://192.0.0.192/": "is metadata",
	"http://[fd00:ec2::254]/": "fd00:ec2::254 is metadata; allow it with ALLOW_NETS=fd00:ec2::254/128", "http://[fd00:ec2::23]/": "is metadata",
	"http://[fd20:ce::254]/": "is metadata", "http://[FD00:EC2::254]/": "is metadata",

	// IPv6, and what it carries.
	"http://[::1]/": "::1 is loopback; allow it with ALLOW_NETS=::1/128", "http://[::]/": "is unspecified", "http://[fe80::1]/": "is link-local",
	"http://[fec0::1]/": "is site-local", "http://[fc00::1]/": "is unique local", "http://[fdff:ffff::1]:8080/": "is unique local",
	"http://[ff02::1]/": "is multicast", "http://[2001:db8::1]/": "is documentation", "http://[3fff::1]/": "is documentation",
	"http://[100::1]/": "is discarded", "http://[100:0:0:1::1]/": "is reserved", "http://[5f00::1]/": "is reserved", "http://[2001:2::1]/": "is reserved",
	"http://[2001:10::1]/": "is reserved", "http://[4000::1]/": "is reserved", "http://[e000::1]/": "is reserved",
	"http://[64:ff9b::a01:203]/": "(10.1.2.3) is private", "http://[64:ff9b::7f00:1]/": "(127.0.0.1) is loopback",
	"http://[64:ff9b::a9fe:a9fe]/": "(169.254.169.254) is metadata", "http://[64:ff9b:1::a01:203]/": "(10.1.2.3) is private",
	"http://[64:ff9b:1:a01:2:300::]/": "(10.1.2.3) is private", "http://[64:ff9b:1::808:808]/": "is translated",
	"http://[2002:a01:203::1]/": "(10.1.2.3) is private", "http://[2002:7f00:1::]/": "(127.0.0.1) is loopback", "http://[2002:808:808::1]/": "is tunnelled",
	"http://[2001:0:808:808::f5fe:fdfc]/": "(10.1.2.3) is private", "http://[2001::1]/": "is reserved", "http://[::a01:203]/": "(10.1.2.3) is private",
	"http://[::7f00:1]/": "(127.0.0.1) is loopback", "http://[::808:808]/": "is reserved", "http://[::ffff:0:a01:203]/": "is reserved",
	"http://[::ffff:127.0.0.1]/": mapped + "127.0.0.1", "http://[::ffff:7f00:1]/": mapped + "127.0.0.1", "http://[::ffff:8.8.8.8]/": mapped + "8.8.8.8",
	"http://[0:0:0:0:0:0:0:1]/": "write [::1]", "http://[2606:4700:0::1111]/": "write [2606:4700::1111]", "http://[2606:4700::01]/": "write [2606:4700::1]",
	"http://[64:ff9b::10.1.2.3]/": "write [64:ff9b::a01:203]", "http://[::127.0.0.1]/": "write [::7f00:1]",
	"http://[fe80::1%25eth0]/": percent, "http://[fe80::1%eth0]/": percent, "http://[::1%25]/": percent, "http://[2606:4700::1%251]/": percent,
	"http://[::1/": notURL, "http://::1/": notURL, "http://[127.0.0.1]/": notURL, "http://[v1.x]/": notURL, "http://[]/": notURL, "http://[::1]x/": notURL,
	"http://[1::2::3]/": notURL, "http://[12345::]/": notURL,

	// Numbers that some take for addresses.
	"http://2130706433/": unusual, "http://0x7f000001/": unusual, "http://0X7F000001/": unusual, "http://017700000001/": unusual, "http://0/": unusual,
	"http://127.1/": unusual, "http://127.0.1/": unusual, "http://10.66051/": unusual, "http://0177.0.0.1/": unusual, "http://127.0.0.01/": unusual,
	"http://0x7f.0.0.1/": unusual, "http://0x7f.1/": unusual, "http://127.0.0.0x1/": unusual, "http://0xa9fea9fe/": unusual, "http://2852039166/": unusual,
	"http://0251.0376.0251.0376/": unusual, "http://256.1.1.1/": unusual, "http://1.2.3.4.5/": unusual, "http://4294967296/": unusual, "http://4294967295/": unusual,
	"http://99999999999999999999/": unusual, "http://08.8.8.8/": unusual, "http://shop.example.7/": unusual, "http://a.0x1/": unusual, "http://0x/": unusual,
	"http://1.0x/": unusual, "http://00000000000000000000177.1/": unusual,

	// Names of this host, and dots too many.
	"http://localhost/": "localhost (127.0.0.1) is loopback", "http://LOCALHOST:8080/": "is loopback", "http://shop.localhost/": "is loopback",
	"http://localhost./": "localhost. (127.0.0.1) is loopback", "http://shop.localhost.:80/": "is loopback", "http://127.0.0.1./": unusual, "http://shop.example../": "a dot too many",
	"http://a..b/": "a dot too many", "http://.shop.example/": "a dot too many", "http://./": "a dot too many", "http://../": "a dot too many", "http://[2606:4700::1]./": notURL,

	// Hosts that become another one on the way.
	"http://１２７.0.0.1/": nonASCII, "http://①②⑦.⓪.⓪.①/": nonASCII, "http://127。0。0。1/": nonASCII, "http://127．0．0．1/": nonASCII, "http://127｡1/": nonASCII,
	"http://local\u00adhost/": nonASCII, "http://localhost\u200b/": nonASCII, "http://local\u2060host/": nonASCII, "http://ⓛocalhost/": nonASCII, "http://ｌｏｃａｌｈｏｓｔ/": nonASCII,
	"http://bücher.example/": nonASCII, "http://stra\u00dfe.example/": nonASCII, "http://shop.example\u3002/": nonASCII, "http://shop\u202e.example/": nonASCII,
	"http://\u0661\u0662\u0667.0.0.1/": nonASCII, "http://shop.ex\u0430mple/": nonASCII, "http://\xff.example/": nonASCII,
	"http://%31%32%37.0.0.1/": percent, "http://127.0.0.1%00.shop.example/": percent, "http://shop%2eexample/": percent, "http://localhos%74/": percent,
	"http://127.0.0.1%23.shop.example/": percent, "http://shop.example%0d%0a/": percent, "http://127.0.0.%e2%91%a0/": percent,

	// A user makes one host look like another.
	"http://user@127.0.0.1/": noUser, "http://user:hunter2@shop.example/": noUser, "http://shop.example@127.0.0.1/": noUser, "http://shop.example:80@127.0.0.1:6379/": noUser,
	"http://@shop.example/": noUser, "http://:@shop.example/": noUser, "http://shop.example%40127.0.0.1/": percent, "http://a@b@127.0.0.1/": noUser,

	// Backslashes, spaces, control characters, fragments.
	`http://shop.example\@127.0.0.1/`: "backslashes", `http:\\127.0.0.1/`: "backslashes", `http://shop.example\.evil.example/`: "backslashes", `http:/\127.0.0.1/`: "backslashes",
	"http://shop.example /": "spaces", " http://shop.example/": "spaces", "http://shop.example/ ": "spaces", "http://127.0.0.1 .shop.example/": "spaces",
	"http://shop.example/\r\nHost: 127.0.0.1": control, "http://shop.example/\x00": control, "http://shop\t.example/": control, "http://shop.example/\x1b[2J": control,
	"http://shop.example\n/": control, "\nhttp://shop.example/": control, "http://shop.example/\x7f": control,
	"http://shop.example/#x": "fragment", "http://127.0.0.1#@shop.example/": "fragment", "http://shop.example#": "fragment",

	// Ports.
	"http://shop.example:0/": badPort, "http://shop.example:65536/": badPort, "http://shop.example:099/": badPort, "http://shop.example:99999999999999999999/": badPort,
	"http://shop.example:/": "empty port", "http://shop.example:-1/": notURL, "http://shop.example:80:80/": notURL, "http://shop.example:http/": notURL,
	"http://shop.example:8\u00b2/": nonASCII, "http://[2606:4700::1]:0/": badPort, "http://[2606:4700::1]:/": "empty port", "http://shop.example:+80/": notURL,

	// Schemes.
	"ftp://shop.example/": scheme, "file:///etc/passwd": scheme, "gopher://127.0.0.1:6379/_x": scheme, "javascript:alert(1)": scheme, "ws://shop.example/": scheme,
	"unix:///var/run/docker.sock": scheme, "//shop.example/": scheme, "shop.example/": scheme, "": scheme, "redis://127.0.0.1/": scheme, "http:/shop.example/": "has no host",
	"http:shop.example": "has no host", "http:///path": "has no host", "http://": "has no host", "https://?x": "has no host", "http+unix://x/": scheme,
	"://shop.example/": notURL,

	// Names that are none.
	"http://shop_.example*/": "other characters", "http://a,b/": "other characters", "http://shop.example;x/": "other characters", "http://shop|example/": notURL,
	"http://" + strings.Repeat("a", 64) + ".example/": "label of 64 bytes", "http://" + strings.Repeat("abc.", 64) + "a/": "host of 257 bytes",
}

// takenURLs may be called, as far as is known before they are dialled.
var takenURLs = []string{
	"https://shop.example./hooks", "https://SHOP.example.:8443/", "http://receiver./", "http://receiver/",
	"https://shop.example/hooks?a=b&c=%20", "http://shop.example", "HTTPS://Shop.Example/", "http://shop.example:1/", "https://shop.example:65535/",
	"https://xn--bcher-kva.example/", "http://my_service.example/", "https://1a.example/", "https://7.example/", "http://0x.example/", "http://1.2.3.4e/",
	"https://8.8.8.8/", "https://1.1.1.1:8443/", "http://9.255.255.255/", "http://172.32.0.1/", "http://100.128.0.1/", "http://192.0.1.1/",
	"https://[2606:4700::1111]/", "https://[2606:4700::1111]:8443/x", "http://[64:ff9b::808:808]/", "https://[2A00:1450::1]/",
	"https://localhost.example/", "https://notlocalhost/", "https://127.0.0.1.nip.example/", "https://metadata.google.internal/",
	"https://shop.example/127.0.0.1?u=http://127.0.0.1/", "https://shop.example/%00%0d%0a", "https://shop.example//x", "https://shop.example/?x=%23",
}

// check is what the API does with a URL.
func check(g *egress.Guard, raw string) (*url.URL, error) {
	u, err := dispatcher.ParseURL(raw)
	if err != nil {
		return nil, err
	}
	return u, g.URL(u)
}

func TestURLsThatMayNotBeCalledAreRefused(t *testing.T) {
	require.Greater(t, len(refusedURLs), 180)
	g := egress.NewGuard(nil)
	for raw, want := range refusedURLs {
		t.Run(strconv.QuoteToASCII(raw), func(t *testing.T) {
			_, err := check(g, raw)
			require.ErrorContains(t, err, want)
			require.NotContains(t, err.Error(), "hunter2")
			require.NotContains(t, err.Error(), "\n")
		})
	}
}

func TestURLsOfTheInternetAreTaken(t *testing.T) {
	g := egress.NewGuard(nil)
	for _, raw := range takenURLs {
		_, err := check(g, raw)
		require.NoError(t, err, "%q", raw)
	}
}

// TestWhatWouldBeDialledIsJudged: the API may be got round, by an endpoint of
// an older version for one, and net/http normalises hosts on its own. Nothing
// of the list is called even so.
func TestWhatWouldBeDialledIsJudged(t *testing.T) {
	o := egress.Options{QuickRetries: 1, Resolver: &counting{}} // in the service of an attacker
	c := egress.NewOver(o, func(_ context.Context, _, address string) (net.Conn, error) {
		t.Errorf("%s is dialled", address)
		return nil, syscall.ECONNREFUSED
	})
	defer c.Close()
	for raw := range refusedURLs {
		u, err := url.Parse(raw)
		if err != nil || u.Host == "" {
			continue
		}
		if a, err := netip.ParseAddr(u.Hostname()); err == nil && egress.NewGuard(nil).Addr(netip.AddrPortFrom(a, 80)) == nil {
			continue // only its form was wrong, or its port, and it is somebody's
		}
		a := send(t, c, newTestCall(u))
		require.Zero(t, a.Status, "%q", raw)
		require.Contains(t, []dispatcher.Class{dispatcher.ClassRefused, dispatcher.ClassInternal}, a.Class, "%q: %v", raw, a.Err)
	}
}
