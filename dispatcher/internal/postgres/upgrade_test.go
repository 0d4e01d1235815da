package postgres_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/pgtest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
	"github.com/hookladder/hookladder/dispatcher/internal/postgres"
)

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
