package e2e_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/deploy/kit/pgtest"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// restore runs hookladder restore as an operator would.
func (w *world) restore(t *testing.T, url string, flags ...string) (code int, out string) {
	t.Helper()
	got := mustRun(t, kit.Environ("", w.secret, slices.Concat(w.settings, archived(url))...), "", append([]string{"restore"}, flags...)...)
	return got.code, got.out + got.err
}

func TestALostStoreIsMadeOfItsArchiveAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	url := pgtest.New(t)
	w.receiver.answers(func(w http.ResponseWriter, _ *http.Request, id string, attempt int) {
		if id == "dies" || id == "climbs" && attempt < 4 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	settings := append(archived(url), "LADDER=20ms,20ms,1h,1h")
	i := w.serve(settings...)
	shop, _, err := i.CreateEndpoint(t.Context(), &wire.Endpoint{UID: "shop", URL: w.receiver.URL(1), Secret: w.secret.Reveal(), Topics: []string{"order.*"}, Tenant: "shop"})
	require.NoError(t, err)
	paused, _, err := i.CreateEndpoint(t.Context(), &wire.Endpoint{UID: "paused", URL: w.receiver.URL(2), Secret: w.secret.Reveal()})
	require.NoError(t, err)
	_, err = i.PauseEndpoint(t.Context(), "paused")
	require.NoError(t, err)
	i.send("done")
	i.until("done", "delivered")
	i.publish(wire.Message{ID: "dies", URL: w.receiver.URL(0), MaxAttempts: 1})
	i.until("dies", "dead")
	i.publish(wire.Message{ID: "later", URL: w.receiver.URL(0), Delay: hour, Subject: "o-7", Headers: map[string]string{"x-note": "sealed"}})
	i.publish(wire.Message{ID: "held", Endpoint: paused.ID})
	for _, id := range []string{"first", "second"} {
		i.publish(wire.Message{ID: id, Endpoint: shop.ID, OrderingKey: "k", Delay: hour})
	}
	i.publish(wire.Message{ID: "climbs", URL: w.receiver.URL(3)})
	climbs := i.untilIt("climbs", "on its third rung", func(d wire.Delivery) bool { return d.Attempts == 3 && d.Status == "retrying" })
	mustRows(t, url, "select id from hookladder.open order by id", "climbs", "first", "held", "later", "second")
	mustRows(t, url, "select attempts from hookladder.open where id = 'climbs'", "3")
	eventually(t, "the endpoints are kept", func() bool {
		list, err := rows(t, url, "select id from hookladder.endpoint")
		return err == nil && len(list) == 2
	})

	code, out := w.restore(t, url)
	require.Zero(t, code, out)
	require.Contains(t, out, "there is nothing to restore")

	i.Kill()
	require.NoError(t, w.rdb.FlushAll(t.Context()).Err())
	code, out = w.restore(t, url, "--dry-run")
	require.Zero(t, code, out)
	require.Contains(t, out, "would restore 5 unfinished deliveries and 2 endpoints")
	code, out = w.restore(t, url, "--dead")
	require.Zero(t, code, out)
	require.Contains(t, out, "restored 5 unfinished deliveries and 2 endpoints, 1 dead ones")

	i = w.serve(settings...)
	got := i.delivery("climbs")
	require.Equal(t, []any{"retrying", 3}, []any{got.Status, got.Attempts})
	require.WithinDuration(t, climbs.NextAttemptAt.Time, got.NextAttemptAt.Time, time.Millisecond, "at its place on the ladder")
	_, err = i.Retry(t.Context(), "climbs", "")
	require.NoError(t, err)
	i.until("climbs", "delivered")
	require.Len(t, w.receiver.arrivals("climbs"), 4)

	later, err := i.Message(t.Context(), "later")
	require.NoError(t, err)
	require.Equal(t, []any{"o-7", "scheduled"}, []any{later.Subject, later.Deliveries[0].Status})
	require.Equal(t, "dead", i.delivery("dies").Status)
	_, err = i.Retry(t.Context(), "dies", "")
	require.NoError(t, err)
	w.receiver.wait("dies", 2)

	view, err := i.Endpoint(t.Context(), "shop")
	require.NoError(t, err)
	require.Equal(t, []any{shop.ID, shop.Topics}, []any{view.ID, view.Topics})
	require.Equal(t, "paused", i.delivery("held").WaitingFor)
	_, err = i.ResumeEndpoint(t.Context(), "paused")
	require.NoError(t, err)
	w.receiver.wait("held", 1)

	again := i.publish(wire.Message{ID: "done", URL: w.receiver.URL(0)})
	require.True(t, again.Duplicate, "what was delivered is known, and is not sent again")
	require.Len(t, w.receiver.arrivals("done"), 1)
	require.Equal(t, "order", i.delivery("second").WaitingFor, "the line of a key is as it was")
	_, err = i.Retry(t.Context(), "first", "")
	require.NoError(t, err)
	w.receiver.wait("first", 1)

	mustRows(t, url, "select id from hookladder.open where id in ('climbs', 'held')")
	code, out = w.restore(t, url, "--into-running")
	require.Zero(t, code, out)
	require.Contains(t, out, "restored 0 unfinished deliveries")
	w.alive(1)
}

// A Redis that starts anew from what was on its disk has lost what it accepted last. What
// was archived of that is put back.
func TestWhatRedisLostOfItsLastSecondComesBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "enable-debug-command yes", "appendonly no")
	url := pgtest.New(t)
	i := w.serve(archived(url)...)
	i.troubled = true
	i.publish(wire.Message{ID: "kept", URL: w.receiver.URL(0), Delay: hour})
	mustRows(t, url, "select id from hookladder.open order by id", "kept")
	require.NoError(t, w.rdb.Save(t.Context()).Err())
	i.publish(wire.Message{ID: "lost", URL: w.receiver.URL(0), Delay: hour})
	i.send("done")
	i.until("done", "delivered")
	mustRows(t, url, "select id from hookladder.open order by id", "kept", "lost")
	mustRows(t, url, "select id from hookladder.event", "done")
	require.NoError(t, w.rdb.Do(t.Context(), "debug", "reload", "nosave").Err())
	there, err := w.rdb.HExists(t.Context(), "{default:0}:messages", "lost").Result()
	require.NoError(t, err)
	require.False(t, there, "the archive alone has it")

	eventually(t, "restored", func() bool {
		code, out := w.restore(t, url, "--into-running")
		require.Zero(t, code, out)
		return !strings.Contains(out, "the archive is behind this Redis")
	})
	i.until("lost", "scheduled")
	require.Equal(t, "scheduled", i.delivery("kept").Status)
	i.send("new")
	i.until("new", "delivered")
	_, err = i.Retry(t.Context(), "lost", "")
	require.NoError(t, err)
	w.receiver.wait("lost", 1)
	mustRows(t, url, "select id from hookladder.event where kind = 'd' order by pos", "done", "new", "lost")
	require.Len(t, w.receiver.arrivals("done"), 1)
	reported := func() int { return strings.Count(i.log(), "the store lost its newest data") }
	eventually(t, "told", func() bool { return reported() > 0 }) // behind the rows
	require.Equal(t, 1, reported(), i.log())
}

// A key is rotated by the book, the old one is gone, and then Redis is lost.
func TestWhatIsRestoredAfterARotationNeedsNoOldKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	url := pgtest.New(t)
	with := func(keys string) []string { return []string{"ARCHIVE_URL=" + url, "ENCRYPTION_KEY=" + keys} }
	run := func(keys string, args ...string) result {
		return mustRun(t, kit.Environ("", w.secret, slices.Concat(w.settings, with(keys))...), "", args...)
	}
	i := w.serve(with(firstKey)...)
	i.endpoint("/e", wire.Endpoint{UID: "shop"})
	note := map[string]string{"x-note": "sealed"}
	i.publish(wire.Message{ID: "url", URL: w.receiver.URL(0), Delay: hour, Headers: note})
	i.publish(wire.Message{ID: "shop", Endpoint: "shop", Delay: hour, Headers: note})
	mustRows(t, url, "select id from hookladder.open order by id", "shop", "url")
	require.Zero(t, i.stop())
	i = w.serve(with(secondKey + " " + firstKey)...)
	got := mustRun(t, kit.Environ("", w.secret, append(slices.Clone(w.settings), "ENCRYPTION_KEY="+secondKey+" "+firstKey)...), "", "doctor", "--seal")
	require.Equal(t, exitFailed, got.code, got.out)
	require.Contains(t, got.err, "this store has an archive, and ARCHIVE_URL is not set")
	got = run(secondKey+" "+firstKey, "doctor", "--seal")
	require.Equal(t, exitOK, got.code, got.out+got.err)
	require.Contains(t, got.err, "sealed the headers of 2 messages in the archive")
	require.Zero(t, i.stop())
	require.NoError(t, w.rdb.FlushAll(t.Context()).Err())

	got = run(secondKey, "restore")
	require.Equal(t, exitOK, got.code, got.out+got.err)
	require.Contains(t, got.out, "restored 2 unfinished deliveries and 1 endpoints")
	i = w.serve(with(secondKey)...)
	for _, id := range []string{"url", "shop"} {
		_, err := i.Retry(t.Context(), id, "")
		require.NoError(t, err)
		i.until(id, "delivered")
		require.Equal(t, "sealed", w.receiver.arrivals(id)[0].header.Get("X-Note"))
	}
}

// A key that is gone for good must not hold up what needs no key.
func TestARestoredMessageWithoutItsKeyWaitsAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	url, file := pgtest.New(t), filepath.Join(t.TempDir(), "key")
	run := func(keys string, args ...string) result {
		return mustRun(t, kit.Environ("", w.secret, slices.Concat(w.settings, []string{"ARCHIVE_URL=" + url, "ENCRYPTION_KEY=" + keys})...), "", args...)
	}
	i := w.serve("ARCHIVE_URL="+url, "ENCRYPTION_KEY="+firstKey)
	locked := []string{"l1", "l2", "l3"}
	for _, id := range locked {
		i.publish(wire.Message{ID: id, URL: w.receiver.URL(0), Delay: hour, Headers: map[string]string{"x-note": "sealed"}})
	}
	mustRows(t, url, "select id from hookladder.open order by id", locked...)
	i.Kill()
	require.NoError(t, w.rdb.FlushAll(t.Context()).Err())
	for _, args := range [][]string{{"restore", "--dry-run"}, {"restore"}} {
		got := run(secondKey, args...)
		require.Equal(t, exitFailed, got.code, got.out)
		require.Contains(t, got.err, "no key of ENCRYPTION_KEY opens the headers of 3 deliveries, and 0 endpoints")
	}

	mustWrite(t, file, secondKey)
	i = w.serve("ARCHIVE_URL="+url, "ENCRYPTION_KEY_FILE="+file)
	i.troubled = true
	i.says("headers of messages can't be opened: those that are not finished wait alone")
	for _, id := range locked {
		_, err := i.Retry(t.Context(), id, "")
		require.NoError(t, err)
	}
	for _, id := range locked {
		i.untilIt(id, "waits for its key", func(d wire.Delivery) bool { return d.WaitingFor == "sealed" && d.Attempts == 0 })
	}
	for n := range 20 {
		i.publish(wire.Message{ID: fmt.Sprint("m", n), URL: w.receiver.URL(0)})
	}
	for n := range 20 {
		i.until(fmt.Sprint("m", n), "delivered")
	}
	for _, id := range locked {
		require.Empty(t, w.receiver.arrivals(id))
	}
	got := run(secondKey, "doctor")
	require.Equal(t, exitFailed, got.code)
	require.Contains(t, got.out, "no key of ENCRYPTION_KEY decrypts the headers of messages")
	require.Contains(t, got.out, "3 messages")

	mustWrite(t, file, secondKey+" "+firstKey)
	i.hangUp(readAnew, 1)
	for _, id := range locked {
		require.Equal(t, 1, i.until(id, "delivered").Attempts, "no rung was spent")
	}
	got = run(secondKey+" "+firstKey, "doctor", "--seal")
	require.Equal(t, exitOK, got.code, got.out+got.err)
	require.Equal(t, exitOK, run(secondKey, "doctor").code)
}
