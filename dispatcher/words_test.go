package dispatcher_test

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

func TestEachListOfWordsIsWhole(t *testing.T) {
	for name, words := range dispatcher.WordLists() {
		require.NotEmpty(t, words, name)
		known := map[string]bool{}
		for _, word := range words {
			require.Regexp(t, regexp.MustCompile(`^[a-z][a-z0-9_.-]*$`), word, name)
			require.False(t, known[word], "%s has %s twice", name, word)
			known[word] = true
		}
	}
	require.Subset(t, dispatcher.Statuses(), dispatcher.EndStatuses())
}

func TestAWordForPeopleHasAClause(t *testing.T) {
	for _, reason := range dispatcher.DeadReasons() {
		require.NotEmpty(t, reason.Means(), reason)
	}
	for _, class := range dispatcher.Classes() {
		require.NotEmpty(t, class.Means(), class)
	}
	for _, wait := range dispatcher.Waits() {
		require.NotEmpty(t, wait.Means(), wait)
	}
	require.Empty(t, dispatcher.DeadReason("moonlight").Means())
}
