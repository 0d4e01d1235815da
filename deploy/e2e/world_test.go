package e2e_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/signer"
)

// hour is later than any test lasts.
const hour = wire.Duration(time.Hour)

// atOnce is how many tests run at a time: they wait for most of it, for a
// takeover, a timeout or a rung.
const atOnce = "8"

func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		if err := flag.Set("test.parallel", atOnce); err != nil {
			panic(err) // the flag of package testing is a number
		}
	}
	os.Exit(m.Run())
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

// world is a Redis, a receiver and any number of instances.
type world struct {
	t        testing.TB
	redis    *redistest.Server // nil where the instances are on something else
	rdb      *redis.Client     // to that
	settings []string          // of every instance
	binary   string            // of the instances
	stderr   *os.File          // of the instances; nil: it is read
	receiver *receiver
	secret   signer.Secret
}

// newWorld starts a Redis, with more lines of redis.conf, and a receiver. The instances
// have only the rights in the documents.
func newWorld(t testing.TB, settings ...string) *world {
	t.Helper()
	redistest.Long(t) // before a Redis is started in vain
	server := redistest.Start(t, append(settings, leastLine())...)
	t.Cleanup(func() { mustRefuseNothing(t, server) })
	w := newWorldOn(t, asLeast(server.URL()))
	w.redis, w.rdb = server, mustConnect(t, server)
	return w
}

func mustConnect(t testing.TB, server *redistest.Server) *redis.Client {
	t.Helper()
	opts, err := redis.ParseURL(server.URL())
	require.NoError(t, err)
	rdb := redis.NewClient(opts)
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// newWorldOn starts a receiver. The instances are on what is at url, as
// REDIS_URL has it: a cluster, sentinels, a proxy.
func newWorldOn(t testing.TB, url string, settings ...string) *world {
	t.Helper()
	w := &world{t: t, settings: append([]string{"REDIS_URL=" + url}, settings...), secret: signer.NewSecret(), binary: mustBinary(t)}
	w.receiver = newTestReceiver(t, w.secret)
	return w
}

// mustBinary is the path of the real program.
func mustBinary(t testing.TB) string {
	t.Helper()
	redistest.Long(t)
	path, err := kit.FastBinary()
	require.NoError(t, err)
	return path
}

// instance is one process of the binary.
type instance struct {
	*kit.Instance
	t        testing.TB
	receiver *receiver
	troubled bool // the test takes its store away, so that its log may tell of errors
}

// begin starts an instance and waits for nothing.
func (w *world) begin(settings ...string) *instance {
	w.t.Helper()
	p, err := kit.Start(kit.Command{
		Name: "hookladder serve", Path: w.binary, Args: []string{"serve"}, Stderr: w.stderr,
		Env: kit.Environ("", w.secret, slices.Concat([]string{
			"LOG_LEVEL=debug",
			"ATTEMPT_TIMEOUT=60s", // no attempt that a test holds ends by itself meanwhile
		}, w.settings, settings)...),
	})
	require.NoError(w.t, err)
	i := &instance{Instance: &kit.Instance{Process: p}, t: w.t, receiver: w.receiver}
	w.t.Cleanup(func() {
		i.Kill()
		log := i.log()
		require.NotContains(w.t, log, w.secret.Reveal(), "the secret is in the log")
		if !i.troubled {
			require.NotContains(w.t, log, `"level":"ERROR"`)
		}
	})
	return i
}

// serve starts an instance with more settings and waits until it is ready.
func (w *world) serve(settings ...string) *instance {
	w.t.Helper()
	i := w.begin(settings...)
	ready, err := kit.Serve(context.Background(), i.Process)
	require.NoError(w.t, err)
	i.Instance = ready
	require.NoError(w.t, i.WaitReady(context.Background()))
	return i
}

// serves starts several instances that are alike.
func (w *world) serves(n int, settings ...string) (all []*instance) {
	w.t.Helper()
	for range n {
		all = append(all, w.serve(settings...))
	}
	return all
}

// keyed is the client of another key.
func (i *instance) keyed(key string) *client.Client {
	i.t.Helper()
	c, err := client.New(i.URL, key, kit.Once)
	require.NoError(i.t, err)
	return c
}

// log is all that it wrote.
func (i *instance) log() string { return i.Output.String() }

// says waits until its log has a line with a text.
func (i *instance) says(text string) {
	i.t.Helper()
	_, err := i.Line(context.Background(), text)
	require.NoError(i.t, err)
}

// stop asks it to end and answers its exit code.
func (i *instance) stop() int {
	i.t.Helper()
	_ = i.Terminate() // its code says what there is to say
	require.False(i.t, i.Killed(), "it does not stop: %s", i.Output.Tail())
	return i.ExitCode()
}

// endBy sends a signal again and again until it has ended, as somebody does who
// does not want to wait.
func (i *instance) endBy(s syscall.Signal) {
	i.t.Helper()
	eventually(i.t, "it ends", func() bool {
		_ = i.Signal(s) // it fails where the process has ended
		return i.Gone()
	})
}

// Publish publishes a message; from then on the receiver may get it.
func (i *instance) Publish(ctx context.Context, m *wire.Message) (wire.Published, error) {
	p, err := i.Client.Publish(ctx, m)
	var refused *client.Problem
	if !errors.As(err, &refused) || refused.Status >= 500 { // else it may have been stored
		i.receiver.expect(cmp.Or(m.ID, p.ID), m)
	}
	return p, err
}

// PublishBatch does the same with several.
func (i *instance) PublishBatch(ctx context.Context, messages []wire.Message) ([]wire.Result, error) {
	results, err := i.Client.PublishBatch(ctx, messages)
	for n, r := range results {
		if r.Problem == nil {
			i.receiver.expect(r.ID, &messages[n])
		}
	}
	return results, err
}

// call makes a call that the client would not make, or would not show enough of.
func (i *instance) call(method, path, body string, header http.Header) (*http.Response, string) {
	i.t.Helper()
	req, err := http.NewRequestWithContext(i.t.Context(), method, i.URL+path, strings.NewReader(body))
	require.NoError(i.t, err)
	if header != nil {
		req.Header = header
	}
	res, err := http.DefaultClient.Do(req)
	require.NoError(i.t, err)
	text, err := io.ReadAll(res.Body)
	require.NoError(i.t, errors.Join(err, res.Body.Close()))
	return res, string(text)
}

var asJSON = http.Header{"Content-Type": {"application/json"}}

// refusedWith calls and wants a problem of a type; it answers the problem.
func (i *instance) refusedWith(status int, word, method, path, body string) wire.Problem {
	i.t.Helper()
	res, text := i.call(method, path, body, asJSON.Clone())
	require.Equal(i.t, status, res.StatusCode, text)
	var p wire.Problem
	require.NoError(i.t, json.Unmarshal([]byte(text), &p), text)
	require.Equal(i.t, "/problems/"+word, p.Type, text)
	return p
}

// answered calls and reads the answer into to.
func (i *instance) answered(status int, to any, method, path, body string) {
	i.t.Helper()
	res, text := i.call(method, path, body, asJSON.Clone())
	require.Equal(i.t, status, res.StatusCode, text)
	require.NoError(i.t, json.Unmarshal([]byte(text), to), text)
}

// metrics are its figures as it tells them.
func (i *instance) metrics() string {
	i.t.Helper()
	_, text := i.call(http.MethodGet, "/metrics", "", nil)
	return text
}

// publish publishes a message of which only what matters is given.
func (i *instance) publish(m wire.Message) wire.Published {
	i.t.Helper()
	m.Topic = cmp.Or(m.Topic, "order.paid")
	if m.Body == nil {
		m.Body = []byte(`{"id":"` + m.ID + `"}`)
	}
	p, err := i.Publish(i.t.Context(), &m)
	require.NoError(i.t, err)
	return p
}

// send publishes a message to the receiver's first destination.
func (i *instance) send(id string) wire.Published {
	i.t.Helper()
	return i.publish(wire.Message{ID: id, URL: i.receiver.URL(0)})
}

// delivery reads the only delivery of a message.
func (i *instance) delivery(id string) wire.Delivery {
	i.t.Helper()
	r, err := i.Message(i.t.Context(), id)
	require.NoError(i.t, err)
	require.Len(i.t, r.Deliveries, 1)
	return r.Deliveries[0]
}

// until waits until a message's delivery has a status, and answers it.
func (i *instance) until(id, status string) wire.Delivery {
	i.t.Helper()
	return i.untilIt(id, status, func(d wire.Delivery) bool { return d.Status == status })
}

// untilIt waits until a message's only delivery satisfies ok, and answers it.
func (i *instance) untilIt(id, what string, ok func(wire.Delivery) bool) (d wire.Delivery) {
	i.t.Helper()
	eventually(i.t, id+" is "+what, func() bool {
		r, err := i.Message(context.WithoutCancel(i.t.Context()), id)
		if err != nil || len(r.Deliveries) != 1 {
			return false
		}
		d = r.Deliveries[0]
		return ok(d)
	})
	return d
}

// untilAll waits until the deliveries of many messages have a status.
func (i *instance) untilAll(status string, ids ...string) {
	i.t.Helper()
	for _, id := range ids {
		i.until(id, status)
	}
}

// named are the names of n messages.
func named(prefix string, n int) (ids []string) {
	for k := range n {
		ids = append(ids, fmt.Sprint(prefix, k))
	}
	return ids
}

// counts waits until what the API counts satisfies ok.
func (i *instance) counts(what string, ok func(s wire.Stats) bool) {
	i.t.Helper()
	eventually(i.t, what, func() bool {
		s, err := i.Stats(context.WithoutCancel(i.t.Context()))
		return err == nil && ok(s)
	})
}

// problemOf is the API's problem behind an error.
func problemOf(t testing.TB, err error) *client.Problem {
	t.Helper()
	var p *client.Problem
	require.ErrorAs(t, err, &p)
	return p
}

// makeDue has what waits for its time in a partition become due, all or one
// delivery. It works in a store that is full: that refuses only scripts that add
// before they take away.
func (w *world) makeDue(partition int, only ...string) {
	w.t.Helper()
	require.NoError(w.t, w.rdb.Eval(w.t.Context(), `
		for _, id in ipairs(redis.call('zrange', KEYS[1], 0, -1)) do
			if not ARGV[2] or ARGV[2] == id then
				redis.call('zrem', KEYS[1], id)
				redis.call('zadd', KEYS[1], ARGV[1], id)
			end
		end
		return 0`, []string{fmt.Sprintf("{default:%d}:due", partition)}, append([]string{fmt.Sprint(time.Now().UnixMilli())}, only...)).Err())
}

// keys are the partition's keys, without the tag.
func (w *world) keys() []string {
	w.t.Helper()
	all, err := w.rdb.Keys(w.t.Context(), "{default:0}:*").Result()
	require.NoError(w.t, err)
	for i := range all {
		all[i] = strings.TrimPrefix(all[i], "{default:0}:")
	}
	slices.Sort(all)
	return all
}

// names are the instances that the queue knows.
func (w *world) names() []string {
	return slices.Sorted(maps.Keys(w.rdb.HGetAll(context.WithoutCancel(w.t.Context()), "{default}:instances").Val()))
}

// alive waits until so many instances are known: the dead are forgotten after
// what they held was moved.
func (w *world) alive(n int) {
	w.t.Helper()
	eventually(w.t, fmt.Sprint(n, " instances"), func() bool { return len(w.names()) == n })
}

func mustWrite(t testing.TB, name, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
}
