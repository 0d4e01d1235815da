package redisq_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
)

func TestAChangeOfAnEndpointIsReadAsItWasPublished(t *testing.T) {
	for text, want := range map[string]dispatcher.EndpointChange{
		"7 ep_000000001 acme": {ID: "ep_000000001", Tenant: "acme", Version: 7},
		"1 ep_000000001 ":     {ID: "ep_000000001", Version: 1},
		"0 ep_000000001":      {ID: "ep_000000001"},
	} {
		got, err := redisq.ParseChange(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, bad := range []string{"", "7", "7 ", "x ep_000000001 acme", "-1 ep_000000001 acme"} {
		_, err := redisq.ParseChange(bad)
		require.Error(t, err, bad)
	}
}

func TestAHintThatCantBeReadIsAnError(t *testing.T) {
	h, by, err := redisq.ParseHint("3 1790000000000123 1790000015000 4 host-01")
	require.NoError(t, err)
	require.Equal(t, "host-01", by)
	require.Equal(t, 3, h.Partition)
	require.Equal(t, 4, h.Weight)
	require.Equal(t, int64(1790000000000123), h.Now.UnixMicro())
	require.Equal(t, int64(1790000015000), h.Due.UnixMilli())
	_, _, err = redisq.ParseHint("nonsense")
	require.Error(t, err)
}
