package bench_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/cmd/hookladder/internal/bench"
)

func TestIdleCommandsAreThoseSinceTheRunBefore(t *testing.T) {
	t.Parallel()
	require.InDeltaMapValues(t, map[string]float64{
		"idle at 1 partition: Redis commands":    1.5,
		"idle at 1 partition: CPU of Redis":      400,
		"idle at 1 partition: CPU of dispatcher": 800,
	}, bench.Idle(90, 2000, time.Minute, 5*time.Second), 1e-9)
}
