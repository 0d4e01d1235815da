package dispatcher_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/ladder"
)

func TestRungIsHowManyWaitsWereSpent(t *testing.T) {
	l, err := ladder.New(time.Second, time.Second)
	require.NoError(t, err)
	for name, c := range map[string]struct {
		delivery dispatcher.Delivery
		want     int
	}{
		"never attempted":             {dispatcher.Delivery{Status: dispatcher.StatusScheduled}, 0},
		"in its first wait":           {dispatcher.Delivery{Status: dispatcher.StatusRetrying, Climbed: 1}, 1},
		"on its way after two":        {dispatcher.Delivery{Status: dispatcher.StatusInFlight, Climbed: 2}, 2},
		"delivered at once":           {dispatcher.Delivery{Status: dispatcher.StatusDelivered, Climbed: 1}, 0},
		"delivered at the third":      {dispatcher.Delivery{Status: dispatcher.StatusDelivered, Climbed: 3}, 2},
		"exhausted":                   {dispatcher.Delivery{Status: dispatcher.StatusDead, Reason: dispatcher.ReasonExhausted, Climbed: 3}, 2},
		"gone at its first":           {dispatcher.Delivery{Status: dispatcher.StatusDead, Reason: dispatcher.ReasonGone, Climbed: 1}, 0},
		"expired in its first wait":   {dispatcher.Delivery{Status: dispatcher.StatusDead, Reason: dispatcher.ReasonExpired, Climbed: 1}, 1},
		"refused before any":          {dispatcher.Delivery{Status: dispatcher.StatusDead, Reason: dispatcher.ReasonRefused}, 0},
		"on a ladder shortened since": {dispatcher.Delivery{Status: dispatcher.StatusRetrying, Climbed: 5}, 2},
	} {
		c.delivery.Ladder = &l
		require.Equal(t, c.want, c.delivery.Rung(), name)
	}
}

func TestAnAttemptIsPlacedByWhatIsKnownAtItsEnd(t *testing.T) {
	at := func(ms int) time.Time { return time.UnixMilli(int64(ms)) }
	const began, took = 10_000, 200
	for name, c := range map[string]struct{ now, since, want int }{
		"the clock was right":              {10_250, 250, 10_000},
		"it was behind":                    {11_550, 250, 11_300},
		"it was ahead, or went back since": {9_250, 250, 9_050},
		"it was a little ahead":            {10_240, 250, 10_000},
	} {
		t.Run(name, func(t *testing.T) {
			a := dispatcher.Attempt{At: at(began), Duration: took * time.Millisecond}
			a.Place(at(c.now), time.Duration(c.since)*time.Millisecond)
			require.Equal(t, at(c.want), a.At)
			require.False(t, a.At.Add(a.Duration).After(at(c.now)), "it ends before it is recorded")
		})
	}
	none := dispatcher.Attempt{}
	none.Place(at(1), time.Second)
	require.Zero(t, none.At)
}
