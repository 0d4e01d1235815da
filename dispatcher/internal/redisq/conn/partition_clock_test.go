package conn_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
)

// clockAnswers are those of a store whose clock differs from ours.
type clockAnswers struct {
	*conn.PartitionSet
	skew time.Duration
}

func (a *clockAnswers) now() time.Time { return time.Now().Add(a.skew) }

// answer takes in an answer that was so long on its way to the store, and back.
func (a *clockAnswers) answer(to, back time.Duration) {
	sent := time.Now()
	time.Sleep(to)
	h := conn.Hint{Now: a.now(), Sent: sent, Weight: -1}
	time.Sleep(back)
	a.Answered(h)
}

func (a *clockAnswers) wrongBy() time.Duration { return a.Now().Sub(a.now()) }

func withAnswers(t *testing.T, test func(t *testing.T, a *clockAnswers)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, &clockAnswers{conn.NewPartitionSet(1, 1), -time.Hour}) })
}

const ms = time.Millisecond

func TestAnAnswerThatComesLateChangesNoEstimateThatFits(t *testing.T) {
	withAnswers(t, func(t *testing.T, a *clockAnswers) {
		a.answer(ms/2, ms/2)
		for range 10 {
			time.Sleep(time.Minute) // nothing else was heard meanwhile
			a.answer(ms/2, 1300*ms)
			require.LessOrEqual(t, a.wrongBy().Abs(), ms/2)
			a.answer(1300*ms, ms/2)
			require.LessOrEqual(t, a.wrongBy().Abs(), ms/2)
		}
	})
}

func TestAnEstimateOfOneLateAnswerIsCorrectedByTheNext(t *testing.T) {
	for _, way := range [][2]time.Duration{{0, time.Second}, {time.Second, 0}, {time.Second / 2, time.Second / 2}} {
		withAnswers(t, func(t *testing.T, a *clockAnswers) {
			a.answer(way[0], way[1])
			require.Equal(t, -way[1], a.wrongBy(), "never ahead")
			a.answer(0, ms)
			require.LessOrEqual(t, a.wrongBy().Abs(), ms)
		})
	}
}

func TestAClockThatIsAheadIsFollowedAtOnceAndOneThatIsBehindAfterAWhile(t *testing.T) {
	withAnswers(t, func(t *testing.T, a *clockAnswers) {
		a.answer(0, 0)
		for _, step := range []time.Duration{3 * time.Second, -3 * time.Second, time.Minute, -20 * ms} {
			a.skew += step
			a.answer(ms/2, ms/2)
			if step < 0 {
				require.InDelta(t, -step, a.wrongBy(), float64(ms), "perhaps another node's")
				time.Sleep(5 * time.Second)
				a.answer(ms/2, ms/2)
			}
			require.LessOrEqual(t, a.wrongBy().Abs(), ms/2)
		}
	})
}

// Of two nodes the one that is ahead tells the time, whichever answered last.
func TestOfSeveralClocksTheOneThatIsAheadCounts(t *testing.T) {
	withAnswers(t, func(t *testing.T, a *clockAnswers) {
		for range 30 {
			a.answer(0, ms)
			a.skew += 50 * ms
			a.answer(0, ms)
			require.GreaterOrEqual(t, a.wrongBy(), -ms)
			a.skew -= 50 * ms
			time.Sleep(time.Second)
			a.answer(0, ms)
			require.GreaterOrEqual(t, a.wrongBy(), 48*ms)
		}
	})
}

// Where a host's clock is fast or slow by 1 in 5,000, prompt answers correct it.
func TestDriftIsCorrectedByPromptAnswers(t *testing.T) {
	withAnswers(t, func(t *testing.T, a *clockAnswers) {
		for _, drift := range []time.Duration{-ms / 5, ms / 5} {
			for range 600 {
				time.Sleep(time.Second)
				a.skew += drift
				a.answer(ms/4, ms/4)
				require.LessOrEqual(t, a.wrongBy().Abs(), 2*ms)
			}
		}
	})
}

func TestWhatAnotherInstanceToldShowsOnlyThatATimeHasCome(t *testing.T) {
	withAnswers(t, func(t *testing.T, a *clockAnswers) {
		a.answer(0, 0)
		a.Heard(conn.Hint{Now: a.now().Add(-time.Second), Weight: -1})
		require.Zero(t, a.wrongBy())
		a.skew += time.Second
		a.Heard(conn.Hint{Now: a.now(), Weight: -1})
		require.Zero(t, a.wrongBy())
	})
}
