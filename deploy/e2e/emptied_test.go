package e2e_test

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/deploy/kit/pgtest"
	"github.com/hookladder/hookladder/dispatcher/outbox"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// The messages that need what a store lost: for all that match, for one endpoint, and for
// a URL.
func (w *world) kinds() []string {
	return []string{
		`{"topic":"order.paid","tenant":"shop","body":1}`, `{"topic":"order.paid","endpoint":"shop","body":1}`,
		`{"topic":"order.paid","url":"` + w.receiver.URL(0) + `","body":1}`,
	}
}

// accepts reports whether a bare URL is published to.
func (i *instance) accepts(w *world, id string) bool {
	_, err := i.Publish(i.t.Context(), &wire.Message{ID: id, Topic: "order.paid", URL: w.receiver.URL(0), Body: []byte("1")})
	return err == nil
}

// unready starts an instance that takes calls, and is not ready since its store lost data.
func (w *world) unready(settings ...string) *instance {
	w.t.Helper()
	i := w.begin(settings...)
	i.troubled = true
	listens, err := kit.Serve(w.t.Context(), i.Process)
	require.NoError(w.t, err)
	i.Instance = listens
	return i
}

func TestARedisThatIsEmptiedUnderAnInstanceTakesNothingUntilItIsRestored(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	url := pgtest.New(t)
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	_, err = conn.Exec(t.Context(), outbox.Schema())
	require.NoError(t, err)
	settings := append(archived(url), "OUTBOX_URL="+url)
	i := w.serve(settings...)
	i.troubled = true
	_, _, err = i.CreateEndpoint(t.Context(), &wire.Endpoint{UID: "shop", URL: w.receiver.URL(1), Secret: w.secret.Reveal(), Tenant: "shop", Topics: []string{"order.*"}})
	require.NoError(t, err)
	i.publish(wire.Message{ID: "later", URL: w.receiver.URL(0), Delay: hour})
	mustRows(t, url, "select id from hookladder.open", "later")
	eventually(t, "the endpoint is archived", func() bool {
		list, err := rows(t, url, "select id from hookladder.endpoint")
		return err == nil && len(list) == 1
	})

	require.NoError(t, w.rdb.FlushAll(t.Context()).Err())
	for _, m := range w.kinds() { // at once, and never a 202
		p := i.refusedWith(503, "unavailable", "POST", "/v1/messages", m)
		require.Contains(t, p.Detail, "hookladder restore")
	}
	i.refusedWith(503, "unavailable", "GET", "/v1/endpoints/shop", "")
	i.refusedWith(503, "unavailable", "GET", "/v1/endpoints", "")
	i.refusedWith(503, "unavailable", "GET", "/v1/messages/never", "")
	i.refusedWith(503, "unavailable", "GET", "/v1/deliveries", "")
	i.refusedWith(503, "unavailable", "GET", "/readyz", "")
	w.receiver.expect("row", &wire.Message{Body: []byte("1")})
	mustSQL(t, conn, `select hookladder_publish('{"topic":"order.paid","tenant":"shop"}', '1', 'row')`)

	i.Kill() // a restart does not make it final
	i = w.unready(settings...)
	for _, m := range w.kinds() {
		i.refusedWith(503, "unavailable", "POST", "/v1/messages", m)
	}
	var waits int
	require.NoError(t, conn.QueryRow(t.Context(), "select count(*) from hookladder_outbox").Scan(&waits))
	require.Equal(t, 1, waits, "the row waits")

	code, out := w.restore(t, url)
	require.Zero(t, code, out)
	require.Contains(t, out, "restored 1 unfinished deliveries and 1 endpoints")
	eventually(t, "it accepts again", func() bool { return i.accepts(w, "after") })
	i.until("later", "scheduled")
	w.receiver.wait("row", 1)
	code, out = w.restore(t, url)
	require.Zero(t, code, out)
	require.Contains(t, out, "there is nothing to restore")
}

// A process that begins alone learns from the archive that its Redis was emptied.
func TestAProcessThatBeginsOnAnEmptiedRedisLearnsItFromTheArchive(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	url := pgtest.New(t)
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	_, err = conn.Exec(t.Context(), outbox.Schema())
	require.NoError(t, err)
	settings := append(archived(url), "OUTBOX_URL="+url)
	i := w.serve(settings...)
	i.publish(wire.Message{ID: "later", URL: w.receiver.URL(0), Delay: hour})
	mustRows(t, url, "select id from hookladder.open", "later")
	i.Kill()
	require.NoError(t, w.rdb.FlushAll(t.Context()).Err())

	i = w.unready(settings...)
	mustSQL(t, conn, `select hookladder_publish('{"topic":"order.paid","url":"`+w.receiver.URL(1)+`"}', '1', 'row')`)
	w.receiver.expect("row", &wire.Message{Body: []byte("1")})
	i.refusedWith(503, "unavailable", "POST", "/v1/messages", w.kinds()[2])
	code, out := w.doctor(t, archived(url))
	require.Equal(t, 1, code, out)
	require.Contains(t, out, "store: data were lost, and neither restored nor given up, so some checks were skipped: the store lost its endpoints and")
	require.Contains(t, out, "hookladder restore brings back what is archived")
	code, out = w.doctor(t, archived(url), "--accept-loss", "--yes")
	require.Equal(t, 1, code, out)
	require.Contains(t, out, "1 unfinished deliveries and 0 endpoints")
	require.Contains(t, out, "--discard-archive")
	code, out = w.doctor(t, archived(url), "--accept-loss", "--yes", "--discard-archive")
	require.Zero(t, code, out)
	eventually(t, "it accepts again", func() bool { return i.accepts(w, "after") })
	w.receiver.wait("row", 1) // the row waited in the outbox
	mustRows(t, url, "select id from hookladder_outbox")
	i.Kill()
	i = w.serve(settings...)
	require.True(t, i.accepts(w, "more"), "it is no loss any more, for others too")
	code, out = w.restore(t, url)
	require.Zero(t, code, out)
	require.Contains(t, out, "there is nothing to restore")
}

// A Redis that skips transactions when it reads its append-only file comes back with single
// writes only. That is a loss, both for an instance that ran before and for one that starts.
func TestARedisThatSkipsTransactionsAtItsStartHasLostItsData(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "user default on nopass ~* &* +@all -@write") // version 7.0 reads the file as this user
	url := pgtest.New(t)
	i := w.serve(archived(url)...)
	i.troubled = true
	_, _, err := i.CreateEndpoint(t.Context(), &wire.Endpoint{UID: "shop", URL: w.receiver.URL(1), Secret: w.secret.Reveal(), Tenant: "shop", Topics: []string{"order.*"}})
	require.NoError(t, err)
	i.publish(wire.Message{ID: "later", URL: w.receiver.URL(0), Delay: hour})
	mustRows(t, url, "select id from hookladder.open", "later")
	mustRows(t, url, "select count(*) from hookladder.endpoint", "1")

	w.redis.Restart()
	t.Cleanup(func() { _ = w.rdb.Do(context.Background(), "ACL", "LOG", "RESET").Err() }) // it has the skipped transactions
	there, err := w.rdb.Exists(t.Context(), "{default:0}:messages").Result()
	require.NoError(t, err)
	if there == 1 { // other versions read the file with all rights, so nothing is lost
		i.until("later", "scheduled")
		require.NotContains(t, i.metrics(), "\nhookladder_store_emptied 1\n")
		return
	}
	for range 2 {
		eventually(t, "the loss is known", func() bool { return strings.Contains(i.metrics(), "\nhookladder_store_emptied 1\n") })
		for _, m := range w.kinds() {
			i.refusedWith(503, "unavailable", "POST", "/v1/messages", m)
		}
		i.refusedWith(503, "unavailable", "GET", "/v1/endpoints/shop", "")
		code, out := w.doctor(t, archived(url))
		require.Equal(t, 1, code, out)
		require.Contains(t, out, "the store lost its endpoints and")
		i.Kill()
		w.redis.Restart() // with the changes of the instances
		i = w.unready(archived(url)...)
	}
	code, out := w.restore(t, url)
	require.Zero(t, code, out)
	require.Contains(t, out, "restored 1 unfinished deliveries and 1 endpoints")
	eventually(t, "it accepts again", func() bool { return i.accepts(w, "after") })
	i.until("later", "scheduled")
}

// doctor runs hookladder doctor as an operator would.
func (w *world) doctor(t *testing.T, settings []string, flags ...string) (code int, out string) {
	t.Helper()
	got := mustRun(t, kit.Environ("", w.secret, append(settings, w.settings...)...), "", append([]string{"doctor"}, flags...)...)
	return got.code, got.out + got.err
}

// lossRows are commands, and the exit codes after Redis was emptied. One that fails says that
// the store lost data, and which command helps. A command that makes one call of the API prints what
// that answers, so there is one of them for all.
var lossRows = []struct {
	command string
	code    int
}{
	{"get lost", exitFailed},
	{"pause URL", exitOK}, // a bare URL's lane needs nothing of what was lost
	{"tick --server API --for 1s", exitFailed},
	{"ping", exitOK},
	{"forget --tenant shop --yes", exitUnreachable},
	{"repartition --to 4", exitUnreachable},
}

func TestWithoutAnArchiveALossIsGivenUpByAPerson(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.serve()
	i.troubled = true
	i.publish(wire.Message{ID: "lost", URL: w.receiver.URL(0), Delay: hour})
	code, out := w.doctor(t, nil, "--accept-loss", "--yes")
	require.Zero(t, code, out)
	require.Contains(t, out, "the store lost no data")

	require.NoError(t, w.rdb.FlushAll(t.Context()).Err())
	for _, m := range w.kinds() {
		p := i.refusedWith(503, "unavailable", "POST", "/v1/messages", m)
		require.Contains(t, p.Detail, "hookladder doctor --accept-loss")
	}
	var ready wire.Ready
	i.answered(200, &ready, "GET", "/readyz", "")
	require.Contains(t, ready.Emptied, "the store lost")
	i.says("the store lost data")
	eventually(t, "all that is lost is known", func() bool { // a part of it is at once
		_, err := i.Message(t.Context(), "lost")
		return err != nil && strings.Contains(err.Error(), "the store lost its endpoints")
	})
	names := strings.NewReplacer("URL", w.receiver.URL(0), "API", i.URL)
	env := append([]string{"HOOKLADDER_URL=" + i.URL}, w.settings...)
	for _, row := range lossRows {
		got := mustRun(t, env, "", strings.Fields(names.Replace(row.command))...)
		require.Equal(t, row.code, got.code, "%s: %s%s", row.command, got.out, got.err)
		if row.code != exitOK {
			require.Contains(t, got.out+got.err, "the store lost its endpoints", row.command)
			require.Contains(t, got.out+got.err, "hookladder doctor --accept-loss gives it up", row.command)
		}
	}
	code, out = w.doctor(t, nil)
	require.Equal(t, 1, code, out)
	require.Contains(t, out, "hookladder doctor --accept-loss gives it up")
	code, out = w.doctor(t, nil, "--accept-loss")
	require.Equal(t, 2, code, out)
	require.Contains(t, out, "add --yes")
	code, out = w.doctor(t, nil, "--accept-loss", "--yes")
	require.Zero(t, code, out)
	eventually(t, "it accepts again", func() bool { return i.accepts(w, "after") })
	i.refusedWith(404, "not-found", "GET", "/v1/messages/lost", "")
	code, out = w.doctor(t, nil)
	require.Zero(t, code, out)
}
