package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/signer"
)

// arrival is one callback as it came.
type arrival struct {
	at      time.Time
	path    string
	attempt string
	header  http.Header
	body    string
}

// recorder is a receiver that records what comes. It fails the test on anything
// that is not signed as it should be, that was never published, or whose body
// is another than was published.
type recorder struct {
	*httptest.Server
	t        testing.TB
	verifier *signer.Verifier

	mu     sync.Mutex                  // guards what follows
	keys   map[string]*signer.Verifier // of endpoints, by path
	answer func(w http.ResponseWriter, r *http.Request, id string, n int)
	got    map[string][]arrival
	bodies map[string]string // of what was published, by id
	news   chan struct{}     // closed at each arrival, and made anew
}

func newTestReceiver(t testing.TB, secret signer.Secret) *recorder {
	t.Helper()
	r := &recorder{
		t: t, verifier: &signer.Verifier{Secrets: []signer.Secret{secret}},
		keys: map[string]*signer.Verifier{}, got: map[string][]arrival{}, bodies: map[string]string{}, news: make(chan struct{}),
	}
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
		r.check()
	})
	return r
}

// expect says that a message may come, with this body. What an id meant first
// is what it means.
func (r *recorder) expect(id string, m *wire.Message) {
	body := string(m.Body) + string(m.RawBodyBase64)
	if m.RawBody != nil {
		body += *m.RawBody
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.bodies[id]; !known {
		r.bodies[id] = body
	}
}

// check compares what came with what was published. It is done at the end,
// since a callback may come before its publish is answered.
func (r *recorder) check() {
	for id, list := range r.got {
		body, published := r.bodies[id]
		require.True(r.t, published, "%s came and was never published", id)
		for _, a := range list {
			require.Equal(r.t, body, a.body, "the body of %s", id)
		}
	}
}

// trust says who signs what comes to a path; elsewhere it is the secret of bare
// URLs.
func (r *recorder) trust(path string, v *signer.Verifier) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keys[path] = v
}

// at are the callbacks to a path so far, in the order they came.
func (r *recorder) at(path string) (ids []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	type came struct {
		id string
		at time.Time
	}
	var all []came
	for id, list := range r.got {
		for _, a := range list {
			if a.path == path {
				all = append(all, came{id, a.at})
			}
		}
	}
	slices.SortFunc(all, func(a, b came) int { return a.at.Compare(b.at) })
	for _, a := range all {
		ids = append(ids, a.id)
	}
	return ids
}

// answers says how the n-th callback (from 1) of a message is answered;
// without it everything is 200.
func (r *recorder) answers(f func(w http.ResponseWriter, req *http.Request, id string, n int)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = f
}

func (r *recorder) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	verifier := r.keys[req.URL.Path]
	r.mu.Unlock()
	if verifier == nil {
		verifier = r.verifier
	}
	body, err := verifier.VerifyRequest(req)
	if err != nil {
		r.t.Errorf("a callback is not signed as it should be: %v", err)
	}
	id := req.Header.Get(signer.HeaderID)
	r.mu.Lock()
	r.got[id] = append(r.got[id], arrival{at: time.Now(), path: req.URL.Path, attempt: req.Header.Get("Hookladder-Attempt"), header: req.Header.Clone(), body: string(body)})
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
