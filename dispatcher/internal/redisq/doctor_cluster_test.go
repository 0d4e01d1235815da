package redisq_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
)

// In a cluster all masters are asked, and all keys examined; one that is down is
// told, and stops nothing of the others.
func TestSurveyAndDoctorOfACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0)
	store := openTestStore(t, redisq.Options{URL: cluster.URL(), Project: "several", Partitions: 9, LaneMaxInFlight: 128, Permits: 1024})
	ctx := t.Context()
	info, err := store.Store(ctx)
	require.NoError(t, err)
	require.Equal(t, "cluster", info.Mode)
	require.Equal(t, 3, info.Nodes)
	mustHold(t, info, "commands", dispatcher.Yes, "")
	mustHold(t, info, "scripts", dispatcher.Yes, "")
	mustHold(t, info, "cluster", dispatcher.No, "has no replica")

	_, _, err = store.Schedule(ctx, "one", 0, 0, append(faultEntries(30, 0), faultEntries(30, time.Hour)...))
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
	require.Eventually(t, func() bool {
		store.ForgetSurvey()
		info, err = store.Store(ctx)
		return err == nil && holds(info)["cluster"] == dispatcher.No
	}, patient, 50*time.Millisecond)
	mustHold(t, info, "scripts", dispatcher.Yes, "")
	_, err = store.Examine(ctx, redisq.Examination{})
	require.ErrorIs(t, err, dispatcher.ErrUnavailable)
}
