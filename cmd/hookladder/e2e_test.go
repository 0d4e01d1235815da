package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/signer"
)

// e2eWait bounds how long an end-to-end test waits for what always comes: it is
// there to end a test that hangs, and decides nothing else. A takeover takes
// 10 s, on a busy machine several times that.
const e2eWait = 3 * time.Minute

// binary is the real one, built once with the race detector.
var (
	binary    = sync.OnceValues(build)
	binaryDir string // empty while nothing was built
)

// raceAtExit ends a process that ends at once: the race detector would have it
// sleep for a second, in case that another thread finds something.
const raceAtExit = "GORACE=atexit_sleep_ms=0"

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
	flag.Parse()
	waitTogether()
	code := m.Run()
	if binaryDir != "" {
		_ = os.RemoveAll(binaryDir)
	}
	os.Exit(code)
}

// waitTogether has twice as many tests run at once as there are processors,
// unless -parallel says how many: the tests of processes wait most of the time.
func waitTogether() {
	const parallel = "test.parallel"
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == parallel })
	if given {
		return
	}
	if err := flag.Set(parallel, strconv.Itoa(2*runtime.GOMAXPROCS(0))); err != nil {
		panic(err) // the flag of package testing is a number
	}
}

// world is a Redis, a receiver and any number of instances.
type world struct {
	t        testing.TB
	redis    *redistest.Server // nil where the instances are on something else
	rdb      *redis.Client     // to that
	settings []string          // of every instance
	binary   string            // that they run; empty: the one built with the race detector
	receiver *recorder
	secret   signer.Secret
}

// newWorld starts a Redis, with more lines of redis.conf, and a receiver.
func newWorld(t testing.TB, settings ...string) *world {
	t.Helper()
	server := redistest.Start(t, settings...)
	opts, err := redis.ParseURL(server.URL())
	require.NoError(t, err)
	w := newWorldOn(t, server.URL())
	w.redis, w.rdb = server, redis.NewClient(opts)
	t.Cleanup(func() { _ = w.rdb.Close() })
	return w
}

// newWorldOn starts a receiver. The instances are on what is at url, as
// REDIS_URL has it: a cluster, sentinels, a proxy.
func newWorldOn(t testing.TB, url string, settings ...string) *world {
	t.Helper()
	w := &world{t: t, settings: append([]string{"REDIS_URL=" + url}, settings...), secret: signer.NewSecret()}
	w.receiver = newTestReceiver(t, w.secret)
	return w
}

// instance is one process of the binary.
type instance struct {
	*client.Client
	t        testing.TB
	receiver *recorder
	cmd      *exec.Cmd
	url      string
	log      *lockedBuffer
	done     chan struct{} // closed when it has ended
	troubled bool          // the test takes its store away, so that its log may tell of errors
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
	path, err := w.binary, error(nil)
	if path == "" {
		path, err = binary()
	}
	require.NoError(w.t, err)
	i := &instance{t: w.t, receiver: w.receiver, log: &lockedBuffer{}, done: make(chan struct{})}
	i.cmd = exec.Command(path, "serve")
	i.cmd.Env = slices.Concat([]string{
		"LISTEN=127.0.0.1:0", "SIGNING_SECRET=" + w.secret.Reveal(), "ALLOW_NETS=127.0.0.0/8", "LOG_LEVEL=debug", raceAtExit,
		"ATTEMPT_TIMEOUT=60s", // no attempt that a test holds ends by itself meanwhile
	}, w.settings, settings)
	i.cmd.Stdout, i.cmd.Stderr = i.log, i.log
	require.NoError(w.t, i.cmd.Start())
	go func() {
		_ = i.cmd.Wait()
		close(i.done)
	}()
	w.t.Cleanup(func() {
		i.kill()
		require.NotContains(w.t, i.log.String(), "DATA RACE")
		require.NotContains(w.t, i.log.String(), w.secret.Reveal(), "the secret is in the log")
		if !i.troubled {
			require.NotContains(w.t, i.log.String(), `"level":"ERROR"`)
		}
	})
	i.says(`"msg":"started"`)
	addr := i.tells("listen")
	if addr == listenOff {
		addr = i.tells("metrics") // where it tells how it is
	}
	i.url = "http://" + addr
	i.Client, err = client.New(i.url, "")
	require.NoError(w.t, err)
	require.Eventually(w.t, func() bool {
		_, err := i.Ready(w.t.Context())
		return err == nil
	}, e2eWait, 20*time.Millisecond, "not ready")
	return i
}

// says waits until the log has a text, or the process has ended.
func (i *instance) says(text string) {
	i.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	late := time.After(e2eWait)
	for !strings.Contains(i.log.String(), text) {
		select {
		case <-tick.C:
		case <-i.done:
			require.Contains(i.t, i.log.String(), text, "it has ended")
		case <-late:
			require.FailNow(i.t, "it never says "+text, i.log.String())
		}
	}
}

// tells is the text of a key of the line with which it started.
func (i *instance) tells(key string) string {
	_, text, _ := strings.Cut(i.log.String(), `"msg":"started"`)
	_, text, _ = strings.Cut(text, `"`+key+`":"`)
	text, _, _ = strings.Cut(text, `"`)
	return text
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

// Publish publishes a message; from then on the receiver may get it.
func (i *instance) Publish(ctx context.Context, m *wire.Message) (wire.Published, error) {
	p, err := i.Client.Publish(ctx, m)
	var refused *client.Problem
	if !errors.As(err, &refused) || refused.Status >= 500 { // else it may have been stored
		i.receiver.expect(cmp.Or(m.ID, p.ID), m)
	}
	return p, err
}

// PublishBatch does the same with several.
func (i *instance) PublishBatch(ctx context.Context, messages []wire.Message) ([]wire.Result, error) {
	results, err := i.Client.PublishBatch(ctx, messages)
	for n, r := range results {
		if r.Problem == nil {
			i.receiver.expect(r.ID, &messages[n])
		}
	}
	return results, err
}

// call makes a call that the client would not make, or would not show enough of.
func (i *instance) call(method, path, body string, header http.Header) (*http.Response, string) {
	i.t.Helper()
	req, err := http.NewRequestWithContext(i.t.Context(), method, i.url+path, strings.NewReader(body))
	require.NoError(i.t, err)
	if header != nil {
		req.Header = header
	}
	res, err := http.DefaultClient.Do(req)
	require.NoError(i.t, err)
	text, err := io.ReadAll(res.Body)
	require.NoError(i.t, errors.Join(err, res.Body.Close()))
	return res, string(text)
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

// makeDue has what waits for its time in a partition become due, all or one
// delivery. It works in a store that is full: that refuses only scripts that add
// before they take away.
func (w *world) makeDue(partition int, only ...string) {
	w.t.Helper()
	require.NoError(w.t, w.rdb.Eval(w.t.Context(), `
		for _, id in ipairs(redis.call('zrange', KEYS[1], 0, -1)) do
			if not ARGV[2] or ARGV[2] == id then
				redis.call('zrem', KEYS[1], id)
				redis.call('zadd', KEYS[1], ARGV[1], id)
			end
		end
		return 0`, []string{fmt.Sprintf("{default:%d}:due", partition)}, append([]string{fmt.Sprint(time.Now().UnixMilli())}, only...)).Err())
}

// waiting is how many deliveries wait for their time in the only partition.
func (w *world) waiting() int64 {
	w.t.Helper()
	n, err := w.rdb.ZCard(w.t.Context(), "{default:0}:due").Result()
	require.NoError(w.t, err)
	return n
}

// problemOf is the API's problem behind an error.
func problemOf(t testing.TB, err error) *client.Problem {
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

// alive waits until so many instances are known: the dead are forgotten after
// what they held was moved.
func (w *world) alive(n int) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		return len(w.rdb.HKeys(context.WithoutCancel(w.t.Context()), "{default}:instances").Val()) == n
	}, e2eWait, 20*time.Millisecond, "instances")
}
