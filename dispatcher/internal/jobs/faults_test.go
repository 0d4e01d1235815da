package jobs_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

// errLost is an error of a store that can't be reached.
var errLost = fmt.Errorf("dial: %w", dispatcher.ErrUnavailable)

func TestAStoppedJobChangesNothingMoreAndGoesOnWhenItIsResumed(t *testing.T) {
	simulate(t, 2, func(b *bench) {
		b.add("a0", dispatcher.StatusDead, 2000)
		b.add("b1", dispatcher.StatusDead, 2000)
		a, other := b.open("a"), b.open("b")
		j := b.start(a, dispatcher.JobRetry, dispatcher.Filter{}, "1000/s")
		for n := range 6 { // at its own instance and at another
			time.Sleep(300*time.Millisecond + time.Duration(n)*7*time.Millisecond)
			at := []*instance{a, other}[n%2]
			stopped, err := at.StopJob(b.Context(), j.Number)
			require.NoError(b, err)
			require.Equal(b, dispatcher.JobStopped, stopped.State)
			before, _ := b.sent()
			require.Equal(b, stopped.Done, before)
			require.NotZero(b, before)
			time.Sleep(5 * time.Minute)
			after, _ := b.sent()
			require.Equal(b, before, after)
			resumed, err := at.ResumeJob(b.Context(), j.Number)
			require.NoError(b, err)
			require.Equal(b, dispatcher.JobRunning, resumed.State)
			require.Equal(b, before, resumed.Done)
			_, err = other.ResumeJob(b.Context(), j.Number)
			require.ErrorIs(b, err, dispatcher.ErrJobState)
		}
		require.Equal(b, counts(4000, 4000, 0), b.await(j.Number, dispatcher.JobDone).JobCounts)
		changed, most := b.sent()
		require.Equal(b, []int{4000, 1}, []int{changed, most})
		b.change(func() { require.Greater(b, b.stirred, 6, "each step tells that it changed something") })
		again, err := a.StopJob(b.Context(), j.Number)
		require.NoError(b, err)
		require.Equal(b, dispatcher.JobDone, again.State)
		_, err = a.ResumeJob(b.Context(), j.Number)
		require.ErrorIs(b, err, dispatcher.ErrJobState)
	})
}

// A call that stops a job must not end the work of one that resumed it meanwhile.
func TestAResumeDuringAStopGoesOn(t *testing.T) {
	simulate(t, 1, func(b *bench) {
		b.add("a0", dispatcher.StatusDead, 1000)
		i := b.open("i")
		j := b.start(i, dispatcher.JobRetry, dispatcher.Filter{}, "100/s")
		time.Sleep(time.Second)
		resume := make(chan struct{})
		var once sync.Once
		b.change(func() {
			b.fault = func(call string) error { // the stop is in the record, but not yet in the parts
				if call == "turn" {
					once.Do(func() { close(resume) })
				}
				return nil
			}
			b.takes = 10 * time.Millisecond
		})
		stopped := make(chan error)
		go func() {
			_, err := i.StopJob(b.Context(), j.Number)
			stopped <- err
		}()
		for { // the record says so before the parts do
			if now, _ := b.job(j.Number); now.State == dispatcher.JobStopped {
				break
			}
			time.Sleep(time.Millisecond)
		}
		b.change(func() { b.takes = time.Microsecond })
		_, err := i.ResumeJob(b.Context(), j.Number)
		require.NoError(b, err)
		<-resume
		require.NoError(b, <-stopped)
		began := time.Now()
		require.Equal(b, counts(1000, 1000, 0), b.await(j.Number, dispatcher.JobDone).JobCounts)
		require.Less(b, time.Since(began), 11*time.Second, "it waited until somebody looked for it")
	})
}

func TestAnotherInstanceTakesOverOnce(t *testing.T) {
	simulate(t, 2, func(b *bench) {
		b.add("a0", dispatcher.StatusDead, 3000)
		b.add("b1", dispatcher.StatusDead, 3000)
		var here []*instance
		for n := range 4 {
			here = append(here, b.open(fmt.Sprint("i", n)))
		}
		j := b.start(here[0], dispatcher.JobRetry, dispatcher.Filter{}, "500/s")
		for n := range 3 {
			time.Sleep(1500 * time.Millisecond)
			holder, err := b.job(j.Number)
			require.NoError(b, err)
			at := slices.IndexFunc(here, func(i *instance) bool { return i.name == holder.Holder })
			dead := here[at]
			here = slices.Delete(here, at, at+1)
			if n%2 == 0 { // not by the instance itself: it hangs, and goes on later
				b.gone(dead.name, here...)
			} else {
				dead.close()
				b.gone(dead.name, here...)
			}
			time.Sleep(time.Second)
			now, err := b.job(j.Number)
			require.NoError(b, err)
			require.NotEqual(b, dead.name, now.Holder)
			require.Equal(b, holder.Turn+1, now.Turn, "by one, and once")
		}
		require.Equal(b, counts(6000, 6000, 0), b.await(j.Number, dispatcher.JobDone).JobCounts)
		changed, most := b.sent()
		require.Equal(b, []int{6000, 1}, []int{changed, most})
		require.Len(b, b.turns, 3)
	})
}

// A job whose instance ends before a crash is found by one that starts.
func TestAnInstanceThatStartsFindsJobs(t *testing.T) {
	simulate(t, 1, func(b *bench) {
		b.add("a0", dispatcher.StatusDead, 500)
		i := b.open("i")
		j := b.start(i, dispatcher.JobRetry, dispatcher.Filter{}, "100/s")
		time.Sleep(time.Second)
		i.close()
		b.gone("i")
		left, err := b.job(j.Number)
		require.NoError(b, err)
		require.Empty(b, left.Holder, "it was given up")
		time.Sleep(time.Hour)
		b.open("k")
		require.Equal(b, counts(500, 500, 0), b.await(j.Number, dispatcher.JobDone).JobCounts)
	})
}

func TestAJobOutlastsAStoreThatIsAway(t *testing.T) {
	simulate(t, 2, func(b *bench) {
		b.add("a0", dispatcher.StatusDead, 3000)
		b.add("b1", dispatcher.StatusDead, 3000)
		i := b.open("i")
		j := b.start(i, dispatcher.JobRetry, dispatcher.Filter{}, "100/s")
		for n := range 3 {
			time.Sleep(11 * time.Second) // longer than what counts as one outage
			b.change(func() { b.fault = func(string) error { return errLost } })
			time.Sleep(time.Minute)
			b.change(func() { b.fault = nil })
			time.Sleep(2500 * time.Millisecond) // not by the next look for jobs
			require.Equal(b, n+1, b.log.count("store back for jobs"))
		}
		require.Equal(b, counts(6000, 6000, 0), b.await(j.Number, dispatcher.JobDone).JobCounts)
		changed, most := b.sent()
		require.Equal(b, []int{6000, 1}, []int{changed, most})
	})
}

// Every answer may be lost: what it told has happened.
func TestAJobOutlastsAnswersThatAreLost(t *testing.T) {
	simulate(t, 2, func(b *bench) {
		b.add("a0", dispatcher.StatusDead, 1000)
		b.add("b1", dispatcher.StatusDead, 1000)
		b.add("c1", dispatcher.StatusDead, 100)
		b.full["c1"] = true
		i := b.open("i")
		j := b.start(i, dispatcher.JobRetry, dispatcher.Filter{}, "500/s")
		n := 0
		b.change(func() {
			b.lost = func(string) error {
				if n++; n%3 == 0 {
					return errLost
				}
				return nil
			}
		})
		time.Sleep(20 * time.Second)
		b.change(func() { b.full["c1"] = false })
		require.Equal(b, counts(2100, 2100, 0), b.await(j.Number, dispatcher.JobDone).JobCounts)
		changed, most := b.sent()
		require.Equal(b, []int{2100, 1}, []int{changed, most})
	})
}

// The last step of a part says that it has ended, and makes the counts right.
func TestTheLastStepIsRepeatedUntilItIsWritten(t *testing.T) {
	simulate(t, 1, func(b *bench) {
		b.add("a0", dispatcher.StatusDead, 64)
		j := b.start(b.open("i"), dispatcher.JobRetry, dispatcher.Filter{}, "")
		steps := 0
		b.change(func() {
			b.fault = func(call string) error {
				if call == "step" {
					if steps++; steps == 2 {
						return errLost
					}
				}
				return nil
			}
		})
		b.await(j.Number, dispatcher.JobDone)
		b.change(func() { require.True(b, b.done[j.Number][0].Ended) })
	})
}

func TestAJobThatIsRefusedFailsAndCanBeResumed(t *testing.T) {
	simulate(t, 1, func(b *bench) {
		b.add("a0", dispatcher.StatusDead, 1000)
		i := b.open("i")
		j := b.start(i, dispatcher.JobRetry, dispatcher.Filter{}, "500/s")
		time.Sleep(time.Second)
		b.change(func() {
			b.fault = func(call string) error {
				if call == "page" {
					return errors.New("the answer can't be read")
				}
				return nil
			}
		})
		failed := b.await(j.Number, dispatcher.JobFailed)
		require.Equal(b, "the answer can't be read", failed.Error)
		require.Empty(b, failed.Holder)
		b.change(func() { b.fault = nil })
		for _, forgotten := range []bool{true, false} {
			_, err := b.Change(b.Context(), j.Number, func(j *dispatcher.Job) error { j.Forgotten = forgotten; return nil })
			require.NoError(b, err)
			if forgotten {
				_, err = i.ResumeJob(b.Context(), j.Number)
				require.ErrorIs(b, err, dispatcher.ErrJobForgotten)
			}
		}
		_, err := i.ResumeJob(b.Context(), j.Number)
		require.NoError(b, err)
		done := b.await(j.Number, dispatcher.JobDone)
		require.Equal(b, counts(1000, 1000, 0), done.JobCounts)
		require.Empty(b, done.Error)
	})
}

// What its caller did not hear of goes on all the same, once.
func TestAJobWhoseBeginningWasNotHeardOfGoesOn(t *testing.T) {
	for _, call := range []string{"add", "turn"} {
		t.Run(call, func(t *testing.T) {
			simulate(t, 2, func(b *bench) {
				b.add("a0", dispatcher.StatusDead, 100)
				i := b.open("i")
				b.open("k")
				b.change(func() {
					b.lost = func(name string) error {
						if name == call {
							return errLost
						}
						return nil
					}
				})
				_, err := i.StartJob(b.Context(), dispatcher.Job{Kind: dispatcher.JobRetry})
				require.ErrorIs(b, err, dispatcher.ErrUnavailable)
				b.change(func() { b.lost = nil })
				require.Equal(b, counts(100, 100, 0), b.await(1, dispatcher.JobDone).JobCounts)
			})
		})
	}
}
