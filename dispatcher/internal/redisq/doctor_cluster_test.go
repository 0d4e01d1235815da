package redisq_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
)

// In a cluster the keys of all masters are examined. One that is down is told.
func TestDoctorOfACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0)
	store := openTestStore(t, redisq.Options{URL: cluster.URL(), Project: "several", Partitions: 9, LaneMaxInFlight: 128, Permits: 1024})
	ctx := t.Context()
	_, _, err := store.Schedule(ctx, "one", 0, 0, append(faultEntries(30, 0), faultEntries(30, time.Hour)...))
	require.NoError(t, err)
	examine := func(fix bool) (out redisq.Examined, found []redisq.Finding) {
		out, err := store.Examine(ctx, redisq.Examination{Fix: fix, Still: time.Millisecond, Tell: func(f redisq.Finding) { found = append(found, f) }})
		require.NoError(t, err)
		return out, found
	}
	out, found := examine(true)
	require.Empty(t, found)
	require.Equal(t, redisq.Examined{Partitions: 9, Messages: 60, Lanes: 30}, out)
	for n := range 9 {
		require.NoError(t, store.Client().Del(ctx, redisq.TagOf(store, n)+":due").Err())
	}
	_, found = examine(true)
	require.Len(t, found, 30)
	require.Equal(t, []string{"no_place"}, kinds(found))
	_, found = examine(true)
	require.Empty(t, found)

	cluster.KillMasterOf(redisq.TagOf(store, 0))
	_, err = store.Examine(ctx, redisq.Examination{})
	require.ErrorIs(t, err, dispatcher.ErrUnavailable)
}
