package e2e_test

import (
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/deploy/kit/pgtest"
	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// Store and archive of each earlier version, and of this one, are read by this version.
func TestThisVersionReadsEachFixture(t *testing.T) {
	t.Parallel()
	redistest.Long(t)
	root := filepath.Join("testdata", "upgrade")
	if *keep != "" {
		t.Run("write "+*keep, fixture{filepath.Join(root, *keep)}.write) // which gives its port back
	}
	kept, err := filepath.Glob(filepath.Join(root, "*"))
	require.NoError(t, err)
	require.NotEmpty(t, kept)
	for _, dir := range kept { // one at a time: their receivers have the same address
		f := fixture{dir}
		t.Run(filepath.Base(dir)+" as it is", func(t *testing.T) {
			w, _ := f.load(t, true)
			i := w.serveKeyed()
			f.awaitDelivered(t, w, i)
			f.awaitJob(t, i)
			f.found(t, i)
			code, out := w.doctor(t, nil)
			require.Zero(t, code, out)
		})
		t.Run(filepath.Base(dir)+" restored from its archive", func(t *testing.T) {
			w, url := f.load(t, false)
			code, out := w.restore(t, url)
			require.Zero(t, code, out)
			w.makeDue(0)
			f.awaitDelivered(t, w, w.serveKeyed())
			code, out = w.doctor(t, nil)
			require.Zero(t, code, out)
		})
	}
}

// awaitDelivered waits until each unfinished delivery and notice has arrived once, and takes the
// queued deliveries.
func (f fixture) awaitDelivered(t *testing.T, w *world, i *instance) {
	t.Helper()
	_, err := i.ResumeEndpoint(t.Context(), "held")
	require.NoError(t, err)
	_, err = i.ResumeLane(t.Context(), fixtureURL(4), "")
	require.NoError(t, err)
	bodies := f.keptBodies(t)
	waiting := []string{"retrying", "leased", "later", "large", "endpoint", "fanout", "held", "paused", "outbox"}
	notices := slices.DeleteFunc(slices.Sorted(maps.Keys(bodies)), func(id string) bool { return !isNotice(id) })
	require.Len(t, notices, 1)
	waiting = append(waiting, notices...)
	w.receiver.waitAll(waiting...)
	got := map[string]string{}
	eventually(t, "all that is queued is taken", func() bool {
		for _, d := range i.takeAll("work", time.Hour) {
			got[d.Message.ID] = string(d.Body)
		}
		_, _ = i.Retry(t.Context(), "taken", "") // its lease ended, so it waits for its next rung
		return len(got) == 2
	})
	require.Equal(t, map[string]string{"taken": bodies["taken"], "queued": bodies["queued"]}, got)
	i.untilAll("delivered", waiting...)
	w.receiver.once()
	n, _ := w.receiver.ids()
	require.Equal(t, len(waiting), n, "nothing else came")
}

// awaitJob waits until the job that had cancelled one delivery has cancelled both.
func (f fixture) awaitJob(t *testing.T, i *instance) {
	t.Helper()
	i.untilAll("cancelled", undone...)
	var ended []wire.Job
	eventually(t, "the job has ended", func() bool {
		for job, err := range i.EachJob(t.Context()) {
			require.NoError(t, err)
			if job.Rate == undoneRate && job.State == "done" {
				ended = append(ended, job)
			}
		}
		return len(ended) > 0
	})
	require.Equal(t, []int{2, 2, 0}, []int{ended[0].Matched, ended[0].Done, ended[0].Failed})
}

// found checks what lists and searches find.
func (f fixture) found(t *testing.T, i *instance) {
	t.Helper()
	for _, id := range []string{"delivered", "dead", "cancelled"} {
		require.Equal(t, id, i.delivery(id).Status)
	}
	ids := func(filter client.Filter) []string {
		found := map[string]bool{}
		for d, err := range i.EachDelivery(t.Context(), filter) {
			require.NoError(t, err)
			found[d.MessageID] = true
		}
		return slices.Sorted(maps.Keys(found))
	}
	require.Equal(t, []string{"delivered"}, ids(client.Filter{SubjectLike: []string{"8713"}}))
	require.Equal(t, []string{"delivered", "endpoint", "fanout", "later"}, ids(client.Filter{Tenants: []string{"shop"}}))
	require.Equal(t, []string{"cancelled", "large", "outbox"}, ids(client.Filter{Destinations: []string{fixtureURL(1)}}), "those without a tenant")
	shop, err := i.Endpoint(t.Context(), "shop")
	require.NoError(t, err)
	require.Equal(t, []string{"order.*"}, shop.Topics)
	_, err = i.Links(t.Context(), 10, "") // after a day the link has expired
	require.NoError(t, err)
}

// Instances of two versions work at the same time, and the later one is rolled back. Until
// there is a later one, it is this version under another number.
func TestALaterVersionWorksBesideThisOneAndIsRolledBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	later, err := kit.Build("./cmd/hookladder", "-ldflags", "-w -X main.version=0.3.0 -X main.builtFrom="+kit.Revision)
	require.NoError(t, err)
	url := pgtest.New(t)
	w.settings = append(w.settings, archived(url)...)
	this := w.binary
	send := func(i *instance, name string) {
		i.send(name)
		i.publish(wire.Message{ID: name + "-later", URL: w.receiver.URL(1), Delay: hour})
	}
	older := w.serve()
	send(older, "older")
	w.binary = later
	newer := w.serve()
	eventually(t, "each sees the other", func() bool {
		var versions []string
		for one, err := range older.EachInstance(t.Context()) {
			require.NoError(t, err)
			versions = append(versions, one.Version)
		}
		return len(versions) == 2 && slices.Contains(versions, "0.3.0") && versions[0] != versions[1]
	})
	send(older, "beside-older")
	send(newer, "beside-newer")
	require.Zero(t, older.stop())
	send(newer, "alone")
	w.makeDue(0)
	w.receiver.waitAll("older-later", "beside-older-later", "beside-newer-later", "alone-later")
	send(newer, "rolled-back")

	w.binary = this
	back := w.serve()
	require.Zero(t, newer.stop())
	send(back, "back")
	w.makeDue(0)
	for _, name := range []string{"older", "beside-older", "beside-newer", "alone", "rolled-back", "back"} {
		back.untilAll("delivered", name, name+"-later")
	}
	w.receiver.once()
	mustRows(t, url, "select count(*) from hookladder.event where kind = 'd'", "12")
	code, out := w.doctor(t, nil)
	require.Zero(t, code, out)
}
