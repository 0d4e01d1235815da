package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/engine"
)

func TestWhatHappensIsShownWithinASecond(t *testing.T) {
	t.Parallel()
	f := &fakeLog{}
	run(t, f, func(h *engine.Tail, _ context.CancelFunc) {
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
	t.Parallel()
	f := &fakeLog{}
	run(t, f, func(h *engine.Tail, _ context.CancelFunc) {
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
	t.Parallel()
	f := &fakeLog{}
	run(t, f, func(h *engine.Tail, _ context.CancelFunc) {
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

// What is logged while a follower passes from its own reading to that of the Tail is read
// by both.
func TestWhatTwoReadersMeetIsShownOnce(t *testing.T) {
	t.Parallel()
	f := &fakeLog{grows: 6}
	run(t, f, func(h *engine.Tail, _ context.CancelFunc) {
		f.add("old")
		v := follow(t, h, dispatcher.LogFilter{Since: time.Now().Add(-time.Hour)}, "")
		time.Sleep(10 * time.Second)
		seen, _ := v.saw()
		seen = slices.DeleteFunc(seen, func(word string) bool { return word == "alive" })
		require.ElementsMatch(t, both("old", "grown0", "grown1", "grown2", "grown3", "grown4", "grown5"), seen)
		v.stop()
		require.NoError(t, <-v.done)
	})
}

func TestAFollowerIsToldThatItIsConnected(t *testing.T) {
	t.Parallel()
	f := &fakeLog{}
	run(t, f, func(h *engine.Tail, _ context.CancelFunc) {
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
	t.Parallel()
	f := &fakeLog{}
	run(t, f, func(h *engine.Tail, _ context.CancelFunc) {
		one := follow(t, h, dispatcher.LogFilter{Messages: []string{"m2"}}, "")
		other := follow(t, h, dispatcher.LogFilter{Lanes: []dispatcher.Lane{"lane1"}, Tenants: []string{"t1"}}, "")
		none := follow(t, h, dispatcher.LogFilter{Lanes: []dispatcher.Lane{"lane1"}, Tenants: []string{"t2"}}, "")
		failed := follow(t, h, dispatcher.LogFilter{Statuses: []int{503}}, "")
		sent := follow(t, h, dispatcher.LogFilter{Jobs: []int64{7}}, "")
		for _, v := range []*viewer{one, other, none, failed, sent} {
			v.saw()
		}
		f.add("m1", "m2")
		time.Sleep(time.Second)
		seen, _ := one.saw()
		require.ElementsMatch(t, both("m2"), seen)
		seen, _ = other.saw()
		require.ElementsMatch(t, []string{"lane1:m1", "lane1:m2"}, seen)
		seen, _ = none.saw()
		require.Empty(t, seen)
		seen, _ = failed.saw()
		require.Empty(t, seen)
		seen, _ = sent.saw()
		require.Empty(t, seen)
		for _, v := range []*viewer{one, other, none, failed, sent} {
			v.stop()
			require.NoError(t, <-v.done)
		}
	})
}

// Each event's position goes on right behind it: nothing is shown twice, nothing is
// missing, wherever the connection is lost.
func TestAFollowerGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	f := &fakeLog{most: 2}
	run(t, f, func(h *engine.Tail, _ context.CancelFunc) {
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
	t.Parallel()
	f := &fakeLog{most: 3}
	run(t, f, func(h *engine.Tail, _ context.CancelFunc) {
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
	t.Parallel()
	f := &fakeLog{}
	run(t, f, func(h *engine.Tail, _ context.CancelFunc) {
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
	t.Parallel()
	f := &fakeLog{most: 10_000}
	run(t, f, func(h *engine.Tail, _ context.CancelFunc) {
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
	t.Parallel()
	f := &fakeLog{most: 100_000}
	run(t, f, func(h *engine.Tail, _ context.CancelFunc) {
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
	t.Parallel()
	f := &fakeLog{}
	run(t, f, func(h *engine.Tail, _ context.CancelFunc) {
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
	t.Parallel()
	f := &fakeLog{}
	run(t, f, func(h *engine.Tail, stop context.CancelFunc) {
		v := follow(t, h, dispatcher.LogFilter{}, "")
		_, at := v.saw()
		stop()
		require.ErrorIs(t, <-v.done, dispatcher.ErrStopping)
		require.ErrorIs(t, <-follow(t, h, dispatcher.LogFilter{}, "").done, dispatcher.ErrStopping)
		require.ErrorIs(t, <-follow(t, h, dispatcher.LogFilter{}, at).done, dispatcher.ErrStopping)
	})
}

func TestALogThatCanNotBeReadRefusesAtTheBeginningAndIsWaitedForLater(t *testing.T) {
	t.Parallel()
	f := &fakeLog{}
	run(t, f, func(h *engine.Tail, _ context.CancelFunc) {
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
	t.Parallel()
	f := &fakeLog{}
	gone := errors.New("gone")
	run(t, f, func(h *engine.Tail, _ context.CancelFunc) {
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
