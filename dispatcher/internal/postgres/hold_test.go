package postgres_test

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/pgtest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
	"github.com/hookladder/hookladder/dispatcher/internal/postgres"
)

func wants(epochs ...string) (all []archive.Want) {
	for n, e := range epochs {
		all = append(all, archive.Want{Partition: n, Epoch: e})
	}
	return all
}

// numbers are the partitions that are held.
func numbers(t testing.TB, a archive.Archive, by string, want []archive.Want) (all []int) {
	t.Helper()
	leases, err := a.Lease(t.Context(), by, want)
	require.NoError(t, err)
	for _, h := range leases {
		all = append(all, h.Partition)
	}
	return all
}

func TestAPartitionIsHeldByOneInstanceUntilItsTimeIsOver(t *testing.T) {
	url := pgtest.New(t)
	a, b := newTestArchive(t, url), newTestArchive(t, url)
	require.ElementsMatch(t, []int{0, 1}, numbers(t, a, "a", wants("e0", "e1")))
	require.ElementsMatch(t, []int{2}, numbers(t, b, "b", wants("e0", "e1", "e2")))
	require.ElementsMatch(t, []int{0, 1}, numbers(t, a, "a", wants("e0", "e1", "e2")))
	require.ElementsMatch(t, []int{0}, numbers(t, a, "a", wants("e0")), "it gives up the rest")
	require.ElementsMatch(t, []int{1, 2}, numbers(t, b, "b", wants("e0", "e1", "e2")))
	require.Equal(t, []string{"true"}, read(t, url, "select bool_and(until between now() + '1 s' and now() + '6 s') from hookladder.position"))

	run(t, url, "update hookladder.position set until = now() where partition = 0") // as if a had not been heard of
	require.ElementsMatch(t, []int{0, 1, 2}, numbers(t, b, "b", wants("e0", "e1", "e2")))
	require.Empty(t, numbers(t, a, "a", wants("e0")))
	require.NoError(t, b.Release(t.Context(), "b"))
	require.ElementsMatch(t, []int{0}, numbers(t, a, "a", wants("e0")))
	require.Empty(t, numbers(t, a, "a", nil))
}

func TestAWriterBehindWhichOthersTakeOverKeepsNothing(t *testing.T) {
	url := pgtest.New(t)
	a, b, l := newTestArchive(t, url), newTestArchive(t, url), newLine()
	l.hold(t, a)
	late := *l
	run(t, url, "update hookladder.position set until = now()")
	require.ElementsMatch(t, []int{0}, numbers(t, b, "b", wants("e0")))
	_, err := a.Write(t.Context(), me, []archive.Part{late.part(accepted("a"))})
	require.ErrorIs(t, err, archive.ErrMoved)
	_, err = b.Write(t.Context(), "b", []archive.Part{l.part(accepted("a"))})
	require.NoError(t, err)
}

func TestAnEmptiedStoreBeginsAnewAndWhatItLostStaysKnown(t *testing.T) {
	url := pgtest.New(t)
	a, l := newTestArchive(t, url), newLine()
	l.hold(t, a)
	l.write(t, a, accepted("a", "b", "c"), event(archive.Delivered, "a", 1))
	last := l.last
	require.NoError(t, a.EndWalk(t.Context(), me, archive.Walk{Epoch: "e0", Name: 1, Gap: archive.Position{MS: 3, Seq: 4}}))
	lease := l.hold(t, a)
	require.Equal(t, archive.PartitionLease{Epoch: "e0", At: l.at, Last: last, Walked: archive.Position{MS: 3, Seq: 4}}, lease)

	l.epoch, l.at = "other", archive.Position{MS: 70}
	lease = l.hold(t, a)
	require.Equal(t, archive.PartitionLease{Epoch: "other", At: l.at, Last: last, Began: true, Orphans: 2}, lease)
	l.write(t, a, accepted("d"))
	require.EqualValues(t, 2, l.hold(t, a).Orphans)
	require.Equal(t, archive.PosAt(now)+last-archive.PosAt(now)+1, l.last, "numbers go on")

	fresh := newTestArchive(t, url)
	require.EqualValues(t, 2, l.hold(t, fresh).Orphans)
	run(t, url, "update hookladder.open set epoch = 'other'") // as a restore does
	require.EqualValues(t, 0, l.hold(t, newTestArchive(t, url)).Orphans)
}

// page is what a walk finds unfinished.
func page(epoch string, ids ...string) (all []archive.Open) {
	for _, id := range ids {
		all = append(all, archive.Open{
			ID: of(id), Epoch: epoch, Pos: 5, Created: now, Due: now, Attempts: 2, Topic: "order.paid", Tenant: "shop",
			Head: []byte("head of " + id), Body: []byte("body of " + id),
		})
	}
	return all
}

func TestAWalkAddsWhatIsMissingAndEndsWhatItDoesNotSee(t *testing.T) {
	url := pgtest.New(t)
	a, l := newTestArchive(t, url), newLine()
	l.hold(t, a)
	l.write(t, a, accepted("kept", "gone", "moved", "ended"))
	w := archive.Walk{Epoch: "e0", Name: 7, Gap: archive.Position{MS: now.UnixMilli(), Seq: 1}, Left: 0.5}
	other := w
	other.Epoch = "e1"
	see := func(err error, by string, w archive.Walk, page []archive.Open) {
		t.Helper()
		require.ErrorIs(t, a.See(t.Context(), by, w, page), err)
	}
	see(nil, me, w, page("e0", "new", "kept", "ended", "kept"))
	see(nil, me, w, page("e0", "new"))
	see(archive.ErrMoved, "other", w, page("e0", "x"))
	see(archive.ErrMoved, me, other, page("e1", "x"))
	require.Equal(t, []string{"0.5"}, read(t, url, "select walk_left from hookladder.position"))
	later := acceptedAt(now.Add(time.Second), "later") // beside the walk
	l.write(t, a, []archive.Accepted{later}, event(archive.Retry, "moved", 1), event(archive.Delivered, "ended", 1))
	ids, err := a.Unseen(t.Context(), me, w)
	require.NoError(t, err)
	require.Equal(t, []dispatcher.DeliveryID{of("gone")}, ids)
	_, err = a.Unseen(t.Context(), "other", w)
	require.ErrorIs(t, err, archive.ErrMoved)
	_, err = a.EndLost(t.Context(), "other", w, l.last, ids)
	require.ErrorIs(t, err, archive.ErrMoved)
	lost, err := a.EndLost(t.Context(), me, w, l.last, append(ids, of("kept"), of("later"), of("unknown")))
	require.NoError(t, err)
	require.Equal(t, 1, lost, "what was seen, or began later, stays")
	require.Equal(t, []string{"kept 0", "later 0", "moved 1", "new 2"}, read(t, url, "select id || ' ' || attempts from hookladder.open order by id"))
	require.Equal(t, []string{"moved r", "ended d", "gone ?"}, read(t, url, "select concat_ws(' ', id, kind) from hookladder.event order by pos"))
	require.Equal(t, []string{"body of new"}, read(t, url, "select convert_from(body, 'UTF8') from hookladder.message where id = 'new'"))
	require.Equal(t, []string{"true"}, read(t, url, "select last = (select max(pos) from hookladder.event) from hookladder.position"))
	lease := l.hold(t, a)
	require.Equal(t, l.last+1, lease.Last)
	require.True(t, lease.Began, "until the walk ends")
	require.ErrorIs(t, a.EndWalk(t.Context(), "other", w), archive.ErrMoved)
	require.NoError(t, a.EndWalk(t.Context(), me, w))
	lease = l.hold(t, a)
	require.False(t, lease.Began)
	require.Equal(t, w.Gap, lease.Walked)
	require.Equal(t, []string{"<nil>"}, read(t, url, "select walk_left from hookladder.position"))

	w.Name = 8
	ids, err = a.Unseen(t.Context(), me, w)
	require.NoError(t, err)
	require.Len(t, ids, 3, "none was seen by another walk")
	w.Gap = archive.Position{}
	ids, err = a.Unseen(t.Context(), me, w)
	require.NoError(t, err)
	require.Empty(t, ids, "without a gap the log has all ends")
}

// The lines of what was restored and delivered at once may be cut together. Nothing else names it then.
func TestAWalkEndsWhatWasRestoredAndWhoseLinesWereCut(t *testing.T) {
	url := pgtest.New(t)
	a, l := newTestArchive(t, url), newLine()
	l.hold(t, a)
	l.write(t, a, accepted("again", "kept"))
	vault := mustOpenVault(t, postgres.Options{URL: url})
	require.NoError(t, vault.Sever(t.Context(), []string{"e1"}))
	l.epoch = "e1"
	l.hold(t, a)
	w := archive.Walk{Epoch: "e1", Name: 7, Gap: archive.Position{MS: now.UnixMilli() + 1, Seq: 1}, Left: 0.5}
	unseen := func() []dispatcher.DeliveryID {
		ids, err := a.Unseen(t.Context(), me, w)
		require.NoError(t, err)
		return ids
	}
	all := []dispatcher.DeliveryID{of("again"), of("kept")}
	require.Empty(t, unseen(), "a restore needs what was lost")
	lost, err := a.EndLost(t.Context(), me, w, l.last, all)
	require.NoError(t, err)
	require.Zero(t, lost)
	require.NoError(t, vault.KeepHome(t.Context(), "home"))
	require.ElementsMatch(t, all, unseen())
	require.NoError(t, a.See(t.Context(), me, w, page("e1", "kept")))
	require.Equal(t, all[:1], unseen())
	lost, err = a.EndLost(t.Context(), me, w, l.last, all)
	require.NoError(t, err)
	require.Equal(t, 1, lost)
	require.Equal(t, []string{"kept e1"}, read(t, url, "select concat_ws(' ', id, epoch) from hookladder.open"))
	require.Equal(t, []string{"again ?"}, read(t, url, "select concat_ws(' ', id, kind) from hookladder.event order by pos"))
}

// A kill may come between the transaction that passes a gap and the comparison.
func TestAGapThatThePositionPassedStaysKnown(t *testing.T) {
	url := pgtest.New(t)
	a, l := newTestArchive(t, url), newLine()
	l.hold(t, a)
	write := func(gap archive.Position) {
		t.Helper()
		p := l.part(accepted(rand.Text()))
		p.Gap, p.Dropped = gap, gap.MS
		_, err := a.Write(t.Context(), me, []archive.Part{p})
		require.NoError(t, err)
	}
	gap := archive.Position{MS: 5, Seq: 6}
	write(archive.Position{})
	require.Zero(t, l.hold(t, a).Gap)
	write(gap)
	write(archive.Position{MS: 5, Seq: 2})
	write(archive.Position{})
	lease := l.hold(t, newTestArchive(t, url))
	require.Equal(t, gap, lease.Gap)
	require.Equal(t, int64(5), lease.Dropped)
	gap.Seq++
	write(gap)
	require.Equal(t, gap, l.hold(t, a).Gap)

	r, err := postgres.OpenReader(postgres.Options{URL: url})
	require.NoError(t, err)
	defer r.Close()
	due := func(stored archive.Position) bool {
		all, err := r.Comparisons(t.Context())
		require.NoError(t, err)
		require.Len(t, all, 1)
		require.InDelta(t, 1, all[0].Left, 0)
		return all[0].Due(&archive.State{Epoch: "e0", Gap: stored})
	}
	require.True(t, due(archive.Position{}), "it was never compared")
	require.NoError(t, a.EndWalk(t.Context(), me, archive.Walk{Epoch: "e0", Gap: archive.Position{MS: 1}}))
	require.True(t, due(archive.Position{}), "the gap is newer")
	require.NoError(t, a.EndWalk(t.Context(), me, archive.Walk{Epoch: "e0", Gap: gap}))
	require.False(t, due(gap))
	require.True(t, due(archive.Position{MS: 9}), "the store cut more, which the archive has not read yet")
	l.epoch, l.at = "other", archive.Position{}
	require.Zero(t, l.hold(t, a).Gap, "of other data")
}

// An instance that read the store before it was emptied does not bring the old epoch back.
func TestOnlyAnInstanceThatJustReadTheStoreTakesAnotherEpoch(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	a, l := newTestArchive(t, url), newLine()
	l.hold(t, a)
	want := func(epoch string, old bool) (string, error) {
		leases, err := a.Lease(t.Context(), me, []archive.Want{{Partition: l.partition, Epoch: epoch, Old: old}})
		if len(leases) == 0 {
			return "", err
		}
		return leases[0].Epoch, err
	}
	for _, row := range []struct {
		epoch string
		old   bool
		err   error
	}{{l.epoch, true, nil}, {"other", true, archive.ErrMoved}, {l.epoch, true, nil}, {"other", false, nil}, {l.epoch, true, archive.ErrMoved}, {"other", true, nil}} {
		epoch, err := want(row.epoch, row.old)
		require.ErrorIs(t, err, row.err)
		if err == nil {
			require.Equal(t, row.epoch, epoch)
		}
	}
	_, err := newTestArchive(t, url).Lease(t.Context(), "another", []archive.Want{{Partition: l.partition, Epoch: l.epoch, Old: true}})
	require.NoError(t, err, "it is not free")
}
