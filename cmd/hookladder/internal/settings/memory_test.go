package settings

import (
	"errors"
	"math"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMemoryLimitIsThatOfTheContainer(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	container := func(n uint64, err error) func() (uint64, error) { return func() (uint64, error) { return n, err } }
	none := func(vars map[string]string, c func() (uint64, error), beside bool) int64 {
		debug.SetMemoryLimit(math.MaxInt64)
		return limitMemory(vars, c, beside)
	}
	require.EqualValues(t, 460_800_000, none(nil, container(512_000_000, nil), false))
	require.EqualValues(t, 460_800_000, debug.SetMemoryLimit(-1))
	require.EqualValues(t, 256_000_000, none(nil, container(512_000_000, nil), true), "Redis has the other half")
	require.Zero(t, none(nil, container(0, errors.New("no cgroup")), false))
	require.Zero(t, none(nil, container(math.MaxInt64&^0xfff, nil), false))
	require.Zero(t, none(map[string]string{"GOMEMLIMIT": "off"}, container(512_000_000, nil), false), "the operator decided")
	debug.SetMemoryLimit(123 << 20)
	require.EqualValues(t, 123<<20, limitMemory(map[string]string{"GOMEMLIMIT": "123MiB"}, container(512_000_000, nil), false))
}

func TestGarbageHasABudget(t *testing.T) {
	for used, want := range map[uint64]int{0: 300, 1: 300, 10 << 20: 300, 20 << 20: 200, 40 << 20: 100, 80 << 20: 50, 1 << 40: 50, math.MaxUint64: 50} {
		require.Equal(t, want, garbagePercent(used), "%d bytes", used)
	}
}

func TestThePercentageFollowsTheMemoryInUse(t *testing.T) {
	before := debug.SetGCPercent(mostPercent)
	defer debug.SetGCPercent(before)
	collections := make(chan int)
	end := make(chan struct{})
	defer close(end)
	eachCollection(func() {
		adaptCollector()
		now := debug.SetGCPercent(mostPercent)
		debug.SetGCPercent(now)
		select {
		case collections <- now:
		case <-end:
		}
	})
	after := func() int {
		for {
			select {
			case now := <-collections:
				return now
			default:
				runtime.GC()
			}
		}
	}
	used := make([]byte, 60<<20)
	after() // a collection that began before used was there
	require.Less(t, after(), 70)
	runtime.KeepAlive(used)
	after()
	require.Greater(t, after(), 100)
}

func TestTheOperatorSetsGOGC(t *testing.T) {
	before := debug.SetGCPercent(77)
	defer debug.SetGCPercent(before)
	limited := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(limited)
	SetMemory(map[string]string{"GOGC": "77", "GOMEMLIMIT": "off"}, false)
	require.Equal(t, 77, debug.SetGCPercent(77))
}
