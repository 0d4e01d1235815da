package e2e_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/signer"
)

var isolationHung = flag.Int("isolation.hung", 200, "endpoints that hang in BenchmarkIsolation; they share 20,000 messages")

const (
	isolationInstances = 3
	isolationFor       = 15 * time.Second // as long as a hung attempt: one wave of them ends meanwhile
	isolationRate      = 50               // messages a second to the healthy endpoint
)

// payload is a JSON text of 1 KiB.
var payload = []byte(`{"order":12345678901234567890,"pad":"` + strings.Repeat("x", 1024-39) + `"}`)

// fleet is three instances on one Redis, and a receiver that hangs where it is
// told to.
type fleet struct {
	b     testing.TB
	all   []*instance
	url   string // of the receiver
	crowd *opened

	mu    sync.Mutex // guards what follows
	hung  map[string]bool
	came  map[string]time.Time // by message id, the first time
	count map[string]int       // by path
}

func newFleet(b testing.TB) *fleet {
	b.Helper()
	f := &fleet{b: b, crowd: newOpened(), hung: map[string]bool{}, came: map[string]time.Time{}, count: map[string]int{}}
	receiver := httptest.NewServer(f)
	b.Cleanup(receiver.Close)
	f.url = receiver.URL
	w := newWorld(b, "appendfsync everysec")
	w.binary = mustFastBinary(b)
	f.all = w.serves(isolationInstances, "LOG_LEVEL=warn")
	return f
}

// mustFastBinary is the real program as it is used.
func mustFastBinary(b testing.TB) string {
	b.Helper()
	path, err := kit.FastBinary()
	require.NoError(b, err)
	return path
}

func (f *fleet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	f.crowd.enter(r.URL.Path)
	defer f.crowd.leave(r.URL.Path)
	id := r.Header.Get(signer.HeaderID)
	f.mu.Lock()
	if _, known := f.came[id]; !known {
		f.came[id] = now
	}
	f.count[r.URL.Path]++
	hung := f.hung[r.URL.Path]
	f.mu.Unlock()
	_, _ = io.Copy(io.Discard, r.Body)
	if hung {
		<-r.Context().Done() // the caller gives up after its 15 s
	}
}

func (f *fleet) hang(paths ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, path := range paths {
		f.hung[path] = true
	}
}

func (f *fleet) arrived(path string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.count[path]
}

// register makes endpoints that only take what names them; their uids are
// their paths without the slash.
func (f *fleet) register(e wire.Endpoint, paths ...string) {
	f.b.Helper()
	for _, path := range paths {
		e.UID, e.URL, e.Topics = strings.TrimPrefix(path, "/"), f.url+path, []string{}
		_, _, err := f.all[0].CreateEndpoint(context.Background(), &e)
		require.NoError(f.b, err)
	}
}

// pour publishes n messages to each endpoint, in batches.
func (f *fleet) pour(run string, n int, paths ...string) {
	f.b.Helper()
	var batch []wire.Message
	flush := func() {
		results, err := f.all[0].Client.PublishBatch(context.Background(), batch)
		require.NoError(f.b, err)
		for _, r := range results {
			require.Nil(f.b, r.Problem)
		}
		batch = batch[:0]
	}
	for i := range n {
		for _, path := range paths {
			uid := strings.TrimPrefix(path, "/")
			batch = append(batch, wire.Message{
				ID: fmt.Sprintf("%s-%s-%d", run, uid, i), Topic: "order.paid", Endpoint: uid, Body: payload,
			})
			if len(batch) == 500 {
				flush()
			}
		}
	}
	if len(batch) > 0 {
		flush()
	}
}

// times publishes to an endpoint at a steady rate, through each instance in
// turn, and answers the times from publish to arrival, sorted.
func (f *fleet) times(run, path string, every time.Duration, n int) []time.Duration {
	f.b.Helper()
	begun := make([]time.Time, n)
	var failed atomic.Int64
	var wg sync.WaitGroup
	tick := time.NewTicker(every)
	defer tick.Stop()
	for i := range n {
		<-tick.C
		wg.Go(func() {
			begun[i] = time.Now()
			m := wire.Message{ID: fmt.Sprint(run, i), Topic: "order.paid", Endpoint: strings.TrimPrefix(path, "/"), Body: payload}
			if _, err := f.all[i%len(f.all)].Client.Publish(context.Background(), &m); err != nil {
				failed.Add(1)
			}
		})
	}
	wg.Wait()
	require.Zero(f.b, failed.Load())
	var took []time.Duration
	eventually(f.b, "all arrive", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		took = took[:0]
		for i := range n {
			if at, ok := f.came[fmt.Sprint(run, i)]; ok {
				took = append(took, at.Sub(begun[i]))
			}
		}
		return len(took) == n
	})
	slices.Sort(took)
	return took
}

// BenchmarkIsolation measures what a healthy endpoint feels of others, with
// three instances on one Redis: p99 from publish to arrival at 50 messages a
// second. Meanwhile 200 endpoints hang with 100 messages each (hung). Then eight
// that were fast until then begin to hang, with 128 attempts each in flight
// (turned). It fails where an endpoint ever has more in flight than its
// limit.
//
//	go test ./deploy/e2e -run '^$' -bench Isolation -benchtime 1x -isolation.hung 5000
func BenchmarkIsolation(b *testing.B) {
	for b.Loop() {
		f := newFleet(b)
		paths := func(name string, n int) (list []string) {
			for i := range n {
				list = append(list, fmt.Sprintf("/%s%d", name, i))
			}
			return list
		}
		hung, turned := paths("hung", *isolationHung), paths("turned", 8)
		f.register(wire.Endpoint{}, append(append([]string{"/healthy"}, hung...), turned...)...)
		f.hang(hung...)
		n := int(isolationFor.Seconds()) * isolationRate
		every := time.Second / isolationRate
		report(b, "alone", f.times("alone", "/healthy", every, n/3))
		f.pour("hang", max(20_000 / *isolationHung, 1), hung...)
		report(b, "hung", f.times("hung", "/healthy", every, n))

		f.pour("grow", 2000, turned...) // fast: their windows grow to 128
		for _, path := range turned {
			eventually(b, "enough arrives", func() bool { return f.arrived(path) >= 2000 })
		}
		f.hang(turned...)
		f.pour("turn", 400, turned...)
		report(b, "turned", f.times("turned", "/healthy", every, n))
		for _, path := range append(hung, turned...) {
			_, most := f.crowd.now(path)
			require.LessOrEqual(b, most, 128, path)
		}
		_, most := f.crowd.now(turned[0])
		b.ReportMetric(float64(most), "turned-in-flight")
	}
	b.ReportMetric(0, "ns/op")
}

func report(b *testing.B, what string, sorted []time.Duration) {
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	b.ReportMetric(ms(sorted[len(sorted)/2]), what+"-p50-ms")
	b.ReportMetric(ms(sorted[len(sorted)*99/100]), what+"-p99-ms")
	b.ReportMetric(ms(sorted[len(sorted)-1]), what+"-max-ms")
}

// BenchmarkRate measures how evenly 1,000 messages that wait come to an
// endpoint with a rate of 20 a second, with three instances. It tells the least
// and the most in any of 15 seconds, which begin with the first arrival.
//
//	go test ./deploy/e2e -run '^$' -bench Rate -benchtime 1x
func BenchmarkRate(b *testing.B) {
	const seconds = 15
	for b.Loop() {
		f := newFleet(b)
		f.register(wire.Endpoint{Rate: "20/s"}, "/slow")
		f.pour("rate", 1000, "/slow")
		eventually(b, "enough arrives", func() bool { return f.arrived("/slow") > 20*(seconds+1) })
		f.mu.Lock()
		var at []time.Time
		for _, t := range f.came {
			at = append(at, t)
		}
		f.mu.Unlock()
		slices.SortFunc(at, time.Time.Compare)
		var in [seconds]int
		for _, t := range at {
			if s := int(t.Sub(at[0]) / time.Second); s < seconds {
				in[s]++
			}
		}
		b.ReportMetric(float64(slices.Min(in[:])), "least/s")
		b.ReportMetric(float64(slices.Max(in[:])), "most/s")
	}
	b.ReportMetric(0, "ns/op")
}
