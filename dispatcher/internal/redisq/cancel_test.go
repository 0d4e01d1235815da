package redisq_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

// The script of a cancel reads a bounded part of a long list. What it does not find gets a mark,
// which a walk through the list carries out at once.
func TestWhatIsCancelledDeepInALongListEndsAtOnce(t *testing.T) {
	const n = 6000
	r := newTrap(t)
	ids := make([]dispatcher.DeliveryID, n)
	batch := make([]dispatcher.Entry, n)
	for i := range ids {
		ids[i] = dispatcher.DeliveryID{Lane: "a", Message: fmt.Sprintf("m%04d", i)}
		batch[i] = r.entry("a", ids[i].Message, 0)
	}
	r.schedule(batch...)
	gone := append([]dispatcher.DeliveryID{ids[0], ids[700], ids[n-1], ids[n-700]}, ids[2950:3050]...)
	before := r.calls()
	changes, _, err := r.store.Cancel(t.Context(), "one", gone)
	require.NoError(t, err)
	for _, c := range changes {
		require.True(t, c.Changed, "%s", c.ID)
	}
	require.Less(t, r.calls()-before, len(gone)*24, "the list is read twice for all")
	left := slices.DeleteFunc(slices.Clone(ids), func(id dispatcher.DeliveryID) bool { return slices.Contains(gone, id) })
	s := r.state()
	require.Empty(t, s.Marks)
	require.Equal(t, left, s.Ready["a"])
	require.Equal(t, int64(104), s.Counts[dispatcher.StatusCancelled])
	require.Equal(t, int64(len(left)), s.Counts[dispatcher.StatusReady])
	ended, err := r.store.Queue().CarryOut(t.Context(), "one", "a")
	require.NoError(t, err)
	require.Zero(t, ended)
	r.mustBeSound()
}
