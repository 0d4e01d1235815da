package app_test

import (
	"bytes"
	"log/slog"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher/app"
)

func TestDescriptorsAreSharedOutAndFit(t *testing.T) {
	for _, limit := range []int{64, 100, 256, 1024, 4096, 8192, 20000, 524288, 1 << 20, math.MaxInt32} {
		for _, permits := range []int{0, 1, 1024, 65536} {
			for _, connections := range []int{0, 1, 10, limit / 2} {
				d, err := app.ShareDescriptors(limit, permits, connections)
				require.NoError(t, err, "%d %d %d", limit, permits, connections)
				require.LessOrEqual(t, d.Attempts+d.Loans+d.Idle+d.Accepted+d.Reserve, limit, "%d %d %d: %+v", limit, permits, connections, d)
				require.LessOrEqual(t, d.Attempts, permits)
				require.Positive(t, d.Idle)
				require.Positive(t, d.Accepted)
				require.GreaterOrEqual(t, d.Reserve, 16)
				if permits > 0 {
					require.Positive(t, d.Attempts)
				}
				if connections > 0 {
					require.Equal(t, connections, d.Accepted, "what was asked for is what there is")
				}
			}
		}
	}
	d, err := app.ShareDescriptors(20000, 1024, 0)
	require.NoError(t, err)
	require.Equal(t, [3]int{1024, 4096, 20000 - 1024 - d.Loans - 4096 - d.Reserve}, [3]int{d.Attempts, d.Accepted, d.Idle}, "the rest is for idle connections")
	d, err = app.ShareDescriptors(1<<20, 1024, 0)
	require.NoError(t, err)
	require.Equal(t, [3]int{1024, 4096, 16384}, [3]int{d.Attempts, d.Accepted, d.Idle}, "with many there is no need to save")
	d, err = app.ShareDescriptors(0, 1024, 0)
	require.NoError(t, err)
	require.Equal(t, [3]int{1024, 4096, 16384}, [3]int{d.Attempts, d.Accepted, d.Idle}, "nor where there is no limit")
}

func TestWhatDoesNotFitTheDescriptorsIsToldWithItsCure(t *testing.T) {
	_, err := app.ShareDescriptors(1024, 1024, 2000)
	require.ErrorContains(t, err, "MAX_CONNECTIONS=2000 does not fit")
	require.ErrorContains(t, err, "ulimit -n")
	_, err = app.ShareDescriptors(20, 1024, 0)
	require.ErrorContains(t, err, "may open 20 files, and needs at least 64")

	var log bytes.Buffer
	o := newTestOptions(redistest.Start(t).URL())
	o.Log = slog.New(slog.NewTextHandler(&log, nil))
	o.Engine.MaxInFlight = 1024
	require.NoError(t, app.Budget(&o, 512))
	require.Less(t, o.Engine.MaxInFlight, 257)
	require.Positive(t, o.Engine.Loans)
	require.Contains(t, log.String(), "MAX_IN_FLIGHT is lowered")
	require.Contains(t, log.String(), "ulimit -n")
	require.Contains(t, log.String(), "msg=resources descriptors=512")

	log.Reset()
	o.Engine.MaxInFlight, o.MemoryLimit = 1024, 256<<20
	require.NoError(t, app.Budget(&o, 20000))
	require.Equal(t, []int{1024, 128}, []int{o.Engine.MaxInFlight, o.Engine.Loans})
	require.NotContains(t, log.String(), "lowered")
	require.Contains(t, log.String(), "memory_limit=268435456 request_bodies=16777216")
}
