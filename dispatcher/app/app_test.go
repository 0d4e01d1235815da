package app_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/app"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/internal/engine"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/ladder"
	"github.com/hookladder/hookladder/signer"
)

// patience bounds how long a test waits for something that always comes. It only
// ends one that hangs.
const patience = 3 * time.Minute

var secret = signer.NewSecret()

// newTestOptions are those of a process on a free loopback port.
func newTestOptions(redisURL string) app.Options {
	return app.Options{
		Listen:          "127.0.0.1:0",
		RedisURL:        redisURL,
		InMemory:        redisURL == "",
		Project:         "test",
		LaneMaxInFlight: 16,
		AllowNets:       []app.Net{{Prefix: netip.MustParsePrefix("127.0.0.0/8")}},
		LinkNets:        []app.Net{{Prefix: netip.MustParsePrefix("127.0.0.0/8")}},
		MaxBody:         64 << 10,
		Version:         "test",
		Log:             slog.New(slog.DiscardHandler),
		Engine: engine.Options{
			Secrets:     []signer.Secret{secret},
			Ladder:      ladder.Default(),
			Timeout:     time.Minute,
			MaxInFlight: 64,
			ClaimBatch:  64,
			Excerpt:     1 << 10,
			PollEvery:   time.Minute,
			Grace:       time.Minute,
			Keep:        dispatcher.Keep{Finished: time.Hour, FinishedMax: 1000, SeenMax: 1000, Dead: time.Hour, DeadMax: 1000},
		},
	}
}

// process is an app that runs.
type process struct {
	t    testing.TB
	api  string
	stop context.CancelFunc
	done chan error
}

func start(t testing.TB, o app.Options) *process {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	p := &process{t: t, stop: stop, done: make(chan error, 1)}
	ready := make(chan string, 1)
	o.Ready = func(addr string, _ func() error) { ready <- addr }
	go func() { p.done <- app.Run(ctx, o) }()
	select {
	case addr := <-ready:
		p.api = "http://" + addr
	case err := <-p.done:
		require.FailNow(t, "it did not start", "%v", err)
	case <-time.After(patience):
		require.FailNow(t, "it is never ready")
	}
	t.Cleanup(stop)
	return p
}

// end asks it to stop and waits for its end.
func (p *process) end() error {
	p.t.Helper()
	p.stop()
	return p.ended()
}

func (p *process) ended() error {
	p.t.Helper()
	select {
	case err := <-p.done:
		return err
	case <-time.After(patience):
		require.FailNow(p.t, "it does not end")
		return nil
	}
}

func (p *process) client() *client.Client {
	p.t.Helper()
	c, err := client.New(p.api, "", client.WithRepeats(client.Repeats{Tries: 1}))
	require.NoError(p.t, err)
	return c
}

func message(id, url string) *wire.Message {
	return &wire.Message{ID: id, Topic: "a.b", URL: url, Body: json.RawMessage(`{"n":1}`)}
}

// receiver answers each callback once the test says so, if it is genuine.
type receiver struct {
	*httptest.Server
	came   chan string // ids, as they come
	answer chan struct{}
}

func newTestReceiver(t testing.TB) *receiver {
	t.Helper()
	r := &receiver{came: make(chan string, 64), answer: make(chan struct{}, 64)}
	v := &signer.Verifier{Secrets: []signer.Secret{secret}}
	r.Server = httptest.NewServer(v.Middleware(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.came <- q.Header.Get(signer.HeaderID)
		select {
		case <-r.answer:
		case <-q.Context().Done():
		}
		w.WriteHeader(http.StatusNoContent)
	})))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) await(t testing.TB) string {
	t.Helper()
	select {
	case id := <-r.came:
		return id
	case <-time.After(patience):
		require.FailNow(t, "nothing is delivered")
		return ""
	}
}

func TestAProcessDeliversWhatIsPublished(t *testing.T) {
	r := newTestReceiver(t)
	p := start(t, newTestOptions(redistest.Start(t).URL()))
	r.answer <- struct{}{}
	_, err := p.client().Publish(t.Context(), message("one", r.URL))
	require.NoError(t, err)
	require.Equal(t, "one", r.await(t))
	require.NoError(t, p.end())
}

func TestStoppingLetsAnAttemptFinishAndSaysThatItStops(t *testing.T) {
	redis := redistest.Start(t)
	r := newTestReceiver(t)
	var log logged
	o := newTestOptions(redis.URL())
	o.Log = slog.New(slog.NewTextHandler(&log, nil))
	p := start(t, o)
	_, err := p.client().Publish(t.Context(), message("slow", r.URL))
	require.NoError(t, err)
	r.await(t)

	p.stop()
	require.Eventually(t, func() bool {
		_, err := p.client().Ready(t.Context())
		return err != nil
	}, patience, 10*time.Millisecond, "it says that it is ready")
	select {
	case err := <-p.done:
		require.FailNow(t, "it did not wait for the attempt", "%v", err)
	default:
	}
	r.answer <- struct{}{}
	require.NoError(t, p.ended())
	require.Contains(t, log.String(), "msg=stopped")

	again := start(t, newTestOptions(redis.URL()))
	record, err := again.client().Message(t.Context(), "slow")
	require.NoError(t, err)
	require.Equal(t, "delivered", record.Deliveries[0].Status, "its outcome was recorded before the store was closed")
	require.NoError(t, again.end())
}

func TestOneAcceptsAndAnotherDispatches(t *testing.T) {
	redis := redistest.Start(t)
	r := newTestReceiver(t)
	accepts, dispatches := newTestOptions(redis.URL()), newTestOptions(redis.URL())
	accepts.Engine.MaxInFlight = 0
	dispatches.Listen = ""
	a, d := start(t, accepts), start(t, dispatches)
	require.Equal(t, "http://off", d.api)
	r.answer <- struct{}{}
	_, err := a.client().Publish(t.Context(), message("one", r.URL))
	require.NoError(t, err)
	require.Equal(t, "one", r.await(t))
	require.NoError(t, a.end())
	require.NoError(t, d.end())
}

func TestItRunsInMemory(t *testing.T) {
	p := start(t, newTestOptions(""))
	_, err := p.client().Ready(t.Context())
	require.NoError(t, err)
	require.NoError(t, p.end())
}

func TestNothingIsPublishedThatCouldNotBeSigned(t *testing.T) {
	o := newTestOptions("")
	o.Engine.Secrets = nil
	p := start(t, o)
	_, err := p.client().Publish(t.Context(), message("one", "http://127.0.0.1:1/"))
	require.ErrorContains(t, err, "SIGNING_SECRET")
	require.NoError(t, p.end())
}

func TestOptionsOfTheProcessReachTheAPI(t *testing.T) {
	o := newTestOptions("")
	o.AllowNets = nil
	o.MaxBody = 5
	p := start(t, o)
	m := message("one", "http://10.1.2.3/")
	m.Body = json.RawMessage(`[]`)
	_, err := p.client().Publish(t.Context(), m)
	require.ErrorContains(t, err, "10.1.2.3 is private; allow it with ALLOW_NETS=10.1.2.3/32")
	_, err = p.client().Publish(t.Context(), message("two", "https://shop.example/"))
	require.ErrorContains(t, err, "MAX_BODY")
	require.NoError(t, p.end())
}

func TestItDoesNotStart(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close() //nolint:errcheck // nothing was served
	evicting := redistest.Start(t, "maxmemory 20mb", "maxmemory-policy allkeys-lru")
	for name, c := range map[string]struct {
		change func(*app.Options)
		want   string
	}{
		"without a key in the open":     {func(o *app.Options) { o.Listen = "0.0.0.0:0" }, "set API_KEYS=hk_"},
		"where its address is taken":    {func(o *app.Options) { o.Listen = taken.Addr().String() }, "address already in use"},
		"on a store that evicts":        {func(o *app.Options) { o.RedisURL, o.InMemory = evicting.URL(), false }, "maxmemory-policy is allkeys-lru"},
		"on a store that is not there":  {func(o *app.Options) { o.RedisURL, o.InMemory = "redis://127.0.0.1:1", false }, "127.0.0.1:1"},
		"with nothing to do":            {func(o *app.Options) { o.Listen, o.Engine.MaxInFlight = "", 0 }, "it would do nothing"},
		"without a store":               {func(o *app.Options) { o.InMemory = false }, "neither REDIS_URL nor DATA_DIR is set"},
		"without a logger":              {func(o *app.Options) { o.Log = nil }, "no logger"},
		"with a limit that allows none": {func(o *app.Options) { o.MaxBody = 0 }, "no limit for bodies"},
	} {
		t.Run(name, func(t *testing.T) {
			o := newTestOptions("")
			c.change(&o)
			ctx, stop := context.WithTimeout(t.Context(), patience)
			defer stop()
			require.ErrorContains(t, app.Run(ctx, o), c.want)
			require.NoError(t, ctx.Err())
		})
	}
}

func TestAStoreWithoutAnAppendOnlyFileIsTakenWithAWarning(t *testing.T) {
	var log logged
	o := newTestOptions(redistest.Start(t, "appendonly no").URL())
	o.Log = slog.New(slog.NewTextHandler(&log, nil))
	p := start(t, o)
	require.NoError(t, p.end())
	require.Contains(t, log.String(), "keeps no append-only file")
	require.Equal(t, 1, strings.Count(log.String(), "level=WARN"))
}

func TestItRefusesAStoreThatIsNotAsDurableAsAsked(t *testing.T) {
	o := newTestOptions(redistest.Start(t, "appendonly no").URL())
	o.Durability = dispatcher.Durability{Fsync: true}
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	require.ErrorContains(t, app.Run(ctx, o), "set appendonly yes")
	require.NoError(t, ctx.Err())
}

func TestOnlyAddressesOfThisHostNeedNoKey(t *testing.T) {
	o := newTestOptions("")
	o.Listen = "0.0.0.0:80"
	require.Error(t, o.Check())
	keys, err := app.ParseKeys("0123456789abcdef:admin")
	require.NoError(t, err)
	o.Keys = keys
	require.NoError(t, o.Check())
}

// logged keeps what was logged, by whichever goroutine.
type logged struct {
	mu   sync.Mutex // guards text
	text strings.Builder
}

var _ io.Writer = (*logged)(nil)

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
