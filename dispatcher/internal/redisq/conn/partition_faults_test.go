package conn_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
)

// restMost is how long a partition that goes on failing is left alone at most.
const restMost = 2 * time.Second

func TestAPartitionThatFailsIsLeftAloneLongerEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reported := 0
		s := conn.NewPartitionSet(2, 1024)
		s.Notify(dispatcher.Events{Unseen: func() { reported++ }})
		for n := range 2 {
			s.Answered(conn.Hint{Partition: n, Now: time.Now(), Due: time.Now(), Weight: 0})
		}
		rest := 50 * time.Millisecond
		for range 12 {
			s.Fail(conn.FailedPartition(1, 2, dispatcher.ErrUnavailable))
			due, _ := s.Due()
			require.Equal(t, []int{0}, due, "nor is it moved")
			require.Equal(t, []int{0}, claimable(s, 8), "nor claimed from")
			seen, wait := s.Unseen()
			require.Empty(t, seen)
			require.GreaterOrEqual(t, wait, rest/2)
			require.LessOrEqual(t, wait, rest)
			rest = min(2*rest, restMost)
		}
		require.Equal(t, 12, reported)
		time.Sleep(restMost)
		due, _ := s.Due()
		require.Equal(t, []int{0, 1}, due)
		seen, _ := s.Unseen()
		require.Equal(t, []int{1}, seen)
		seen, wait := s.Unseen()
		require.Empty(t, seen, "once")
		require.Negative(t, wait)
	})
}

func TestAnAnswerEndsTheRestAndNewsFromOthersDoNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := conn.NewPartitionSet(1, 1024)
		work := conn.Hint{Now: time.Now(), Due: time.Now(), Weight: 0}
		for range 9 {
			s.Fail(conn.FailedPartition(0, 1, dispatcher.ErrUnavailable))
		}
		s.Heard(work)
		require.Empty(t, claimable(s, 8), "another instance reaches it, which proves nothing of this one")
		s.Answered(work)
		require.Equal(t, []int{0}, claimable(s, 8))
		seen, wait := s.Unseen()
		require.Empty(t, seen)
		require.Negative(t, wait, "nothing is left to look at")
		s.Fail(conn.FailedPartition(0, 1, dispatcher.ErrUnavailable))
		_, wait = s.Unseen()
		require.LessOrEqual(t, wait, 50*time.Millisecond, "it begins anew")
	})
}

func TestAFaultOfTheWholeCallLeavesNoPartitionAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := conn.NewPartitionSet(1, 1024)
		s.Answered(conn.Hint{Now: time.Now(), Weight: 0})
		s.Notify(dispatcher.Events{Unseen: func() { t.Error("there is nothing to look at") }})
		s.Fail(dispatcher.ErrUnavailable)
		s.Fail(nil)
		require.Equal(t, []int{0}, claimable(s, 8))
	})
}

func TestPartitionsAreTrimmedWhereDeliveriesEndedAndInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := conn.NewPartitionSet(4, 1024)
		trims := func(where dispatcher.TrimWhere, left int, want ...int) {
			t.Helper()
			in, others := s.ToTrim(where)
			require.Equal(t, want, in)
			require.Equal(t, left, others)
		}
		trims(dispatcher.TrimEnded, 0)
		s.Ended(2, 64)
		trims(dispatcher.TrimMore, 0) // what ended waits while others have more
		trims(dispatcher.TrimEnded, 0, 2)
		trims(dispatcher.TrimEnded, 0)

		s.Ended(0, 60)
		s.Ended(1, 60)
		trims(dispatcher.TrimEnded, 120)
		s.Ended(1, 4)
		trims(dispatcher.TrimEnded, 60, 1)
		time.Sleep(time.Second)
		s.Ended(3, 1)
		trims(dispatcher.TrimEnded, 1, 0)
		trims(dispatcher.TrimAged, 0, 0, 3) // and the first in turn

		s.Trimmed([]int{3}, nil)
		trims(dispatcher.TrimMore, 0, 3)
		trims(dispatcher.TrimMore, 0)

		s.Trimmed(nil, conn.FailedPartition(1, 4, dispatcher.ErrUnavailable))
		trims(dispatcher.TrimMore, 0) // what failed has time
		trims(dispatcher.TrimEnded, 0, 1)

		for n := range 5 { // age goes on without work
			trims(dispatcher.TrimAged, 0, (n+1)%4)
		}
		s.TrimFrom(3)
		trims(dispatcher.TrimAged, 0, 3)
		trims(dispatcher.TrimAged, 0, 0)
	})
}

func TestErrorsOfPartitionsAreJoinedWithTheirNumber(t *testing.T) {
	late := errors.New("late")
	failed := func(n int, err error) error { return conn.FailedPartition(n, 9, err) }
	require.NoError(t, conn.FailedPartition(1, 9, nil))
	for name, c := range map[string]struct {
		errs  []error
		in    []int // the partitions it names
		whole bool  // it is of the call, and not of parts
		text  string
	}{
		"none":                          {errs: []error{nil, nil}},
		"one":                           {[]error{nil, failed(3, late)}, []int{3}, false, "partition 3: late"},
		"several":                       {[]error{failed(3, late), failed(1, late)}, []int{1, 3}, false, "partition 3: late (and 1 more)"},
		"one twice":                     {[]error{failed(3, late), failed(3, errors.New("down"))}, []int{3}, false, "partition 3: late (and 1 more)"},
		"joined before":                 {[]error{conn.JoinErrors(failed(3, late), failed(1, late)), failed(5, late)}, []int{1, 3, 5}, false, "partition 3: late (and 2 more)"},
		"wrapped":                       {[]error{fmt.Errorf("claim: %w", failed(3, late))}, []int{3}, false, "claim: partition 3: late"},
		"one of the whole call":         {[]error{late}, nil, true, "late"},
		"of the whole call and of some": {[]error{late, failed(3, late)}, []int{3}, true, "late (and 1 more)"},
	} {
		t.Run(name, func(t *testing.T) {
			err := conn.JoinErrors(c.errs...)
			if c.text == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, c.text)
			require.ErrorIs(t, err, late)
			require.Equal(t, c.in, conn.FailedPartitions(err))
			d, parts := err.(*dispatcher.Degraded)
			require.Equal(t, !c.whole, parts)
			if parts {
				require.Equal(t, []int{len(c.in), 9}, []int{d.Failed, d.Of})
			}
		})
	}
}
