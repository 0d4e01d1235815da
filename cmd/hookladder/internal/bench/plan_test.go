package bench_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/cmd/hookladder/internal/bench"
)

var costs = bench.Costs{Serve: 48, Redis: 24, Cluster: 2}

func TestARateIsBoundedByTheCoresAndByTheMasters(t *testing.T) {
	require.InDelta(t, 2e6/72, costs.Rate(2, 1), 1e-6, "serve and Redis share two cores")
	require.InDelta(t, 1e6/24, costs.Rate(64, 1), 1e-6, "one Redis uses one core")
	require.InDelta(t, 3e6/48, costs.Rate(64, 3), 1e-6, "three masters, and each delivery costs twice as much")
	require.InDelta(t, 2e6/96, costs.Rate(2, 3), 1e-6, "a cluster on the same two cores is slower")
}

func TestAPlanNamesCoresMemoryAndStores(t *testing.T) {
	load := bench.Load{PerDay: 86_400_000, Waiting: 1e6, Peak: 5, Body: 1024, Answer: 200 * time.Millisecond}
	p := bench.PlanFor(costs, load)
	require.InDelta(t, 1000, p.Mean, 1e-9)
	require.InDelta(t, 5000, p.Peak, 1e-9)
	require.InDelta(t, 0.24, p.Cores, 1e-9)
	require.InDelta(t, 1000, p.InFlight, 1e-9)
	require.Equal(t, 1, p.Masters, "0.12 of a core")
	require.InDelta(t, 0.12, p.RedisCPU, 1e-9)
	require.InDelta(t, 1.5*(1.1e6*1631+1e6*128), p.Redis, 1)
	require.InDelta(t, 86.4e6*30*2000, p.Archive, 1)
	require.InDelta(t, 0.02, p.Postgres, 1e-9)
	require.Contains(t, p.String(), "one Redis; 0.12 cores at the peak; 2.7 GiB of memory")

	load.Peak = 50 // 50,000 a second: 1.2 cores of one Redis
	p = bench.PlanFor(costs, load)
	require.Equal(t, 5, p.Masters, "2.4 cores in a cluster, half of each in use")
	require.Contains(t, p.String(), "a cluster of 5 masters")

	load.Peak = 21 // 0.504 cores
	require.Equal(t, 3, bench.PlanFor(costs, load).Masters, "a cluster has three masters at least")
}

func TestALoadThatIsNotValidIsRefused(t *testing.T) {
	require.NoError(t, bench.Load{PerDay: 1, Peak: 1}.Check())
	err := bench.Load{Waiting: -1, Peak: 0.5}.Check()
	require.ErrorContains(t, err, "--per-day")
	require.ErrorContains(t, err, "--waiting")
	require.ErrorContains(t, err, "--peak")
}
