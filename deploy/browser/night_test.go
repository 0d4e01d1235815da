package browser_test

import (
	"bytes"
	"compress/gzip"
	"flag"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// A night is an outage: 300 tenants with two endpoints each, of which 90 endpoints are behind an
// open breaker for three reasons, with all that waits for them, and what has died already.
type night struct{ tenants, broken, waiting, dead int }

// nightWaiting makes the nights of all tests as large as one that people reported.
var nightWaiting = flag.Int("night.waiting", 0, "so many deliveries wait in each outage (200,000 need a minute and 400 MB of Redis); 0: as many as the test needs")

// large is the night of a test, which needs only a small one, by the flag.
func (n night) large() night {
	if *nightWaiting > 0 {
		n = night{tenants: 300, broken: 90, waiting: *nightWaiting, dead: *nightWaiting / 100}
	}
	return n
}

// nightWorld is a world in such a night.
type nightWorld struct {
	*world
	night
}

// last is the last of the messages that wait for the broken endpoint with a number.
func (n night) last(endpoint int) int { return endpoint + (n.waiting-1-endpoint)/n.broken*n.broken }

// newNight makes one.
func newNight(b testing.TB, n night, settings ...string) *nightWorld {
	b.Helper()
	w := newWorld(b, append([]string{"BREAKER=1/10m", "LADDER=10h", "QUICK_RETRIES=0"}, settings...)...)
	w.answers(func(rw http.ResponseWriter, path string) bool {
		status, text := 0, ""
		switch {
		case w.mended(path):
		case path == "broken":
			status, text = http.StatusInternalServerError, strings.Repeat("the table of orders is locked ", 7)
		case strings.HasPrefix(path, "wrong"):
			status, text = http.StatusUnauthorized, "the signature does not match"
		}
		if status > 0 {
			rw.WriteHeader(status)
			_, _ = io.WriteString(rw, text)
		}
		return status > 0
	})
	urls := []string{w.at("fail"), w.at("broken"), w.gone}
	var broken []string
	for k := range n.tenants {
		tenant := fmt.Sprint("tenant-", k)
		w.endpoint(wire.Endpoint{UID: tenant + ":orders", Tenant: tenant, URL: fmt.Sprint(w.at("ok/"), k)})
		url := fmt.Sprint(w.at("ok/second/"), k)
		if k < n.broken {
			url = fmt.Sprint(urls[k%len(urls)], "/", k)
		}
		id := w.endpoint(wire.Endpoint{UID: tenant + ":stock", Tenant: tenant, URL: url})
		if k < n.broken {
			broken = append(broken, id)
		}
	}
	publish := func(prefix string, count int, more func(m *wire.Message)) {
		batch := make([]wire.Message, 0, 100)
		for k := range count {
			at := k % len(broken)
			m := wire.Message{
				ID: fmt.Sprint(prefix, k), Topic: "order.paid", Endpoint: broken[at], Tenant: fmt.Sprint("tenant-", at),
				Subject: fmt.Sprint("order-", 4_000_000+k), Body: []byte(fmt.Sprintf(`{"order":%d,"amount":100}`, k)),
			}
			if more != nil {
				more(&m)
			}
			if batch = append(batch, m); len(batch) == cap(batch) || k == count-1 {
				_, err := w.PublishBatch(b.Context(), batch)
				require.NoError(b, err)
				batch = batch[:0]
			}
		}
	}
	publish("first_", n.broken, nil) // opens the breakers
	w.untilStats("all breakers are open", func(s wire.Stats) bool { return s.Counts["retrying"] == int64(n.broken) })
	publish("dead_", n.dead, func(m *wire.Message) { m.ExpiresAt = wire.Time{Time: time.Now().Add(time.Second)} })
	publish("waits_", n.waiting, nil)
	w.untilStats("what has expired is dead", func(s wire.Stats) bool { return s.Counts["dead"] == int64(n.dead) })
	return &nightWorld{w, n}
}

func (w *world) untilStats(what string, ok func(wire.Stats) bool) {
	w.t.Helper()
	require.NoError(w.t, kit.Until(w.t.Context(), what, func() error {
		s, err := w.Stats(w.t.Context())
		if err == nil && !ok(s) {
			err = fmt.Errorf("the counts are %v", s.Counts)
		}
		return err
	}))
}

// BenchmarkPagesAtNight opens each page twenty times. It prints the fastest response and the bytes
// with which all of the page is sent to a browser without a cache, and fails above 100 ms and 120 KB.
func BenchmarkPagesAtNight(b *testing.B) {
	w := newNight(b, night{tenants: 300, broken: 90, waiting: 200_000, dead: 2_000}.large())
	require.NoError(b, kit.Until(b.Context(), "all causes are on the first page", func() error {
		page, _ := w.sent(b, "/console/")
		if !bytes.Contains(page, []byte("90 endpoints fail")) || bytes.Count(page, []byte(`class="card cause"`)) != 3 {
			return fmt.Errorf("it is:\n%s", page)
		}
		return nil
	}))
	for _, path := range []string{
		"/", "/deliveries", "/deliveries?status=ready", "/deliveries?tenant=tenant-7", "/deliveries?q=order-4001234", "/dead", "/jobs", "/jobs/new?status=dead",
		"/endpoints", "/endpoints?state=failing", "/endpoints?like=tenant-7", "/endpoints/tenant-7:stock", "/endpoints/tenant-7:orders", "/failing",
		"/lanes", "/messages/waits_4711", "/messages/dead_47", "/system", "/audit", "/links",
	} {
		b.Run(strings.ReplaceAll(strings.Trim(path, "/"), "/", "-"), func(b *testing.B) {
			fastest, cold, page := time.Hour, 0, []byte(nil)
			for b.Loop() {
				for range 20 {
					began := time.Now()
					page, cold = w.sent(b, "/console"+path)
					fastest = min(fastest, time.Since(began))
				}
			}
			for _, asset := range w.assets(b, page) {
				_, size := w.sent(b, asset)
				cold += size
			}
			b.ReportMetric(float64(fastest.Microseconds())/1000, "fastest-ms")
			b.ReportMetric(float64(cold)/1000, "cold-KB")
			if fastest > 100*time.Millisecond || cold > 120_000 {
				b.Errorf("%s: the fastest response takes %s, and the page has %d bytes", path, fastest, cold)
			}
		})
	}
}

// sent returns what a browser reads of a page or a part of it, and the bytes with which it is sent.
func (w *world) sent(b *testing.B, path string) (body []byte, size int) {
	b.Helper()
	req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, w.page(path), nil)
	require.NoError(b, err)
	req.Header.Set("Accept-Encoding", "gzip")
	res, err := http.DefaultClient.Do(req)
	require.NoError(b, err)
	defer res.Body.Close()
	body, err = io.ReadAll(res.Body)
	require.NoError(b, err)
	require.Equal(b, http.StatusOK, res.StatusCode, path)
	size = len(body)
	if res.Header.Get("Content-Encoding") == "gzip" {
		zipped, err := gzip.NewReader(bytes.NewReader(body))
		require.NoError(b, err)
		body, err = io.ReadAll(zipped)
		require.NoError(b, err)
	}
	return body, size
}

var loaded = regexp.MustCompile(`(?:src|href)="([^"]*/static/[^"]+)"`)

// assets returns what a browser loads for a page.
func (w *world) assets(b *testing.B, page []byte) (paths []string) {
	b.Helper()
	for _, m := range loaded.FindAllSubmatch(page, -1) {
		paths = append(paths, string(m[1]))
	}
	require.NotEmpty(b, paths)
	slices.Sort(paths)
	return slices.Compact(paths)
}
