package conn_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
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

// jumping is a store of several partitions whose clocks jump, and what was reported of it.
type jumping struct {
	*conn.PartitionSet
	skew     time.Duration
	moved    time.Time // since then the host's clock shows an hour more; zero: it never did
	reported [][2]time.Duration
}

func (j *jumping) answer(partition int, way time.Duration) {
	time.Sleep(time.Millisecond)
	sent := time.Now()
	h := conn.Hint{Partition: partition, Now: sent.Add(j.skew), Sent: sent, Weight: -1}
	time.Sleep(way)
	j.Answered(h)
}

func withJumps(t *testing.T, test func(t *testing.T, j *jumping)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		j := &jumping{PartitionSet: conn.NewPartitionSet(3, 1)}
		j.Notify(dispatcher.Events{Jumped: func(by, host time.Duration) { j.reported = append(j.reported, [2]time.Duration{by, host}) }})
		j.SetWall(func(at time.Time) time.Time {
			if !j.moved.IsZero() && at.After(j.moved) {
				at = at.Add(time.Hour)
			}
			return at.Round(0)
		})
		for n := range 3 {
			j.answer(n, 0)
		}
		test(t, j)
	})
}

func TestAJumpOfTheClockIsReportedOnceThoughEachPartitionShowsIt(t *testing.T) {
	withJumps(t, func(t *testing.T, j *jumping) {
		j.skew += 25 * time.Hour
		j.answer(0, 0)
		time.Sleep(4 * time.Second)
		j.answer(1, 0)
		j.answer(0, 0)
		require.Equal(t, [][2]time.Duration{{25 * time.Hour, 0}}, j.reported)
		j.skew -= 25 * time.Hour
		j.answer(1, 0)
		j.answer(0, 0)
		j.answer(2, 0) // it was not asked meanwhile
		require.Equal(t, [][2]time.Duration{{25 * time.Hour, 0}, {-25 * time.Hour, 0}}, j.reported)
		require.EqualValues(t, 2, j.Jumps())
	})
}

func TestWhatIsNoJumpOfTheClockIsNotReported(t *testing.T) {
	withJumps(t, func(t *testing.T, j *jumping) {
		time.Sleep(time.Hour)
		j.answer(0, 0)
		j.answer(0, 10*time.Minute) // the process was stopped, or the reply was slow
		j.answer(0, 0)
		for _, skew := range []time.Duration{59 * time.Second, -59 * time.Second} {
			j.skew += skew
			j.answer(0, 0)
		}
		for range 600 { // it drifts
			j.skew += 100 * time.Millisecond
			time.Sleep(time.Second)
			j.answer(0, 0)
		}
		j.Answered(conn.Hint{Now: time.Now().Add(-time.Hour), Weight: -1}) // another instance told it, when is not known
		require.Empty(t, j.reported)
		require.Zero(t, j.Jumps())
	})
}

func TestAReplyThatWasOvertakenIsNoJumpBack(t *testing.T) {
	withJumps(t, func(t *testing.T, j *jumping) {
		sent := time.Now()
		overtaken := conn.Hint{Now: sent, Sent: sent, Weight: -1}
		time.Sleep(time.Second)
		j.skew += time.Hour
		j.answer(0, 0)
		j.Answered(overtaken)
		j.answer(0, 0)
		require.Equal(t, [][2]time.Duration{{time.Hour, 0}}, j.reported)
	})
}

func TestAJumpSaysHowFarTheClockOfTheHostMoved(t *testing.T) {
	withJumps(t, func(t *testing.T, j *jumping) {
		j.skew, j.moved = time.Hour, time.Now() // it was suspended, or both were set
		j.answer(0, 0)
		require.Equal(t, [][2]time.Duration{{time.Hour, time.Hour}}, j.reported)
	})
}

func TestAClockThatJumpsAllTheTimeIsCountedAndReportedOnceAMinuteEachWay(t *testing.T) {
	withJumps(t, func(t *testing.T, j *jumping) {
		for range 50 {
			j.skew += time.Hour
			time.Sleep(time.Second)
			j.answer(0, 0)
			j.skew -= time.Hour
			time.Sleep(time.Second)
			j.answer(0, 0)
		}
		require.Len(t, j.reported, 4, "of 100 seconds")
		require.EqualValues(t, 100, j.Jumps())
	})
}
