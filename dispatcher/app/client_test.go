package app_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// lossy is a proxy that loses every third call, or its answer.
type lossy struct {
	to http.Handler

	mu     sync.Mutex // guards what follows
	random *rand.Rand
	lost   map[string]int // by how
}

func newTestLossy(t testing.TB, api string) *lossy {
	t.Helper()
	u, err := url.Parse(api)
	require.NoError(t, err)
	// It adds no header that names who called it: without keys those are refused.
	to := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(u) }}
	return &lossy{to: to, random: rand.New(rand.NewPCG(1, 2)), lost: map[string]int{}}
}

func (l *lossy) fate() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	fates := []string{"call", "answer", "half an answer", "503"}
	n := l.random.IntN(3 * len(fates))
	if n >= len(fates) {
		return ""
	}
	l.lost[fates[n]]++
	return fates[n]
}

func (l *lossy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	fate := l.fate()
	switch fate {
	case "":
		l.to.ServeHTTP(w, r)
		return
	case "503":
		http.Error(w, "no server is available", http.StatusServiceUnavailable)
		return
	case "call":
		panic(http.ErrAbortHandler)
	}
	answer := httptest.NewRecorder()
	l.to.ServeHTTP(answer, r)
	if fate == "half an answer" {
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes()[:answer.Body.Len()/2])
		_ = http.NewResponseController(w).Flush()
	}
	panic(http.ErrAbortHandler)
}

// TestNoMessageIsLostOrPublishedTwiceOverABadConnection has several publish at once, by
// single calls and in batches, with and without ids.
func TestNoMessageIsLostOrPublishedTwiceOverABadConnection(t *testing.T) {
	p := start(t, newTestOptions(redistest.Start(t).URL()))
	proxy := newTestLossy(t, p.api)
	srv := httptest.NewServer(proxy)
	defer srv.Close()
	c, err := client.New(srv.URL, "", client.WithRepeats(client.Repeats{Tries: 100, Within: patience}))
	require.NoError(t, err)
	var mu sync.Mutex // guards ids
	ids := map[string]string{}
	published := func(subject string, a *wire.Published, given string) {
		if given != "" && given != a.ID || a.ID == "" || len(a.Deliveries) != 1 || given == "" && a.Duplicate {
			t.Errorf("%s is answered with %+v", subject, a)
		}
		mu.Lock()
		defer mu.Unlock()
		ids[subject] = a.ID
	}
	var wg sync.WaitGroup
	for k := range 8 {
		wg.Go(func() {
			numbered := func(n int) wire.Message {
				m := *message("", "http://127.0.0.1:1/")
				if m.Subject = fmt.Sprint(k, "/", n); n%2 == 0 {
					m.ID = fmt.Sprint("m", k, "_", n)
				}
				m.Delay = wire.Duration(time.Hour)
				return m
			}
			n := 0
			for range 10 {
				m := numbered(n)
				a, err := c.Publish(t.Context(), &m)
				if err != nil {
					t.Errorf("publish: %v", err)
				}
				published(m.Subject, &a, m.ID)
				n++
			}
			for range 3 {
				var all []wire.Message
				for range 10 {
					all = append(all, numbered(n))
					n++
				}
				results, err := c.PublishBatch(t.Context(), all)
				if err != nil || len(results) != len(all) {
					t.Errorf("publish batch: %d results, %v", len(results), err)
					return
				}
				for i, r := range results {
					published(all[i].Subject, r.Published, all[i].ID)
				}
			}
		})
	}
	wg.Wait()
	require.Len(t, ids, 8*40)
	require.Len(t, proxy.lost, 4, "each sort of loss happened")
	found := map[string]string{}
	for d, err := range c.EachDelivery(t.Context(), client.Filter{Limit: 50}) {
		require.NoError(t, err)
		require.Empty(t, found[d.Subject], "%s was published twice", d.Subject)
		found[d.Subject] = d.ID[len(d.Destination)+1:]
	}
	require.Equal(t, ids, found)
	require.NoError(t, p.end())
}
