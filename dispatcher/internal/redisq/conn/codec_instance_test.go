package conn_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
)

func TestInstanceIsReadAsItWasWritten(t *testing.T) {
	i := dispatcher.Instance{Permits: 7, Version: "0.2.0 dirty", StartedAt: time.UnixMilli(1_700_000_000_000).UTC()}
	for _, archives := range []bool{false, true} {
		for _, listens := range [][]netip.AddrPort{nil, {netip.MustParseAddrPort("127.0.0.1:8080")}, {netip.MustParseAddrPort("10.1.2.3:80"), netip.MustParseAddrPort("[fd00::1]:9464")}} {
			text := conn.EncodeInstance(i, listens, archives)
			require.Equal(t, i, conn.ParseInstance(text), text)
			require.Equal(t, archives, conn.InstanceArchives(text), text)
			require.Equal(t, listens, conn.InstanceListens(text), text)
		}
	}
	require.Equal(t, []netip.AddrPort{netip.MustParseAddrPort("[::1]:1")}, conn.InstanceListens("7 1 0.2.0 at x,[::1]:1,,127.0.0.1"), "what is not an address is left out")
}
