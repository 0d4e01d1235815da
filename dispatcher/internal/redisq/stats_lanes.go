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
	topLanes     = 50          // lanes that stats tells of
	busyAtOnce   = 32          // pages that one round trip reads
	busyWithin   = time.Second // a look that takes longer is gone on with by the next
	busyQuick    = 100 * time.Millisecond
	busyOld      = 5 * time.Minute // what was found so long ago tells nothing of now: several scrapes of a million lanes take less
	firstPlace   = "i0"            // as busy_lanes spells it
	busyPage     = 400             // lanes that one call looks at: half a ms where they are idle, two where all are busy
	busyIdleFold = 9               // a look that took longer than busyQuick is not repeated for so many times as long
)

// busyLane is a lane with work.
type busyLane struct {
	partition       int
	lane            string
	flying, waiting int
}

// busiest is what a look through all lanes found.
type busiest struct {
	lanes  []busyLane // those with the most waiting
	oldest time.Time  // since when the oldest is ready of what may be attempted; zero: nothing is

	held     [len(heldWhys)]int64   // deliveries that are ready, by why they may not be attempted
	standing [len(toldStates)]int64 // lanes, by their own state
	all      bool                   // some partition's lanes are all paused
	part     bool                   // not all lanes were looked at, or too long ago
}

// What busy_lanes counts, in its order. Lanes that stand in no other way are active.
var (
	heldWhys   = [...]dispatcher.LaneWhy{dispatcher.WhyPaused, dispatcher.WhyBreaker, dispatcher.WhyRetryAfter, dispatcher.WhyRate}
	toldStates = [...]dispatcher.EndpointState{
		dispatcher.StateOpen, dispatcher.StateLimited, dispatcher.StatePaused, dispatcher.StateDisabled,
	}
)

// tell adds what the lanes hold back, and how many of those known stand how.
func (b *busiest) tell(st *dispatcher.Stats, known int64) {
	st.Partial = b.part
	for i, why := range heldWhys {
		st.Held[why] += b.held[i]
	}
	standing := b.standing
	if b.all { // whatever they are of themselves
		standing = [...]int64{0, 0, known - standing[3], standing[3]}
	}
	for i, state := range toldStates {
		st.LanesBy[state] = max(standing[i], 0)
		known -= standing[i]
	}
	st.LanesBy[dispatcher.StateActive] = max(known, 0) // what came and went meanwhile is counted twice, or not
}

// busyLook looks through the lanes of all partitions, in pages. Idle ones are
// passed quickly, but a million of them take more than a second: then what was
// found serves for a while, so that to watch costs Redis a tenth of its time at
// most.
type busyLook struct {
	turn   chan struct{} // 1 deep: one looks at a time
	within time.Duration // busyWithin
	quick  time.Duration // busyQuick

	done  busiest       // of the last look that came to its end
	ended time.Time     // of that look; zero: none did
	took  time.Duration // by that look

	begun time.Time // of the look under way
	found busiest   // by it
	left  []int     // partitions that it has not come to the end of; none: no look is under way
	pages []string  // where to go on in each partition
	spent time.Duration
}

func newBusyLook() *busyLook {
	return &busyLook{turn: make(chan struct{}, 1), within: busyWithin, quick: busyQuick}
}

// look answers the busiest lanes: by now, or as they were a short while ago. A
// first look that has not come to its end answers a part.
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
		b.begun, b.found, b.spent, b.left, b.pages = began, busiest{}, 0, s.all(), slices.Repeat([]string{firstPlace}, len(s.tags))
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

// page reads on in some partitions. One that does not answer is left out.
func (b *busyLook) page(ctx context.Context, s *Store) error {
	some := b.left[:min(len(b.left), busyAtOnce)]
	fewest := 0
	if len(b.found.lanes) == topLanes {
		fewest = b.found.lanes[topLanes-1].waiting
	}
	jobs := make([]conn.ScriptCall, len(some))
	for i, n := range some {
		jobs[i] = conn.ScriptCall{Partition: n, Args: []any{0, b.pages[n], busyPage, fewest, topLanes}}
	}
	left := slices.Clone(b.left[len(some):])
	var errs []error
	for i, r := range s.conn.Run(ctx, s.scripts.busyLanes, "", jobs) {
		n := some[i]
		next, err := b.read(n, r)
		if err != nil {
			errs = append(errs, s.conn.InPartition(n, err))
		} else if b.pages[n] = next; next != "" {
			left = append(left, n)
		}
	}
	b.left = left
	return partitions.Join(errs...)
}

// read adds what a page has.
func (b *busyLook) read(partition int, r conn.Reply) (next string, err error) {
	r.HintIf(partition)
	next = r.Text()
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
		l := busyLane{partition: partition, lane: r.Text(), flying: int(r.Number()), waiting: int(r.Number())}
		b.found.lanes = append(b.found.lanes, l)
	}
	slices.SortFunc(b.found.lanes, func(x, y busyLane) int {
		return cmp.Or(cmp.Compare(y.waiting, x.waiting), cmp.Compare(y.flying, x.flying), strings.Compare(x.lane, y.lane))
	})
	b.found.lanes = slices.CompactFunc(b.found.lanes, func(x, y busyLane) bool { return x.lane == y.lane })
	b.found.lanes = b.found.lanes[:min(len(b.found.lanes), topLanes)]
	return next, r.Err
}
