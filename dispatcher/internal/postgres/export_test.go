package postgres

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

// Migrate adds migrations, as a later version of this program has them.
func Migrate(t testing.TB, later ...string) {
	was := texts
	all := append(append([]string{}, was()...), later...)
	texts = func() []string { return all }
	t.Cleanup(func() { texts = was })
}

// MigrateFinally adds one that can't be rolled back.
func MigrateFinally(t testing.TB, why, later string) {
	was := changes
	Migrate(t, later)
	changes = append(append([]dispatcher.Upgrade{}, was...), dispatcher.Upgrade{To: Newest(), Version: "9.9.9", What: "changes the tables", Final: why})
	t.Cleanup(func() { changes = was })
}

// Newest is the version of the tables that this program makes.
func Newest() int { return len(texts()) }

// Migration is the last statement of a migration.
func Migration(t testing.TB, name string) string {
	text, err := migrations.ReadFile("migrations/" + name)
	require.NoError(t, err)
	statements := strings.Split(strings.TrimSpace(string(text)), ";")
	return statements[len(statements)-2]
}

// Unfit is why a server of a version can't be used.
var Unfit = unfit

// LookAlways has every call look which months there are.
func ReadMonthsAlways(t testing.TB) {
	was := monthsEvery
	monthsEvery = 0
	t.Cleanup(func() { monthsEvery = was })
}

// ReadLittle has a page look at few rows, and an export read few at a time.
func ReadLittle(t testing.TB) {
	most, chunk := endsMost, exportChunk
	endsMost, exportChunk = 20, 7
	t.Cleanup(func() { endsMost, exportChunk = most, chunk })
}
