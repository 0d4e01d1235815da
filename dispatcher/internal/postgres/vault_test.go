package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/pgtest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
	"github.com/hookladder/hookladder/dispatcher/internal/postgres"
)

func mustOpenVault(t testing.TB, o postgres.Options) *postgres.Vault {
	t.Helper()
	v, err := postgres.OpenVault(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(v.Close)
	return v
}

func mustRead[T any](t testing.TB, all iter.Seq2[T, error]) (list []T) {
	t.Helper()
	for one, err := range all {
		require.NoError(t, err)
		list = append(list, one)
	}
	return list
}

func TestWhatHasNotFinishedIsReadWithItsMessageInItsOrder(t *testing.T) {
	for _, bodies := range []string{"all", "failed", "none"} {
		t.Run(bodies, func(t *testing.T) {
			t.Parallel()
			url := pgtest.New(t)
			a := mustOpen(t, postgres.Options{URL: url, Bodies: bodies})
			l := newLine()
			l.hold(t, a)
			old := acceptedAt(now.AddDate(-9, 0, 0), "old") // of a month that there never was
			list := accepted("b", "a", "ended", "retried")
			l.write(t, a, append(list, old), event(archive.Delivered, "ended", 1))
			retry := event(archive.Retry, "retried", 3)
			retry.Wait = time.Minute
			l.write(t, a, nil, retry)
			v := mustOpenVault(t, postgres.Options{URL: url})
			got := mustRead(t, v.Open(t.Context(), nil))
			require.Len(t, got, 4)
			for i, id := range []string{"b", "a", "retried", "old"} {
				require.Equal(t, of(id), got[i].ID)
				require.Equal(t, "head of "+id, string(got[i].Head), id)
				require.Equal(t, "body of "+id, string(got[i].Body), id)
				require.Equal(t, []string{"order.paid", "shop", "o-1"}, []string{got[i].Topic, got[i].Tenant, got[i].Subject})
			}
			require.Equal(t, []any{3, now.Add(time.Minute)}, []any{got[2].Attempts, got[2].Due})
			n, err := v.CountOpen(t.Context(), nil)
			require.NoError(t, err)
			require.EqualValues(t, 4, n)

			require.Empty(t, mustRead(t, v.Open(t.Context(), []string{"e0"})), "the store has those of this epoch")
			n, err = v.CountOpen(t.Context(), []string{"e0", "e1"})
			require.NoError(t, err)
			require.Zero(t, n)
			ends, err := v.Ends(t.Context(), nil)
			require.NoError(t, err)
			require.WithinDuration(t, now, ends.Last, time.Second)
			require.WithinDuration(t, time.Now(), ends.Now, time.Minute)
		})
	}
}

// What is archived after a loss, of partitions that were not lost, says nothing of those that were.
func TestHowFarTheArchiveGoesIsThatOfLostPartitions(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	newLine().hold(t, newTestArchive(t, url))
	run(t, url, "delete from hookladder.position")
	run(t, url, `insert into hookladder.position (partition, epoch, ms, seq, last, began) values
		(0, 'lost0', 0, 0, 1000::bigint << 20, now()), (1, 'lost1', 0, 0, 5000::bigint << 20, now()), (2, 'idle', 0, 0, 0, now()),
		(3, 'sound', 0, 0, 9000::bigint << 20, now())`)
	v := mustOpenVault(t, postgres.Options{URL: url})
	for _, row := range []struct {
		present     []string
		first, last int64
	}{
		{[]string{"sound", "new0", "new1"}, 1000, 5000},
		{[]string{"sound", "lost0", "lost1", "idle"}, 9000, 9000},
	} {
		ends, err := v.Ends(t.Context(), row.present)
		require.NoError(t, err)
		require.Equal(t, []int64{row.first, row.last}, []int64{ends.First.UnixMilli(), ends.Last.UnixMilli()}, row.present)
		require.True(t, ends.Gap.IsZero())
	}
	run(t, url, "update hookladder.position set gap_ms = 700, gap_seq = 1 where partition in (0, 3)")
	ends, err := v.Ends(t.Context(), []string{"sound"})
	require.NoError(t, err)
	require.EqualValues(t, 700, ends.Gap.UnixMilli())
	run(t, url, "update hookladder.position set gap_ms = null where partition = 0")
	ends, err = v.Ends(t.Context(), []string{"sound"})
	require.NoError(t, err)
	require.True(t, ends.Gap.IsZero(), "of what was not lost, the store has all")
}

// Changes of endpoints and pauses are lines of the log, and not events.
func TestHowFarTheArchiveGoesCountsLinesThatAreNoEvents(t *testing.T) {
	t.Parallel()
	for name, severed := range map[string]bool{"another epoch is archived": false, "a restore severed the lost one": true} {
		t.Run(name, func(t *testing.T) {
			url := pgtest.New(t)
			a, l := newTestArchive(t, url), newLine()
			l.hold(t, a)
			run(t, url, "update hookladder.position set last = 1000::bigint << 20, ms = 3000, seq = 7")
			v := mustOpenVault(t, postgres.Options{URL: url})
			ends := func(present string) []int64 {
				e, err := v.Ends(t.Context(), []string{present})
				require.NoError(t, err)
				return []int64{e.First.UnixMilli(), e.Last.UnixMilli()}
			}
			require.Equal(t, []int64{3000, 3000}, ends("new"))
			require.Equal(t, []int64{3000, 3000}, ends(l.epoch), "if nothing was lost, all count")
			if severed {
				require.NoError(t, v.Sever(t.Context(), []string{"new"}))
			}
			l.epoch, l.at = "new", archive.Position{}
			l.hold(t, a)
			require.Equal(t, []int64{3000, 3000}, ends("new"))
		})
	}
}

// An instance archives what is there since a loss, before anybody restored it.
func TestHowFarLostDataWereArchivedStaysKnown(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	a, l := newTestArchive(t, url), newLine()
	l.hold(t, a)
	run(t, url, "update hookladder.position set last = 1000::bigint << 20, gap_ms = 700, gap_seq = 1")
	v := mustOpenVault(t, postgres.Options{URL: url})
	for _, epoch := range []string{"other", "another"} {
		l.epoch, l.at = epoch, archive.Position{}
		l.hold(t, a)
		run(t, url, "update hookladder.position set last = 5000::bigint << 20, gap_ms = null")
		ends, err := v.Ends(t.Context(), []string{epoch})
		require.NoError(t, err)
		require.Equal(t, []int64{1000, 1000, 700}, []int64{ends.First.UnixMilli(), ends.Last.UnixMilli(), ends.Gap.UnixMilli()})
	}
	require.NoError(t, v.KeepHome(t.Context(), "id"))
	ends, err := v.Ends(t.Context(), []string{"another"})
	require.NoError(t, err)
	require.Equal(t, []any{int64(5000), true}, []any{ends.First.UnixMilli(), ends.Gap.IsZero()})
}

// An instance was stopped between its reading of the log and its writing to the archive, for as long as
// the store was emptied and restored. What it writes then would never be restored.
func TestNothingIsAddedToWhatIsBeingRestored(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	a, l := newTestArchive(t, url), newLine()
	l.hold(t, a)
	l.write(t, a, accepted("first"))
	run(t, url, "update hookladder.position set last = 1000::bigint << 20")
	v := mustOpenVault(t, postgres.Options{URL: url})
	late := l.part(accepted("late"))
	require.NoError(t, v.Sever(t.Context(), []string{"present"}))
	_, err := a.Write(t.Context(), me, []archive.Part{late})
	require.ErrorIs(t, err, archive.ErrMoved)
	n, err := v.CountOpen(t.Context(), []string{"present"})
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
	ends, err := v.Ends(t.Context(), []string{"present"})
	require.NoError(t, err)
	require.EqualValues(t, 1000, ends.First.UnixMilli())
	_, epochs, err := v.Home(t.Context())
	require.NoError(t, err)
	require.Empty(t, epochs)

	// The first instance that archives again comes behind the restore, and notes no loss anew.
	require.NoError(t, v.KeepHome(t.Context(), "id"))
	l.epoch, l.at = "present", archive.Position{}
	l.hold(t, a)
	run(t, url, "update hookladder.position set last = 5000::bigint << 20")
	ends, err = v.Ends(t.Context(), []string{"later"})
	require.NoError(t, err)
	require.EqualValues(t, 5000, ends.First.UnixMilli())
}

// What is given up is what the store lost: endpoints and paused lanes only with the project's own keys.
func TestOnlyLostDataAreGivenUp(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	a, l := newTestArchive(t, url), newLine()
	l.hold(t, a)
	l.write(t, a, accepted("lost", "lost too"))
	l.epoch, l.at = "present", archive.Position{}
	l.hold(t, a)
	l.write(t, a, accepted("kept"))
	require.NoError(t, a.KeepEndpoints(t.Context(), []archive.Endpoint{record("ep_a", 1, "a"), record("ep_b", 1, "b")}))
	require.NoError(t, a.KeepEndpoints(t.Context(), []archive.Endpoint{{ID: "ep_b", Home: "h", Version: 2, Deleted: true}}))
	require.NoError(t, a.KeepPausedLanes(t.Context(), me, archive.PausedLanes{Epoch: "present", Lanes: []archive.PausedLane{{Lane: "u_1", Epoch: "present", Since: now}}}))
	v := mustOpenVault(t, postgres.Options{URL: url})
	all := func() []string {
		return read(t, url, "select id from hookladder.open union select id from hookladder.endpoint union select lane from hookladder.hold order by 1")
	}
	before := all()
	cut, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err := v.Discard(cut, []string{"present"}, true)
	require.Error(t, err)
	require.Error(t, v.Sever(cut, []string{"present"}))
	require.Error(t, v.KeepHome(cut, "id"))
	_, _, err = v.Home(cut)
	require.Error(t, err)
	require.Equal(t, before, all())

	open, endpoints, err := v.Discard(t.Context(), []string{"present"}, false)
	require.NoError(t, err)
	require.Equal(t, []int64{2, 0}, []int64{open, endpoints})
	require.Equal(t, []string{"ep_a", "ep_b", "kept", "u_1"}, all())
	open, endpoints, err = v.Discard(t.Context(), []string{"present"}, true)
	require.NoError(t, err)
	require.Equal(t, []int64{0, 1}, []int64{open, endpoints})
	require.Equal(t, []string{"ep_b", "kept"}, all())
}

func TestWhatEndedIsKnownAndTheDeadAreThere(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	a := newTestArchive(t, url)
	l := newLine()
	l.hold(t, a)
	dead := func(id string, second int) archive.Event {
		e := event(archive.Dead, id, 10)
		e.At, e.Reason, e.Attempt.Status = now.Add(time.Duration(second)*time.Second), dispatcher.ReasonExhausted, 500
		return e
	}
	resent := event(archive.Resent, "resent", 10)
	resent.Anew = true
	l.write(t, a, accepted("x", "y", "done", "open", "resent"), dead("x", 1), dead("y", 2), dead("resent", 3), event(archive.Delivered, "done", 1), resent)
	v := mustOpenVault(t, postgres.Options{URL: url})
	since := now.Add(-time.Hour)
	ids := func(list []archive.Known) (ids []string) {
		for _, k := range list {
			ids = append(ids, fmt.Sprintf("%s %s %s", k.ID, k.Lane, k.Digest[:7]))
		}
		return ids
	}
	require.Equal(t, []string{"resent u_1 head of", "y u_1 head of", "x u_1 head of", "done u_1 head of"}, ids(mustRead(t, v.Known(t.Context(), since, 10))))
	require.Len(t, mustRead(t, v.Known(t.Context(), since, 2)), 2)
	require.Empty(t, mustRead(t, v.Known(t.Context(), now.Add(time.Hour), 10)))

	list := mustRead(t, v.Dead(t.Context(), since, 10))
	require.Len(t, list, 2, "what was resent is not dead")
	require.Equal(t, []any{of("y"), now.Add(2 * time.Second), dispatcher.ReasonExhausted, 500, 10, "head of y", "body of y"},
		[]any{list[0].ID, list[0].Ended, list[0].Reason, list[0].Status, list[0].Attempts, string(list[0].Head), string(list[0].Body)})
	require.Len(t, mustRead(t, v.Dead(t.Context(), since, 1)), 1)
}

func TestTheNewestAttemptsComeBack(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	a := newTestArchive(t, url)
	l := newLine()
	l.hold(t, a)
	var events []archive.Event
	for n := 1; n <= 12; n++ {
		e := event(archive.Retry, "x", n)
		e.At = now.Add(time.Duration(n) * time.Second)
		e.Attempt.At, e.Attempt.Status, e.Attempt.Error = e.At, 500+n, fmt.Sprint("status ", 500+n)
		events = append(events, e)
	}
	l.write(t, a, accepted("x", "fresh"), events...)
	v := mustOpenVault(t, postgres.Options{URL: url})
	list := mustRead(t, v.Open(t.Context(), nil))
	require.Len(t, list, 2)
	require.NoError(t, v.History(t.Context(), []*archive.Open{&list[0], &list[1]}))
	for _, o := range list {
		if o.ID.Message == "fresh" {
			require.Empty(t, o.History)
			continue
		}
		require.Len(t, o.History, 10)
		require.Equal(t, []any{12, 512, "status 512"}, []any{o.History[0].Attempt.Number, o.History[0].Attempt.Status, o.History[0].Attempt.Error})
		require.Equal(t, 3, o.History[9].Attempt.Number)
	}
}

func TestOneRestoreAtATimeAndItIsNoted(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	_, err := postgres.OpenVault(t.Context(), postgres.Options{URL: url})
	require.EqualError(t, err, "there are no tables of this project: nothing was ever archived here")
	_, err = postgres.OpenVault(t.Context(), postgres.Options{URL: "postgres://u@127.0.0.1:1/x"})
	require.ErrorIs(t, err, archive.ErrUnavailable)
	require.NotContains(t, err.Error(), "\n", "a log line is one line")
	newLine().hold(t, newTestArchive(t, url))
	one, other := mustOpenVault(t, postgres.Options{URL: url}), mustOpenVault(t, postgres.Options{URL: url})
	release, err := one.Lock(t.Context())
	require.NoError(t, err)
	_, err = other.Lock(t.Context())
	require.EqualError(t, err, "another restore is running: wait until it ends, or stop it")
	release()
	release, err = other.Lock(t.Context())
	require.NoError(t, err)
	release()
	require.NoError(t, one.Note(t.Context(), "key:ops", "restore", map[string]any{"restored": 7}))
	require.Equal(t, []string{"restore"}, read(t, url, "select what from hookladder.audit where detail->>'restored' = '7'"))
}

func TestEndpointsComeBackAsTheyAreStored(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	a := newTestArchive(t, url)
	l := newLine()
	l.hold(t, a)
	kept := []archive.Endpoint{{ID: "ep_1", Version: 3, Record: []byte("sealed\x00")}, {ID: "ep_2", Version: 4, Record: []byte("gone"), Deleted: true}}
	require.NoError(t, a.KeepEndpoints(t.Context(), kept))
	paused := []archive.PausedLane{{Lane: "*", Epoch: l.epoch, Since: now, By: "key:ops"}, {Lane: "u_1", Epoch: l.epoch, Name: "https://a.example shop", Since: now, By: "key:ops"}}
	require.NoError(t, a.KeepPausedLanes(t.Context(), me, archive.PausedLanes{Epoch: l.epoch, Lanes: paused}))
	v := mustOpenVault(t, postgres.Options{URL: url})
	endpoints, holds, err := v.Endpoints(t.Context())
	require.NoError(t, err)
	require.Equal(t, kept, endpoints)
	require.Equal(t, paused, holds)
}

// What a restore puts back is sealed anew, wherever its head is, and nothing else is touched.
func TestHeadsThatARestorePutsBackAreSealedAnew(t *testing.T) {
	for _, bodies := range []string{"all", "none"} {
		t.Run(bodies, func(t *testing.T) {
			t.Parallel()
			url := pgtest.New(t)
			a := mustOpen(t, postgres.Options{URL: url, Bodies: bodies})
			l := newLine()
			l.hold(t, a)
			list := append(accepted("open", "done", "dead", "locked"), acceptedAt(now.AddDate(-9, 0, 0), "old"))
			l.write(t, a, list, event(archive.Delivered, "done", 1), event(archive.Dead, "dead", 1))
			v := mustOpenVault(t, postgres.Options{URL: url})
			seal := func(id string, head []byte) ([]byte, error) {
				if id == "locked" {
					return nil, errors.New("no key opens it")
				}
				return []byte(strings.ReplaceAll(string(head), "head of", "sealed head of")), nil
			}
			once := func(id string, head []byte) ([]byte, error) {
				if strings.HasPrefix(string(head), "sealed") {
					return head, nil
				}
				return seal(id, head)
			}
			got, err := v.SealHeads(t.Context(), now.AddDate(0, 0, -1), 100, once)
			require.NoError(t, err)
			require.Equal(t, postgres.Resealed{Sealed: 3, Left: 1}, got)
			heads := map[string]string{}
			for _, o := range mustRead(t, v.Open(t.Context(), nil)) {
				heads[o.ID.Message] = string(o.Head)
			}
			for _, d := range mustRead(t, v.Dead(t.Context(), now.AddDate(0, 0, -1), 100)) {
				heads[d.ID.Message] = string(d.Head)
			}
			require.Equal(t, map[string]string{"open": "sealed head of open", "old": "sealed head of old", "dead": "sealed head of dead", "locked": "head of locked"}, heads)
			require.Equal(t, []string{"head of done"}, read(t, url, "select convert_from(head, 'UTF8') from hookladder.message where id = 'done'"), "nobody sends it again")
			got, err = v.SealHeads(t.Context(), now.AddDate(0, 0, -1), 100, once)
			require.NoError(t, err)
			require.Equal(t, postgres.Resealed{Left: 1}, got, "once")
		})
	}
}

func TestManyHeadsAreSealedInPages(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	a, l := newTestArchive(t, url), newLine()
	l.hold(t, a)
	var ids []string
	for i := range 600 {
		ids = append(ids, "m"+strings.Repeat("x", i))
	}
	l.write(t, a, accepted(ids...))
	v := mustOpenVault(t, postgres.Options{URL: url})
	got, err := v.SealHeads(t.Context(), now, 100, func(_ string, head []byte) ([]byte, error) { return append([]byte("new "), head...), nil })
	require.NoError(t, err)
	require.Equal(t, postgres.Resealed{Sealed: 600}, got)
}
