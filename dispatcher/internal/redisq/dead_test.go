package redisq_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

func TestMoreGroupsOfDeadThanAPageOrdersComeInSeveralOrders(t *testing.T) {
	f, options := newTestFixture(t, redisqtest.Setup{Partitions: 4}, redistest.Start(t))
	store := f.Queue
	want := map[string]bool{}
	for n := range 4 {
		fields := map[string]any{}
		for i := range []int{700, 40, 2500, 0}[n] { // more than one command reads, of one partition
			field := fmt.Sprintf("u_%d%d gone", n, i)
			fields[field], want[field] = i+1, true
		}
		if len(fields) > 0 {
			require.NoError(t, store.Client().HSet(t.Context(), keys.Tag(options.Project, n)+keys.Buried, fields).Err())
		}
	}
	for _, most := range []int{0, 800, 1000} {
		reader := store.Buried(most)
		got, orders := map[string]bool{}, 1
		last := int64(1 << 40)
		for cursor := ""; ; {
			page, err := reader.Page(t.Context(), dispatcher.DeadFilter{Limit: 137, Cursor: cursor})
			require.NoError(t, err)
			for _, g := range page.Groups {
				field := string(g.Lane) + " " + string(g.Reason)
				require.False(t, got[field], field)
				got[field] = true
				if g.Count > last {
					orders++
				}
				last = g.Count
			}
			if cursor = page.Next; cursor == "" {
				break
			}
		}
		require.Equal(t, want, got)
		require.Equal(t, most == 0, orders == 1)
		require.LessOrEqual(t, orders, 5)
	}
}

// However many destinations have dead deliveries, no command reads all their counts.
func TestTheDeadAreCountedByReasonAPageAtATime(t *testing.T) {
	const lanes = 12_000
	r := newTrap(t)
	fields := make([]any, 0, 4*lanes)
	for i := range lanes {
		fields = append(fields, fmt.Sprintf("u_%d gone", i), 2, fmt.Sprintf("u_%d exhausted", i), 1)
	}
	require.NoError(t, r.store.Client().HSet(t.Context(), r.store.Conn().Tag(0)+":buried", fields...).Err())
	all, pages := r.stat("hgetall"), r.stat("hscan")
	stats, err := r.store.Stats(t.Context())
	require.NoError(t, err)
	require.Equal(t, map[dispatcher.DeadReason]int64{dispatcher.ReasonGone: 2 * lanes, dispatcher.ReasonExhausted: lanes}, stats.Dead)
	require.False(t, stats.Partial)
	require.Equal(t, 2, r.stat("hgetall")-all, "of counts and ends, which have few fields")
	require.Greater(t, r.stat("hscan")-pages, 2*lanes/1000/2)
}
