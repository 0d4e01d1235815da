package dispatcher_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

// TestAnAddressIsWrittenInOneWay: each other way would have a lane, a window
// and a breaker of its own.
func TestAnAddressIsWrittenInOneWay(t *testing.T) {
	for raw, says := range map[string]string{
		"http://[0:0:0:0:0:0:0:1]/":           "unusual form: write [::1]",
		"http://[::0:1]/":                     "unusual form: write [::1]",
		"http://[2001:DB8:0:0:0:0:0:1]/":      "unusual form: write [2001:db8::1]",
		"http://[2001:db8::0001]:8080/":       "unusual form: write [2001:db8::1]",
		"http://[2001:db8:0:0:1::1]/":         "unusual form: write [2001:db8::1:0:0:1]",
		"http://[64:ff9b::192.0.2.1]/":        "unusual form: write [64:ff9b::c000:201]",
		"http://[::ffff:192.0.2.1]/":          "is an IPv4-mapped IPv6 address: write 192.0.2.1",
		"http://[::ffff:c000:201]/":           "is an IPv4-mapped IPv6 address: write 192.0.2.1",
		"http://[::FFFF:192.0.2.1]/":          "is an IPv4-mapped IPv6 address: write 192.0.2.1",
		"http://192.0.2.01/":                  "looks like an address",
		"http://192.0.513/":                   "looks like an address",
		"http://3221225985/":                  "looks like an address",
		"http://18446744073709551616/":        "looks like an address",
		"http://" + strings.Repeat("9", 63):   "looks like an address",
		"http://0x" + strings.Repeat("f", 61): "looks like an address",
		"http://a.0x/":                        "looks like an address",
		"http://192.0.2.1:0080/":              "port of 1 to 65535",
		"http://192.0.2.1./":                  "looks like an address",
	} {
		_, err := dispatcher.ParseURL(raw)
		require.ErrorContains(t, err, says, "%q", raw)
	}
	for _, raw := range []string{"http://[2001:db8::1]/", "http://[2001:DB8::1]/", "http://[2001:db8::1:0:0:1]/", "http://[::1]:1/", "http://192.0.2.1/", "http://a.0x1g/", "http://9a/"} {
		_, err := dispatcher.ParseURL(raw)
		require.NoError(t, err, raw)
	}
}

func TestOnePlaceHasOneLane(t *testing.T) {
	lane := func(raw string) dispatcher.Lane {
		u, err := dispatcher.ParseURL(raw)
		require.NoError(t, err, raw)
		return dispatcher.URLLane(u, "")
	}
	for _, same := range [][]string{
		{"https://shop.example", "https://SHOP.example/", "https://shop.example:443/a?b", "HTTPS://Shop.Example:443", "https://shop.example./", "https://Shop.Example.:443/a"},
		{"http://shop.example/", "http://shop.example:80/x"},
		{"http://[2001:db8::a]/", "http://[2001:DB8::A]:80/"},
	} {
		for _, raw := range same {
			require.Equal(t, lane(same[0]), lane(raw), raw)
		}
	}
	u, err := dispatcher.ParseURL("https://shop.example")
	require.NoError(t, err)
	require.EqualValues(t, "u_3Bq7zSIGh4", dispatcher.URLLane(u, ""), "the lane of an origin keeps its name")
	for raw, name := range map[string]string{"https://Shop.Example./x": "https://shop.example a", "https://shop.example.:8443/": "https://shop.example:8443 a"} {
		u, err := dispatcher.ParseURL(raw)
		require.NoError(t, err)
		require.Equal(t, name, dispatcher.URLLaneName(u, "a"), "the lane is found by its origin")
	}
	apart := map[dispatcher.Lane]string{}
	for _, raw := range []string{"http://shop.example/", "https://shop.example/", "https://shop.example:8443/", "https://www.shop.example/", "http://192.0.2.1/", "http://[2001:db8::1]/"} {
		require.Empty(t, apart[lane(raw)], raw)
		apart[lane(raw)] = raw
	}
	for _, tenant := range []string{"a", "b", "A", "/", ":443"} {
		lane := dispatcher.URLLane(u, tenant)
		require.True(t, dispatcher.ValidLane(string(lane)))
		require.Empty(t, apart[lane], tenant)
		apart[lane] = tenant
	}
}

// TestWhatIsTakenIsSentAsItIs: no part of a URL that is taken changes on its
// way through net/url, so receivers get the path and the query they gave.
func TestWhatIsTakenIsSentAsItIs(t *testing.T) {
	for _, raw := range []string{
		"https://shop.example/a//b/../c/./d", "https://shop.example/a%2Fb%2fc", "https://shop.example/?a=1&a=2&b", "https://shop.example/?q=%C3%A9+x",
		"https://shop.example/;p=1", "https://shop.example/a:b@c", "https://shop.example?x=y", "https://shop.example/?", "https://shop.example/%00",
		`https://shop.example/?q="x"&r=<y>|{z}^`, "https://shop.example/a'b(c)*!~",
	} {
		u, err := dispatcher.ParseURL(raw)
		require.NoError(t, err, raw)
		_, after, _ := strings.Cut(raw, "shop.example")
		if !strings.HasPrefix(after, "/") {
			after = "/" + after
		}
		require.Equal(t, after, u.RequestURI(), raw)
	}
}

func TestNoErrorRepeatsAURL(t *testing.T) {
	for _, raw := range []string{
		"https://hunter2@shop.example/", "https://u:hunter2@shop.example/", "https://u:hunter2@[::1/", "https://shop.example:hunter2/", "https://shop.example/#hunter2",
		"https://shop.example/%zz?hunter2", "hunter2://shop.example/", "https://hunter2_*/", "https://shop.example/hunter2\n", "https://shop.example:0/?hunter2",
		"https://" + strings.Repeat("hunter2", 40) + "/", "https://hunter2..example/", "https://[::0:1]/?hunter2", "https://[::ffff:1.2.3.4]/hunter2",
	} {
		_, err := dispatcher.ParseURL(raw)
		require.Error(t, err, raw)
		require.NotContains(t, err.Error(), "hunter2", raw)
	}
}

// TestParseURLTakesLessThanNetURL: whatever is taken has a scheme, a host and
// no more than that in its authority.
func TestParseURLTakesLessThanNetURL(t *testing.T) {
	parts := []string{"http:", "https:", "//", "/", "@", ":", "\\", "#", "?", "[", "]", "%", ".", "a", "1", "::1", " ", "\n", "\u00e9", "xn--"}
	taken := 0
	for _, scheme := range []string{"http://", "https://"} {
		for _, a := range parts {
			for _, b := range parts {
				for _, c := range parts {
					raw := scheme + a + b + c
					u, err := dispatcher.ParseURL(raw)
					if err != nil {
						continue
					}
					taken++
					plain, err := url.Parse(raw)
					require.NoError(t, err, "%q", raw)
					require.Equal(t, plain.Host, u.Host)
					require.Nil(t, u.User, "%q", raw)
					require.NotEmpty(t, u.Hostname(), "%q", raw)
					require.True(t, strings.HasPrefix(raw[len(scheme):], u.Host), "%q: the host is what stands there", raw)
				}
			}
		}
	}
	require.Positive(t, taken)
}
