package redisq_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

// What a dead instance held is taken over a MiB of records at a time, also where
// each of its deliveries ends with that.
func TestADeadInstanceIsTakenOverAMiBOfRecordsAtATime(t *testing.T) {
	const n = 200
	r := newTrap(t)
	batch, ids := make([]dispatcher.Entry, n), make([]dispatcher.DeliveryID, n)
	for i := range batch {
		batch[i] = r.entry(dispatcher.Lane(fmt.Sprint("l", i)), fmt.Sprint("m", i), 0)
		batch[i].Message.Body = []byte(strings.Repeat("x", 15<<10))
		ids[i] = dispatcher.DeliveryID{Lane: batch[i].Lanes[0], Message: batch[i].Message.ID}
	}
	r.schedule(batch...)
	for leased := 0; leased < n; {
		claimed := r.claim("two", 64)
		require.NotEmpty(t, claimed)
		leased += len(claimed)
	}
	_, _, err := r.store.Cancel(t.Context(), "one", ids)
	require.NoError(t, err)
	g := measured(r.store)
	taken, _, err := r.store.Reap(t.Context(), "one", "two")
	require.NoError(t, err)
	require.Equal(t, n, taken)
	calls := 0
	for _, c := range g.Of("reap") {
		calls++
		require.Equal(t, 5, c.Size)
	}
	require.GreaterOrEqual(t, calls, n*15<<10/(1<<20), "a MiB each")
	r.mustBeSound()
}
