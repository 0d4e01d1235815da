package dispatcher_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

func TestOnlyPendingChangesAreFinal(t *testing.T) {
	all := []dispatcher.Upgrade{{To: 1, What: "one"}, {To: 2, What: "two", Final: "it removes a column"}, {To: 3, What: "three"}}
	require.Equal(t, 3, dispatcher.NewestUpgrade(all))
	require.Empty(t, dispatcher.UpgradesAfter(all, 3))
	require.Equal(t, all[2:], dispatcher.UpgradesAfter(all, 2))
	require.NoError(t, dispatcher.FirstFinalUpgrade(dispatcher.UpgradesAfter(all, 2)))
	err := dispatcher.FirstFinalUpgrade(dispatcher.UpgradesAfter(all, 1))
	require.ErrorContains(t, err, "change 2 two, and can't be rolled back: it removes a column")
	require.ErrorContains(t, err, "hookladder doctor --upgrade")
}

func TestEachChangeIsDescribedInOrder(t *testing.T) {
	for _, all := range [][]dispatcher.Upgrade{dispatcher.StoreUpgrades(), dispatcher.ArchiveUpgrades()} {
		for i, c := range all {
			require.NotEmpty(t, c.Version)
			require.NotEmpty(t, c.What)
			require.Equal(t, all[0].To+i, c.To)
		}
	}
}
