package e2e_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/signer"
)

// arrival is one callback as it came.
type arrival struct {
	at      time.Time
	path    string
	attempt int
	header  http.Header
	body    string
}

// answerFunc answers the n-th callback (from 1) of a message.
type answerFunc func(w http.ResponseWriter, r *http.Request, id string, n int)

// receiver records what comes. It fails the test on anything that is not signed
// as it should be, that was never published, or whose body is another than was
// published.
type receiver struct {
	*kit.Receiver
	t     testing.TB
	usual *signer.Verifier

	mu     sync.Mutex // guards what follows
	answer answerFunc
	got    map[string][]arrival // by message
	paths  map[string][]string  // the messages that came to a path, in their order
	bodies map[string]string    // of what was published, by message
	news   chan struct{}        // closed at each arrival, and made anew
}

func newTestReceiver(t testing.TB, secret signer.Secret) *receiver {
	t.Helper()
	r := &receiver{
		t: t, usual: &signer.Verifier{Secrets: []signer.Secret{secret}},
		got: map[string][]arrival{}, paths: map[string][]string{}, bodies: map[string]string{}, news: make(chan struct{}),
	}
	r.Receiver = kit.NewReceiver(r.usual, r.take)
	require.NoError(t, r.Listen(nil))
	t.Cleanup(func() {
		require.NoError(t, r.Close())
		r.check()
	})
	return r
}

// expect says that a message may come, with this body. What an id meant first
// is what it means.
func (r *receiver) expect(id string, m *wire.Message) {
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
func (r *receiver) check() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, list := range r.got {
		body, published := r.bodies[id]
		require.True(r.t, published, "%s came and was never published", id)
		for _, a := range list {
			require.Equal(r.t, body, a.body, "the body of %s", id)
		}
	}
}

// answers says how callbacks are answered; without it everything is 200.
func (r *receiver) answers(f answerFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = f
}

func (r *receiver) take(w http.ResponseWriter, req *http.Request, c kit.Callback) {
	if c.Err != nil {
		r.t.Errorf("a callback is not signed as it should be: %v", c.Err)
	}
	r.mu.Lock()
	r.got[c.ID] = append(r.got[c.ID], arrival{at: c.At, path: c.Path, attempt: c.Attempt, header: req.Header.Clone(), body: string(c.Body)})
	r.paths[c.Path] = append(r.paths[c.Path], c.ID)
	n, answer := len(r.got[c.ID]), r.answer
	close(r.news)
	r.news = make(chan struct{})
	r.mu.Unlock()
	if answer != nil {
		answer(w, req, c.ID, n)
	}
}

// at are the messages that came to a path so far, in the order they came.
func (r *receiver) at(path string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.paths[path])
}

// arrivals are the callbacks of a message so far.
func (r *receiver) arrivals(id string) []arrival {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got[id])
}

// ids are the messages that came, and how many callbacks there were in all.
func (r *receiver) ids() (distinct, all int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, list := range r.got {
		all += len(list)
	}
	return len(r.got), all
}

// until waits until what came satisfies ok.
func (r *receiver) until(what string, ok func() bool) {
	r.t.Helper()
	late := time.NewTimer(kit.Patience)
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

// untilDistinct waits until so many messages have come.
func (r *receiver) untilDistinct(n int) {
	r.t.Helper()
	r.until(fmt.Sprint(n, " messages"), func() bool { distinct, _ := r.ids(); return distinct >= n })
}

// wait waits for the n-th callback of a message.
func (r *receiver) wait(id string, n int) arrival {
	r.t.Helper()
	r.until(fmt.Sprintf("callback %d of %s", n, id), func() bool { return len(r.arrivals(id)) >= n })
	return r.arrivals(id)[n-1]
}

// waitAll waits until each of some messages has come.
func (r *receiver) waitAll(ids ...string) {
	r.t.Helper()
	for _, id := range ids {
		r.wait(id, 1)
	}
}

// once checks that nothing came twice.
func (r *receiver) once() {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, list := range r.got {
		require.Len(r.t, list, 1, id)
	}
}

// status answers with a status.
func status(code int) answerFunc {
	return func(w http.ResponseWriter, _ *http.Request, _ string, _ int) { w.WriteHeader(code) }
}

// barrier holds callbacks back until it is released.
type barrier struct{ release chan struct{} }

func newBarrier() *barrier { return &barrier{release: make(chan struct{})} }

// wait reports whether the caller was still there at the release.
func (h *barrier) wait(req *http.Request) bool {
	select {
	case <-h.release:
		return true
	case <-req.Context().Done():
		return false
	}
}

// answer holds the callbacks of messages whose names begin so.
func (h *barrier) answer(prefix string) answerFunc {
	return func(_ http.ResponseWriter, r *http.Request, id string, _ int) {
		if strings.HasPrefix(id, prefix) {
			h.wait(r)
		}
	}
}

// verifierOf checks what secrets sign, as a receiver would: with the public
// keys where the scheme has such.
func verifierOf(t testing.TB, scheme string, secrets ...string) *signer.Verifier {
	t.Helper()
	var keys []string
	for _, text := range secrets {
		s, err := signer.Scheme(scheme).ParseSecret(text)
		require.NoError(t, err)
		if public, ok := s.PublicKey(); ok {
			text = public
		}
		keys = append(keys, text)
	}
	v, err := signer.Scheme(scheme).NewVerifier(strings.Join(keys, " "))
	require.NoError(t, err)
	return v
}
