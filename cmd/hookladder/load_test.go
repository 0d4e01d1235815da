package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/redistest"
	"github.com/hookladder/hookladder/signer"
)

var loadMessages = flag.Int("load.messages", 20_000, "messages of each part of BenchmarkLoad")

const (
	loadCallers = 64
	loadBody    = 1024 // bytes
	loadWithin  = 5 * time.Minute
)

// BenchmarkLoad measures how close the built binary on a real Redis with AOF
// comes to the limit of the machine: a bare loop of signed POSTs to the same
// receiver, which is a process of its own and checks every signature. Each
// part fails if a message is lost, comes twice, or comes unsigned.
//
//	go test ./cmd/hookladder -run '^$' -bench Load -benchtime 1x -load.messages 100000
//
// limit/s is the loop's rate. drain/limit is that of messages that are all due
// at once, through/limit that of messages published one by one by 64 callers
// at the same time. redis-µs is Redis' CPU time for one delivery.
func BenchmarkLoad(b *testing.B) {
	binary := filepath.Join(b.TempDir(), "hookladder")
	built, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput()
	require.NoError(b, err, string(built))
	secret := signer.NewSecret()
	sum := map[string]float64{}
	for b.Loop() {
		l := newLoad(b, binary, secret)
		before := l.bare("a")
		drain, drainCPU := l.drain()
		through, throughCPU := l.through()
		limit := (before + l.bare("b")) / 2
		for name, value := range map[string]float64{
			"limit/s": limit, "drain/limit": drain / limit, "through/limit": through / limit,
			"drain-redis-µs": drainCPU, "through-redis-µs": throughCPU,
		} {
			sum[name] += value
		}
		l.stop()
	}
	b.ReportMetric(0, "ns/op")
	for name, value := range sum {
		b.ReportMetric(value/float64(b.N), name)
	}
}

// load is one run's processes.
type load struct {
	b        testing.TB
	n        int
	sign     *signer.Signer
	redis    *redis.Client
	receiver string // its URL
	api      string
	http     *http.Client
	stop     func()
}

func newLoad(b testing.TB, binary string, secret signer.Secret) *load {
	b.Helper()
	sign, err := signer.NewSigner(secret)
	require.NoError(b, err)
	server := redistest.Start(b)
	opts, err := redis.ParseURL(server.URL())
	require.NoError(b, err)
	l := &load{
		b: b, n: *loadMessages / loadCallers * loadCallers, sign: sign, redis: redis.NewClient(opts),
		receiver: "http://" + freeAddr(b), api: "http://" + freeAddr(b),
		http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: loadCallers}},
	}
	self, err := os.Executable()
	require.NoError(b, err)
	sink := exec.Command(self, "-test.run", "^TestLoadReceiver$")
	sink.Env = append(os.Environ(), "HOOKLADDER_LOAD_RECEIVER="+strings.TrimPrefix(l.receiver, "http://"), "HOOKLADDER_LOAD_SECRET="+secret.Reveal())
	serve := exec.Command(binary, "serve")
	serve.Env = append(os.Environ(), "REDIS_URL="+server.URL(), "LISTEN="+strings.TrimPrefix(l.api, "http://"),
		"SIGNING_SECRET="+secret.Reveal(), "ALLOW_NETS=127.0.0.0/8", "RETENTION_MAX=1000000")
	var processes []*exec.Cmd
	l.stop = sync.OnceFunc(func() {
		for _, p := range processes {
			_ = p.Process.Signal(os.Interrupt)
			_ = p.Wait()
		}
		_ = l.redis.Close()
		l.http.CloseIdleConnections()
		server.Stop()
	})
	b.Cleanup(l.stop)
	for _, p := range []*exec.Cmd{sink, serve} {
		p.Stderr = os.Stderr
		require.NoError(b, p.Start())
		processes = append(processes, p)
	}
	for _, url := range []string{l.receiver + "/report", l.api + "/readyz"} {
		require.Eventually(b, func() bool {
			res, err := l.http.Get(url)
			if err != nil {
				return false
			}
			_ = res.Body.Close()
			return res.StatusCode == http.StatusOK
		}, 20*time.Second, 10*time.Millisecond, url)
	}
	return l
}

func freeAddr(b testing.TB) string {
	b.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	defer func() { _ = ln.Close() }()
	return ln.Addr().String()
}

// payload is a JSON text of loadBody bytes.
var payload = `{"order":12345678901234567890,"pad":"` + strings.Repeat("x", loadBody-39) + `"}`

// each has 64 callers make n calls in all.
func (l *load) each(call func(i int) error) {
	l.b.Helper()
	var wg sync.WaitGroup
	var failed atomic.Pointer[error]
	for caller := range loadCallers {
		wg.Go(func() {
			for i := caller; i < l.n && failed.Load() == nil; i += loadCallers {
				if err := call(i); err != nil {
					failed.CompareAndSwap(nil, &err)
				}
			}
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		require.NoError(l.b, *err)
	}
}

func (l *load) post(url string, header http.Header, body string, status int) error {
	req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header = header
	res, err := l.http.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != status {
		err = fmt.Errorf("%s: %s", res.Status, text)
	}
	return err
}

// bare is the limit: signed POSTs straight to the receiver, in deliveries a second.
func (l *load) bare(run string) float64 {
	body := []byte(payload)
	begin := time.Now()
	l.each(func(i int) error {
		id, at := "bare"+run+"_"+strconv.Itoa(i), time.Now()
		return l.post(l.receiver+"/bare"+run, http.Header{
			"Content-Type": {"application/json"}, "Webhook-Id": {id},
			"Webhook-Timestamp": {strconv.FormatInt(at.Unix(), 10)}, "Webhook-Signature": {l.sign.Sign(id, at, body)},
		}, payload, http.StatusOK)
	})
	took := time.Since(begin)
	l.arrived("bare" + run)
	return float64(l.n) / took.Seconds()
}

func (l *load) message(run string, i int, more string) string {
	return `{"id":"` + run + "_" + strconv.Itoa(i) + `","topic":"order.paid","url":"` + l.receiver + "/" + run + `"` + more + `,"body":` + payload + `}`
}

var asJSON = http.Header{"Content-Type": {"application/json"}}

// drain publishes messages that are all due at one later moment and measures
// from then on.
func (l *load) drain() (rate, cpu float64) {
	due := time.Now().Add(3*time.Second + time.Duration(l.n)*200*time.Microsecond)
	more := `,"deliver_at":"` + due.UTC().Format(time.RFC3339Nano) + `"`
	const batch = 500
	for from := 0; from < l.n; from += batch {
		var all []string
		for i := from; i < min(from+batch, l.n); i++ {
			all = append(all, l.message("drain", i, more))
		}
		require.NoError(l.b, l.post(l.api+"/v1/messages/batch", asJSON, `{"messages":[`+strings.Join(all, ",")+`]}`, http.StatusAccepted))
	}
	require.True(l.b, time.Now().Before(due), "publishing took too long for what was due to wait")
	<-time.After(time.Until(due))
	before := l.cpu()
	l.arrived("drain")
	took := time.Since(due)
	l.settled()
	return float64(l.n) / took.Seconds(), (l.cpu() - before) / float64(l.n)
}

// through publishes one by one and measures until all has arrived.
func (l *load) through() (rate, cpu float64) {
	before, begin := l.cpu(), time.Now()
	l.each(func(i int) error {
		return l.post(l.api+"/v1/messages", asJSON, l.message("through", i, ""), http.StatusAccepted)
	})
	l.arrived("through")
	took := time.Since(begin)
	l.settled()
	return float64(l.n) / took.Seconds(), (l.cpu() - before) / float64(l.n)
}

// arrived waits until the receiver has got all of a run, and fails if it got
// anything else.
func (l *load) arrived(run string) {
	l.b.Helper()
	for deadline := time.Now().Add(loadWithin); ; {
		res, err := l.http.Get(l.receiver + "/report?run=" + run + "&n=" + strconv.Itoa(l.n))
		require.NoError(l.b, err)
		text, err := io.ReadAll(res.Body)
		require.NoError(l.b, errors.Join(err, res.Body.Close()))
		var distinct, all, bad int
		_, err = fmt.Sscan(string(text), &distinct, &all, &bad)
		require.NoError(l.b, err)
		require.Zero(l.b, bad, "unsigned, changed or unknown")
		if distinct >= l.n || time.Now().After(deadline) {
			require.Equal(l.b, l.n, distinct, "lost")
			require.Equal(l.b, l.n, all, "came twice")
			return
		}
	}
}

// settled waits until the store has every outcome, and looks at what it keeps.
func (l *load) settled() {
	ctx := context.Background()
	require.Eventually(l.b, func() bool {
		counts := l.redis.HGetAll(ctx, "{default:0}:counts").Val()
		return len(counts) == 1 && counts["delivered"] != ""
	}, 30*time.Second, 10*time.Millisecond)
	keys, err := l.redis.Keys(ctx, "*").Result()
	require.NoError(l.b, err)
	for _, key := range keys {
		name := strings.TrimPrefix(key, "{default:0}:")
		require.Contains(l.b, []string{"messages", "done", "in", "lane", "known", "counts", "attempts", "{default}:meta", "{default}:instances", "{default}:departed"}, name)
	}
}

// cpu is what Redis has used so far, in microseconds.
func (l *load) cpu() (total float64) {
	for line := range strings.Lines(l.redis.Info(context.Background(), "cpu").Val()) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_sys" || name == "used_cpu_user" {
			seconds, err := strconv.ParseFloat(value, 64)
			require.NoError(l.b, err)
			total += seconds * 1e6
		}
	}
	return total
}

// TestLoadReceiver is the receiver of BenchmarkLoad when that starts it as a
// process, and nothing otherwise.
func TestLoadReceiver(t *testing.T) {
	addr := os.Getenv("HOOKLADDER_LOAD_RECEIVER")
	if addr == "" {
		return
	}
	secrets, err := signer.ParseSecrets(os.Getenv("HOOKLADDER_LOAD_SECRET"))
	require.NoError(t, err)
	r := &loadReceiver{verifier: &signer.Verifier{Secrets: secrets}, runs: map[string]*loadRun{}}
	server := &http.Server{Addr: addr, Handler: r, ReadHeaderTimeout: time.Minute}
	require.NoError(t, server.ListenAndServe())
}

type loadReceiver struct {
	verifier *signer.Verifier
	mu       sync.Mutex // guards runs
	runs     map[string]*loadRun
}

type loadRun struct {
	seen     map[string]int
	all, bad int
	reached  chan struct{} // closed when want is
	want     int
}

func (r *loadReceiver) run(name string) *loadRun {
	if r.runs[name] == nil {
		r.runs[name] = &loadRun{seen: map[string]int{}, reached: make(chan struct{}), want: -1}
	}
	return r.runs[name]
}

func (r *loadReceiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if req.URL.Path == "/report" {
		r.report(w, req)
		return
	}
	body, err := r.verifier.VerifyRequest(req)
	id, name := req.Header.Get(signer.HeaderID), req.URL.Path[1:]
	good := err == nil && bytes.Equal(body, []byte(payload)) && strings.HasPrefix(id, name+"_")
	r.mu.Lock()
	defer r.mu.Unlock()
	run := r.run(name)
	run.all++
	run.seen[id]++
	if !good {
		run.bad++
	}
	if len(run.seen) == run.want {
		close(run.reached)
		run.want = -1
	}
}

// report waits until n of a run have come, or a little while, and tells how
// many there are, how many requests there were, and how many were not as they
// should be.
func (r *loadReceiver) report(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	run := r.run(req.URL.Query().Get("run"))
	reached := run.reached
	if n, err := strconv.Atoi(req.URL.Query().Get("n")); err == nil && len(run.seen) < n {
		run.want = n
	} else {
		reached = nil
	}
	r.mu.Unlock()
	if reached != nil {
		select {
		case <-reached:
		case <-time.After(10 * time.Second):
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	_, _ = fmt.Fprintln(w, len(run.seen), run.all, run.bad)
}
