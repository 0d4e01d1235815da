package e2e_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/pgtest"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// changed is what a store has of endpoints and pauses.
type changed struct {
	secrets wire.EndpointSecrets
	lanes   []wire.LaneState
}

// change creates, rotates, pauses and deletes endpoints, and pauses a bare URL.
func (i *instance) change(t *testing.T) {
	t.Helper()
	for _, uid := range []string{"rotated", "paused", "deleted"} {
		i.register(t, uid)
	}
	_, err := i.RotateSecret(t.Context(), "rotated", wire.Rotation{})
	require.NoError(t, err)
	_, err = i.PauseEndpoint(t.Context(), "paused")
	require.NoError(t, err)
	_, err = i.PauseLane(t.Context(), "http://127.0.0.1:9/", "shop")
	require.NoError(t, err)
	_, err = i.DeleteEndpoint(t.Context(), "deleted")
	require.NoError(t, err)
}

func (i *instance) register(t *testing.T, uid string) wire.EndpointView {
	t.Helper()
	e, _, err := i.CreateEndpoint(t.Context(), &wire.Endpoint{UID: uid, URL: i.receiver.URL(1), Tenant: "shop", Topics: []string{"*"}})
	require.NoError(t, err)
	return e
}

// changed reads what change made.
func (i *instance) changed(t *testing.T) (c changed) {
	t.Helper()
	var err error
	c.secrets, err = i.EndpointSecret(t.Context(), "rotated")
	require.NoError(t, err)
	_, err = i.Endpoint(t.Context(), "deleted")
	require.Equal(t, http.StatusNotFound, problemOf(t, err).Status)
	page, err := i.LanesOf(t.Context(), "shop", "paused", "http://127.0.0.1:9/")
	require.NoError(t, err)
	c.lanes = page.Data
	require.Len(t, c.lanes, 2)
	for k := range c.lanes {
		require.Equal(t, []string{"paused", "shop"}, []string{c.lanes[k].State, c.lanes[k].Tenant})
		require.NotEmpty(t, c.lanes[k].URL)
	}
	return c
}

// mustBe compares two readings. The lane of an endpoint says since when it is paused by its
// own clock, and after a restore by the time in the endpoint's record.
func (c changed) mustBe(t *testing.T, got changed) {
	t.Helper()
	require.Len(t, got.lanes, len(c.lanes))
	for k := range got.lanes {
		require.WithinDuration(t, c.lanes[k].Since.Time, got.lanes[k].Since.Time, time.Second)
		got.lanes[k].Since = c.lanes[k].Since
	}
	require.Equal(t, c, got)
}

func TestWhatChangedJustBeforeAStopIsRestored(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	url := pgtest.New(t)
	i := w.serve(archived(url)...)
	log := i.Output
	lost := i.register(t, "lost")
	mustRows(t, url, "select count(*) from hookladder.endpoint", "1")
	i.change(t)
	i.publish(wire.Message{ID: "m", Endpoint: lost.ID, Delay: hour})
	before := i.changed(t)
	require.Zero(t, i.stop())
	_, err := rows(t, url, "delete from hookladder.endpoint where id = $1", lost.ID)
	require.NoError(t, err)
	_, err = rows(t, url, "update hookladder.open set due = now() where id = 'm'")
	require.NoError(t, err)

	require.NoError(t, w.rdb.FlushAll(t.Context()).Err())
	code, out := w.restore(t, url)
	require.Zero(t, code, out)
	require.Contains(t, out, "1 deliveries wait (missing), because neither the archive nor this Redis has their 1 endpoints:\n  "+lost.ID+": 1\n", "%s", log)
	i = w.serve(archived(url)...)
	before.mustBe(t, i.changed(t))
	require.Equal(t, "missing", i.delivery("m").WaitingFor)
	page, err := i.LanesOf(t.Context(), "", lost.ID)
	require.NoError(t, err)
	require.Equal(t, []string{"limited", "missing"}, []string{page.Data[0].State, page.Data[0].Why})
	require.Contains(t, i.metrics(), `hookladder_held{why="missing"} 1`)
	require.Contains(t, i.metrics(), "hookladder_oldest_due_seconds 0")
	w.alive(1)
}

func TestWhatAKilledInstanceChangedIsArchivedByAnother(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	url := pgtest.New(t)
	i := w.serve(archived(url)...)
	other := w.serve(archived(url)...)
	i.change(t)
	before := i.changed(t)
	i.Kill()
	mustRows(t, url, "select count(*) from hookladder.hold", "1")
	mustRows(t, url, "select (deleted is not null)::text from hookladder.endpoint order by 1", "false", "false", "true")
	before.mustBe(t, other.changed(t))
	other.Kill()
	require.NoError(t, w.rdb.FlushAll(t.Context()).Err())
	code, out := w.restore(t, url)
	require.Zero(t, code, out)
	before.mustBe(t, w.serve(archived(url)...).changed(t))
}
