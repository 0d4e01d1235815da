package app_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/app"
)

func TestScriptsNamesWhatChangesDeliveries(t *testing.T) {
	t.Parallel()
	byName := map[string]string{}
	for sha, name := range app.Scripts() {
		require.Regexp(t, "^[0-9a-f]{40}$", sha)
		byName[name] = sha
	}
	require.Len(t, byName, len(app.Scripts()), "two scripts have one name")
	for _, name := range []string{"schedule", "move", "claim", "settle"} {
		require.Contains(t, byName, name)
	}
}
