package main

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

func TestTheCostOfAScriptIsAllItsCallsForEachMessage(t *testing.T) {
	t.Parallel()
	names := map[string]string{"aa": "claim", "bb": "move"}
	entry := func(took time.Duration, args ...string) redis.SlowLog {
		return redis.SlowLog{Duration: took, Args: args}
	}
	for name, c := range map[string]struct {
		entries []redis.SlowLog
		want    map[string]float64
	}{
		"no calls": {nil, map[string]float64{}},
		"calls are added up": {
			[]redis.SlowLog{
				entry(30*time.Microsecond, "evalsha", "aa", "1"), entry(50*time.Microsecond, "evalsha", "aa", "1"),
				entry(20*time.Microsecond, "evalsha", "bb", "1"),
			},
			map[string]float64{"claim": 8, "move": 2},
		},
		"what is no script of ours does not count": {
			[]redis.SlowLog{
				entry(time.Second, "evalsha", "cc", "1"), entry(time.Second, "info"), entry(time.Second, "evalsha"),
				entry(time.Second, "get", "aa"), entry(10*time.Microsecond, "evalsha", "bb"),
			},
			map[string]float64{"move": 1},
		},
		"a call that was stopped counts as some": {
			[]redis.SlowLog{
				entry(10*time.Microsecond, "evalsha", "aa"), entry(10*time.Microsecond, "evalsha", "aa"),
				entry(10*time.Microsecond, "evalsha", "aa"), entry(time.Second, "evalsha", "aa"),
			},
			map[string]float64{"claim": 7},
		},
		"calls that take no time can be told": {
			[]redis.SlowLog{entry(0, "evalsha", "aa"), entry(0, "evalsha", "aa"), entry(3*time.Microsecond, "evalsha", "aa")},
			map[string]float64{"claim": 0.3},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.InDeltaMapValues(t, c.want, costsIn(c.entries, names, 10), 1e-9)
		})
	}
}

func TestTheScriptThatGrowsMostIsTheLastFigure(t *testing.T) {
	t.Parallel()
	s := &sample{}
	addCosts(s, []int{1, 10, 100}, []map[string]float64{
		{"schedule": 10, "move": 2, "claim": 8, "settle": 4},
		{"schedule": 90, "move": 90, "claim": 90, "settle": 90},
		{"schedule": 12, "move": 3, "claim": 8, "settle": 5},
	})
	require.Len(t, s.figures, 4*(3+1)+1)
	require.InDelta(t, 1.5, s.figures[len(s.figures)-1].value, 1e-9)
}

func TestStoresThatWouldHoldTheSameAreOne(t *testing.T) {
	t.Parallel()
	require.Equal(t, []int{1_000, 100_000, 1_000_000}, waitingNumbers(&lab{o: options{}}))
	require.Equal(t, []int{1_000, 10_000, 50_000}, waitingNumbers(&lab{o: options{Quick: true}}))
	require.Equal(t, []int{1_000, 5_000}, waitingNumbers(&lab{o: options{Messages: 5_000}}))
	require.Equal(t, []int{64}, waitingNumbers(&lab{o: options{Messages: 64}}))
}
