package read

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
)

const (
	topLanes     = 50   // lanes that stats returns
	failingLanes = 500  // lanes whose attempts fail that FailingLanes returns: a page
	busyAtOnce   = 32   // pages in one round trip
	firstPlace   = "i0" // same as busy_lanes writes it
	busyPage     = 400  // lanes in one call: it takes half a ms if they are idle, and two if all are busy
	busyIdleFold = 9    // a query that took longer than LanePace.Quick is repeated after this many times its duration
)

// busyLane is a lane with work.
type busyLane struct {
	partition       int
	lane            string
	flying, waiting int
}

// Busiest is the result of a query of all lanes.
type Busiest struct {
	lanes  []busyLane // the lanes with the most waiting deliveries
	fails  []busyLane // lanes whose attempts fail, likewise
	Oldest time.Time  // when the oldest ready delivery that may be attempted became ready; zero: there is none

	BlockedSince time.Time // the earliest begin of a pause, or of a wait for an endpoint, of a lane with waiting deliveries; zero: there is none

	blocked  [len(blockedWhys)]int64   // ready deliveries that may not be attempted, by reason
	standing [len(countedStates)]int64 // lanes by state
	all      bool                      // a partition has all lanes paused
	part     bool                      // some lanes were not read, or not recently
}

// The values that busy_lanes counts, in its order. All other lanes are active.
var (
	blockedWhys = [...]dispatcher.LaneWhy{
		dispatcher.WhyPaused, dispatcher.WhyBreaker, dispatcher.WhyRetryAfter, dispatcher.WhyRate, dispatcher.WhyConsumer,
		dispatcher.WhySealed, dispatcher.WhyMissing, dispatcher.WhyEgress,
	}
	countedStates = [...]dispatcher.EndpointState{
		dispatcher.StateOpen, dispatcher.StateLimited, dispatcher.StateFailing, dispatcher.StatePaused, dispatcher.StateDisabled,
	}
)

// AddTo adds the deliveries that may not be attempted, and the number of lanes in each state.
func (b *Busiest) AddTo(st *dispatcher.Stats, known int64) {
	st.Partial = st.Partial || b.part
	st.BlockedSince = b.BlockedSince
	for i, why := range blockedWhys {
		st.Blocked[why] += b.blocked[i]
	}
	standing := b.standing
	if b.all { // regardless of the lanes' own states
		standing = [...]int64{0, 0, 0, known - standing[4], standing[4]}
	}
	for i, state := range countedStates {
		st.LanesBy[state] = max(standing[i], 0)
		known -= standing[i]
	}
	st.LanesBy[dispatcher.StateActive] = max(known, 0) // a lane that was added or removed in the meantime may be counted twice, or not at all
}

// busyQuery queries the lanes of all partitions, in pages. Idle lanes are read quickly, but a
// million of them take more than a second. Then the result is cached for a while, so that it
// takes at most a tenth of the time of Redis.
type busyQuery struct {
	turn chan struct{} // capacity 1: one query at a time

	done  Busiest       // result of the last complete query
	ended time.Time     // end of that query; zero: there was none
	took  time.Duration // its duration

	begun time.Time // start of the current query
	found Busiest   // its result so far
	left  []int     // partitions that are not finished; empty: no query is running
	pages []string  // next place in each partition
	in    []string  // the place is valid only for this process of each partition's server
	spent time.Duration
}

// LanePace limits the work of Busiest.
type LanePace struct {
	Within time.Duration // a longer call is continued by the next one
	Quick  time.Duration // a result that took longer is cached for a while
	Old    time.Duration // an older result is not returned
}

// usualPace lets several scrapes read a million lanes before the result is too old.
var usualPace = LanePace{Within: time.Second, Quick: 100 * time.Millisecond, Old: 5 * time.Minute}

// Busiest returns the lanes with the most work, from a query or a recent result.
func (s *LaneReader) Busiest(ctx context.Context) (Busiest, error) { return s.busy.busiest(ctx, s) }

func newBusyQuery() *busyQuery {
	return &busyQuery{turn: make(chan struct{}, 1)}
}

// busiest returns the Busiest lanes, as they are now or were recently. If the first query is not
// complete, it returns a part.
func (b *busyQuery) busiest(ctx context.Context, s *LaneReader) (Busiest, error) {
	select {
	case b.turn <- struct{}{}:
		defer func() { <-b.turn }()
	case <-ctx.Done():
		return Busiest{}, ctx.Err()
	}
	if b.took > s.Pace.Quick && time.Since(b.ended) < min(busyIdleFold*b.took, s.Pace.Old) {
		return b.done, nil
	}
	began := time.Now()
	if len(b.left) == 0 || began.Sub(b.begun) > s.Pace.Old {
		b.begun, b.spent = began, 0
		b.begin(s)
	}
	var errs []error
	for len(b.left) > 0 && time.Since(began) < s.Pace.Within && ctx.Err() == nil {
		errs = append(errs, b.page(ctx, s))
	}
	b.spent += time.Since(began)
	if len(b.left) > 0 {
		if !b.ended.IsZero() && time.Since(b.ended) < s.Pace.Old {
			return b.done, conn.JoinErrors(errs...)
		}
		found := b.found
		found.part = true
		return found, conn.JoinErrors(errs...)
	}
	if err := conn.JoinErrors(errs...); err != nil {
		return b.found, err
	}
	b.done, b.ended, b.took = b.found, time.Now(), b.spent
	return b.done, nil
}

// begin starts a query of all lanes.
func (b *busyQuery) begin(s *LaneReader) {
	b.found, b.left = Busiest{}, s.conn.All()
	b.pages, b.in = slices.Repeat([]string{firstPlace}, s.conn.Partitions()), make([]string, s.conn.Partitions())
}

// page reads the next page of some partitions. It skips a partition that does not reply.
func (b *busyQuery) page(ctx context.Context, s *LaneReader) error {
	some := b.left[:min(len(b.left), busyAtOnce)]
	fewest := 0
	if len(b.found.lanes) == topLanes {
		fewest = b.found.lanes[topLanes-1].waiting
	}
	calls := make([]conn.Call, len(some))
	for i, n := range some {
		calls[i] = conn.Call{Partition: n, Args: []any{0, b.pages[n], busyPage, fewest, topLanes, conn.MillisUp(s.failingAfter)}}
	}
	left := slices.Clone(b.left[len(some):])
	var errs []error
	for i, r := range s.conn.Send(ctx, conn.Batch{Script: busyScript, Calls: calls}) {
		n := some[i]
		next, in, err := b.read(r)
		switch {
		case err != nil:
			errs = append(errs, s.conn.InPartition(n, err))
			continue
		case b.pages[n] != firstPlace && in != b.in[n]: // a cursor is valid for one process only, and the sums cover all partitions
			b.begin(s)
			return conn.JoinErrors(errs...)
		}
		if b.pages[n], b.in[n] = next, in; next != "" {
			left = append(left, n)
		}
	}
	b.left = left
	return conn.JoinErrors(errs...)
}

// read adds the reply for one page.
func (b *busyQuery) read(r conn.Call) (next, in string, err error) {
	if _, ok := r.Hint(); !ok {
		return "", "", r.Err
	}
	next, in = r.Text(), r.Text()
	if oldest := r.Time(); !oldest.IsZero() && (b.found.Oldest.IsZero() || oldest.Before(b.found.Oldest)) {
		b.found.Oldest = oldest
	}
	if since := r.Time(); !since.IsZero() && (b.found.BlockedSince.IsZero() || since.Before(b.found.BlockedSince)) {
		b.found.BlockedSince = since
	}
	for i := range b.found.blocked {
		b.found.blocked[i] += r.Number()
	}
	for i := range b.found.standing {
		b.found.standing[i] += r.Number()
	}
	if r.Number() > 0 {
		b.found.all = true
	}
	for range r.Number() {
		b.found.fails = append(b.found.fails, busyLane{partition: r.Partition, lane: r.Text(), waiting: int(r.Number())})
	}
	for r.More() {
		l := busyLane{partition: r.Partition, lane: r.Text(), flying: int(r.Number()), waiting: int(r.Number())}
		b.found.lanes = append(b.found.lanes, l)
	}
	b.found.lanes, b.found.fails = busiestOf(b.found.lanes, topLanes), busiestOf(b.found.fails, failingLanes)
	return next, in, r.Err
}

// busiestOf returns the lanes with the most waiting deliveries, each once.
func busiestOf(lanes []busyLane, most int) []busyLane {
	slices.SortFunc(lanes, func(x, y busyLane) int {
		return cmp.Or(cmp.Compare(y.waiting, x.waiting), cmp.Compare(y.flying, x.flying), strings.Compare(x.lane, y.lane))
	})
	lanes = slices.CompactFunc(lanes, func(x, y busyLane) bool { return x.lane == y.lane })
	return lanes[:min(len(lanes), most)]
}

// FailingLanes returns the lanes of which no attempt succeeded since one failed, or whose breaker is open,
// the most waiting first, at most 500. Which lanes these are is known from Busiest, their states are current.
func (s *LaneReader) FailingLanes(ctx context.Context) ([]dispatcher.LaneState, error) {
	found, err := s.Busiest(ctx)
	if err != nil {
		return nil, fmt.Errorf("failing lanes: %w", err)
	}
	names := make([]dispatcher.Lane, len(found.fails))
	for i, l := range found.fails {
		names[i] = dispatcher.Lane(l.lane)
	}
	states, err := s.LaneStates(ctx, names)
	states = slices.DeleteFunc(states, func(l dispatcher.LaneState) bool { return l.Failing.IsZero() && l.Opened == 0 })
	slices.SortStableFunc(states, func(a, b dispatcher.LaneState) int { return cmp.Compare(b.Waiting, a.Waiting) })
	return states, err
}

// AddTop adds the states of the lanes with the most work, from the partitions that reply.
// Paused lanes come first.
func (s *LaneReader) AddTop(ctx context.Context, b Busiest, st *dispatcher.Stats) error {
	for _, l := range b.lanes {
		st.Lanes = append(st.Lanes, dispatcher.LaneState{
			Lane: dispatcher.Lane(l.lane), LaneCount: dispatcher.LaneCount{InFlight: l.flying, Waiting: l.waiting},
		})
	}
	shares := conn.Grouped(len(b.lanes), 0, func(i int) int { return b.lanes[i].partition })
	calls := make([]conn.Call, len(shares))
	for k, share := range shares {
		args := lanesArgs(0, lanePlace{})
		for _, i := range share.At {
			args = append(args, b.lanes[i].lane)
		}
		calls[k] = conn.Call{Partition: share.Partition, Args: args}
	}
	err := s.conn.SendEach(ctx, conn.Batch{Script: lanesScript, Calls: calls}, func(k int, r *conn.Call) error {
		_, _, found, err := readLanes(*r, s.failingAfter)
		if err == nil && len(found) != len(shares[k].At) {
			err = conn.ErrReply
		}
		if err != nil {
			return err
		}
		for n, i := range shares[k].At {
			count := st.Lanes[i].LaneCount
			st.Lanes[i] = found[n].state
			st.Lanes[i].LaneCount = count // the count that sorts them
		}
		return nil
	})
	slices.SortStableFunc(st.Lanes, func(a, b dispatcher.LaneState) int { return pausedFirst(&a) - pausedFirst(&b) })
	return err
}

func pausedFirst(l *dispatcher.LaneState) int {
	if l.Limits.Mode == dispatcher.LanePaused {
		return 0
	}
	return 1
}
