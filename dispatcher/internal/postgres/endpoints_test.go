package postgres_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/pgtest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
)

func record(id string, version int64, text string) archive.Endpoint {
	return archive.Endpoint{ID: id, Home: "h", Version: version, Record: []byte(text)}
}

func readEndpoints(t testing.TB, url string) []string {
	t.Helper()
	return read(t, url, "select concat_ws(' ', id, version, convert_from(record, 'UTF8'), home, deleted is not null) from hookladder.endpoint order by id")
}

func readHolds(t testing.TB, url string) []string {
	t.Helper()
	return read(t, url, "select concat_ws(' ', lane, by, name, epoch) from hookladder.hold order by lane")
}

func TestEndpointsAreKeptByTheirVersions(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	a, l := newTestArchive(t, url), newLine()
	l.hold(t, a)
	keep := func(list ...archive.Endpoint) {
		t.Helper()
		require.NoError(t, a.KeepEndpoints(t.Context(), list))
	}
	keep(record("a", 2, "a2"), record("b", 1, "b1"))
	keep(record("a", 1, "a1"), record("b", 2, "b2"), record("b", 2, "b2"))
	require.Equal(t, []string{"a 2 a2 h f", "b 2 b2 h f"}, readEndpoints(t, url))
	page, err := a.Endpoints(t.Context(), "")
	require.NoError(t, err)
	require.Equal(t, []archive.Endpoint{{ID: "a", Home: "h", Version: 2}, {ID: "b", Home: "h", Version: 2}}, page)

	keep(record("a", 2, "again, after the store lost its last second"))
	restored := record("b", 2, "b2")
	restored.Home = "other"
	keep(restored)
	require.Equal(t, []string{"a 2 again, after the store lost its last second h f", "b 2 b2 other f"}, readEndpoints(t, url))

	keep(archive.Endpoint{ID: "a", Home: "h", Version: 2, Deleted: true})
	keep(record("a", 2, "read before"))
	require.Equal(t, []string{"a 2 again, after the store lost its last second h t", "b 2 b2 other f"}, readEndpoints(t, url))
	page, err = a.Endpoints(t.Context(), "")
	require.NoError(t, err)
	require.Equal(t, []archive.Endpoint{{ID: "b", Home: "other", Version: 2}}, page)
}

func TestPausesAreKeptByTheInstanceThatHoldsTheirPartition(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	a, l := newTestArchive(t, url), newLine()
	l.hold(t, a)
	keep := func(by, epoch string, lanes ...archive.PausedLane) error {
		return a.KeepPausedLanes(t.Context(), by, archive.PausedLanes{Epoch: epoch, Lanes: lanes})
	}
	paused := archive.PausedLane{Lane: "u_1", Epoch: "e0", Since: now, By: "ops\x00", Name: "https://a.example shop"}
	require.NoError(t, keep(me, "e0", paused, archive.PausedLane{Lane: dispatcher.AllLanes, Epoch: "e0", Since: now}))
	require.Equal(t, []string{"*   e0", "u_1 ops? https://a.example shop e0"}, readHolds(t, url))
	require.ErrorIs(t, keep("another", "e0", archive.PausedLane{Lane: "u_1", Resumed: true}), archive.ErrMoved)
	require.ErrorIs(t, keep(me, "before", archive.PausedLane{Lane: "u_1", Resumed: true}), archive.ErrMoved)
	require.NoError(t, keep(me, "e0", archive.PausedLane{Lane: dispatcher.AllLanes, Resumed: true}))
	require.Len(t, readHolds(t, url), 1)

	known, err := a.PausedLanes(t.Context(), "e0")
	require.NoError(t, err)
	paused.By = "ops?"
	require.Equal(t, []archive.PausedLane{paused}, known)
	known, err = a.PausedLanes(t.Context(), "another")
	require.NoError(t, err)
	require.Empty(t, known, "of an emptied store nothing is known")
}

func TestChangesAreKeptTogetherWithThePosition(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	a, l := newTestArchive(t, url), newLine()
	l.hold(t, a)
	p := l.part(accepted("m"))
	p.Endpoints = []archive.Endpoint{record("a", 1, "a1"), record("a", 2, "a2")}
	p.PausedLanes = []archive.PausedLane{{Lane: "u_1", Epoch: "e0", Since: now, By: "ops"}, {Lane: "u_1", Resumed: true}, {Lane: "u_2", Epoch: "e0", Since: now, By: "ops"}}
	_, err := a.Write(t.Context(), "another", []archive.Part{p})
	require.ErrorIs(t, err, archive.ErrMoved)
	require.Empty(t, readEndpoints(t, url))
	_, err = a.Write(t.Context(), me, []archive.Part{p})
	require.NoError(t, err)
	require.Equal(t, []string{"a 2 a2 h f"}, readEndpoints(t, url))
	require.Equal(t, []string{"u_2 ops  e0"}, readHolds(t, url))
}
