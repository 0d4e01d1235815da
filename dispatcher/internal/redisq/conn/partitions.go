package conn

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
	"github.com/hookladder/hookladder/dispatcher/internal/wait"
)

// Hint describes the work that a partition has, at the time Now by its own clock.
type Hint struct {
	Partition int
	Now       time.Time
	Sent      time.Time            // when the call was sent, by this host's clock; zero: the hint comes from another instance
	Due       time.Time            // the earliest time at which a delivery becomes ready; zero: no delivery waits for a time
	Weight    int                  // weight of the lightest lane that may be claimed from, in parts of WholeWeight; -1: there is none
	Ended     int                  // marked or expired deliveries that a claim ended instead of leasing them
	Lost      int                  // deliveries that a claim dropped because their message was missing
	Placed    int                  // lanes that a claim placed again because the set of instances changed; a retry may find more
	Opened    []dispatcher.Opening // lanes whose breaker this call opened, or opened again
	Closed    []dispatcher.Lane    // lanes whose breaker this call closed
	Dead      []dispatcher.Death   // deliveries that died by this call, whichever call it was
}

// share returns the weight of an instance's free permits, out of its total. The scripts use the
// same formula.
func share(free, total int) int {
	if free <= 0 || total <= 0 {
		return 0
	}
	return max(1, keys.WholeWeight*free/total)
}

// PartitionSet caches the state of all partitions for one instance.
type PartitionSet struct {
	clock   clock
	permits int // of this instance
	events  dispatcher.Events
	short   atomic.Bool // a partition has run out of memory at some time

	wall func(time.Time) time.Time // what the host's clock showed; tests replace it

	mu    sync.Mutex // guards the fields below
	list  []partition
	claim int // the partition that the next claim asks first; each comes first in turn
	trim  int // the partition that is trimmed next by age
	jumps jumps
}

// partition is the cached state of one partition.
type partition struct {
	last   reading   // the last reply whose time is known by both clocks
	asOf   time.Time // time of the state by the partition's clock; zero before the first reply
	due    time.Time // by this process' clock; zero: no delivery waits for a time
	weight int       // weight of the lightest lane; -1: none
	hints  int       // number of hints so far
	moving int       // hints when the mover last found it due
	tried  int       // number of free permits with which a claim found no delivery although a lane was ready; 0: none

	failed int       // calls in a row without a reply
	until  time.Time // no call asks it before then; zero: it may be asked
	unseen bool      // a reply was lost, so its work is unknown

	ended int       // deliveries that ended since the last trim
	since time.Time // when the first of them ended, by this process' clock
	more  bool      // the last trim found more to remove
	full  bool      // it had no memory for its last new message
	empty time.Time // when it last had nothing to remove to make room; zero: never
}

// NewPartitionSet returns a PartitionSet for an instance with this number of permits. The state of every partition is
// unknown at first.
func NewPartitionSet(partitions, permits int) *PartitionSet {
	s := &PartitionSet{permits: permits, wall: wallOf, list: make([]partition, partitions)}
	for n := range s.list {
		s.list[n].weight = -1
	}
	s.Notify(dispatcher.Events{})
	return s
}

// Notify sets the events that the PartitionSet calls. It must be called before any other method.
func (s *PartitionSet) Notify(e dispatcher.Events) { s.events = e.Whole() }

// Len returns the number of partitions.
func (s *PartitionSet) Len() int { return len(s.list) }

// All returns the numbers of all partitions.
func (s *PartitionSet) All() []int { return keys.Partitions(len(s.list)) }

// goneBack is the age at which an old reply shows that the store's clock went back. The age is
// relative to the cached state. It happens when another node takes over. Without this check, a
// wait would not end until the clock has caught up. Until then the mover and the claimer would
// query the store without a pause. If the reply was only slow, the check costs one query.
const goneBack = time.Second

// Answered records the reply to a call that may change data.
func (s *PartitionSet) Answered(h Hint) { s.observe(h, true) }

// Heard records a hint that was read, or sent by another instance. It does not prove that the
// partition would reply to a call that changes data.
func (s *PartitionSet) Heard(h Hint) { s.observe(h, false) }

// observe records a hint. Replies may overtake each other. An older reply can only add work, so
// that no work is lost.
func (s *PartitionSet) observe(h Hint, answered bool) {
	local := time.Now()
	s.clock.set(h.Now, h.Sent, local)
	s.mu.Lock()
	p := &s.list[h.Partition]
	p.hints++
	if answered {
		p.failed, p.until, p.unseen = 0, time.Time{}, false
	}
	sooner, back := p.observe(h, local)
	claimable := p.weight >= 0
	by, host := s.read(p, reading{h.Now, h.Sent, local})
	s.mu.Unlock()
	if by != 0 {
		s.events.Jumped(by, host)
	}
	if sooner {
		s.events.Due()
	}
	if claimable {
		s.events.Ready()
	}
	if back {
		s.events.Back() // a slow reply may hide newer hints by this
	}
}

// observe reports whether a delivery is due sooner than the cached state says, and whether the
// clock went back. The caller must lock the set's mu.
func (p *partition) observe(h Hint, local time.Time) (sooner, back bool) {
	var due time.Time
	if !h.Due.IsZero() {
		due = local.Add(h.Due.Sub(h.Now))
	}
	newer := h.Now.After(p.asOf)
	if back = p.asOf.Sub(h.Now) > goneBack; back {
		p.asOf, p.tried = h.Now, 0 // the next hint is accepted as it is
	}
	if newer {
		p.asOf = h.Now
	}
	if sooner = !due.IsZero() && (p.due.IsZero() || due.Before(p.due)); !sooner && !newer {
		due = p.due
	}
	p.due = due
	if h.Weight >= 0 && (newer || p.weight < 0 || h.Weight < p.weight) || newer {
		p.weight, p.tried = h.Weight, 0
	}
	return sooner, back
}

// Moved records the reply to a move of a partition that Due returned, after Answered. A reply of the
// same millisecond as the one before does not replace what that one said, because their order is
// not known. But this one is newer if no other hint came since Due: the move was sent after all the
// others had come. Without it the mover would call again and again until the millisecond is over.
func (s *PartitionSet) Moved(h Hint) {
	local := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &s.list[h.Partition]
	if p.hints != p.moving+1 || !h.Now.Equal(p.asOf) {
		return
	}
	if p.due = (time.Time{}); !h.Due.IsZero() {
		p.due = local.Add(h.Due.Sub(h.Now))
	}
}

// Backoff before a partition that did not reply is asked again. It doubles from restFirst to
// restMost, as between the engine's retries of a whole call.
const (
	restFirst = 50 * time.Millisecond
	restMost  = 2 * time.Second
)

// Fail starts a backoff for the partitions that an error names, longer each time. Calls for the
// other partitions continue without them. After the backoff the partitions are polled, which also
// wakes the stages that wait for them.
func (s *PartitionSet) Fail(err error) {
	failed := FailedPartitions(err)
	if len(failed) == 0 {
		return
	}
	now := time.Now()
	s.mu.Lock()
	for _, n := range failed {
		p := &s.list[n]
		p.failed++
		p.until, p.unseen = now.Add(wait.Backoff(p.failed, restFirst, restMost)), true
	}
	s.mu.Unlock()
	s.events.Unseen()
}

// rests returns the time for which a partition must not be queried yet. The caller must lock
// the set's mu.
func (p *partition) rests(now time.Time) time.Duration {
	if p.until.IsZero() {
		return 0
	}
	return max(p.until.Sub(now), 0)
}

// sooner returns the shorter of two waits. A negative wait has no end.
func sooner(a, b time.Duration) time.Duration {
	if a < 0 || b >= 0 && b < a {
		return b
	}
	return a
}

// Due returns the partitions in which a delivery is due. If there are none, it returns the wait
// until the next one. The wait is negative if no delivery waits for a time.
func (s *PartitionSet) Due() (partitions []int, wait time.Duration) {
	now := time.Now()
	wait = -1
	s.mu.Lock()
	defer s.mu.Unlock()
	for n := range s.list {
		p := &s.list[n]
		if p.due.IsZero() {
			continue
		}
		if left := max(p.due.Sub(now), p.rests(now)); left > 0 {
			wait = sooner(wait, left)
		} else {
			partitions = append(partitions, n)
			p.moving = p.hints
		}
	}
	return partitions, wait
}

// Unseen returns, only once, the partitions whose last reply was lost and whose backoff is over. It
// also returns the wait until the next such partition. The wait is negative if there is none.
func (s *PartitionSet) Unseen() (partitions []int, wait time.Duration) {
	now := time.Now()
	wait = -1
	s.mu.Lock()
	defer s.mu.Unlock()
	for n := range s.list {
		p := &s.list[n]
		switch {
		case !p.unseen:
		case p.rests(now) > 0:
			wait = sooner(wait, p.rests(now))
		default:
			p.unseen = false
			partitions = append(partitions, n)
		}
	}
	return partitions, wait
}

// Now returns the time by the store's clock, or by this host's clock if there was no reply yet.
func (s *PartitionSet) Now() time.Time { return s.clock.now() }

// leastKept is the minimum of finished deliveries that a partition keeps, whatever its share of the
// limit. Without it, the deliveries of one busy destination would be removed within seconds.
const leastKept = 10_000

// ShareOf returns the part of a limit for one of several partitions.
func ShareOf(limit, partitions int) int {
	return max(limit/partitions, min(limit, leastKept))
}
