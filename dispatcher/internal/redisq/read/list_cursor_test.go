package read_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/read"
)

func TestACursorIsReadAsItWasWritten(t *testing.T) {
	for _, bad := range []string{"", "due", "nope  0 0 1 a  0   0", "due  0 0 x a  0   0", "due  0 0 1 a  0   x", "due  0 0 1 a  0   -1"} {
		_, err := read.ParseCursor(bad)
		require.ErrorIs(t, err, dispatcher.ErrCursor, bad)
	}
	for _, good := range []string{
		"due  0 0 1790000000000 u_a:m_1  0   0",
		"ready u_a 3 17 17 u_a:m_1 0123456789abcdef 1790000000000 0123456789abcdef  1790000000001",
		"leases  0 0 1790000000000 ep_000000001:m_1 * 1790000000000   0",
		"moved  2 0 1790000000000 ep_000000001:m_1  0  1790000000002 1790000000001",
	} {
		same, err := read.ParseCursor(good)
		require.NoError(t, err, good)
		require.Equal(t, good, same)
	}
}
