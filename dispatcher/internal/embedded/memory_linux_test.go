package embedded_test

import (
	"testing"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/internal/embedded"
)

func TestTheLeastLimitOfMemoryCounts(t *testing.T) {
	t.Parallel()
	const machine = 8 << 30
	none := func() (uint64, error) { return 0, memlimit.ErrNoLimit }
	for name, c := range map[string]struct {
		group memlimit.Provider
		want  int64
	}{
		"the machine's alone":        {none, machine},
		"a container's":              {memlimit.Limit(512 << 20), 512 << 20},
		"more than the machine has":  {memlimit.Limit(9223372036854771712), machine},
		"more than a number can say": {memlimit.Limit(1<<64 - 1), machine},
		"one of nothing":             {memlimit.Limit(0), machine},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, embedded.Lowest(memlimit.Limit(machine), c.group))
		})
	}
	require.Zero(t, embedded.Lowest(none, none), "nobody tells")
	require.Positive(t, embedded.Lowest(memlimit.FromSystem, memlimit.FromCgroup), "this machine has some")
}
