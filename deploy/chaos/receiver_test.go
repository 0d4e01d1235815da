package chaos_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/signer"
)

// receiver is all destinations in one process. It records what comes, and
// answers as its seed decides: mostly at once and well, sometimes late, with an
// error, half or not at all.
type receiver struct {
	*kit.Receiver
	h      *history
	names  *names // nil: they have none
	seed   uint64
	common *signer.Verifier
	healed atomic.Bool // from then on it always answers well

	mu     sync.Mutex                  // guards what follows
	own    map[string]*signer.Verifier // by instance
	counts map[string]int              // of callbacks, by place and id
}

// line is one connection. All that comes through it comes from one instance,
// which the first callback signed with that instance's own secret tells.
type line struct{ name atomic.Pointer[string] }

func (l *line) who() string {
	if l != nil {
		if name := l.name.Load(); name != nil {
			return *name
		}
	}
	return ""
}

type lineKey struct{}

func newReceiver(t testing.TB, h *history, seed uint64, secret signer.Secret) *receiver {
	t.Helper()
	r := &receiver{
		h: h, seed: seed, common: &signer.Verifier{Secrets: []signer.Secret{secret}},
		own: map[string]*signer.Verifier{}, counts: map[string]int{},
	}
	r.Receiver = kit.NewReceiver(r.common, r.take)
	require.NoError(t, r.Listen(func(s *http.Server) {
		s.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
			return context.WithValue(ctx, lineKey{}, &line{})
		}
	}))
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// url is where a place is: /d3 has a host of its own, which /e3 shares. Where there are names, every
// other destination has one.
func (r *receiver) url(place string) string {
	n, _ := strconv.Atoi(place[2:])
	host := r.URL(n + 1)
	if r.names != nil && n%2 == 1 {
		at := netip.MustParseAddrPort(strings.TrimPrefix(host, "http://"))
		host = fmt.Sprintf("http://%s:%d", r.names.name(place, at.Addr()), at.Port())
	}
	return host + place
}

// knows says with what an instance signs besides the common secret.
func (r *receiver) knows(who string, own signer.Secret) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.own[who] = &signer.Verifier{Secrets: []signer.Secret{own}}
}

// recognize names the instance that sent a callback to a bare URL, or nothing.
func (r *receiver) recognize(req *http.Request) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for who, own := range r.own {
		if _, err := own.VerifyRequest(req); err == nil {
			return who
		}
	}
	return ""
}

func (r *receiver) take(w http.ResponseWriter, req *http.Request, c kit.Callback) {
	if errors.Is(c.Err, signer.ErrBody) { // the sender was killed while it wrote
		return
	}
	a := &arrival{place: c.Path, began: c.At, attempt: c.Attempt}
	if local, ok := req.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok && local.AddrPort().Addr().Unmap() == wildcard {
		a.place += " of a stranger" // no message goes there, so the judge complains
	}
	a.line, _ = req.Context().Value(lineKey{}).(*line)
	if c.Err != nil {
		a.fault = c.Err.Error()
	} else if strings.HasPrefix(c.Path, "/d") && a.line.who() == "" {
		if from := r.recognize(req); from != "" {
			a.line.name.Store(&from)
		}
	}
	r.h.came(c.ID, a)
	r.h.with(func() {
		if m := r.h.messages[c.ID]; m != nil && a.fault == "" && sha256.Sum256(c.Body) != m.sum {
			a.fault = another
		}
	})
	r.mu.Lock()
	key := a.place + " " + c.ID
	r.counts[key]++
	n := r.counts[key]
	r.mu.Unlock()
	r.react(a, w, req, r.reaction(a.place, c.ID, n))
}

// reaction is what a callback is answered.
type reaction struct {
	status int           // 0: none
	wait   time.Duration // before the answer
	after  int           // seconds of Retry-After; 0: none
	hang   bool          // answers when the sender has given up
	torn   bool          // the answer breaks off
}

// reaction is the same for the same seed, message and number of its callback.
func (r *receiver) reaction(place, id string, n int) reaction {
	if r.healed.Load() {
		return reaction{status: http.StatusOK}
	}
	switch place {
	case failing:
		return reaction{status: http.StatusInternalServerError}
	case hanging:
		return reaction{hang: true}
	}
	hash := fnv.New64a()
	_ = binary.Write(hash, binary.LittleEndian, r.seed)
	_, _ = io.WriteString(hash, place+" "+id+" "+strconv.Itoa(n))
	sum := hash.Sum64()
	late := time.Duration(100+sum>>32%700) * time.Millisecond
	switch chance := sum % 1000; {
	case chance < 30:
		return reaction{status: http.StatusInternalServerError}
	case chance < 40:
		return reaction{status: http.StatusServiceUnavailable, after: 1}
	case chance < 50:
		return reaction{} // the connection is cut
	case chance < 55:
		return reaction{status: http.StatusOK, torn: true}
	case chance < 60:
		return reaction{hang: true}
	case chance < 65:
		return reaction{status: http.StatusBadGateway, wait: late}
	case chance < 165 && place != "/e1": // which would hold all behind it up
		return reaction{status: http.StatusOK, wait: late}
	}
	return reaction{status: http.StatusOK}
}

func (r *receiver) react(a *arrival, w http.ResponseWriter, req *http.Request, re reaction) {
	gone := func() { r.h.with(func() { a.over = time.Now() }) }
	switch {
	case re.hang:
		<-req.Context().Done()
		gone()
		return
	case re.status == 0:
		gone()
		panic(http.ErrAbortHandler)
	case re.wait > 0:
		wait := time.NewTimer(re.wait)
		defer wait.Stop()
		select {
		case <-wait.C:
		case <-req.Context().Done():
			gone()
			return
		}
	}
	r.h.with(func() {
		a.answered, a.status, a.torn = time.Now(), re.status, re.torn
		a.after = time.Duration(re.after) * time.Second
	})
	if re.after > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(re.after))
	}
	if re.torn {
		w.Header().Set("Content-Length", "1000")
	}
	w.WriteHeader(re.status)
	_, _ = io.WriteString(w, strings.ToLower(http.StatusText(re.status)))
	err := http.NewResponseController(w).Flush()
	if err == nil && req.Context().Err() == nil {
		r.h.with(func() { a.over = time.Now() })
	}
	if re.torn {
		panic(http.ErrAbortHandler)
	}
}

func TestACallbackToTheWildcardIsAComplaint(t *testing.T) {
	t.Parallel()
	h := newHistory()
	r := newReceiver(t, h, 1, signer.NewSecret())
	_, port, err := net.SplitHostPort(strings.TrimPrefix(r.URL(0), "http://"))
	require.NoError(t, err)
	r.healed.Store(true) // it answers well
	for id, address := range map[string]string{"well": "127.0.1.2", "astray": wildcard.String()} {
		h.publish(&message{id: id, places: []string{"/d1"}, tries: []try{{acceptance: accepted}}})
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+net.JoinHostPort(address, port)+"/d1", strings.NewReader("{}"))
		require.NoError(t, err)
		req.Header.Set(signer.HeaderID, id)
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
	}
	var found findings
	h.with(func() { found = judged(h, nil) })
	astray := func(id string) bool {
		return slices.ContainsFunc(found.complaints, func(c complaint) bool { return c.what == unasked && c.id == id })
	}
	require.True(t, astray("astray"))
	require.False(t, astray("well"))
}
