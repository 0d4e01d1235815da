package e2e_test

import (
	"net/http"
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
	require.WithinDuration(t, climbs.NextAttemptAt.Time, got.NextAttemptAt.Time, 2*time.Millisecond, "at its place on the ladder")
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
