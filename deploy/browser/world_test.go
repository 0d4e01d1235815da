// Package browser_test opens the console in a real browser: the real program on a real
// Redis, with receivers that take, fail, are slow and are gone. A run with -args -pictures
// writes pictures of all pages to the folder shots.
package browser_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/browser/browsertest"
	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/ladder"
	"github.com/hookladder/hookladder/signer"
)

func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		if err := flag.Set("test.parallel", "3"); err != nil { // a browser needs much of a machine, but many of these tests only wait
			panic(err) // the flag of package testing is a number
		}
	}
	browsertest.Main(m)
}

// The keys that a world with keys knows, each long enough for the program.
const (
	adminKey = "key-that-may-do-everything"
	fullKey  = "key-that-reads-all-there-is"
	plainKey = "key-that-reads-no-contents"
)

// keys is API_KEYS of a world with keys.
var keys = "API_KEYS=" + strings.Join([]string{adminKey + ":admin:alice", fullKey + ":read+bodies:bob", plainKey + ":read:carol"}, ",")

// world is a Redis, receivers, and instances of the real program.
type world struct {
	t        testing.TB
	redis    *redistest.Server
	receiver *kit.Receiver
	gone     string // the URL of a receiver that is not there
	secret   signer.Secret
	settings []string
	*instance

	mu    sync.Mutex // guards what follows
	mends map[string]bool
	// answer answers a callback in place of what its path says, where it reports true.
	answer func(rw http.ResponseWriter, path string) bool
	held   chan struct{} // closed when slow answers may go
}

// instance is one process of the program.
type instance struct{ *kit.Instance }

// newWorld starts all of it, and one instance.
func newWorld(t testing.TB, settings ...string) *world {
	t.Helper()
	redistest.Long(t)
	w := &world{t: t, secret: signer.NewSecret(), mends: map[string]bool{}, held: make(chan struct{})}
	w.redis = redistest.Start(t)
	w.receiver = kit.NewReceiver(&signer.Verifier{Secrets: []signer.Secret{w.secret}}, w.take)
	require.NoError(t, w.receiver.Listen(nil))
	t.Cleanup(func() { require.NoError(t, w.receiver.Close()) })
	t.Cleanup(func() { close(w.held) })
	port, err := kit.FreePort()
	require.NoError(t, err)
	w.gone = "http://" + kit.Loopback(port)
	w.settings = append([]string{"LADDER=1s,1h,2h,6h", "ATTEMPT_TIMEOUT=60s", "DURABILITY=none"}, settings...)
	w.instance = w.serve()
	return w
}

// serve starts one more instance, with more settings.
func (w *world) serve(settings ...string) *instance {
	w.t.Helper()
	path, err := kit.FastBinary()
	require.NoError(w.t, err)
	more := append(append([]string{}, w.settings...), settings...)
	p, err := kit.Start(kit.Command{
		Name: "hookladder serve", Path: path, Args: []string{"serve"}, Env: kit.Environ(w.redis.URL(), w.secret, more...),
	})
	require.NoError(w.t, err)
	w.t.Cleanup(func() {
		p.Kill()
		log := p.Output.String()
		require.NotContains(w.t, log, "page not rendered")
		if w.t.Failed() {
			w.t.Logf("the program wrote:\n%s", p.Output.Tail())
		}
	})
	i, err := kit.Serve(context.Background(), p)
	require.NoError(w.t, err)
	require.NoError(w.t, i.WaitReady(context.Background()))
	i.Client, err = client.New(i.URL, adminKey, kit.Once) // where there are no keys it is not looked at
	require.NoError(w.t, err)
	return &instance{i}
}

// take answers a callback as its path says: /ok, /fail, /slow until the test ends, /gone
// with 410, /mended fails until mend was called.
func (w *world) take(rw http.ResponseWriter, r *http.Request, c kit.Callback) {
	path, _, _ := strings.Cut(strings.TrimPrefix(c.Path, "/"), "/")
	w.mu.Lock()
	mended, answer := w.mends[path], w.answer
	w.mu.Unlock()
	if answer != nil && answer(rw, path) {
		return
	}
	switch {
	case path == "ok" || mended:
		_, _ = io.WriteString(rw, `{"taken":true}`)
	case path == "slow":
		select {
		case <-w.held:
		case <-r.Context().Done():
		}
	case path == "gone":
		rw.WriteHeader(http.StatusGone)
	default:
		rw.Header().Set("Content-Type", "text/plain")
		rw.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(rw, "the shop is closed "+strings.TrimPrefix(c.Path, "/"))
	}
}

// answers has another answer than the one of the path, where it reports true.
func (w *world) answers(f func(rw http.ResponseWriter, path string) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answer = f
}

// mend has a path take what comes from now on.
func (w *world) mend(path string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mends[path] = true
}

// mended reports whether a path takes what comes.
func (w *world) mended(path string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mends[path]
}

// at is the address of a path of the receiver.
func (w *world) at(path string) string { return w.receiver.URL(0) + "/" + path }

// publish publishes a message of which only what matters is given.
func (w *world) publish(m wire.Message) wire.Published {
	w.t.Helper()
	if m.Topic == "" {
		m.Topic = "order.paid"
	}
	if m.Body == nil && m.RawBody == nil {
		m.Body = []byte(`{"order":"` + m.ID + `","amount":12345678901234567890}`)
	}
	p, err := w.Publish(w.t.Context(), &m)
	require.NoError(w.t, err)
	return p
}

// endpoint creates an endpoint, and answers its id.
func (w *world) endpoint(e wire.Endpoint) string {
	w.t.Helper()
	if e.Topics == nil {
		e.Topics = []string{"*"}
	}
	view, _, err := w.CreateEndpoint(w.t.Context(), &e)
	require.NoError(w.t, err)
	return view.ID
}

// until waits until the only delivery of a message has a status.
func (w *world) until(id, status string) {
	w.t.Helper()
	require.NoError(w.t, kit.Until(context.Background(), id+" is "+status, func() error {
		view, err := w.Message(context.WithoutCancel(w.t.Context()), id)
		if err == nil && (len(view.Deliveries) != 1 || view.Deliveries[0].Status != status) {
			err = fmt.Errorf("it is %v", view.Deliveries)
		}
		return err
	}))
}

// short is a ladder of one wait: what fails twice is dead in a second.
func short(t *testing.T) *ladder.Ladder {
	t.Helper()
	l, err := ladder.Parse("1s")
	require.NoError(t, err)
	return &l
}

// tab opens a tab of a profile of its own. On a busy machine a page may need more than
// the second that it has; it says 503 then, and tries again by itself.
func (w *world) tab(t *testing.T) *browsertest.Tab {
	t.Helper()
	b := browsertest.New(t)
	b.Allow(": 503")
	return b
}

// screen is a window in which people use the console.
type screen struct {
	name  string
	phone bool
	top   int // the first cause begins above this
	rows  int // so many deliveries are seen whole
}

// screens are those in which each check of the console runs.
var screens = []screen{{name: "1280", top: 420, rows: 22}, {name: "390", phone: true, top: 700, rows: 12}}

// on gives a tab this window.
func (s screen) on(b *browsertest.Tab) {
	if b.Desktop(); s.phone {
		b.Phone(390)
	}
}

// onScreens runs a check in each window, one after the other in the same world. Each has a tab of its own.
func (w *world) onScreens(t *testing.T, check func(t *testing.T, s screen, b *browsertest.Tab)) {
	t.Helper()
	for _, s := range screens {
		t.Run(s.name, func(t *testing.T) {
			b := w.tab(t)
			s.on(b)
			check(t, s, b)
		})
	}
}

// page is the address of a page.
func (i *instance) page(path string) string { return i.URL + path }

// signIn signs a tab in with a key.
func (i *instance) signIn(b *browsertest.Tab, key string) {
	b.Open(i.page("/console/sign-in"))
	b.Fill("textbox", "API key", key)
	b.Click("button", "Sign in")
	b.WaitHas("heading", "Now")
}

// eventually waits until ok is true.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	require.NoError(t, kit.Until(context.Background(), what, func() error {
		if !ok() {
			return errors.New("not yet")
		}
		return nil
	}))
}

// hour is later than any test lasts.
const hour = wire.Duration(time.Hour)

// named are the names of n messages.
func named(prefix string, n int) (ids []string) {
	for k := range n {
		ids = append(ids, fmt.Sprint(prefix, k))
	}
	return ids
}
