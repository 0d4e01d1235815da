package redistest

import (
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/require"
)

// Mini is a miniredis in the test's own process. It forgets nothing when it is
// killed, since what it holds is the test's own memory.
type Mini struct {
	t testing.TB
	m *miniredis.Miniredis
}

// StartMini runs a miniredis that ends with the test.
func StartMini(t testing.TB) *Mini {
	t.Helper()
	m := miniredis.NewMiniRedis()
	require.NoError(t, m.Start(), "start miniredis")
	t.Cleanup(m.Close)
	return &Mini{t: t, m: m}
}

// URL is the server's address.
func (m *Mini) URL() string { return "redis://" + m.m.Addr() + "/0" }

// Kill cuts all connections and accepts no more.
func (m *Mini) Kill() { m.m.Close() }

// Stop does the same: there is nothing to write.
func (m *Mini) Stop() { m.m.Close() }

// Restart listens again at the same address.
func (m *Mini) Restart() {
	m.t.Helper()
	m.m.Close()
	require.NoError(m.t, m.m.Restart(), "restart miniredis")
}
