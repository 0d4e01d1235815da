package keys_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

func TestLanesAreSpreadByTheChecksumOfTheClusterSpecification(t *testing.T) {
	require.Equal(t, uint16(0x31c3), keys.CRC16("123456789")) // the check value of CRC-16/XMODEM
	require.Equal(t, uint16(0), keys.CRC16(""))
}
