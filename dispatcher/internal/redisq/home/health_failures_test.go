package home_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
)

// What is rare takes no memory where it is not.
func TestFailuresAreKeptByWhatWentWrong(t *testing.T) {
	onBothForHealth(t, 1, func(t *testing.T, r *healthRig) {
		c := r.count(0, "rare", "usual")
		c.Lanes[0].Failed = dispatcher.Failures{Refused: 1, Server: 2, Timeout: 3, Connect: 4, TLS: 5, DNS: 6, Internal: 7}
		r.add("one", c)
		r.add("two", c)
		found, err := r.Bars(t.Context(), []dispatcher.Lane{"rare"}, r.first)
		require.NoError(t, err)
		require.Equal(t, dispatcher.Failures{Refused: 2, Server: 4, Timeout: 6, Connect: 8, TLS: 10, DNS: 12, Internal: 14}, found["rare"][0].Failed)
		require.Equal(t, dispatcher.Durations{7: 2}, found["rare"][0].Took)
		require.Equal(t, "2 0 4 0 0 2 0 0 0 0 0 0 0 2", r.client.HGet(t.Context(), r.key(0, 0), "usual").Val())
	})
}

func TestFiguresBeginWithTheirPartition(t *testing.T) {
	before := time.Now().Truncate(time.Second)
	r := newHealthRig(t, redistest.StartMini(t), 4)
	require.False(t, r.Since("a").Before(before))
	require.False(t, r.Since("a").After(time.Now()))
}
