package ladder_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/ladder"
)

func mustParse(t testing.TB, s string) ladder.Ladder {
	t.Helper()
	l, err := ladder.Parse(s)
	require.NoError(t, err)
	return l
}

func TestDefaultIsTenAttemptsInTwentyFiveHours(t *testing.T) {
	l := ladder.Default()
	require.Equal(t, "15s,3m,10m,30m,30m,1h,2h,6h,15h", l.String())
	require.Equal(t, 9, l.Len())
	require.Equal(t, 90795*time.Second, l.Total())
}

func TestNextKnowsTheTop(t *testing.T) {
	l := mustParse(t, "1s,0s,3s")
	for attempt, want := range map[int]time.Duration{1: time.Second, 2: 0, 3: 3 * time.Second} {
		wait, ok := l.Next(attempt)
		require.True(t, ok, "attempt %d", attempt)
		require.Equal(t, want, wait, "attempt %d", attempt)
	}
	for _, attempt := range []int{math.MinInt, -1, 0, 4, 5, math.MaxInt} {
		wait, ok := l.Next(attempt)
		require.False(t, ok, "attempt %d", attempt)
		require.Zero(t, wait)
	}
}

func TestZeroLadderAllowsOneAttempt(t *testing.T) {
	var l ladder.Ladder
	_, ok := l.Next(1)
	require.False(t, ok)
	require.Zero(t, l.Len())
	require.Zero(t, l.Total())
	require.Empty(t, l.String())
	require.Equal(t, l, l.Cut(5))
	require.Equal(t, l, l.Faster(10))

	made, err := ladder.New()
	require.NoError(t, err)
	require.Equal(t, l, made)
	require.Equal(t, l, mustParse(t, " \n"))
}

func TestNewRefusesWhatIsOutOfRange(t *testing.T) {
	_, err := ladder.New(time.Second, -1)
	require.ErrorContains(t, err, `rung 2 "-1ns": negative`)
	_, err = ladder.New(ladder.MaxDuration)
	require.NoError(t, err)
	_, err = ladder.New(ladder.MaxDuration + 1)
	require.ErrorContains(t, err, "longer than 365 days")
	_, err = ladder.New(make([]time.Duration, ladder.MaxRungs)...)
	require.NoError(t, err)
	_, err = ladder.New(make([]time.Duration, ladder.MaxRungs+1)...)
	require.EqualError(t, err, "ladder has 101 rungs; at most 100 are accepted")
}

func TestLadderNeverChanges(t *testing.T) {
	steps := []time.Duration{1, 2, 3}
	l, err := ladder.New(steps...)
	require.NoError(t, err)
	steps[0] = 99
	require.Equal(t, "1ns,2ns,3ns", l.String())

	whole := mustParse(t, "1m,2m,3m")
	cut, fast := whole.Cut(3), whole.Faster(60)
	require.NoError(t, cut.UnmarshalText([]byte("7s,8s")))
	require.Equal(t, "1m,2m,3m", whole.String())
	require.Equal(t, "1s,2s,3s", fast.String())
	require.Equal(t, "7s,8s", cut.String())
}

func TestTotalOfTheLongestLadderFits(t *testing.T) {
	steps := make([]time.Duration, ladder.MaxRungs)
	for i := range steps {
		steps[i] = ladder.MaxDuration
	}
	l, err := ladder.New(steps...)
	require.NoError(t, err)
	require.InDelta(t, 36500*24, l.Total().Hours(), 1e-6)
}

func TestCutCountsAttempts(t *testing.T) {
	l := mustParse(t, "1s,2s,3s")
	for attempts, want := range map[int]string{
		-1: "1s,2s,3s", 0: "1s,2s,3s", 1: "", 2: "1s", 3: "1s,2s", 4: "1s,2s,3s", 5: "1s,2s,3s", math.MaxInt: "1s,2s,3s",
	} {
		require.Equal(t, want, l.Cut(attempts).String(), "%d attempts", attempts)
	}
	require.Equal(t, ladder.Ladder{}, l.Cut(1))
}

func TestFaster(t *testing.T) {
	fast := ladder.Default().Faster(1000)
	require.Equal(t, 90795*time.Millisecond, fast.Total(), "the whole ladder in 91 seconds")
	require.Equal(t, "15ms,180ms,600ms,1.8s,1.8s,3.6s,7.2s,21.6s,54s", fast.String())

	l := mustParse(t, "0s,100us,1ms,1s,365d")
	for _, c := range []struct {
		name   string
		factor float64
		want   string
	}{
		{"never below a millisecond, nor above what was", 1e9, "0s,100µs,1ms,1ms,31.536ms"},
		{"endlessly", math.Inf(1), "0s,100µs,1ms,1ms,1ms"},
		{"not at all", 1, "0s,100µs,1ms,1s,365d"},
		{"slower, up to the longest rung", 0.5, "0s,200µs,2ms,2s,365d"},
		{"slower without end", math.SmallestNonzeroFloat64, "0s,365d,365d,365d,365d"},
		{"by nothing", 0, l.String()},
		{"backwards", -2, l.String()},
		{"by no number", math.NaN(), l.String()},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, l.Faster(c.factor).String()) })
	}
}

func TestJitteredOnlyAdds(t *testing.T) {
	const longest = time.Duration(math.MaxInt64)
	for _, c := range []struct {
		name             string
		wait             time.Duration
		fraction, random float64
		want             time.Duration
	}{
		{"no jitter", time.Minute, 0, 0.9, time.Minute},
		{"no luck", time.Minute, 0.5, 0, time.Minute},
		{"half of a tenth", time.Minute, 0.1, 0.5, 63 * time.Second},
		{"more than the wait", time.Second, 4, 0.5, 3 * time.Second},
		{"no wait", 0, 1, 0.5, 0},
		{"negative wait", -time.Second, 1, 0.5, -time.Second},
		{"negative fraction", time.Minute, -1, 0.5, time.Minute},
		{"negative fraction and wait", -time.Minute, -1, 0.5, -time.Minute},
		{"negative fraction and random", time.Minute, -1, -0.5, time.Minute},
		{"negative random", time.Minute, 1, -0.5, time.Minute},
		{"negative random and wait", -time.Minute, 1, -0.5, -time.Minute},
		{"fraction is no number", time.Minute, math.NaN(), 0.5, time.Minute},
		{"random is no number", time.Minute, 1, math.NaN(), time.Minute},
		{"endless fraction", time.Minute, math.Inf(1), 0.5, longest},
		{"too long", longest - 5, 0.1, 0.5, longest},
		{"nearly too long", longest/2 + 1, 1, 0.9999999999999999, longest - 511},
		{"just too long", longest/2 + 1000, 1, 0.9999999999999999, longest},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, ladder.Jittered(c.wait, c.fraction, c.random))
		})
	}
}

func FuzzJittered(f *testing.F) {
	f.Add(int64(time.Minute), 0.1, 0.5)
	f.Add(int64(math.MaxInt64), 1.0, 0.999)
	f.Add(int64(1600), 9.2e15, 0.62)
	f.Fuzz(func(t *testing.T, wait int64, fraction, random float64) {
		got := ladder.Jittered(time.Duration(wait), fraction, random)
		require.GreaterOrEqual(t, got, time.Duration(wait))
	})
}
