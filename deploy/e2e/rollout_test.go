package e2e_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher/client"
)

// trio is three instances at addresses that stay theirs.
type trio struct {
	w         *world
	settings  []string
	addresses []string
	all       []*instance
}

func newTrio(w *world, settings ...string) *trio {
	w.t.Helper()
	// Proxies say for whom they ask. Without keys that is refused.
	f := &trio{w: w, settings: append(settings, "API_KEYS="+e2eKey+":admin:e2e", "TRUSTED_PROXIES=127.0.0.0/8")}
	for range 3 {
		port, err := kit.FreePort()
		require.NoError(w.t, err)
		f.addresses = append(f.addresses, kit.Loopback(port))
		f.all = append(f.all, f.start(len(f.all)))
	}
	return f
}

func (f *trio) start(n int) *instance {
	f.w.t.Helper()
	return f.w.serve(append([]string{"LOG_LEVEL=info", "LISTEN=" + f.addresses[n]}, f.settings...)...)
}

// before has callers publish by an address before the fleet, each message once.
func (f *trio) before(address string) *callers {
	f.w.t.Helper()
	c, err := client.New(address, e2eKey, kit.Once)
	require.NoError(f.w.t, err)
	front := &instance{Instance: &kit.Instance{Client: c, URL: address}, t: f.w.t, receiver: f.w.receiver}
	eventually(f.w.t, "calls are led to the fleet", func() bool {
		_, err := c.Ready(context.Background())
		return err == nil
	})
	return startCallers(3, 0, front)
}

// without fails where one of the callers was refused, which other tests forgive.
func (c *callers) without(what string) {
	c.t.Helper()
	all := c.end()
	for _, one := range c.all {
		require.Empty(c.t, one.refused, "a call returned %s", what)
	}
	c.all[0].to[0].receiver.arrived(all)
}

// proxy is where Debian has a proxy; empty: it is not here, and can't be installed.
func proxy(t testing.TB, name string) string {
	t.Helper()
	for _, path := range []string{name, "/usr/sbin/" + name} {
		if path, err := exec.LookPath(path); err == nil {
			return path
		}
	}
	require.Error(t, exec.Command("apt-cache", "show", name).Run(), "%[1]s is missing; install it with .ci/needs %[1]s", name)
	t.Logf("%s is not here and can't be installed: not tested", name)
	return ""
}

// nginxBlock is the one that deploy/README.md gives, for these addresses.
func nginxBlock(t testing.TB, listen string, addresses []string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "README.md"))
	require.NoError(t, err)
	_, block, found := strings.Cut(string(text), "\n```nginx\n")
	require.True(t, found, "deploy/README.md has no block for nginx")
	block, _, _ = strings.Cut(block, "\n```")
	for _, needed := range []string{"proxy_next_upstream error timeout http_503 non_idempotent;", "keepalive 32;"} {
		require.Contains(t, block, needed)
	}
	servers := 0
	block = regexp.MustCompile(`server 10\.0\.0\.\d+:8080 max_fails=0;`).ReplaceAllStringFunc(block, func(line string) string {
		servers++
		return regexp.MustCompile(`10\S+`).ReplaceAllString(line, addresses[servers-1])
	})
	require.Equal(t, len(addresses), servers)
	require.Contains(t, block, "listen 80;")
	return strings.Replace(block, "listen 80;", "listen "+listen+";", 1)
}

// startNginx serves a block, and answers its URL.
func startNginx(t testing.TB, path, listen, block string) (address string) {
	t.Helper()
	dir := t.TempDir()
	config := "daemon off; master_process off; pid nginx.pid; events {}\nhttp {\naccess_log off;\n"
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		config += kind + "_temp_path " + filepath.Join(dir, kind) + ";\n"
	}
	file := filepath.Join(dir, "nginx.conf")
	mustWrite(t, file, config+block+"\n}\n")
	p, err := kit.Start(kit.Command{Name: "nginx", Path: path, Args: []string{"-p", dir, "-c", file, "-e", "stderr"}})
	require.NoError(t, err)
	t.Cleanup(p.Kill)
	return "http://" + listen
}

// nginx polls nothing: it sends calls to an instance until a connection fails. The block of
// deploy/README.md has it try the next one.
func TestARollOutBehindNginxReturnsNo502(t *testing.T) {
	t.Parallel()
	redistest.Long(t)
	path := proxy(t, "nginx")
	if path == "" {
		return
	}
	w := newWorld(t)
	f := newTrio(w)
	var fronts []*callers
	for _, change := range []func(string) string{
		func(block string) string { return block },
		func(block string) string { return strings.Replace(block, "keepalive 32;", "", 1) },
	} {
		port, err := kit.FreePort()
		require.NoError(t, err)
		listen := kit.Loopback(port)
		fronts = append(fronts, f.before(startNginx(t, path, listen, change(nginxBlock(t, listen, f.addresses)))))
	}
	for n := range f.all {
		for _, c := range fronts {
			c.goOn(20)
		}
		require.Zero(t, f.all[n].stop())
		f.all[n] = f.start(n)
	}
	for _, c := range fronts {
		c.without("503")
	}
}

// balancer leads each call to one of those that were ready when it last asked. It repeats
// no call.
type balancer struct {
	*httptest.Server
	mu   sync.Mutex // guards what follows
	next int
	all  []*backend
}

type backend struct {
	proxy *httputil.ReverseProxy
	url   string
	out   bool
	calls int // under way
}

func newBalancer(t testing.TB, addresses []string) *balancer {
	t.Helper()
	b := &balancer{}
	for _, address := range addresses {
		to := &url.URL{Scheme: "http", Host: address}
		one := &backend{proxy: httputil.NewSingleHostReverseProxy(to), url: to.String()}
		one.proxy.Transport = &http.Transport{MaxIdleConnsPerHost: 32}
		one.proxy.ErrorLog = log.New(io.Discard, "", 0) // the caller gets a 502
		b.all = append(b.all, one)
	}
	b.Server = httptest.NewServer(b)
	ctx, stop := context.WithCancel(context.Background())
	var polling sync.WaitGroup
	for _, one := range b.all {
		polling.Go(func() { b.poll(ctx, one) })
	}
	t.Cleanup(func() {
		stop()
		polling.Wait()
		b.Close()
	})
	return b
}

// poll asks one of them each second.
func (b *balancer) poll(ctx context.Context, one *backend) {
	for kit.Rest(ctx, time.Second) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, one.url+"/readyz", nil)
		if err != nil {
			return
		}
		res, err := http.DefaultClient.Do(req)
		if err == nil {
			_ = res.Body.Close()
		}
		b.mu.Lock()
		one.out = err != nil || res.StatusCode != http.StatusOK
		b.mu.Unlock()
	}
}

func (b *balancer) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	var to *backend
	for range b.all {
		b.next = (b.next + 1) % len(b.all)
		if !b.all[b.next].out {
			to = b.all[b.next]
			to.calls++
			break
		}
	}
	b.mu.Unlock()
	if to == nil {
		http.Error(rw, "none is ready", http.StatusBadGateway)
		return
	}
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		to.calls--
	}()
	to.proxy.ServeHTTP(rw, r)
}

// until waits until an instance is out, and has no call of this balancer, or is in again.
func (b *balancer) until(t testing.TB, n int, out bool) {
	t.Helper()
	eventually(t, fmt.Sprint("the balancer notices that an instance is out: ", out), func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.all[n].out == out && (!out || b.all[n].calls == 0)
	})
}

// The delay is longer than the test: an instance stops as soon as its balancer noticed,
// which a second signal says.
func TestARollOutBehindABalancerThatPollsFailsNoCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	f := newTrio(w, "SHUTDOWN_DELAY=60s")
	b := newBalancer(t, f.addresses)
	c := f.before(b.URL)
	for n := range f.all {
		c.goOn(20)
		leaves := f.all[n]
		require.NoError(t, leaves.Signal(syscall.SIGTERM))
		b.until(t, n, true)
		require.Zero(t, leaves.stop(), "a second signal skips the delay")
		f.all[n] = f.start(n)
		b.until(t, n, false)
	}
	c.without("503")
}

func TestSIGINTHasNoDelayAndAThirdSignalEndsTheProcess(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	require.NoError(t, w.serve("SHUTDOWN_DELAY=60s").Interrupt())

	h := w.holdFirst()
	defer close(h.release)
	i := w.serve("SHUTDOWN_DELAY=60s", "SHUTDOWN_GRACE=1h")
	i.signal(syscall.SIGTERM)
	i.flying(1) // it still takes, and attempts
	ready := func() error { _, err := i.Ready(t.Context()); return err }
	require.Error(t, ready())
	require.NoError(t, i.Signal(syscall.SIGTERM))
	n := 0
	eventually(t, "it attempts nothing more", func() bool {
		n++
		id := fmt.Sprint("late", n)
		i.send(id)
		return i.delivery(id).Status == "ready"
	})
	require.False(t, i.Gone(), "the second signal skipped the delay only")
	i.endBy(syscall.SIGTERM)
	require.NotZero(t, i.ExitCode())
}
