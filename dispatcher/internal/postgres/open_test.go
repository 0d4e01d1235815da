package postgres_test

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/deploy/kit/pgtest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
	"github.com/hookladder/hookladder/dispatcher/internal/postgres"
	"github.com/hookladder/hookladder/dispatcher/outbox"
)

func TestAnArchiveMayBeAwayWhenItIsOpened(t *testing.T) {
	s := pgtest.Start(t, pgtest.Options{})
	s.Stop()
	a, l := newTestArchive(t, s.URL()), newLine()
	_, err := a.Lease(t.Context(), me, []archive.Want{{Epoch: "e0"}})
	require.ErrorIs(t, err, archive.ErrUnavailable)
	s.Restart()
	l.hold(t, a)
}

func TestNoErrorRepeatsThePassword(t *testing.T) {
	const secret = "s3cr3t"
	port, err := kit.FreePort()
	require.NoError(t, err)
	for _, text := range []string{
		"postgres://u:" + secret + "@h:port/d", "postgres://u:" + secret + "@h/%zz", "mysql://u:" + secret + "@h/d", "user=u password=" + secret,
		"postgres://u:" + secret + "@h/d?sslmode=never", "postgres://u:" + secret + "@[::1/d", "", "postgres://u:" + secret + "@h/d?connect_timeout=x&password=" + secret,
	} {
		_, err := postgres.Open(postgres.Options{URL: text})
		require.Error(t, err, text)
		require.NotContains(t, err.Error(), secret)
	}
	a := newTestArchive(t, fmt.Sprintf("postgres://u:%s@127.0.0.1:%d/d", secret, port))
	_, err = a.Lease(t.Context(), me, nil)
	require.ErrorIs(t, err, archive.ErrUnavailable)
	require.NotContains(t, err.Error(), secret)
	_, err = postgres.Open(postgres.Options{URL: "postgres://h/d", Bodies: "some"})
	require.ErrorContains(t, err, "all, failed or none")
}

func TestEachProjectHasTablesOfItsOwn(t *testing.T) {
	where := pgtest.New(t)
	long := strings.Repeat("L-", 32)
	for n, project := range []string{"default", "Pay-1", long, long[:62] + "--"} {
		a, l := mustOpen(t, postgres.Options{URL: where, Project: project}), newLine()
		l.hold(t, a)
		l.write(t, a, accepted("a", fmt.Sprint(n)), event(archive.Dead, "a", 1))
		require.NoError(t, a.Maintain(t.Context(), 1))
	}
	schemas := read(t, where, `select nspname from pg_namespace where nspname like 'hookladder%' order by nspname collate "C"`)
	require.Len(t, schemas, 4)
	require.Equal(t, []string{"hookladder", "hookladder_L-"}, []string{schemas[0], schemas[1][:13]})
	require.Contains(t, schemas, "hookladder_Pay-1")
	for _, s := range schemas {
		require.Equal(t, []string{"2"}, read(t, where, fmt.Sprintf("select count(*) from %q.message", s)), s)
	}
}

func TestAServerThatIsTooOldIsRefused(t *testing.T) {
	for _, version := range []string{"14.0", "15.18 (Debian 15.18-0+deb12u1)", "17beta1", "18"} {
		require.NoError(t, postgres.Unfit(version), version)
	}
	for _, version := range []string{"13.22", "9.6.24", "", "devel"} {
		require.ErrorContains(t, postgres.Unfit(version), "14 or later", version)
	}
}

func TestSeveralInstancesMakeTheTablesAtOnce(t *testing.T) {
	where := pgtest.New(t)
	errs := make(chan error)
	for n := range 5 {
		a := newTestArchive(t, where)
		go func() {
			_, err := a.Lease(t.Context(), fmt.Sprint(n), []archive.Want{{Partition: n, Epoch: fmt.Sprint(n)}})
			errs <- err
		}()
	}
	for range 5 {
		require.NoError(t, <-errs)
	}
	require.Equal(t, []string{fmt.Sprint(postgres.Newest())}, read(t, where, "select count(*) from hookladder.version"))
	require.Len(t, tables(t, where), 8)
}

func TestTablesOfAnotherVersionStopTheArchive(t *testing.T) {
	where := pgtest.New(t)
	l := newLine()
	l.hold(t, newTestArchive(t, where))
	run(t, where, "insert into hookladder.version values (99)")
	a := newTestArchive(t, where)
	_, err := a.Lease(t.Context(), me, nil)
	require.ErrorIs(t, err, archive.ErrVersion)
	require.ErrorContains(t, err, fmt.Sprint("version 99, newer than this program's ", postgres.Newest()))
	require.ErrorIs(t, a.Maintain(t.Context(), 0), archive.ErrVersion)
	run(t, where, "delete from hookladder.version where n = 99")
	l.hold(t, a)

	limited := asRole(t, where, "grant usage on schema hookladder to %s", "grant all on all tables in schema hookladder to %s")
	postgres.Migrate(t, "alter table hookladder.hold add column more text")
	old := newTestArchive(t, limited)
	_, err = old.Lease(t.Context(), me, nil)
	require.ErrorIs(t, err, archive.ErrVersion)
	require.ErrorContains(t, err, "start it once as their owner")
	l.hold(t, newTestArchive(t, where)) // the owner
	require.Equal(t, []string{fmt.Sprint(postgres.Newest())}, read(t, where, "select count(*) from hookladder.version"))
	l.hold(t, old)
}

// asRole is a URL for a role of few rights.
func asRole(t testing.TB, where string, grants ...string) string {
	t.Helper()
	u, err := url.Parse(where)
	require.NoError(t, err)
	role := "role_" + strings.TrimPrefix(u.Path, "/")
	run(t, where, "create role "+role+" login")
	for _, g := range grants {
		run(t, where, fmt.Sprintf(g, role))
	}
	u.User = url.User(role)
	return u.String()
}

func TestAMissingRightIsNamed(t *testing.T) {
	where := pgtest.New(t)
	limited := asRole(t, where)
	a, l := newTestArchive(t, limited), newLine()
	_, err := a.Lease(t.Context(), me, nil)
	require.ErrorIs(t, err, archive.ErrUnavailable)
	require.ErrorContains(t, err, "grant create on database test_")
	run(t, where, "create schema hookladder")
	_, err = a.Lease(t.Context(), me, nil)
	require.ErrorContains(t, err, "grant usage, create on schema hookladder to role_test_")
	u, err := url.Parse(limited)
	require.NoError(t, err)
	run(t, where, "grant create, usage on schema hookladder to "+u.User.Username())
	l.hold(t, a) // as soon as it may
}

func TestARoleThatMayOnlyWriteArchivesIntoTheMonthsThereAre(t *testing.T) {
	where := pgtest.New(t)
	l := newLine()
	l.hold(t, newTestArchive(t, where))
	run(t, where, "drop table hookladder."+tableOf("event", 3), "drop table hookladder."+tableOf("message", 3))
	limited := asRole(t, where, "grant usage on schema hookladder to %s", "grant all on all tables in schema hookladder to %s")
	notes := &notes{}
	a := mustOpen(t, postgres.Options{URL: limited, Log: notes.log()})
	l.hold(t, a)
	l.write(t, a, []archive.Accepted{acceptedAt(month(3), "a")}, event(archive.Dead, "a", 1))
	l.write(t, a, []archive.Accepted{acceptedAt(month(3), "a")}) // with care
	require.Contains(t, notes.String(), "creating tables of the coming months failed")
	err := a.Maintain(t.Context(), 0)
	require.ErrorIs(t, err, archive.ErrUnavailable)
	require.ErrorContains(t, err, "must own the archive's tables")
}

func TestEachMigrationIsListedAsAChange(t *testing.T) {
	require.Equal(t, postgres.Newest(), dispatcher.NewestUpgrade(dispatcher.ArchiveUpgrades()))
	require.Len(t, dispatcher.ArchiveUpgrades(), postgres.Newest())
}

// A later version was rolled out, and is rolled back: the older one works with the columns that
// it does not know.
func TestAnOlderProgramWorksWithTheTablesOfALaterOne(t *testing.T) {
	where := pgtest.New(t)
	options := postgres.Options{URL: where}
	l := newLine()
	l.hold(t, newTestArchive(t, where))
	older := newTestArchive(t, where)
	t.Run("the later one", func(t *testing.T) {
		postgres.Migrate(t, "alter table hookladder.hold add column more text")
		l.hold(t, newTestArchive(t, where))
	})
	require.Equal(t, []string{"0"}, read(t, where, "select needs from hookladder.version order by n desc limit 1"))
	l.hold(t, older)
	require.NoError(t, older.Maintain(t.Context(), 0))
	v, err := postgres.OpenVault(t.Context(), options)
	require.NoError(t, err)
	v.Close()
	e, err := postgres.OpenEraser(t.Context(), options)
	require.NoError(t, err)
	e.Close()
}

// A migration that can't be rolled back is not made by an instance, which says so before it writes.
func TestOnlyTheCommandMakesAFinalMigration(t *testing.T) {
	where := pgtest.New(t)
	options := postgres.Options{URL: where}
	l := newLine()
	l.hold(t, newTestArchive(t, where))
	t.Run("the later one", func(t *testing.T) {
		postgres.MigrateFinally(t, "it renames a column", "alter table hookladder.hold rename column name to label")
		a := newTestArchive(t, where)
		_, err := a.Lease(t.Context(), me, nil)
		require.ErrorIs(t, err, archive.ErrVersion)
		require.ErrorContains(t, err, "can't be rolled back: it renames a column")
		require.ErrorContains(t, err, "hookladder doctor --upgrade")
		require.ErrorIs(t, a.Maintain(t.Context(), 0), archive.ErrVersion)
		require.Empty(t, read(t, where, "select n::text from hookladder.version where n = 10"), "nothing was written")

		before, after, err := postgres.Upgrade(t.Context(), options)
		require.NoError(t, err)
		require.Equal(t, []int{postgres.Newest() - 1, postgres.Newest()}, []int{before, after})
		_, err = a.Lease(t.Context(), me, nil)
		require.NoError(t, err)
		before, after, err = postgres.Upgrade(t.Context(), options)
		require.NoError(t, err)
		require.Equal(t, before, after, "there is nothing left to do")

		empty := pgtest.New(t)
		_, err = newTestArchive(t, empty).Lease(t.Context(), me, nil)
		require.NoError(t, err, "new tables have nothing that could be rolled back")
	})
	_, err := newTestArchive(t, where).Lease(t.Context(), me, nil)
	require.ErrorIs(t, err, archive.ErrVersion)
	require.ErrorContains(t, err, "newer than this program's")
	_, err = postgres.OpenVault(t.Context(), options)
	require.ErrorIs(t, err, archive.ErrVersion)
	_, err = postgres.OpenEraser(t.Context(), options)
	require.ErrorIs(t, err, archive.ErrVersion)
}

func TestRelaysShareAConnectionOfATransactionPooler(t *testing.T) {
	url := pgtest.New(t)
	caller := mustConnect(t, url)
	mustExec(t, caller, outbox.Schema())
	pooled := pgtest.Pool(t, url, 1)
	for n, o := range []*postgres.Outbox{newTestOutbox(t, pooled), newTestOutbox(t, pooled)} {
		id := string(rune('a' + n))
		publish(t, caller, id, `{"topic":"t"}`)
		state, err := o.State(t.Context())
		require.NoError(t, err)
		require.True(t, state.Due)
		require.Equal(t, []string{id}, ids(mustRelay(t, o, 500, ends(dispatcher.RowAccepted)).Rows))
		require.NoError(t, o.Sleep(t.Context()))
		differences, err := o.Differences(t.Context(), outbox.Schema())
		require.NoError(t, err)
		require.Empty(t, differences)
		require.NoError(t, o.Wait(t.Context(), long), "it listens now")
	}
}

func TestArchivesAndReadersShareAConnectionOfATransactionPooler(t *testing.T) {
	pooled := pgtest.Pool(t, pgtest.New(t), 1)
	first, second := newTestArchive(t, pooled), newTestArchive(t, pooled)
	reader, err := postgres.OpenReader(postgres.Options{URL: pooled, QueryTimeout: kit.Patience})
	require.NoError(t, err)
	t.Cleanup(reader.Close)
	for n, a := range []*postgres.Archive{first, second, first, second} {
		instance, l := []string{"one", "two"}[n%2], newLine()
		l.partition, l.epoch = n, fmt.Sprint("e", n)
		leases, err := a.Lease(t.Context(), instance, []archive.Want{{Partition: l.partition, Epoch: l.epoch}})
		require.NoError(t, err)
		require.Len(t, leases, 1)
		id := fmt.Sprint("m", n)
		_, err = a.Write(t.Context(), instance, []archive.Part{l.part(accepted(id), event(archive.Dead, id, 1))})
		require.NoError(t, err)
		require.NoError(t, a.Maintain(t.Context(), 1))
		found, err := reader.Find(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, id, found.Message.ID)
	}
}

// hung takes connections and never answers.
func hung(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = ln.Close() })
	return "postgres://u:p@" + ln.Addr().String() + "/d?sslmode=disable"
}

// An archive that is away, or hangs, is found out once. Then nothing waits for it.
func TestAnArchiveThatDoesNotAnswerKeepsNobodyWaiting(t *testing.T) {
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	away := "postgres://u:p@" + gone.Addr().String() + "/d?sslmode=disable"
	require.NoError(t, gone.Close())
	for name, url := range map[string]string{"away": away, "hung": hung(t)} {
		t.Run(name, func(t *testing.T) {
			r, err := postgres.OpenReader(postgres.Options{URL: url})
			require.NoError(t, err)
			t.Cleanup(r.Close)
			bound, cancel := context.WithTimeout(t.Context(), 30*time.Second) // far beyond what a look-up may take
			defer cancel()
			_, err = r.Find(bound, "m")
			require.ErrorIs(t, err, archive.ErrUnavailable)
			require.NoError(t, bound.Err())
			ended, end := context.WithCancel(t.Context())
			end()
			_, err = r.Ends(ended, archive.Filter{Tenants: []string{"t"}, Limit: 1})
			require.ErrorIs(t, err, archive.ErrUnavailable)
			require.ErrorContains(t, err, "a moment ago", "it was not even tried")
		})
	}
}

// The first instance makes the tables. A look-up before that says nothing of PostgreSQL, so
// the next one is not refused for it.
func TestAnArchiveWithoutItsTablesIsAskedAgain(t *testing.T) {
	url := pgtest.New(t)
	r, err := postgres.OpenReader(postgres.Options{URL: url, QueryTimeout: time.Minute})
	require.NoError(t, err)
	t.Cleanup(r.Close)
	_, err = r.Find(t.Context(), "m")
	require.ErrorIs(t, err, archive.ErrUnavailable)
	_, err = r.Since(t.Context())
	require.ErrorIs(t, err, archive.ErrUnavailable)
	require.NotContains(t, err.Error(), "a moment ago")
	a, err := postgres.Open(postgres.Options{URL: url})
	require.NoError(t, err)
	t.Cleanup(a.Close)
	require.NoError(t, a.Maintain(t.Context(), 0))
	_, err = r.Find(t.Context(), "m")
	require.ErrorIs(t, err, dispatcher.ErrNotFound)
}

func TestAReaderRefusesAURLWithoutTellingIt(t *testing.T) {
	_, err := postgres.OpenReader(postgres.Options{URL: "mysql://u:secret@h/d"})
	require.Error(t, err)
	require.NotContains(t, err.Error(), "secret")
}
