package upgrade_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/internal/upgrade"
)

func TestOnlyPendingChangesAreFinal(t *testing.T) {
	all := []upgrade.Change{{To: 1, What: "one"}, {To: 2, What: "two", Final: "it removes a column"}, {To: 3, What: "three"}}
	require.Equal(t, 3, upgrade.Newest(all))
	require.Empty(t, upgrade.After(all, 3))
	require.Equal(t, all[2:], upgrade.After(all, 2))
	require.NoError(t, upgrade.FirstFinal(upgrade.After(all, 2)))
	err := upgrade.FirstFinal(upgrade.After(all, 1))
	require.ErrorContains(t, err, "change 2 two, and can't be rolled back: it removes a column")
	require.ErrorContains(t, err, "hookladder doctor --upgrade")
}

func TestEachChangeIsDescribedInOrder(t *testing.T) {
	for _, all := range [][]upgrade.Change{upgrade.Store, upgrade.Archive} {
		for i, c := range all {
			require.NotEmpty(t, c.Version)
			require.NotEmpty(t, c.What)
			require.Equal(t, all[0].To+i, c.To)
		}
	}
}
