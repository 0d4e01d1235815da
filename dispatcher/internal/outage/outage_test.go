package outage_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/outage"
)

// errLate is of a call that took too long.
var errLate = fmt.Errorf("%w: %w", dispatcher.ErrUnavailable, context.DeadlineExceeded)

func some(failed, of int, errs ...error) error {
	return &dispatcher.Degraded{Failed: failed, Of: of, Errs: errs}
}

// logged is a Log and what it logged.
type logged struct {
	*outage.Log
	text bytes.Buffer
}

func newTestLog() *logged {
	l := &logged{}
	l.Log = outage.New(slog.New(slog.NewTextHandler(&l.text, nil)), "store lost", "store back")
	return l
}

func (l *logged) count(text string) int { return strings.Count(l.text.String(), text) }

func TestAFaultIsToldOnceAndItsEndOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTestLog()
		l.Report("claim", nil)
		require.Zero(t, l.text.Len())
		for range 100 {
			l.Report("claim", dispatcher.ErrUnavailable)
			time.Sleep(10 * time.Millisecond)
		}
		require.Equal(t, 1, l.count("store lost"))
		l.Report("claim", nil)
		l.Report("claim", nil)
		require.Equal(t, 1, l.count("store back"))
		require.Equal(t, 1, l.count("took_s=1 errors=100"))
	})
}

func TestAnOutageThatContinuesIsLoggedOnceAMinuteWithItsLastError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTestLog()
		l.Report("beat", dispatcher.ErrUnavailable)
		password := fmt.Errorf("%w: WRONGPASS", dispatcher.ErrUnavailable)
		for range 150 {
			time.Sleep(time.Second)
			l.Report("claim", some(1, 2, errors.Join(password)))
		}
		require.Equal(t, 1, l.count(`msg="store lost"`))
		require.Equal(t, 2, l.count("WRONGPASS"))
		require.Equal(t, 1, l.count(`msg="outage continues" outage="store lost" stage=claim partitions=1 of=2 lasted_s=60 errors=61 err="`))
		require.Equal(t, 1, l.count("lasted_s=120 errors=121"))
		time.Sleep(outage.Calm)
		l.Report("claim", nil)
		require.Equal(t, 1, l.count("took_s=160 errors=151"))
		time.Sleep(time.Hour)
		l.Report("claim", password)
		l.Report("claim", password)
		require.Equal(t, 2, l.count("outage continues"), "another outage has a minute of its own")
	})
}

func TestOneCallThatTookTooLongProvesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTestLog()
		for range 3 { // a second later another call is answered
			l.Report("schedule", errLate)
			time.Sleep(time.Second)
			l.Report("beat", nil)
		}
		require.Zero(t, l.count("store"))
		require.Equal(t, 1, l.count("a call had no answer"), "once a minute")
		time.Sleep(time.Minute)
		l.Report("schedule", errLate)
		l.Report("beat", nil)
		require.Equal(t, 1, l.count("stage=schedule calls=3"), "the others are counted")
		l.Report("schedule", errLate)
		l.Report("claim", errLate)
		require.Equal(t, 1, l.count("store lost"), "the second one does")
	})
}

func TestWhatFailsInPartIsOverOnlyWhenNothingFailsForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTestLog()
		for range 20 {
			l.Report("claim", some(1, 3, dispatcher.ErrUnavailable))
			time.Sleep(time.Second)
			l.Report("claim", nil) // of the others
		}
		require.Equal(t, 1, l.count("store lost"))
		require.Equal(t, 1, l.count("partitions=1 of=3"))
		require.Zero(t, l.count("store back"))
		time.Sleep(outage.Calm)
		l.Report("claim", nil)
		require.Equal(t, 1, l.count("store back"))
	})
}

func TestAStageThatFailsAgainAtOnceIsNotToldToBeBackEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTestLog()
		for range 20 {
			l.Report("settle", dispatcher.ErrUnavailable)
			l.Report("beat", nil)
			time.Sleep(time.Second)
		}
		require.Equal(t, 2, l.count("store lost"))
		require.Equal(t, 1, l.count("store back"), "which was wrong")
		time.Sleep(outage.Calm)
		l.Report("beat", nil)
		require.Equal(t, 2, l.count("store back"))
	})
}

func TestRepeatsWaitLongerEachTimeAndEndWithTheirContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTestLog()
		ctx, cancel := context.WithCancel(t.Context())
		failures, most := 0, 50*time.Millisecond
		for n := range 12 {
			began := time.Now()
			failures = l.Repeat(ctx, "move", failures, dispatcher.ErrUnavailable)
			require.Equal(t, n+1, failures)
			require.GreaterOrEqual(t, time.Since(began), most/2)
			require.LessOrEqual(t, time.Since(began), most)
			most = min(2*most, outage.PauseMost)
		}
		began := time.Now()
		require.Zero(t, l.Repeat(ctx, "move", failures, nil))
		cancel()
		require.Equal(t, 3, l.Repeat(ctx, "move", 3, dispatcher.ErrUnavailable), "its end is no failure")
		require.Zero(t, time.Since(began))
	})
}

func TestErrorsAreSplitIntoThoseOfPartsAndOfTheWhole(t *testing.T) {
	whole, part := errors.New("whole"), errors.New("part")
	for name, c := range map[string]struct {
		err          error
		failed, errs int
		rest         error
	}{
		"none":           {},
		"of the whole":   {err: whole, rest: whole},
		"of parts":       {err: some(2, 3, part, part), failed: 2, errs: 2},
		"wrapped":        {err: fmt.Errorf("claim: %w", some(1, 3, part)), failed: 1, errs: 1},
		"of both":        {err: errors.Join(some(1, 3, part), whole), failed: 1, errs: 1, rest: whole},
		"of parts twice": {err: errors.Join(some(2, 3, part), some(2, 3, part)), failed: 3, errs: 2},
	} {
		t.Run(name, func(t *testing.T) {
			sum, rest := outage.Split(c.err)
			require.Equal(t, c.rest, rest)
			if c.failed == 0 {
				require.Nil(t, sum)
				return
			}
			require.Equal(t, c.failed, sum.Failed, "of three at most")
			require.Len(t, sum.Errs, c.errs)
		})
	}
}

func TestErrorsOfABatchAreJoinedEachOnce(t *testing.T) {
	one := some(1, 4, dispatcher.ErrUnavailable)
	require.NoError(t, outage.Join(nil, nil))
	require.Equal(t, one, outage.Join(one, nil, one, one), "as many outcomes have the error of their one call")
	both, rest := outage.Split(outage.Join(one, some(2, 4, dispatcher.ErrFull)))
	require.NoError(t, rest)
	require.Equal(t, 3, both.Failed)
	mixed := outage.Join(one, context.Canceled)
	require.ErrorIs(t, mixed, context.Canceled)
	require.ErrorIs(t, mixed, dispatcher.ErrUnavailable)
}

func TestWhatMayWorkAnotherTimePasses(t *testing.T) {
	refused := errors.New("ERR bad argument")
	for _, err := range []error{dispatcher.ErrUnavailable, dispatcher.ErrFull, dispatcher.ErrFenced, context.Canceled, errLate} {
		require.True(t, outage.Passes(fmt.Errorf("settle: %w", err)), err)
	}
	require.False(t, outage.Passes(refused))
	require.True(t, outage.Any(some(2, 3, dispatcher.ErrUnavailable, refused), outage.Refuses))
	require.True(t, outage.Any(refused, outage.Refuses))
	require.False(t, outage.Any(some(1, 3, dispatcher.ErrUnavailable), outage.Refuses))
	require.False(t, outage.Any(nil, outage.Refuses))
}

// A store whose disk is full answers each read, and refuses each change.
func TestAStoreThatRefusesChangesIsNotLostAndNotBackWhenItIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, disk := newTestLog(), newTestLog()
		disk.Log = outage.New(slog.New(slog.NewTextHandler(&disk.text, nil)), "refuses changes", "takes changes")
		l.ReadOnly, l.Writes = disk.Log, "beat"
		refused := fmt.Errorf("beat: %w", dispatcher.ErrDiskFull)
		for range 60 { // of each partition
			l.Report("beat", some(2, 2, refused, refused))
			l.Report("claim", nil)
			l.Report("settle", fmt.Errorf("settle: %w", dispatcher.ErrReadOnly))
			time.Sleep(time.Second)
		}
		require.Zero(t, l.text.Len())
		require.Equal(t, 1, disk.count("refuses changes"))
		require.Contains(t, disk.text.String(), "the disk of Redis is full")
		l.Report("beat", nil)
		require.Equal(t, 1, disk.count("takes changes"))

		l.Report("schedule", some(2, 3, refused, dispatcher.ErrUnavailable))
		require.Equal(t, 2, disk.count("refuses changes"))
		require.Equal(t, 1, l.count("store lost"), "a part of it is")
	})
}

// A page that says "Redis can't be reached" makes an operator act, so it needs more than a slow call.
func TestOnlyAStoreThatIsLostAsAWholeIsLost(t *testing.T) {
	refused := fmt.Errorf("%w: connection refused", dispatcher.ErrUnavailable)
	for name, c := range map[string]struct {
		reports []error
		lost    bool
	}{
		"nothing failed":             {[]error{nil}, false},
		"refused":                    {[]error{refused}, true},
		"refused, and back":          {[]error{refused, nil}, false},
		"one call was late":          {[]error{errLate}, false},
		"all calls are late":         {[]error{errLate, errLate, errLate}, false},
		"late, then refused":         {[]error{errLate, errLate, refused}, true},
		"refused, then late":         {[]error{refused, errLate}, false},
		"a part of it is refused":    {[]error{some(1, 3, refused)}, false},
		"all parts of it are":        {[]error{some(3, 3, refused)}, true},
		"all parts of it are late":   {[]error{some(3, 3, errLate), some(3, 3, errLate)}, false},
		"it lost data, and responds": {[]error{&dispatcher.Emptied{}}, false},
	} {
		l := newTestLog()
		for _, err := range c.reports {
			l.Report("claim", err)
		}
		require.Equal(t, c.lost, l.Lost() != nil, name)
	}
}
