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

// claimable are the partitions that a large claim with free permits asks.
func claimable(s *conn.PartitionSet, free int) []int { return s.ToClaim(1<<20, free) }

func TestAnOlderAnswerNeverMakesTheViewForgetWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		at := func(ms int) time.Time { return now.Add(time.Duration(ms) * time.Millisecond) }
		s := conn.NewPartitionSet(2, 1024)
		require.Empty(t, claimable(s, 1024))

		s.Answered(conn.Hint{Partition: 1, Now: at(10), Due: at(60), Weight: 8})
		require.Equal(t, []int{1}, claimable(s, 5))
		require.Empty(t, claimable(s, 4), "the lane is as heavy as what is free")

		s.Answered(conn.Hint{Partition: 1, Now: at(5), Weight: -1})
		require.Equal(t, []int{1}, claimable(s, 5), "an older answer that knows of nothing")
		_, wait := s.Due()
		require.Equal(t, 50*time.Millisecond, wait)

		s.Answered(conn.Hint{Partition: 1, Now: at(6), Due: at(500), Weight: 18})
		require.Equal(t, []int{1}, claimable(s, 5), "an older answer that knows less")
		_, wait = s.Due()
		require.Equal(t, 50*time.Millisecond, wait)

		s.Answered(conn.Hint{Partition: 1, Now: at(7), Due: at(27), Weight: 4})
		require.Equal(t, []int{1}, claimable(s, 3), "an older answer that knows of more")
		_, wait = s.Due()
		require.Equal(t, 20*time.Millisecond, wait)

		s.Answered(conn.Hint{Partition: 1, Now: at(11), Weight: -1})
		require.Empty(t, claimable(s, 1024), "a newer one is believed")
		_, wait = s.Due()
		require.Negative(t, wait)
	})
}

// Redis' clock has microseconds, but a hint's time may be equal to that of the one before, and in
// simulated time it is.
func TestAMoveOfTheSameInstantIsTheLastOne(t *testing.T) {
	now := time.Now()
	asked := func(between ...conn.Hint) (due []int, wait time.Duration) {
		s := conn.NewPartitionSet(1, 1024)
		s.Answered(conn.Hint{Now: now, Due: now, Weight: -1})
		due, _ = s.Due()
		require.Equal(t, []int{0}, due)
		for _, h := range between {
			s.Heard(h)
		}
		moved := conn.Hint{Now: now, Due: now.Add(time.Hour), Weight: 3}
		s.Answered(moved)
		s.Moved(moved)
		return s.Due()
	}
	due, wait := asked()
	require.Empty(t, due, "nothing is left to move")
	require.InDelta(t, time.Hour, wait, float64(time.Minute))

	due, _ = asked(conn.Hint{Now: now, Due: now, Weight: -1})
	require.Equal(t, []int{0}, due, "one that came meanwhile may be newer than the move")
}

// A lane weighs its part of all instances' permits, and is compared with the
// same part of this one's.
func TestAnInstanceClaimsByItsPartOfAllPermits(t *testing.T) {
	for _, c := range []struct {
		weight, free, permits int
		may                   bool
		why                   string
	}{
		{128, 64, 1024, false, ""},
		{128, 65, 1024, true, ""},
		{128, 1, 16, false, ""},
		{128, 2, 16, true, ""},
		{128, 1, 1, true, "one that holds nothing takes any"},
		{128, 0, 0, false, "one that only accepts takes none"},
		{0, 1, 1 << 20, true, "of very many permits the last one weighs something still"},
	} {
		s := conn.NewPartitionSet(1, c.permits)
		s.Answered(conn.Hint{Now: time.Now(), Weight: c.weight})
		require.Equal(t, c.may, len(claimable(s, c.free)) == 1, "%+v", c)
		some, waiting := s.Claimable(c.free)
		require.Equal(t, c.may, some == 1, "%+v", c)
		require.True(t, waiting)
	}
}

func TestDuesAreThosePartitionsWhoseTimeHasCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		skewed := time.Now().Add(-time.Hour) // the queue's clock is behind the host's
		s := conn.NewPartitionSet(3, 1024)
		for n, wait := range []time.Duration{time.Second, 2 * time.Second, 0} {
			h := conn.Hint{Partition: n, Now: skewed, Weight: -1}
			if wait > 0 {
				h.Due = skewed.Add(wait)
			}
			s.Answered(h)
		}
		due, wait := s.Due()
		require.Empty(t, due)
		require.Equal(t, time.Second, wait)
		time.Sleep(time.Second)
		due, wait = s.Due()
		require.Equal(t, []int{0}, due)
		require.Equal(t, time.Second, wait)
		require.Equal(t, skewed.Add(time.Second), s.Now())
	})
}

func TestAStallEndsWithMorePermitsOrNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		s := conn.NewPartitionSet(1, 1024)
		heavy := conn.Hint{Now: now, Weight: 3}
		s.Answered(heavy)
		s.Stalled(16, heavy)
		require.Empty(t, claimable(s, 16))
		require.Equal(t, []int{0}, claimable(s, 17))
		s.Stalled(1024, heavy)
		require.Empty(t, claimable(s, 1024), "also where nothing is held: what is not settled counts in the queue")
		s.Answered(conn.Hint{Now: now.Add(1), Weight: 3})
		require.Equal(t, []int{0}, claimable(s, 16))
		s.Stalled(16, heavy)
		require.Equal(t, []int{0}, claimable(s, 16), "what was heard since the claim stands")
	})
}

func BenchmarkAnswered(b *testing.B) {
	b.ReportAllocs()
	s := conn.NewPartitionSet(128, 1024)
	h := conn.Hint{Now: time.Now(), Weight: 3}
	for i := range b.N {
		h.Partition, h.Now = i%128, h.Now.Add(time.Microsecond)
		s.Answered(h)
	}
}

// Where each partition may have a node of its own, only those without memory are
// emptied; where all share one memory, any helps.
func TestMemoryIsSoughtWhereItIsMissing(t *testing.T) {
	s := conn.NewPartitionSet(3, 1024)
	s.Full(0, true)
	require.Equal(t, []int{0}, s.ToEmpty(true))
	require.Equal(t, []int{0, 1, 2}, s.ToEmpty(false))
}

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
