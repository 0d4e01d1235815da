package jobs_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/jobs"
)

// instance is one of those that carry jobs out.
type instance struct {
	*jobs.Jobs
	name string
	stop context.CancelFunc
	over chan struct{}
}

// bench is a memory store with instances.
type bench struct {
	*testing.T
	*memory
	log  *logged
	news []dispatcher.News // of all instances; as memory, guarded by its mu

	stirred int               // how often they told that something happened, guarded as news
	tried   []dispatcher.Lane // lanes that may be attempted at once, guarded as news
}

// logged are the lines of all instances' logs.
type logged struct {
	mu    sync.Mutex
	lines strings.Builder
}

func (l *logged) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines.Write(line)
}

func (l *logged) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.lines.String(), text)
}

// simulate runs a test in simulated time. At its end all instances are stopped.
func simulate(t *testing.T, parts int, test func(b *bench)) {
	synctest.Test(t, func(t *testing.T) { test(&bench{T: t, memory: newMemory(parts), log: &logged{}}) })
}

// open starts an instance.
func (b *bench) open(name string) *instance {
	b.mu.Lock()
	b.instances = append(b.instances, name)
	b.mu.Unlock()
	i := &instance{name: name, over: make(chan struct{})}
	i.Jobs = jobs.New(jobs.Options{
		Store: b.memory, List: b.list, Name: func() string { return name }, Now: time.Now, PollEvery: time.Minute,
		Log: slog.New(slog.NewTextHandler(b.log, nil)), Notify: func(n dispatcher.News) {
			b.change(func() { b.news = append(b.news, n) })
		},
		Show:    func(_ context.Context, found []dispatcher.Delivery) ([]dispatcher.Delivery, error) { return found, nil },
		Stirred: func() { b.change(func() { b.stirred++ }) },
		TryNow: func(_ context.Context, lanes []dispatcher.Lane) error {
			b.change(func() { b.tried = append(b.tried, lanes...) })
			return nil
		},
	})
	ctx, stop := context.WithCancel(context.Background())
	i.stop = stop
	go func() {
		defer close(i.over)
		if err := i.Run(ctx); err != nil {
			b.Error(err)
		}
	}()
	b.Cleanup(i.close)
	return i
}

// close stops it as a process does.
func (i *instance) close() {
	i.stop()
	<-i.over
}

// gone has the other instances know that one is gone.
func (b *bench) gone(name string, others ...*instance) {
	b.mu.Lock()
	b.instances = slices.DeleteFunc(b.instances, func(n string) bool { return n == name })
	b.mu.Unlock()
	for _, i := range others {
		i.Departed()
	}
}

func (b *bench) start(i *instance, kind dispatcher.JobKind, f dispatcher.Filter, rate string) dispatcher.Job {
	b.Helper()
	var r dispatcher.Rate
	if rate != "" {
		var err error
		r, err = dispatcher.ParseRate(rate)
		require.NoError(b, err)
	}
	j, err := i.StartJob(b.Context(), dispatcher.Job{Kind: kind, Filter: f, Rate: r})
	require.NoError(b, err)
	return j
}

// await waits until a job stands so.
func (b *bench) await(number int64, state dispatcher.JobState) dispatcher.Job {
	b.Helper()
	for end := time.Now().Add(time.Hour); ; time.Sleep(10 * time.Millisecond) {
		j, err := b.job(number)
		require.NoError(b, err)
		if j.State == state {
			return j
		}
		require.True(b, time.Now().Before(end), "it is %s, with %+v", j.State, j.JobCounts)
	}
}

// sent is how many deliveries were changed, and how often the one that was most often.
func (b *bench) sent() (changed, most int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, all := range b.deliveries {
		for _, d := range all {
			if most = max(most, d.sent); d.sent > 0 {
				changed++
			}
		}
	}
	return changed, most
}

func (b *bench) change(do func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	do()
}

func counts(matched, done, failed int) dispatcher.JobCounts {
	return dispatcher.JobCounts{Matched: matched, Done: done, Failed: failed}
}

func TestAReplayTakesEachOnce(t *testing.T) {
	simulate(t, 3, func(b *bench) {
		for _, lane := range []dispatcher.Lane{"a0", "b1", "c2", "d3"} {
			b.add(lane, dispatcher.StatusDead, 333)
		}
		b.refused["d3"] = true
		j := b.start(b.open("i"), dispatcher.JobRetry, dispatcher.Filter{}, "")
		require.Equal(b, counts(4*333, 3*333, 333), b.await(j.Number, dispatcher.JobDone).JobCounts)
		changed, most := b.sent()
		require.Equal(b, []int{3 * 333, 1}, []int{changed, most})
	})
}

func TestAJobThatMatchesNothingEndsAtOnce(t *testing.T) {
	simulate(t, 2, func(b *bench) {
		b.add("a0", dispatcher.StatusDelivered, 3)
		j := b.start(b.open("i"), dispatcher.JobRetry, dispatcher.Filter{}, "")
		require.Equal(b, dispatcher.JobDone, j.State)
		require.Empty(b, j.JobCounts)
		require.False(b, j.EndedAt.IsZero())
	})
}

// The instance that ended a job may die before it told so.
func TestTheEndOfAJobIsToldByAllWhoKnowOfIt(t *testing.T) {
	simulate(t, 1, func(b *bench) {
		b.add("a0", dispatcher.StatusDead, 5)
		first := b.open("i")
		j := b.start(first, dispatcher.JobRetry, dispatcher.Filter{}, "")
		b.await(j.Number, dispatcher.JobDone)
		stopped := b.start(first, dispatcher.JobRetry, dispatcher.Filter{Statuses: []dispatcher.Status{dispatcher.StatusDelivered}}, "")
		require.Equal(b, dispatcher.JobDone, stopped.State, "it found nothing")
		time.Sleep(time.Minute)
		b.change(func() {
			require.Len(b, b.news, 2)
			n := b.news[0]
			require.Equal(b, []any{dispatcher.NoticeJob, "1_1", "done", 5}, []any{n.Notice, n.Key, n.State, n.Count})
			require.Contains(b, n.Detail, "job_1, retry by ")
		})
		b.open("k")
		time.Sleep(time.Second)
		b.change(func() {
			require.Len(b, b.news, 4, "the next instance tells it too")
			require.ElementsMatch(b, b.news[:2], b.news[2:])
		})
		time.Sleep(time.Hour)
		b.open("l")
		time.Sleep(time.Second)
		b.change(func() { require.Len(b, b.news, 4, "long ago") })
	})
}

// A status that is named twice is gone through once: else there is always more.
func TestAStatusMayBeNamedTwice(t *testing.T) {
	simulate(t, 1, func(b *bench) {
		b.add("a0", dispatcher.StatusDead, 5)
		b.add("a0", dispatcher.StatusCancelled, 5)
		dead := dispatcher.StatusDead
		f := dispatcher.Filter{Statuses: []dispatcher.Status{dead, dispatcher.StatusCancelled, dead}}
		i := b.open("i")
		survey, err := i.SurveyJob(b.Context(), dispatcher.JobRetry, f, false)
		require.NoError(b, err)
		require.True(b, survey.Complete)
		require.Equal(b, 10, survey.Matched)
		j := b.start(i, dispatcher.JobRetry, f, "")
		require.Equal(b, counts(10, 10, 0), b.await(j.Number, dispatcher.JobDone).JobCounts)
	})
}

// A survey answers within a second, or counts on for ten.
func TestASurveyCountsOnIfAsked(t *testing.T) {
	simulate(t, 1, func(b *bench) {
		b.add("a0", dispatcher.StatusDead, 20*pageMost)
		b.change(func() { b.takes = 100 * time.Millisecond })
		i := b.open("i")
		for whole, want := range map[bool]int{false: 8 * pageMost, true: 20 * pageMost} {
			began := time.Now()
			survey, err := i.SurveyJob(b.Context(), dispatcher.JobRetry, dispatcher.Filter{}, whole)
			require.NoError(b, err)
			require.InDelta(b, want, survey.Matched, float64(pageMost))
			require.Equal(b, whole, survey.Complete)
			require.LessOrEqual(b, time.Since(began), time.Duration(want/pageMost+1)*100*time.Millisecond)
		}
	})
}

func TestACancelGoesOnUntilNothingIsLeft(t *testing.T) {
	simulate(t, 2, func(b *bench) {
		b.add("a0", dispatcher.StatusReady, 250)
		b.add("b1", dispatcher.StatusReady, 250)
		j := b.start(b.open("i"), dispatcher.JobCancel, dispatcher.Filter{Lanes: []dispatcher.Lane{"b1"}}, "")
		require.Equal(b, counts(250, 250, 0), b.await(j.Number, dispatcher.JobDone).JobCounts)
		require.Len(b, b.deliveries[dispatcher.StatusReady], 250)
	})
}

func TestARateIsKeptExactly(t *testing.T) {
	for _, c := range []struct {
		rate       string
		lasts, one time.Duration // one: in which no more than its share and a burst are changed
		share      int
	}{
		{"100/s", 20 * time.Second, time.Second, 100},
		{"2000/s", 5 * time.Second, time.Second, 2000},
		{"7/m", 2 * time.Hour, time.Minute, 7},
		{"1/s", 20 * time.Minute, time.Minute, 60},
	} {
		t.Run(c.rate, func(t *testing.T) {
			simulate(t, 2, func(b *bench) {
				n := int(c.lasts/c.one) * c.share
				b.add("a0", dispatcher.StatusDead, n/2)
				b.add("a1", dispatcher.StatusDead, n-n/2)
				i, began := b.open("i"), time.Now()
				j := b.start(i, dispatcher.JobRetry, dispatcher.Filter{}, c.rate)
				for time.Since(began) < c.lasts+c.one && b.await2(j.Number) {
					time.Sleep(c.one)
				}
				require.Equal(b, counts(n, n, 0), b.await(j.Number, dispatcher.JobDone).JobCounts)
				took := b.moved[len(b.moved)-1].Sub(began)
				require.InDelta(b, c.lasts.Seconds(), took.Seconds(), 0.01*c.lasts.Seconds()+max(0.15, c.one.Seconds()/float64(c.share)))
				burst := max(2, c.share*int(time.Second)/int(c.one)/5)
				for from := range b.moved {
					if to := from + c.share + burst; to < len(b.moved) {
						require.GreaterOrEqual(b, b.moved[to].Sub(b.moved[from]), c.one, "from %d", from)
					}
				}
			})
		})
	}
}

// await2 reports whether a job goes on.
func (b *bench) await2(number int64) bool {
	j, err := b.job(number)
	return err == nil && !j.State.Ended()
}

func TestAJobPassesByWhatTakesNoMoreAndTriesAgain(t *testing.T) {
	simulate(t, 2, func(b *bench) {
		b.add("a0", dispatcher.StatusDead, 250)
		b.add("b0", dispatcher.StatusDead, 300)
		b.add("c1", dispatcher.StatusDead, 250)
		b.full["b0"] = true
		j := b.start(b.open("i"), dispatcher.JobRetry, dispatcher.Filter{}, "")
		waiting := b.await(j.Number, dispatcher.JobWaiting)
		require.Equal(b, 500, waiting.Done)
		time.Sleep(time.Hour)
		b.change(func() { b.full["b0"] = false })
		require.Equal(b, counts(800, 800, 0), b.await(j.Number, dispatcher.JobDone).JobCounts)
	})
}

// Jobs that wait at paused lanes leave their places to others.
func TestJobsThatWaitHoldUpNoOthers(t *testing.T) {
	for _, one := range []bool{true, false} { // a job of one lane waits elsewhere than one of several
		t.Run(fmt.Sprint(one), func(t *testing.T) {
			simulate(t, 1, func(b *bench) {
				b.add("a0", dispatcher.StatusDead, 10)
				b.add("b0", dispatcher.StatusDead, 10)
				b.full["a0"] = true
				held := dispatcher.Filter{Lanes: []dispatcher.Lane{"a0"}}
				if !one {
					held.Lanes = append(held.Lanes, "z0")
				}
				i := b.open("i")
				for range 30 {
					b.start(i, dispatcher.JobRetry, held, "")
				}
				last := b.start(i, dispatcher.JobRetry, dispatcher.Filter{Lanes: []dispatcher.Lane{"b0"}}, "")
				began := time.Now()
				require.Equal(b, counts(10, 10, 0), b.await(last.Number, dispatcher.JobDone).JobCounts)
				require.Less(b, time.Since(began), time.Minute)
				b.change(func() { b.full["a0"] = false })
				b.await(1, dispatcher.JobDone)
			})
		})
	}
}

// A job that reads much and finds little does not wait for anything.
func TestAJobThatSearchesIsRunning(t *testing.T) {
	simulate(t, 1, func(b *bench) {
		b.takes = 100 * time.Millisecond
		b.add("a0", dispatcher.StatusDead, 5000)
		b.add("b0", dispatcher.StatusDead, 1)
		j := b.start(b.open("i"), dispatcher.JobRetry, dispatcher.Filter{Lanes: []dispatcher.Lane{"b0", "z0"}}, "")
		for {
			now, err := b.job(j.Number)
			require.NoError(b, err)
			if now.State == dispatcher.JobDone {
				break
			}
			require.Equal(b, dispatcher.JobRunning, now.State)
			time.Sleep(50 * time.Millisecond)
		}
	})
}

// Two calls for one lane are one job, and each allows an attempt there at once.
func TestALaneIsRetriedByOneJobAtATime(t *testing.T) {
	simulate(t, 1, func(b *bench) {
		b.add("a0", dispatcher.StatusRetrying, 10)
		b.full["a0"] = true
		i := b.open("i")
		first, err := i.RetryLane(b.Context(), "a0")
		require.NoError(b, err)
		require.True(b, first.Probe)
		again, err := i.RetryLane(b.Context(), "a0")
		require.NoError(b, err)
		other, err := i.RetryLane(b.Context(), "b0")
		require.NoError(b, err)
		require.Equal(b, first.Number, again.Number)
		require.NotEqual(b, first.Number, other.Number)
		b.change(func() {
			require.Equal(b, []dispatcher.Lane{"a0", "a0", "b0"}, b.tried)
			b.full["a0"] = false
		})
		require.Equal(b, 10, b.await(first.Number, dispatcher.JobDone).Done)
		next, err := i.RetryLane(b.Context(), "a0")
		require.NoError(b, err)
		require.NotEqual(b, first.Number, next.Number, "the first one has ended")
	})
}
