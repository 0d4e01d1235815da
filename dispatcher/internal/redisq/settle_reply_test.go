package redisq_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
)

// A reply that does not have one digit for each outcome says nothing about any of them.
func TestAReplyToOtherOutcomesIsAnError(t *testing.T) {
	batch := []dispatcher.Settlement{{Verdict: dispatcher.Delivered}, {Verdict: dispatcher.Retry}}
	for codes, ended := range map[string]int{"11": 1, "13": 1, "": -1, "1": -1, "111": -1} {
		reply := &conn.Reply{Values: []any{codes}}
		settled, got := redisq.ReadSettled(reply, batch)
		if ended < 0 {
			require.ErrorIs(t, reply.Err, conn.ErrReply, codes)
			require.Zero(t, got, codes)
			require.Equal(t, make([]dispatcher.Settled, 2), settled, codes)
			continue
		}
		require.NoError(t, reply.Err, codes)
		require.Equal(t, ended, got, codes)
		require.Equal(t, dispatcher.SettleResult(1), settled[0].Result, codes)
	}
}
