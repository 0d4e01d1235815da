package egress_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/egress"
)

// newBenchCall is a call of 1 KiB to a sink in this process, whose own cost is
// in both benchmarks.
func newBenchCall(b *testing.B) dispatcher.Call {
	b.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, "ok")
	}))
	b.Cleanup(s.Close)
	call := newTestCall(mustURL(b, s.URL))
	call.Body = bytes.Repeat([]byte("x"), 1024)
	return call
}

// plain makes the call as net/http alone does.
func plain(b *testing.B, client *http.Client, call dispatcher.Call) {
	b.Helper()
	ctx, stop := context.WithTimeout(b.Context(), 15*time.Second)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, call.URL.String(), bytes.NewReader(call.Body))
	if err != nil {
		b.Error(err)
		return
	}
	for name, values := range call.Header {
		req.Header[name] = values
	}
	resp, err := client.Do(req)
	if err != nil {
		b.Error(err)
		return
	}
	defer resp.Body.Close()
	if _, err := io.ReadAll(resp.Body); err != nil {
		b.Error(err)
	}
}

// ours makes the same call by Client.Send.
func ours(b *testing.B, client *egress.Client, call dispatcher.Call) {
	b.Helper()
	ctx, stop := context.WithTimeout(b.Context(), 15*time.Second)
	defer stop()
	if a := client.Send(ctx, call); a.Status != http.StatusOK {
		b.Error(a.Err)
	}
}

// BenchmarkPlain is what net/http alone costs for the same call.
func BenchmarkPlain(b *testing.B) {
	call := newBenchCall(b)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 128, DisableCompression: true}}
	defer client.CloseIdleConnections()
	bench(b, func() { plain(b, client, call) })
}

// BenchmarkSend is the same call by Client.Send.
func BenchmarkSend(b *testing.B) {
	call := newBenchCall(b)
	client := newTestClient(b, quickRetries(1))
	bench(b, func() { ours(b, client, call) })
}

// bench makes calls one after another, and many at once.
func bench(b *testing.B, call func()) {
	b.Run("one", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			call()
		}
	})
	b.Run("many", func(b *testing.B) {
		b.SetParallelism(max(1, 64/runtime.GOMAXPROCS(0)))
		b.ReportAllocs()
		b.RunParallel(func(p *testing.PB) {
			for p.Next() {
				call()
			}
		})
	})
}

// BenchmarkGuard is the judgement of an address that no network holds: the
// whole table is read.
func BenchmarkGuard(b *testing.B) {
	g := egress.NewGuard(mustPrefixes(b, "10.1.0.0/16"))
	public := at("2606:4700::1")
	b.ReportAllocs()
	for b.Loop() {
		if err := g.Addr(public); err != nil {
			b.Fatal(err)
		}
	}
}
