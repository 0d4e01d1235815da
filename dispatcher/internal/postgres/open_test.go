package postgres_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/deploy/kit/pgtest"
	"github.com/hookladder/hookladder/dispatcher/archive"
	"github.com/hookladder/hookladder/dispatcher/internal/postgres"
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
