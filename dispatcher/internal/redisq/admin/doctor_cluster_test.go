package admin_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/admin"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// In a cluster the keys of all masters are examined. One that is down is told.
func TestDoctorOfACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0)
	store := redisqtest.Open(t, redisq.Options{URL: redisqtest.PatientURL(cluster), Project: "several", Partitions: 9, LaneMaxInFlight: 128, Permits: 1024})
	ctx := t.Context()
	_, _, err := store.Schedule(ctx, "one", 0, 0, append(redisqtest.Entries(30, 0), redisqtest.Entries(30, time.Hour)...))
	require.NoError(t, err)
	examine := func(fix bool) (out admin.Examined, found []admin.Finding) {
		out, err := admin.Examine(ctx, store.Queue(), admin.Examination{Fix: fix, Still: time.Millisecond, Report: func(f admin.Finding) { found = append(found, f) }})
		require.NoError(t, err)
		return out, found
	}
	out, found := examine(true)
	require.Empty(t, found)
	require.Equal(t, admin.Examined{Partitions: 9, Messages: 60, Lanes: 30}, out)
	for n := range 9 {
		require.NoError(t, store.Client().Del(ctx, store.Conn().Tag(n)+":due").Err())
	}
	_, found = examine(true)
	require.Len(t, found, 30)
	require.Equal(t, []string{"no_place"}, kinds(found))
	_, found = examine(true)
	require.Empty(t, found)

	cluster.KillMasterOf(store.Conn().Tag(0))
	_, err = admin.Examine(ctx, store.Queue(), admin.Examination{})
	require.ErrorIs(t, err, dispatcher.ErrUnavailable)
}
