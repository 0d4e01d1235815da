package conn_test

import (
	"testing"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/stretchr/testify/require"
)

func TestLimitsThatCantBeReadAreAnError(t *testing.T) {
	got, err := conn.ParseLimits("3 64 50000 1 d")
	require.NoError(t, err)
	require.Equal(t, dispatcher.LaneLimits{
		Version: 3, MaxInFlight: 64, Interval: 50 * time.Millisecond, Ordered: true, Mode: dispatcher.LaneDisabled,
	}, got)
	for _, bad := range []string{"3", "3 64 50000 1 y", "3 64 50000 1", "a 0 0 0 -"} {
		_, err := conn.ParseLimits(bad)
		require.Error(t, err, bad)
	}
}

func TestTextsThatTheScriptsCantReadAreNotWhole(t *testing.T) {
	for text, whole := range map[string]bool{
		"3 64 50000 1 d": true, "3 64 50000 1 - t": true, "": false, "3 64 50000 2 d": false, "9007199254740992 64 0 1 d": false,
	} {
		require.Equal(t, whole, conn.LimitsWhole(text), text)
	}
	for text, whole := range map[string]bool{
		"0 0 0 0 0 0 0 0 0": true, "0 0 0 0 0 0 0 0 0 ~s5": true, "0 0 0 0 0 0 0 0": false, "0 0 0 0 0 0 0 0 9007199254740992": false,
	} {
		require.Equal(t, whole, conn.LaneWhole(text), text)
	}
}
