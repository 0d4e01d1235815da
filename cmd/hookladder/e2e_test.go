package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/redistest"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/signer"
)

// e2eWait bounds how long an end-to-end test waits for what always comes. A
// takeover takes 10 s, and the machine may be busy.
const e2eWait = 45 * time.Second

// binary is the real one, built once with the race detector.
var (
	binary    = sync.OnceValues(build)
	binaryDir string // empty while nothing was built
)

func build() (string, error) {
	dir, err := os.MkdirTemp("", "hookladder")
	if err != nil {
		return "", err
	}
	binaryDir = dir
	path := filepath.Join(dir, "hookladder")
	out, err := exec.Command("go", "build", "-race", "-o", path, ".").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build: %w: %s", err, out)
	}
	return path, nil
}

func TestMain(m *testing.M) {
	code := m.Run()
	if binaryDir != "" {
		_ = os.RemoveAll(binaryDir)
	}
	os.Exit(code)
}

// world is a Redis, a receiver and any number of instances.
type world struct {
	t        *testing.T
	redis    *redistest.Server
	rdb      *redis.Client
	receiver *recorder
	secret   signer.Secret
}

// newWorld starts a Redis, with more lines of redis.conf, and a receiver.
func newWorld(t *testing.T, settings ...string) *world {
	t.Helper()
	w := &world{t: t, redis: redistest.Start(t, settings...), secret: signer.NewSecret()}
	opts, err := redis.ParseURL(w.redis.URL())
	require.NoError(t, err)
	w.rdb = redis.NewClient(opts)
	t.Cleanup(func() { _ = w.rdb.Close() })
	w.receiver = newTestReceiver(t, w.secret)
	return w
}

// instance is one process of the binary.
type instance struct {
	*client.Client
	t    *testing.T
	cmd  *exec.Cmd
	url  string
	log  *lockedBuffer
	done chan struct{} // closed when it has ended
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// serve starts an instance with more settings and waits until it is ready.
func (w *world) serve(settings ...string) *instance {
	w.t.Helper()
	path, err := binary()
	require.NoError(w.t, err)
	addr := freeAddr(w.t)
	i := &instance{t: w.t, url: "http://" + addr, log: &lockedBuffer{}, done: make(chan struct{})}
	i.cmd = exec.Command(path, "serve")
	i.cmd.Env = append([]string{
		"REDIS_URL=" + w.redis.URL(), "LISTEN=" + addr, "SIGNING_SECRET=" + w.secret.Reveal(), "ALLOW_NETS=127.0.0.0/8",
		"LOG_LEVEL=debug",
	}, settings...)
	i.cmd.Stdout, i.cmd.Stderr = i.log, i.log
	require.NoError(w.t, i.cmd.Start())
	go func() {
		_ = i.cmd.Wait()
		close(i.done)
	}()
	i.Client, err = client.New(i.url, "")
	require.NoError(w.t, err)
	w.t.Cleanup(func() {
		i.kill()
		require.NotContains(w.t, i.log.String(), "DATA RACE")
		require.NotContains(w.t, i.log.String(), w.secret.Reveal(), "the secret is in the log")
	})
	require.Eventually(w.t, func() bool {
		_, err := i.Ready(w.t.Context())
		return err == nil
	}, e2eWait, 20*time.Millisecond, "not ready")
	return i
}

// kill ends it as a crash would.
func (i *instance) kill() {
	_ = i.cmd.Process.Kill()
	<-i.done
}

// stop asks it to end and answers its exit code.
func (i *instance) stop() int {
	i.t.Helper()
	require.NoError(i.t, i.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case <-i.done:
	case <-time.After(e2eWait):
		require.FailNow(i.t, "it does not stop", i.log.String())
	}
	return i.cmd.ProcessState.ExitCode()
}

// publish publishes a message of which only what matters is given.
func (i *instance) publish(m wire.Message) wire.Published {
	i.t.Helper()
	if m.Topic == "" {
		m.Topic = "order.paid"
	}
	if m.Body == nil {
		m.Body = []byte(`{"id":"` + m.ID + `"}`)
	}
	p, err := i.Publish(i.t.Context(), &m)
	require.NoError(i.t, err)
	return p
}

// delivery reads the only delivery of a message.
func (i *instance) delivery(id string) wire.Delivery {
	i.t.Helper()
	r, err := i.Message(i.t.Context(), id)
	require.NoError(i.t, err)
	require.Len(i.t, r.Deliveries, 1)
	return r.Deliveries[0]
}

// until waits until a message's delivery has a status, and answers it.
func (i *instance) until(id, status string) (d wire.Delivery) {
	i.t.Helper()
	require.Eventually(i.t, func() bool {
		r, err := i.Message(context.WithoutCancel(i.t.Context()), id)
		if err != nil || len(r.Deliveries) != 1 {
			return false
		}
		d = r.Deliveries[0]
		return d.Status == status
	}, e2eWait, 20*time.Millisecond, "%s never becomes %s", id, status)
	return d
}

// arrival is one callback as it came.
type arrival struct {
	at      time.Time
	attempt string
	header  http.Header
	body    string
}

// recorder is a receiver that records what comes and fails the test on anything that is not
// signed, or not JSON as the tests publish it.
type recorder struct {
	*httptest.Server
	t        *testing.T
	verifier *signer.Verifier

	mu     sync.Mutex // guards what follows
	answer func(w http.ResponseWriter, r *http.Request, id string, n int)
	got    map[string][]arrival
	news   chan struct{} // closed at each arrival, and made anew
}

func newTestReceiver(t *testing.T, secret signer.Secret) *recorder {
	t.Helper()
	r := &recorder{t: t, verifier: &signer.Verifier{Secrets: []signer.Secret{secret}}, got: map[string][]arrival{}, news: make(chan struct{})}
	// On all addresses, so that 127.0.1.x are as many destinations.
	ln, err := net.Listen("tcp4", ":0")
	require.NoError(t, err)
	r.Server = httptest.NewUnstartedServer(r)
	require.NoError(t, r.Listener.Close())
	r.Listener = ln
	r.Start()
	r.URL = fmt.Sprintf("http://127.0.0.1:%d", ln.Addr().(*net.TCPAddr).Port)
	t.Cleanup(func() {
		r.CloseClientConnections()
		r.Close()
	})
	return r
}

// answers says how the n-th callback (from 1) of a message is answered;
// without it everything is 200.
func (r *recorder) answers(f func(w http.ResponseWriter, req *http.Request, id string, n int)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = f
}

func (r *recorder) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := r.verifier.VerifyRequest(req)
	if err != nil {
		r.t.Errorf("a callback is not signed as it should be: %v", err)
	}
	id := req.Header.Get(signer.HeaderID)
	r.mu.Lock()
	r.got[id] = append(r.got[id], arrival{at: time.Now(), attempt: req.Header.Get("Hookladder-Attempt"), header: req.Header.Clone(), body: string(body)})
	n, answer := len(r.got[id]), r.answer
	close(r.news)
	r.news = make(chan struct{})
	r.mu.Unlock()
	if answer != nil {
		answer(w, req, id, n)
	}
}

// arrivals are the callbacks of a message so far.
func (r *recorder) arrivals(id string) []arrival {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got[id])
}

// ids are the messages that came, and how many callbacks there were in all.
func (r *recorder) ids() (distinct, all int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, list := range r.got {
		all += len(list)
	}
	return len(r.got), all
}

// until waits until what came satisfies ok.
func (r *recorder) until(what string, ok func() bool) {
	r.t.Helper()
	late := time.NewTimer(e2eWait)
	defer late.Stop()
	for {
		r.mu.Lock()
		news := r.news
		r.mu.Unlock()
		if ok() {
			return
		}
		select {
		case <-news:
		case <-late.C:
			require.FailNow(r.t, "never came: "+what)
		}
	}
}

// wait waits for the n-th callback of a message.
func (r *recorder) wait(id string, n int) arrival {
	r.t.Helper()
	r.until(fmt.Sprintf("callback %d of %s", n, id), func() bool { return len(r.arrivals(id)) >= n })
	return r.arrivals(id)[n-1]
}

// status answers with a status.
func status(code int) func(http.ResponseWriter, *http.Request, string, int) {
	return func(w http.ResponseWriter, _ *http.Request, _ string, _ int) { w.WriteHeader(code) }
}

// held holds callbacks back until released, and answers whether the caller was
// still there.
type held struct{ release chan struct{} }

func newHeld() *held { return &held{release: make(chan struct{})} }

func (h *held) wait(req *http.Request) bool {
	select {
	case <-h.release:
		return true
	case <-req.Context().Done():
		return false
	}
}

// problemOf is the API's problem behind an error.
func problemOf(t *testing.T, err error) *client.Problem {
	t.Helper()
	var p *client.Problem
	require.ErrorAs(t, err, &p)
	return p
}

// keys are the partition's keys, without the tag.
func (w *world) keys() []string {
	w.t.Helper()
	all, err := w.rdb.Keys(w.t.Context(), "{default:0}:*").Result()
	require.NoError(w.t, err)
	for i := range all {
		all[i] = strings.TrimPrefix(all[i], "{default:0}:")
	}
	slices.Sort(all)
	return all
}
