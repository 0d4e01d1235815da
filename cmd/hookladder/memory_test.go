package main

import (
	"errors"
	"math"
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
