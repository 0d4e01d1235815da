package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// promiseTests has the tests of deploy/e2e that prove a row of README's table of promises.
// BenchmarkPromises measures the figures of the rows that lose something.
var promiseTests = map[string][]string{
	"Hookladder is killed":                     {"TestARunningInstanceTakesOverFromAKilledOne", "TestTheArchiveOutlivesKillsOfEverything"},
	"Redis is killed (`appendfsync everysec`)": {"TestNothingIsLostWherePromised", "TestNothingIsLostWhenRedisIsKilled"},
	"Redis' machine loses power":               {"TestNothingIsLostWherePromised", "TestFsyncIsRefusedWhereItWouldNotHold"},
	"a replica takes over":                     {"TestNothingIsLostWherePromised", "TestSentinelsReplaceTheMasterAndNothingIsLost"},
	"Redis is full or down":                    {"TestAFullRedisIsAnsweredWith503AndLosesNothing", "TestNothingIsLostWhenRedisIsKilled"},
	"Redis lost its data":                      {"TestALostStoreIsMadeOfItsArchiveAgain"},
}

func TestEachPromiseHasItsTests(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join(top(t), "README.md"))
	require.NoError(t, err)
	_, table, found := strings.Cut(string(readme), "\n## The promise\n")
	require.True(t, found)
	table, _, _ = strings.Cut(table, "\n## ")
	rows := regexp.MustCompile(`(?m)^\| ([^|]+) \|`).FindAllStringSubmatch(table, -1)
	require.Len(t, rows, len(promiseTests)+2, "beside the rows there are the heading and the line below it")

	var code strings.Builder
	files, err := filepath.Glob(filepath.Join(top(t), "deploy/e2e/*_test.go"))
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		code.Write(text)
	}
	for _, row := range rows[2:] {
		require.NotEmpty(t, promiseTests[row[1]], row[1])
		for _, name := range promiseTests[row[1]] {
			require.Contains(t, code.String(), "func "+name+"(t *testing.T) {", row[1])
		}
	}
}
