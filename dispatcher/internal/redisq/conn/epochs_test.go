package conn_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
)

func TestAnEpochHasItsBeginning(t *testing.T) {
	require.WithinDuration(t, time.Now(), conn.EpochTime(conn.NewEpoch()), time.Minute)
	require.NotEqual(t, conn.NewEpoch(), conn.NewEpoch())
	for _, by := range []string{"", "-", "by hand", "lost", "-5-x", "zzzzzzzzzzzzzzzzzz-x"} {
		require.Zero(t, conn.EpochTime(by), by)
	}
}
