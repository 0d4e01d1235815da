package egress_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/egress"
)

// newTestTunnel is a proxy whose tunnels lead to the hostile receiver.
func newTestTunnel(t testing.TB, change func(*testProxy)) (p *testProxy, h *hostile) {
	t.Helper()
	h, port := newTestHostile(t)
	p = newTestProxy(t, func(p *testProxy) {
		p.to = "127.0.0.1:" + port
		if change != nil {
			change(p)
		}
	})
	return p, h
}

func TestProxyIsAskedForTheAddressThatWasJudged(t *testing.T) {
	for name, change := range map[string]func(*testProxy){
		"http":  nil,
		"https": func(p *testProxy) { p.config = proxyConfig(t) },
	} {
		t.Run(name, func(t *testing.T) {
			p, h := newTestTunnel(t, change)
			c := through(t, p.url(t))
			for _, u := range []string{"http://hostile.test:80/ok", "https://good.test/ok", "https://8.8.8.8:8443/ok", "http://mixed.test/ok"} {
				a := send(t, c, newTestCall(mustURL(t, u)))
				if strings.Contains(u, "8.8.8.8") { // the tunnel is there, but the receiver wants a name
					require.Equal(t, dispatcher.ClassReset, a.Class, "%v", a.Err)
					continue
				}
				require.Equal(t, 200, a.Status, "%s: %v", u, a.Err)
			}
			require.Equal(t, []string{
				"CONNECT 8.8.4.4:80", "CONNECT [2606:4700::1111]:443", "CONNECT 8.8.8.8:8443", "CONNECT 8.8.4.4:80",
			}, p.targets())
			for _, r := range p.asked {
				require.Equal(t, []string{"Basic ZWdyZXNzOnBAc3MgaHVudGVyMg=="}, r.Header["Proxy-Authorization"])
				require.Len(t, r.Header, 1, "nothing of the call is in it")
			}
			require.EqualValues(t, 3, h.requests.Load())
			c.Close()
			p.wait(t)
		})
	}
}

func TestClientCertificateIsForReceiversNotForTheProxy(t *testing.T) {
	var shown atomic.Int64
	p, h := newTestTunnel(t, func(p *testProxy) {
		p.config = proxyConfig(t)
		p.config.ClientAuth = tls.RequestClientCert
		p.config.VerifyConnection = func(s tls.ConnectionState) error {
			shown.Add(int64(len(s.PeerCertificates)))
			return nil
		}
	})
	c := through(t, p.url(t), func(o *egress.Options) {
		o.Certificates = []tls.Certificate{authority().client}
		o.Resolver = names{"wants.test": {"8.8.4.4"}}
	})
	a := send(t, c, newTestCall(mustURL(t, "https://wants.test/ok")))
	require.Equal(t, 200, a.Status, "%v", a.Err)
	require.Zero(t, shown.Load())
	require.EqualValues(t, 1, h.requests.Load())
}

func TestReceiverBehindAProxySeesTheCallOnly(t *testing.T) {
	u, asked := newTestSink(t)
	p := newTestProxy(t, func(p *testProxy) { p.to = u.Host })
	call := newTestCall(mustURL(t, "http://hostile.test/"))
	require.Equal(t, 200, send(t, through(t, p.url(t)), call).Status)
	got := asked()[0]
	require.Equal(t, "hostile.test", got.host, "and not the address")
	got.header.Del("Content-Length")
	got.header.Del("User-Agent")
	call.Header.Set("Accept-Encoding", "identity") // ours, in each request
	require.Equal(t, call.Header, got.header)
}

func TestTunnelIsUsedAgain(t *testing.T) {
	p, h := newTestTunnel(t, nil)
	c := through(t, p.url(t))
	for range 5 {
		require.Equal(t, 200, send(t, c, newTestCall(mustURL(t, "https://good.test/ok"))).Status)
	}
	require.Len(t, p.targets(), 1)
	require.EqualValues(t, 5, h.requests.Load())
}

func TestProxyIsNotAskedForWhatTheGuardRefuses(t *testing.T) {
	p, h := newTestTunnel(t, nil)
	c := through(t, p.url(t), quickRetries(3))
	for _, host := range []string{"inside.test", "127.0.0.1", "[::ffff:10.1.2.3]", "0x7f.1", "169.254.169.254", p.addr().String()} {
		for _, scheme := range []string{"http", "https"} {
			a := send(t, c, newTestCall(mustURL(t, scheme+"://"+host+"/ok")))
			require.Equal(t, dispatcher.ClassRefused, a.Class, "%s: %v", host, a.Err)
			require.ErrorContains(t, a.Err, "ALLOW_NETS=")
		}
	}
	a := send(t, c, newTestCall(mustURL(t, "http://nobody.test/")))
	require.Equal(t, dispatcher.ClassDNS, a.Class, "names are resolved here")
	require.Empty(t, p.targets())
	require.Zero(t, p.accepted.Load())
	require.Zero(t, h.accepted.Load())
}

// rebinding answers the first question for IPv4 with a public address and then with
// private ones.
type rebinding struct{ n atomic.Int64 }

func (r *rebinding) LookupNetIP(_ context.Context, network, _ string) ([]netip.Addr, error) {
	if network == "ip6" {
		return nil, nil
	}
	if r.n.Add(1) == 1 {
		return []netip.Addr{netip.MustParseAddr("8.8.4.4")}, nil
	}
	return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
}

func TestNameThatIsReboundIsNotAskedForAgain(t *testing.T) {
	p, h := newTestTunnel(t, nil)
	c := through(t, p.url(t), func(o *egress.Options) { o.Resolver = &rebinding{} })
	u := mustURL(t, "http://rebound.test/1.0") // closes after it
	require.Equal(t, 200, send(t, c, newTestCall(u)).Status)
	a := send(t, c, newTestCall(u))
	require.Equal(t, dispatcher.ClassRefused, a.Class, "%v", a.Err)
	require.Equal(t, []string{"CONNECT 8.8.4.4:80"}, p.targets())
	require.EqualValues(t, 1, h.requests.Load())
}

// TestReceiverThatSpeaksFirst: what it says behind the proxy's answer is its own.
func TestReceiverThatSpeaksFirst(t *testing.T) {
	p := newTestProxy(t, func(p *testProxy) { p.answer = "HTTP/1.1 200 OK\r\n\r\n220 mail.example ESMTP\r\n" })
	a := send(t, through(t, p.url(t)), newTestCall(mustURL(t, "http://hostile.test/")))
	require.Equal(t, dispatcher.ClassProtocol, a.Class, "%v", a.Err)
	// Whether it is there before the request is chance.
	require.Regexp(t, "not a valid answer: (malformed HTTP|it came before the request)", a.Err.Error())
}

func TestProxyThatDoesNotServe(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name   string
		answer string
		text   string
		slow   bool
	}{
		{"wants another password", "HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm=\"hunter2\"\r\n\r\n", "status 407: it wants another user or password in EGRESS_PROXY", false},
		{"does not allow the port", "HTTP/1.1 403 Forbidden\r\nContent-Length: 99\r\n\r\n", "status 403: it does not allow CONNECT to this address and port", false},
		{"knows no CONNECT", "HTTP/1.0 405 Method Not Allowed\r\n\r\n", "status 405: it does not allow CONNECT to this address and port", false},
		{"can't reach the receiver", "HTTP/1.1 502 hunter2\r\n\r\n", "status 502", false},
		{"redirects", "HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\n\r\n", "status 302", false},
		{"announces", "HTTP/1.1 100 Continue\r\n\r\n", "status 100", false},
		{"speaks garbage", "\x00\x01hunter2\r\n\r\n", "does not answer as a proxy does", false},
		{"is a mail server", "220 mail.example ESMTP hunter2\r\n", "does not answer as a proxy does", false},
		{"has no end of headers", "HTTP/1.1 200 OK\r\nX-Long: " + long, "closed the connection instead of answering", false},
		{"hangs inside its answer", "HTTP/1.1 200 OK\r\n", "timed out", true},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p := newTestProxy(t, func(p *testProxy) { p.answer = tc.answer })
			c := through(t, p.url(t), quickRetries(3))
			limit, class := safety, dispatcher.ClassConnect
			if tc.slow {
				limit, class = brief, dispatcher.ClassTimeout
			}
			a := sendWithin(t, c, newTestCall(mustURL(t, "https://good.test/ok?token=hunter2")), limit)
			require.Equal(t, class, a.Class, "%v", a.Err)
			require.ErrorContains(t, a.Err, tc.text)
			if !tc.slow {
				require.ErrorContains(t, a.Err, "proxy http://"+p.addr().String()+": ")
			}
			require.NotContains(t, a.Err.Error(), "hunter2")
			p.wait(t)
		})
	}
}

func TestProxyThatIsNotReached(t *testing.T) {
	t.Parallel()
	silent := newTestReceiver(t, func(_ *receiver, c *net.TCPConn, _ int) { _, _ = io.Copy(io.Discard, c) })
	tears := newTestReceiver(t, func(_ *receiver, c *net.TCPConn, _ int) {
		_, _ = c.Read(make([]byte, 4096))
		reset(c)
	})
	strange := newTestProxy(t, func(p *testProxy) { p.config = handshakes()["good.test"].config })
	plain, _ := newTestTunnel(t, nil)
	for name, tc := range map[string]struct {
		proxy string
		class dispatcher.Class
		text  string
	}{
		"down":                       {"http://u:hunter2@127.0.0.1:" + freePort(t), dispatcher.ClassEgress, ": connection refused"},
		"a name that nobody knows":   {"http://u:hunter2@proxy.invalid:3128", dispatcher.ClassEgress, "proxy http://proxy.invalid:3128: lookup: "},
		"silent":                     {"http://u:hunter2@" + silent.addr().String(), dispatcher.ClassTimeout, "timed out"},
		"silent in its handshake":    {"https://u:hunter2@" + silent.addr().String(), dispatcher.ClassEgress, "timed out"},
		"torn down":                  {"http://u:hunter2@" + tears.addr().String(), dispatcher.ClassConnect, ": connection reset by peer"},
		"another's certificate":      {"https://u:hunter2@" + strange.addr().String(), dispatcher.ClassEgress, ": TLS handshake: "},
		"https to one that is plain": {"https://u:hunter2@" + plain.addr().String(), dispatcher.ClassEgress, ": TLS handshake: "},
	} {
		t.Run(name, func(t *testing.T) {
			u, err := egress.ParseProxy(tc.proxy)
			require.NoError(t, err)
			limit := safety
			if strings.HasPrefix(name, "silent") {
				limit = brief
			}
			a := sendWithin(t, through(t, u), newTestCall(mustURL(t, "http://hostile.test/?token=hunter2")), limit)
			require.Equal(t, tc.class, a.Class, "%v", a.Err)
			require.ErrorContains(t, a.Err, tc.text)
			require.ErrorContains(t, a.Err, "proxy")
			require.NotContains(t, a.Err.Error(), "hunter2")
		})
	}
	silent.wait(t)
	tears.wait(t)
	strange.wait(t)
	plain.wait(t)
}

// TestEnvironmentHasNoSay: a proxy that a container happens to be given would
// resolve names on its own.
func TestEnvironmentHasNoSay(t *testing.T) {
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy"} {
		t.Setenv(name, "http://127.0.0.1:"+freePort(t))
	}
	h, port := newTestHostile(t)
	c := egress.New(hostileOptions(t))
	defer c.Close()
	require.Equal(t, 200, send(t, c, row{url: "/ok"}.call(t, port)).Status)
	require.EqualValues(t, 1, h.accepted.Load())
}

func TestParseProxy(t *testing.T) {
	for _, text := range []string{
		"http://proxy", "http://proxy:3128", "https://proxy:443/", "http://10.0.0.1:8080", "http://[fd00::1]:3128",
		"http://user:p%40ss@proxy.internal:3128", "http://user@proxy", "HTTP://Proxy",
	} {
		u, err := egress.ParseProxy(text)
		require.NoError(t, err, text)
		require.NotEmpty(t, u.Hostname())
	}
	for text, want := range map[string]string{
		"":                                     "must begin with http",
		"proxy:3128":                           "must begin with http",
		"10.0.0.1:3128":                        "is not a URL",
		"//u:hunter2@proxy":                    "must begin with http",
		"ftp://u:hunter2@proxy":                "must begin with http",
		"socks5://u:hunter2@proxy:1080":        "SOCKS is not spoken",
		"socks5h://u:hunter2@proxy:1080":       "SOCKS is not spoken",
		"http://u:hunter2@":                    "has no host",
		"http://u:hunter2@:3128":               "has no host",
		"http:u:hunter2@proxy":                 "is not a URL",
		"http://u:hunter2@proxy:0":             "port of 1 to 65535",
		"http://u:hunter2@proxy:65536":         "port of 1 to 65535",
		"http://u:hunter2@proxy:":              "port of 1 to 65535",
		"http://u:hunter2@proxy:http":          "is not a URL",
		"http://u:hunter2@proxy/path":          "must end after its port",
		"http://u:hunter2@proxy?hunter2":       "must end after its port",
		"http://u:hunter2@proxy/#hunter2":      "it has a #",
		"http://u:hunter2@pro xy":              "is not a URL",
		"http://:hunter2@proxy":                "a user that is empty",
		"http://u%3Av:hunter2@proxy":           "holds a colon",
		"http://u:hunter2%zz@proxy":            "is not a URL",
		"http://u:hunter2\n@proxy":             "is not a URL",
		"http://u:hunter2@proxy:3128:3128/":    "is not a URL",
		"http://u:hunter2@one,http://two:3128": "must end after its port",
	} {
		u, err := egress.ParseProxy(text)
		require.ErrorContains(t, err, want, "%q", text)
		require.NotContains(t, err.Error(), "hunter2", "%q", text)
		require.Nil(t, u)
	}
}

// testProxy is a proxy on loopback. Whatever it is asked to connect to, its
// tunnels lead to the same receiver, since tests call no other host.
type testProxy struct {
	*receiver
	config *tls.Config // nil: plain
	answer string      // said instead of granting a tunnel; empty: grants
	to     string      // host and port of the receiver

	mu    sync.Mutex // guards asked
	asked []*http.Request
}

// newTestProxy starts a proxy, changed before it is.
func newTestProxy(t testing.TB, change func(*testProxy)) *testProxy {
	t.Helper()
	p := &testProxy{}
	change(p)
	p.receiver = newTestReceiver(t, func(_ *receiver, c *net.TCPConn, _ int) { p.serve(c) })
	return p
}

// url is that of the proxy, with a user.
func (p *testProxy) url(t testing.TB) *url.URL {
	u := p.receiver.url(t)
	u.Path = ""
	u.User = url.UserPassword("egress", "p@ss hunter2")
	if p.config != nil {
		u.Scheme = "https"
	}
	return u
}

// targets lists what tunnels were asked for.
func (p *testProxy) targets() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := []string{}
	for _, r := range p.asked {
		all = append(all, r.Method+" "+r.RequestURI)
	}
	return all
}

func (p *testProxy) serve(c net.Conn) {
	if p.config != nil {
		c = tls.Server(c, p.config)
	}
	defer c.Close()
	b := bufio.NewReader(c)
	req, err := http.ReadRequest(b)
	if err != nil {
		return
	}
	p.mu.Lock()
	p.asked = append(p.asked, req)
	p.mu.Unlock()
	if p.answer != "" {
		_, _ = io.WriteString(c, p.answer)
		_, _ = io.Copy(io.Discard, b)
		return
	}
	up, err := net.Dial("tcp", p.to)
	if err != nil {
		return
	}
	_, _ = io.WriteString(c, "HTTP/1.1 200 Connected\r\nX-Proxy: test\r\n\r\n")
	var copies sync.WaitGroup
	defer copies.Wait()
	copies.Go(func() {
		_, _ = io.Copy(up, b)
		_ = up.Close()
	})
	_, _ = io.Copy(c, up)
	_ = c.Close()
}

// through is a client of that proxy, for which nothing private may be called.
func through(t testing.TB, u *url.URL, changes ...func(*egress.Options)) *egress.Client {
	t.Helper()
	o := egress.Options{
		Proxy:   u,
		RootCAs: authority().pool,
		Resolver: names{
			"hostile.test": {"8.8.4.4"}, "good.test": {"2606:4700::1111"}, "inside.test": {"10.1.2.3", "fd00::1"},
			"mixed.test": {"10.1.2.3", "8.8.4.4", "127.0.0.1"},
		},
	}
	for _, change := range changes {
		change(&o)
	}
	c := egress.New(o)
	t.Cleanup(c.Close)
	return c
}

// proxyConfig is TLS as a proxy at 127.0.0.1 speaks it.
func proxyConfig(t testing.TB) *tls.Config {
	t.Helper()
	c := authority().issue("127.0.0.1", nil, net.IPv4(127, 0, 0, 1))
	require.NotEmpty(t, c.Certificate)
	return &tls.Config{Certificates: []tls.Certificate{c}}
}
