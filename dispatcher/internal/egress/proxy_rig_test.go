package egress_test

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/internal/egress"
)

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
