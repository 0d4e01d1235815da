package redisq_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

func TestAPartitionsShareHasAMinimum(t *testing.T) {
	for _, c := range []struct{ limit, partitions, want int }{
		{100_000, 1, 100_000},
		{100_000, 8, 12_500},
		{100_000, 128, 10_000},
		{1_000_000, 128, 10_000},
		{2_560_000, 128, 20_000},
		{100, 1, 100},
		{100, 128, 100},
		{0, 1, 0},
		{0, 128, 0},
	} {
		require.Equal(t, c.want, conn.ShareOf(c.limit, c.partitions), "%d in %d", c.limit, c.partitions)
	}
}

func TestStatsTellForHowLongFinishedDeliveriesAreKept(t *testing.T) {
	p := redisqtest.NewProject(t, redistest.Start(t), 2)
	keep := dispatcher.Keep{Finished: time.Hour, FinishedMax: 3, SeenMax: 100, Dead: time.Hour, DeadMax: 100}
	p.Options.Keep = keep
	s := p.Open(2)
	retention := func() time.Duration {
		st, err := s.Stats(t.Context())
		require.NoError(t, err)
		return st.Retention
	}
	serial := 0
	end := func(lane dispatcher.Lane) {
		serial++
		id := fmt.Sprintf("m%d", serial)
		p.Publish(s, p.Entry(id, []dispatcher.Lane{lane}, redisqtest.After(time.Hour)))
		_, _, err := s.Cancel(t.Context(), "one", []dispatcher.DeliveryID{{Lane: lane, Message: id}})
		require.NoError(t, err)
	}
	one, other := redisqtest.To16(0, 1)[0], redisqtest.To16(1, 1)[0]
	require.NotEqual(t, crc16(string(one))%2, crc16(string(other))%2)

	require.Equal(t, time.Hour, retention(), "nothing has finished yet")
	for range 2 {
		end(one)
		end(other)
		p.Pass(time.Second)
	}
	require.Equal(t, time.Hour, retention(), "there is room for one more")
	end(one)
	p.Pass(time.Second)
	require.Equal(t, 3*time.Second, retention(), "the next one would take the oldest's place")
	p.Pass(2 * time.Hour)
	require.Equal(t, time.Hour, retention(), "never longer than was asked for")

	p.Options.Keep.FinishedMax = 0
	s = p.Open(2)
	require.Zero(t, retention(), "none is kept")
}

// The time is lost with the entry of :parked, by hand say. Otherwise no mover would come.
func TestATrimWritesALostTimeOfExpiryAgain(t *testing.T) {
	p := redisqtest.NewProject(t, redistest.Start(t), 1)
	s := p.Open(1)
	at := p.Now.Add(time.Minute)
	e := p.Entry("m", []dispatcher.Lane{"a"}, redisqtest.After(time.Hour))
	e.Message.ExpiresAt = at
	p.Publish(s, e)
	parked := "{" + p.Options.Project + ":0}:parked"
	require.Equal(t, int64(1), p.Client.ZRem(t.Context(), parked, keys.Expiry).Val())
	_, err := s.Trim(t.Context(), "one", []int{0}, dispatcher.Keep{Finished: time.Hour, Dead: time.Hour}, false)
	require.NoError(t, err)
	require.InDelta(t, at.UnixMilli(), p.Client.ZScore(t.Context(), parked, keys.Expiry).Val(), 0)
}
