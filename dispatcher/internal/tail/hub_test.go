package tail_test

import (
	"context"
	"errors"
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
	"github.com/hookladder/hookladder/dispatcher/internal/tail"
)

// fakeLog is a log of two partitions, which lie in memory.
type fakeLog struct {
	mu    sync.Mutex // guards what follows
	lines [2][]dispatcher.Logged
	cut   time.Time // set: the next read tells of it
	most  int       // lines of a read
	err   error
	ends  int // calls of LogEnd
	reads int
	seq   uint64
}

func (f *fakeLog) LogEnd(context.Context) (dispatcher.LogPosition, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ends++
	p := dispatcher.LogPosition{Store: 1, Marks: make([]dispatcher.LogMark, 2)}
	for n, lines := range f.lines {
		p.Marks[n].Before = time.Now().UnixMilli()
		for _, l := range lines {
			p.Marks[n].MS, p.Marks[n].Seq = l.Place.MS, l.Place.Seq
		}
	}
	return p, f.err
}

func (f *fakeLog) LogSince(at time.Time) dispatcher.LogPosition {
	return dispatcher.LogPositionAt(1, 2, at.UnixMilli())
}

func (f *fakeLog) LogAt(text string) (dispatcher.LogPosition, error) {
	return dispatcher.ParseLogPosition(text)
}

func (f *fakeLog) FollowLog(_ context.Context, at *dispatcher.LogPosition, wanted func(*dispatcher.Logged) bool) (step dispatcher.LogStep, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads++
	if f.err != nil {
		return step, f.err
	}
	step.Gap, f.cut = f.cut, time.Time{}
	for n, lines := range f.lines {
		read := 0
		for _, l := range lines {
			if at.Read(l.Place) {
				continue
			}
			if read++; read > f.most {
				step.More = true
				break
			}
			at.Marks[n] = dispatcher.LogMark{MS: l.Place.MS, Seq: l.Place.Seq, Before: at.Marks[n].Before}
			if wanted == nil || wanted(&l) {
				step.Lines = append(step.Lines, l)
			}
		}
		if !step.More {
			at.Marks[n].Before, at.Marks[n].Lines = time.Now().UnixMilli(), 0
		}
	}
	return step, nil
}

// add logs an attempt in each partition.
func (f *fakeLog) add(ids ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range ids {
		for n := range f.lines {
			f.seq++
			f.lines[n] = append(f.lines[n], dispatcher.Logged{
				Place: dispatcher.LogPlace{MS: time.Now().UnixMilli(), Partition: n, Seq: f.seq},
				ID:    dispatcher.DeliveryID{Lane: dispatcher.Lane(fmt.Sprint("lane", n)), Message: id}, Tenant: "t1",
				Happening: dispatcher.HappenedDelivered, Attempt: dispatcher.Attempt{At: time.Now(), Number: 1},
			})
		}
	}
}

func (f *fakeLog) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// calls are how often the log was read since the last call.
func (f *fakeLog) calls() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.ends + f.reads
	f.ends, f.reads = 0, 0
	return n
}

// viewer is one that follows, and remembers what it saw.
type viewer struct {
	stop context.CancelFunc
	done chan error
	slow chan struct{} // show waits for it; nil: it does not

	mu    sync.Mutex // guards what follows
	seen  []string   // ids of messages and lanes; gap and alive
	at    []string   // positions
	times []time.Time
	fails error
}

func follow(t testing.TB, h *tail.Hub, filter dispatcher.LogFilter, behind string, change ...func(*viewer)) *viewer {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background()) // that of t is outside of the bubble
	v := &viewer{stop: stop, done: make(chan error, 1)}
	for _, c := range change {
		c(v)
	}
	go func() { v.done <- h.FollowLog(ctx, filter, behind, v.show) }()
	return v
}

func (v *viewer) show(all []dispatcher.LogEvent) error {
	if v.slow != nil {
		<-v.slow
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, e := range all {
		word := "alive"
		switch {
		case e.Line != nil:
			word = e.Line.ID.String()
		case !e.Gap.IsZero():
			word = "gap"
		}
		v.seen, v.at, v.times = append(v.seen, word), append(v.at, e.At), append(v.times, time.Now())
	}
	return v.fails
}

// saw is what it saw since the last call, and the last position.
func (v *viewer) saw() (seen []string, at string) {
	synctest.Wait()
	v.mu.Lock()
	defer v.mu.Unlock()
	seen, v.seen = v.seen, nil
	return seen, v.at[len(v.at)-1]
}

func run(t *testing.T, f *fakeLog, do func(h *tail.Hub, stop context.CancelFunc)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		if f.most == 0 {
			f.most = 100
		}
		h := tail.New(f, slog.New(slog.DiscardHandler))
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- h.Run(ctx) }()
		do(h, stop)
		stop()
		require.NoError(t, <-done)
	})
}

func both(ids ...string) (out []string) {
	for _, id := range ids {
		out = append(out, "lane0:"+id, "lane1:"+id)
	}
	return out
}

func TestWhatHappensIsShownWithinASecond(t *testing.T) {
	f := &fakeLog{}
	run(t, f, func(h *tail.Hub, _ context.CancelFunc) {
		f.add("old")
		v := follow(t, h, dispatcher.LogFilter{}, "")
		seen, _ := v.saw()
		require.Equal(t, []string{"alive"}, seen, "it begins at once, with what comes")
		f.add("m1")
		time.Sleep(time.Second)
		seen, _ = v.saw()
		require.ElementsMatch(t, both("m1"), seen)
		v.stop()
		require.NoError(t, <-v.done)
	})
}

func TestNobodyThatFollowsCostsNoCall(t *testing.T) {
	f := &fakeLog{}
	run(t, f, func(h *tail.Hub, _ context.CancelFunc) {
		time.Sleep(time.Hour)
		require.Zero(t, f.calls())
		v := follow(t, h, dispatcher.LogFilter{}, "")
		v.saw()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.Equal(t, 11, f.calls())
		v.stop()
		require.NoError(t, <-v.done)
		time.Sleep(time.Hour)
		require.Zero(t, f.calls())
	})
}

func TestManyFollowersCostOneReader(t *testing.T) {
	f := &fakeLog{}
	run(t, f, func(h *tail.Hub, _ context.CancelFunc) {
		var all []*viewer
		for range 100 {
			all = append(all, follow(t, h, dispatcher.LogFilter{}, ""))
			all[len(all)-1].saw()
		}
		f.calls()
		f.add("m1")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.Equal(t, 10, f.calls())
		for _, v := range all {
			seen, _ := v.saw()
			require.ElementsMatch(t, both("m1"), seen)
			v.stop()
			require.NoError(t, <-v.done)
		}
	})
}

func TestAFollowerIsToldThatItIsConnected(t *testing.T) {
	f := &fakeLog{}
	run(t, f, func(h *tail.Hub, _ context.CancelFunc) {
		v := follow(t, h, dispatcher.LogFilter{Messages: []string{"none"}}, "")
		_, first := v.saw()
		f.add("m1")
		time.Sleep(46 * time.Second)
		seen, last := v.saw()
		require.Equal(t, []string{"alive", "alive", "alive"}, seen)
		require.Equal(t, 15*time.Second, v.times[1].Sub(v.times[0]))
		require.NotEqual(t, first, last, "it need not look again at what did not match")
		v.stop()
		require.NoError(t, <-v.done)
	})
}

func TestAFilterShowsOnlyWhatMatches(t *testing.T) {
	f := &fakeLog{}
	run(t, f, func(h *tail.Hub, _ context.CancelFunc) {
		one := follow(t, h, dispatcher.LogFilter{Messages: []string{"m2"}}, "")
		other := follow(t, h, dispatcher.LogFilter{Lanes: []dispatcher.Lane{"lane1"}, Tenants: []string{"t1"}}, "")
		none := follow(t, h, dispatcher.LogFilter{Lanes: []dispatcher.Lane{"lane1"}, Tenants: []string{"t2"}}, "")
		one.saw()
		other.saw()
		none.saw()
		f.add("m1", "m2")
		time.Sleep(time.Second)
		seen, _ := one.saw()
		require.ElementsMatch(t, both("m2"), seen)
		seen, _ = other.saw()
		require.ElementsMatch(t, []string{"lane1:m1", "lane1:m2"}, seen)
		seen, _ = none.saw()
		require.Empty(t, seen)
		for _, v := range []*viewer{one, other, none} {
			v.stop()
			require.NoError(t, <-v.done)
		}
	})
}

// Each event's position goes on right behind it: nothing is shown twice, nothing is
// missing, wherever the connection is lost.
func TestAFollowerGoesOnWhereItWas(t *testing.T) {
	f := &fakeLog{most: 2}
	run(t, f, func(h *tail.Hub, _ context.CancelFunc) {
		v := follow(t, h, dispatcher.LogFilter{}, "")
		v.saw()
		for n := range 7 {
			f.add(fmt.Sprint("m", n))
			time.Sleep(400 * time.Millisecond)
		}
		time.Sleep(2 * time.Second)
		all, _ := v.saw()
		require.Len(t, all, 14)
		v.stop()
		require.NoError(t, <-v.done)
		for k, at := range v.at { // the first is that of its beginning
			again := follow(t, h, dispatcher.LogFilter{}, at)
			time.Sleep(2 * time.Second)
			seen, _ := again.saw()
			seen = slices.DeleteFunc(seen, func(s string) bool { return s == "alive" })
			require.ElementsMatch(t, all, slices.Concat(all[:k], seen), "behind event %d", k)
			again.stop()
			require.NoError(t, <-again.done)
		}
	})
}

func TestWhatComesWhileAFollowerCatchesUpIsShownOnce(t *testing.T) {
	f := &fakeLog{most: 3}
	run(t, f, func(h *tail.Hub, _ context.CancelFunc) {
		other := follow(t, h, dispatcher.LogFilter{}, "")
		_, at := other.saw()
		var want []string
		add := func(n int) {
			id := fmt.Sprint("m", n)
			f.add(id)
			want = append(want, both(id)...)
		}
		for n := range 20 {
			add(n)
		}
		shown := 0
		v := follow(t, h, dispatcher.LogFilter{}, at, func(v *viewer) { v.slow = make(chan struct{}) })
		for n := range 40 {
			v.slow <- struct{}{}
			shown++
			synctest.Wait()
			if n%2 == 0 {
				add(100 + n)
			}
			time.Sleep(300 * time.Millisecond)
		}
		close(v.slow)
		time.Sleep(2 * time.Second)
		seen, _ := v.saw()
		require.ElementsMatch(t, want, slices.DeleteFunc(seen, func(s string) bool { return s == "alive" }))
		var first []string // of one partition
		for _, s := range seen {
			if strings.HasPrefix(s, "lane0") {
				first = append(first, s)
			}
		}
		require.Len(t, first, len(want)/2)
		for i := range first {
			require.Equal(t, want[2*i], first[i], "in their order")
		}
		for _, v := range []*viewer{v, other} {
			v.stop()
			require.NoError(t, <-v.done)
		}
	})
}

func TestAFollowerMayBeginInThePast(t *testing.T) {
	f := &fakeLog{}
	run(t, f, func(h *tail.Hub, _ context.CancelFunc) {
		f.add("m1")
		time.Sleep(time.Minute)
		since := time.Now()
		f.add("m2")
		time.Sleep(time.Minute)
		v := follow(t, h, dispatcher.LogFilter{Since: since}, "")
		seen, _ := v.saw()
		require.ElementsMatch(t, both("m2"), seen)
		v.stop()
		require.NoError(t, <-v.done)
	})
}

func TestAFollowerThatIsTooSlowIsDroppedAndHoldsUpNoOther(t *testing.T) {
	f := &fakeLog{most: 10_000}
	run(t, f, func(h *tail.Hub, _ context.CancelFunc) {
		good := follow(t, h, dispatcher.LogFilter{}, "")
		good.saw()
		slow := follow(t, h, dispatcher.LogFilter{}, "", func(v *viewer) { v.slow = make(chan struct{}) })
		slow.slow <- struct{}{} // its first event
		synctest.Wait()
		shown := 0
		for n := range 20 {
			for k := range 1000 {
				f.add(fmt.Sprintf("m%d-%d", n, k))
			}
			time.Sleep(time.Second)
			seen, _ := good.saw()
			shown += len(seen)
		}
		require.Equal(t, 40_000, shown)
		close(slow.slow)
		require.ErrorIs(t, <-slow.done, dispatcher.ErrBehind)
		seen, _ := slow.saw()
		require.Less(t, len(seen), 10_000, "what it did not show was forgotten")
		good.stop()
		require.NoError(t, <-good.done)
	})
}

func TestABurstIsNoReasonToDropAFollower(t *testing.T) {
	f := &fakeLog{most: 100_000}
	run(t, f, func(h *tail.Hub, _ context.CancelFunc) {
		v := follow(t, h, dispatcher.LogFilter{}, "")
		v.saw()
		for k := range 20_000 { // some 16 MiB at once
			f.add(fmt.Sprint("m", k))
		}
		time.Sleep(time.Second)
		seen, _ := v.saw()
		require.Len(t, seen, 40_000)
		v.stop()
		require.NoError(t, <-v.done)
	})
}

func TestAGapIsTold(t *testing.T) {
	f := &fakeLog{}
	run(t, f, func(h *tail.Hub, _ context.CancelFunc) {
		v := follow(t, h, dispatcher.LogFilter{Messages: []string{"m2"}}, "")
		_, at := v.saw()
		f.add("m1", "m2")
		f.set(func() { f.cut = time.Now() })
		time.Sleep(time.Second)
		seen, _ := v.saw()
		require.Equal(t, append([]string{"gap"}, both("m2")...), seen)
		f.set(func() { f.cut = time.Now() })
		again := follow(t, h, dispatcher.LogFilter{Messages: []string{"m2"}}, at)
		seen, _ = again.saw()
		require.Equal(t, append([]string{"gap"}, both("m2")...), seen)
		for _, v := range []*viewer{v, again} {
			v.stop()
			require.NoError(t, <-v.done)
		}
	})
}

func TestFollowersEndWithTheHub(t *testing.T) {
	f := &fakeLog{}
	run(t, f, func(h *tail.Hub, stop context.CancelFunc) {
		v := follow(t, h, dispatcher.LogFilter{}, "")
		_, at := v.saw()
		stop()
		require.ErrorIs(t, <-v.done, dispatcher.ErrStopping)
		require.ErrorIs(t, <-follow(t, h, dispatcher.LogFilter{}, "").done, dispatcher.ErrStopping)
		require.ErrorIs(t, <-follow(t, h, dispatcher.LogFilter{}, at).done, dispatcher.ErrStopping)
	})
}

func TestALogThatCanNotBeReadRefusesAtTheBeginningAndIsWaitedForLater(t *testing.T) {
	f := &fakeLog{}
	run(t, f, func(h *tail.Hub, _ context.CancelFunc) {
		v := follow(t, h, dispatcher.LogFilter{}, "")
		_, at := v.saw()
		lost := fmt.Errorf("%w: no", dispatcher.ErrUnavailable)
		f.set(func() { f.err = lost })
		require.ErrorIs(t, <-follow(t, h, dispatcher.LogFilter{}, at).done, dispatcher.ErrUnavailable)
		f.add("m1")
		time.Sleep(time.Minute)
		seen, _ := v.saw()
		require.Equal(t, []string{"alive", "alive", "alive", "alive"}, seen)
		f.set(func() { f.err = nil })
		time.Sleep(time.Second)
		seen, _ = v.saw()
		require.ElementsMatch(t, both("m1"), seen)
		v.stop()
		require.NoError(t, <-v.done)

		time.Sleep(2 * time.Second)
		f.set(func() { f.err = lost })
		require.ErrorIs(t, <-follow(t, h, dispatcher.LogFilter{}, "").done, dispatcher.ErrUnavailable)
		f.set(func() { f.err = nil })
		again := follow(t, h, dispatcher.LogFilter{}, "")
		again.saw()
		again.stop()
		require.NoError(t, <-again.done)
	})
}

func TestAFollowerLeavesWhenItCanNotBeShownAnything(t *testing.T) {
	f := &fakeLog{}
	gone := errors.New("gone")
	run(t, f, func(h *tail.Hub, _ context.CancelFunc) {
		for _, behind := range []string{"", dispatcher.LogPositionAt(1, 2, 0).String()} {
			v := follow(t, h, dispatcher.LogFilter{}, behind, func(v *viewer) { v.fails = gone })
			require.ErrorIs(t, <-v.done, gone)
		}
		require.ErrorIs(t, <-follow(t, h, dispatcher.LogFilter{}, "x").done, dispatcher.ErrCursor)
		time.Sleep(2 * time.Second)
		f.calls()
		time.Sleep(time.Hour)
		require.Zero(t, f.calls(), "nobody follows any more")
	})
}
