package e2e_test

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/deploy/kit/pgtest"
	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/signer"
)

// keep has EachFixture write the fixture of a release, as deploy/release/README.md says.
var keep = flag.String("fixture", "", "write the data of this version into testdata/upgrade, under this name")

const (
	// fixtureSecret signs all callbacks of fixtures.
	fixtureSecret = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="

	// fixturePort is the port of the receivers in a fixture. The system gives out ports from 32768, and
	// kit.FreePort those below PortsEnd.
	fixturePort = 27077
	_           = uint(fixturePort - kit.PortsEnd) // does not compile where FreePort may return it

	// fixtureRetention is the longest one.
	fixtureRetention = 365 * 24 * time.Hour

	// undoneRate is the rate of the job that a fixture leaves. An instance cancels the first delivery
	// at once, and the next one after the test.
	undoneRate = "1/h"
)

// undone are the deliveries of that job.
var undone = []string{"undone-1", "undone-2"}

// fixture is a folder with the data of a version.
type fixture struct{ dir string }

func (f fixture) file(name string) string { return filepath.Join(f.dir, name) }

// keptBodies are the bodies of a fixture's messages, by id.
func (f fixture) keptBodies(t *testing.T) (bodies map[string]string) {
	t.Helper()
	text, err := os.ReadFile(f.file("bodies.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &bodies))
	return bodies
}

// fixtureURL is the URL of a receiver of fixtures. Each has a lane of its own.
func fixtureURL(n int) string { return fmt.Sprintf("http://127.0.77.%d:%d", n, fixturePort) }

// newFixtureWorld is a world on a store and a database. Its receiver is at the fixed port, too.
func newFixtureWorld(t *testing.T, url string) *world {
	t.Helper()
	redistest.Long(t)
	secret, err := signer.ParseSecret(fixtureSecret)
	require.NoError(t, err)
	server := redistest.Start(t, leastLine())
	t.Cleanup(func() { mustRefuseNothing(t, server) })
	w := &world{t: t, redis: server, rdb: mustConnect(t, server), secret: secret, binary: mustBinary(t)}
	w.receiver = newTestReceiver(t, secret)
	var ln net.Listener
	eventually(t, "the port of fixtures is free", func() bool { // of another run on this machine
		ln, err = net.Listen("tcp4", fmt.Sprint(":", fixturePort))
		return err == nil
	})
	fixed := http.Server{Handler: w.receiver.Receiver, ReadHeaderTimeout: kit.Patience}
	go func() { _ = fixed.Serve(ln) }() // returns at Close
	t.Cleanup(func() { _ = fixed.Close() })
	w.settings = append(archived(url), "REDIS_URL="+asLeast(server.URL()), "OUTBOX_URL="+url, "PUBLIC_URL=http://console.test", "API_KEYS="+e2eKey+":admin:e2e",
		"LADDER=1h,1h", "QUICK_RETRIES=0", "RETENTION="+fixtureRetention.String(), "DEAD_RETENTION="+fixtureRetention.String())
	return w
}

// serveKeyed starts an instance whose client has a key, which links need.
func (w *world) serveKeyed(settings ...string) *instance {
	w.t.Helper()
	i := w.serve(settings...)
	i.Client = i.keyed(e2eKey)
	return i
}

// write has the real program write each kind of data, kills it, and keeps the data.
func (f fixture) write(t *testing.T) {
	t.Helper()
	url, conn := newOutbox(t)
	w := newFixtureWorld(t, url)
	hangs := newBarrier()
	hang := hangs.answer("leased")
	w.receiver.answers(func(rw http.ResponseWriter, r *http.Request, id string, n int) {
		if id == "dead" || id == "retrying" || isNotice(id) {
			rw.WriteHeader(http.StatusInternalServerError)
		}
		hang(rw, r, id, n)
	})
	i := w.serveKeyed("OPS_URL=" + fixtureURL(9))
	w.fill(t, i)
	w.leaveUndone(t, i)
	mustRows(t, url, "select distinct id from hookladder.event where kind in ('d', 'x', 'c') and id not like 'undone%' order by id", "cancelled", "dead", "delivered")
	mustRows(t, url, "select count(*) from hookladder.endpoint", "3")
	mustRows(t, url, "select distinct id from hookladder.open where id not like 'hl%' and id not like 'undone%' order by id",
		"endpoint", "fanout", "held", "large", "later", "leased", "paused", "queued", "retrying", "taken")
	mustRows(t, url, "select count(*) from hookladder.open where id like 'undone%'", "1")
	mustRows(t, url, "select attempts from hookladder.open where id like 'hl%'", "1")
	i.Kill()
	close(hangs.release)
	mustSQL(t, conn, `select hookladder_publish('{"topic":"order.paid","url":"`+fixtureURL(1)+`"}', '{"id":"outbox"}', 'outbox')`)
	w.receiver.mu.Lock()
	w.receiver.bodies["outbox"] = `{"id":"outbox"}`
	bodies, err := json.MarshalIndent(w.receiver.bodies, "", "\t")
	w.receiver.mu.Unlock()
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(f.dir, 0o755))
	require.NoError(t, os.WriteFile(f.file("bodies.json"), append(bodies, '\n'), 0o600))
	require.NoError(t, os.WriteFile(f.file("archive.sql"), []byte(dumpSQL(t, url)), 0o600))
	require.NoError(t, os.WriteFile(f.file("store.txt"), []byte(w.dumpStore(t)), 0o600))
}

// fill publishes a message of each kind, and leaves it in its state.
func (w *world) fill(t *testing.T, i *instance) {
	t.Helper()
	ctx := t.Context()
	for _, e := range []wire.Endpoint{
		{UID: "shop", URL: fixtureURL(2), Secret: fixtureSecret, Topics: []string{"order.*"}, Tenant: "shop", Headers: map[string]string{"x-shop": "1"}},
		{UID: "held", URL: fixtureURL(3), Secret: fixtureSecret}, {UID: "worker", Kind: "pull"},
	} {
		_, _, err := i.CreateEndpoint(ctx, &e)
		require.NoError(t, err)
	}
	_, err := i.PauseEndpoint(ctx, "held")
	require.NoError(t, err)
	_, err = i.PauseLane(ctx, fixtureURL(4), "")
	require.NoError(t, err)
	_, err = i.CreateLink(ctx, wire.LinkRequest{Tenant: "shop"})
	require.NoError(t, err)
	for _, m := range []wire.Message{
		{ID: "delivered", URL: fixtureURL(1), Tenant: "shop", Subject: "order_8713"}, {ID: "dead", URL: fixtureURL(5), MaxAttempts: 1},
		{ID: "cancelled", URL: fixtureURL(1), Delay: hour}, {ID: "retrying", URL: fixtureURL(6)}, {ID: "leased", URL: fixtureURL(7)},
		{ID: "later", URL: fixtureURL(1), Tenant: "shop", Subject: "order_8714", Delay: hour},
		{ID: "large", URL: fixtureURL(1), Delay: hour, Body: []byte(`"` + strings.Repeat("x", 20<<10) + `"`)},
		{ID: "endpoint", Endpoint: "shop", Delay: hour, OrderingKey: "k"}, {ID: "fanout", Tenant: "shop", Topic: "order.sent", Delay: hour},
		{ID: "held", Endpoint: "held"}, {ID: "paused", URL: fixtureURL(4)}, {ID: "taken", Queue: "work"},
	} {
		i.publish(m)
	}
	require.Equal(t, "taken", i.takeOne("work", time.Hour).Message.ID)
	i.publish(wire.Message{ID: "queued", Queue: "work"})
	i.until("delivered", "delivered")
	i.until("dead", "dead")
	_, err = i.Cancel(ctx, "cancelled", "")
	require.NoError(t, err)
	i.untilIt("retrying", "retrying", func(d wire.Delivery) bool { return d.Attempts == 1 && d.Status == "retrying" })
	w.receiver.wait("leased", 1)
	require.NotZero(t, w.rdb.HLen(ctx, "{default:0}:bodies").Val(), "the body of large is out of line")
}

// isNotice reports whether a message is a notice.
func isNotice(id string) bool { return strings.HasPrefix(id, "hl_") }

// leaveUndone leaves a notice that waits for its second attempt, and a job that has cancelled one
// of two deliveries.
func (w *world) leaveUndone(t *testing.T, i *instance) {
	t.Helper()
	ctx := t.Context()
	_, err := i.StartJob(ctx, client.JobCancel, wire.JobRequest{Tenant: []string{"nobody"}}) // its end is the event of the notice
	require.NoError(t, err)
	w.receiver.until("the notice", func() bool {
		w.receiver.mu.Lock()
		defer w.receiver.mu.Unlock()
		for id, came := range w.receiver.got {
			if isNotice(id) {
				w.receiver.bodies[id] = came[0].body
				return true
			}
		}
		return false
	})
	_, err = i.PauseLane(ctx, fixtureURL(8), "")
	require.NoError(t, err)
	for _, id := range undone {
		i.publish(wire.Message{ID: id, URL: fixtureURL(8)})
	}
	job, err := i.StartJob(ctx, client.JobCancel, wire.JobRequest{Destination: []string{fixtureURL(8)}, Rate: undoneRate})
	require.NoError(t, err)
	eventually(t, "the job has cancelled one", func() bool {
		job, err = i.Job(ctx, job.ID)
		require.NoError(t, err)
		return job.Done == 1
	})
	require.Equal(t, "running", job.State)
}

// dumpStore returns the commands that make a store again, behind the time in ms. Unlike the
// payloads of DUMP, every version of Redis reads them.
func (w *world) dumpStore(t *testing.T) string {
	t.Helper()
	ctx, out := t.Context(), []string{fmt.Sprint(time.Now().UnixMilli())}
	add := func(words ...string) {
		for n := range words {
			words[n] = strconv.QuoteToASCII(words[n])
		}
		out = append(out, strings.Join(words, " "))
	}
	keys, err := w.rdb.Keys(ctx, "*").Result()
	require.NoError(t, err)
	slices.Sort(keys)
	for _, key := range keys {
		require.Negative(t, w.rdb.TTL(ctx, key).Val(), "%s expires", key)
		begin := len(out)
		switch kind := w.rdb.Type(ctx, key).Val(); kind {
		case "string":
			add("set", key, w.rdb.Get(ctx, key).Val())
		case "hash":
			for field, value := range w.rdb.HGetAll(ctx, key).Val() {
				add("hset", key, field, value)
			}
		case "zset":
			for _, z := range w.rdb.ZRangeWithScores(ctx, key, 0, -1).Val() {
				add("zadd", key, strconv.FormatFloat(z.Score, 'f', -1, 64), z.Member.(string))
			}
		case "list":
			add(append([]string{"rpush", key}, w.rdb.LRange(ctx, key, 0, -1).Val()...)...)
		case "stream":
			for _, entry := range w.rdb.Do(ctx, "xrange", key, "-", "+").Val().([]any) {
				words := []string{"xadd", key, entry.([]any)[0].(string)}
				for _, word := range entry.([]any)[1].([]any) {
					words = append(words, word.(string))
				}
				add(words...)
			}
		default:
			require.Fail(t, "a fixture has no keys of this type yet", "%s: %s", key, kind)
		}
		if strings.Contains(out[len(out)-1], `"xadd"`) {
			continue // the order of a stream is its own
		}
		slices.Sort(out[begin:])
	}
	return strings.Join(out, "\n") + "\n"
}

// Their scores are times: those until which something waits, and those since which something is kept.
var (
	waits = []string{"{default:0}:due", "{default:0}:taken", "{default:0}:parked"}
	ended = []string{"{default:0}:done", "{default:0}:dead", "{default:0}:cancelled", "{default:0}:seen"}
)

// loadStore makes the store again. Waiting times are over, and retention begins at present.
func (f fixture) loadStore(t *testing.T, w *world) {
	t.Helper()
	text, err := os.Open(f.file("store.txt"))
	require.NoError(t, err)
	defer text.Close() //nolint:errcheck // it was only read
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, 1<<20)
	require.True(t, lines.Scan())
	now := float64(time.Now().UnixMilli())
	made, err := strconv.ParseFloat(lines.Text(), 64)
	require.NoError(t, err)
	pipe := w.rdb.Pipeline()
	for lines.Scan() {
		var words []any
		for rest := lines.Text(); rest != ""; rest = strings.TrimPrefix(rest, " ") {
			quoted, err := strconv.QuotedPrefix(rest)
			require.NoError(t, err)
			word, err := strconv.Unquote(quoted)
			require.NoError(t, err)
			words, rest = append(words, word), rest[len(quoted):]
		}
		if key := words[1].(string); words[0] == "zadd" {
			score, err := strconv.ParseFloat(words[2].(string), 64)
			require.NoError(t, err)
			if slices.Contains(ended, key) {
				words[2] = score + now - made
			} else if slices.Contains(waits, key) {
				words[2] = now
			}
		}
		pipe.Do(t.Context(), words...)
	}
	require.NoError(t, lines.Err())
	_, err = pipe.Exec(t.Context())
	require.NoError(t, err)
}

// load starts nothing yet: it makes the database of a fixture, and its store if keys is set.
func (f fixture) load(t *testing.T, keys bool) (w *world, url string) {
	t.Helper()
	url = pgtest.New(t)
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	sql, err := os.ReadFile(f.file("archive.sql"))
	require.NoError(t, err)
	_, err = conn.PgConn().Exec(t.Context(), string(sql)).ReadAll()
	require.NoError(t, err)
	require.NoError(t, conn.Close(t.Context()))
	w = newFixtureWorld(t, url)
	w.receiver.bodies = f.keptBodies(t)
	if keys {
		f.loadStore(t, w)
	}
	return w, url
}

// dumpSQL returns the statements that make a database again, without the settings of one
// version of PostgreSQL.
func dumpSQL(t *testing.T, url string) string {
	t.Helper()
	programs, err := filepath.Glob("/usr/lib/postgresql/*/bin/pg_dump")
	require.NoError(t, err)
	programs = append([]string{"pg_dump"}, programs...)
	out, err := exec.CommandContext(t.Context(), programs[len(programs)-1], "--inserts", "--no-owner", "--no-privileges", url).Output()
	require.NoError(t, err)
	lines := []string{"SET check_function_bodies = false;\n"}
	for line := range strings.Lines(string(out)) {
		if line != "\n" && !strings.HasPrefix(line, `\`) && !strings.HasPrefix(line, "--") && !strings.HasPrefix(line, "SET ") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}
