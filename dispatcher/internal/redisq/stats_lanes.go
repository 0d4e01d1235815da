package redisq

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/partitions"
)

const (
	topLanes     = 50          // lanes that stats answers
	busyAtOnce   = 32          // pages that one round trip reads
	busyWithin   = time.Second // a look that takes longer is continued by the next one
	busyQuick    = 100 * time.Millisecond
	busyOld      = 5 * time.Minute // older results say nothing of now; several scrapes of a million lanes take less
	firstPlace   = "i0"            // as busy_lanes writes it
	busyPage     = 400             // lanes that one call reads: half a ms if they are idle, two if all are busy
	busyIdleFold = 9               // a look that took longer than busyQuick is not repeated for so many times its time
)

// busyLane is a lane with work.
type busyLane struct {
	partition       int
	lane            string
	flying, waiting int
}

// busiest is the result of a look at all lanes.
type busiest struct {
	lanes  []busyLane // those with the most waiting
	oldest time.Time  // the time when the oldest ready delivery that may be attempted became ready; zero: there is none

	held     [len(heldWhys)]int64   // ready deliveries that may not be attempted, by reason
	standing [len(toldStates)]int64 // lanes by state
	all      bool                   // all lanes of some partition are paused
	part     bool                   // some lanes were not read, or too long ago
}

// The values that busy_lanes counts, in its order. All other lanes are active.
var (
	heldWhys = [...]dispatcher.LaneWhy{
		dispatcher.WhyPaused, dispatcher.WhyBreaker, dispatcher.WhyRetryAfter, dispatcher.WhyRate, dispatcher.WhyConsumer,
		dispatcher.WhySealed, dispatcher.WhyMissing, dispatcher.WhyEgress,
	}
	toldStates = [...]dispatcher.EndpointState{
		dispatcher.StateOpen, dispatcher.StateLimited, dispatcher.StateFailing, dispatcher.StatePaused, dispatcher.StateDisabled,
	}
)

// tell adds the deliveries that lanes hold, and the number of lanes in each
// state.
func (b *busiest) tell(st *dispatcher.Stats, known int64) {
	st.Partial = st.Partial || b.part
	for i, why := range heldWhys {
		st.Held[why] += b.held[i]
	}
	standing := b.standing
	if b.all { // whatever their own state is
		standing = [...]int64{0, 0, 0, known - standing[4], standing[4]}
	}
	for i, state := range toldStates {
		st.LanesBy[state] = max(standing[i], 0)
		known -= standing[i]
	}
	st.LanesBy[dispatcher.StateActive] = max(known, 0) // a lane that came or went meanwhile may be counted twice, or not at all
}

// busyLook reads the lanes of all partitions, in pages. Idle lanes are read
// quickly, but a million of them take more than a second. Then a result is used
// for a while, so that it costs Redis a tenth of its time at most.
type busyLook struct {
	turn   chan struct{} // 1 deep: one look at a time
	within time.Duration // busyWithin
	quick  time.Duration // busyQuick

	done  busiest       // result of the last complete look
	ended time.Time     // end of that look; zero: there was none
	took  time.Duration // time that it took

	begun time.Time // of the look under way
	found busiest   // its result so far
	left  []int     // partitions that are not finished; empty: no look is under way
	pages []string  // place to go on at in each partition
	in    []string  // the process of each partition's server that the place is valid for
	spent time.Duration
}

func newBusyLook() *busyLook {
	return &busyLook{turn: make(chan struct{}, 1), within: busyWithin, quick: busyQuick}
}

// look answers the busiest lanes, as they are now or were a short while ago. A
// first look that is not complete answers a part.
func (b *busyLook) look(ctx context.Context, s *Store) (busiest, error) {
	select {
	case b.turn <- struct{}{}:
		defer func() { <-b.turn }()
	case <-ctx.Done():
		return busiest{}, ctx.Err()
	}
	if b.took > b.quick && time.Since(b.ended) < min(busyIdleFold*b.took, busyOld) {
		return b.done, nil
	}
	began := time.Now()
	if len(b.left) == 0 || began.Sub(b.begun) > busyOld {
		b.begun, b.spent = began, 0
		b.begin(s)
	}
	var errs []error
	for len(b.left) > 0 && time.Since(began) < b.within && ctx.Err() == nil {
		errs = append(errs, b.page(ctx, s))
	}
	b.spent += time.Since(began)
	if len(b.left) > 0 {
		if !b.ended.IsZero() && time.Since(b.ended) < busyOld {
			return b.done, partitions.Join(errs...)
		}
		found := b.found
		found.part = true
		return found, partitions.Join(errs...)
	}
	if err := partitions.Join(errs...); err != nil {
		return b.found, err
	}
	b.done, b.ended, b.took = b.found, time.Now(), b.spent
	return b.done, nil
}

// begin has all lanes be read from the start.
func (b *busyLook) begin(s *Store) {
	b.found, b.left = busiest{}, s.all()
	b.pages, b.in = slices.Repeat([]string{firstPlace}, len(s.tags)), make([]string, len(s.tags))
}

// page reads on in some partitions. A partition that does not answer is left
// out.
func (b *busyLook) page(ctx context.Context, s *Store) error {
	some := b.left[:min(len(b.left), busyAtOnce)]
	fewest := 0
	if len(b.found.lanes) == topLanes {
		fewest = b.found.lanes[topLanes-1].waiting
	}
	calls := make([]conn.Call, len(some))
	for i, n := range some {
		calls[i] = conn.Call{Partition: n, Args: []any{0, b.pages[n], busyPage, fewest, topLanes, millisUp(s.failingAfter)}}
	}
	left := slices.Clone(b.left[len(some):])
	var errs []error
	for i, r := range s.conn.Send(ctx, conn.Batch{Script: s.scripts.busyLanes, Calls: calls}) {
		n := some[i]
		next, in, err := b.read(r)
		switch {
		case err != nil:
			errs = append(errs, s.conn.InPartition(n, err))
			continue
		case b.pages[n] != firstPlace && in != b.in[n]: // a cursor is valid for one process, and the sums are of all partitions
			b.begin(s)
			return partitions.Join(errs...)
		}
		if b.pages[n], b.in[n] = next, in; next != "" {
			left = append(left, n)
		}
	}
	b.left = left
	return partitions.Join(errs...)
}

// read adds the answer of a page.
func (b *busyLook) read(r conn.Call) (next, in string, err error) {
	if _, ok := r.Hint(); !ok {
		return "", "", r.Err
	}
	next, in = r.Text(), r.Text()
	if oldest := r.Time(); !oldest.IsZero() && (b.found.oldest.IsZero() || oldest.Before(b.found.oldest)) {
		b.found.oldest = oldest
	}
	for i := range b.found.held {
		b.found.held[i] += r.Number()
	}
	for i := range b.found.standing {
		b.found.standing[i] += r.Number()
	}
	if r.Number() > 0 {
		b.found.all = true
	}
	for r.More() {
		l := busyLane{partition: r.Partition, lane: r.Text(), flying: int(r.Number()), waiting: int(r.Number())}
		b.found.lanes = append(b.found.lanes, l)
	}
	slices.SortFunc(b.found.lanes, func(x, y busyLane) int {
		return cmp.Or(cmp.Compare(y.waiting, x.waiting), cmp.Compare(y.flying, x.flying), strings.Compare(x.lane, y.lane))
	})
	b.found.lanes = slices.CompactFunc(b.found.lanes, func(x, y busyLane) bool { return x.lane == y.lane })
	b.found.lanes = b.found.lanes[:min(len(b.found.lanes), topLanes)]
	return next, in, r.Err
}
