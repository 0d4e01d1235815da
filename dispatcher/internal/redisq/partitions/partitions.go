// Package partitions knows of each partition of a store whether it answers, when
// something becomes due there, and how heavy the lightest lane is that may be
// claimed from. It is fed by every answer of the store and by the hints of other
// instances, and says which partitions to ask. No partition has a goroutine, a
// timer or a connection of its own.
package partitions

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// Hint says what a partition has to do, as of Now by its own clock.
type Hint struct {
	Partition int
	Now       time.Time
	Sent      time.Time            // by this host's clock, when that was asked; zero: another instance told it
	Due       time.Time            // the earliest time at which something becomes ready; zero: nothing waits for a time
	Weight    int                  // of the lightest lane that may be claimed from, in parts of WholeWeight; -1: there is none
	Ended     int                  // deliveries that a claim ended instead of leasing them: marked or expired
	Lost      int                  // deliveries that a claim dropped because their message was gone
	Placed    int                  // lanes that a claim placed anew, since instances came or went: another one may find more
	Opened    []dispatcher.Opening // lanes whose breaker this call opened, or opened again
	Closed    []dispatcher.Lane    // lanes whose breaker it closed
	Dead      []dispatcher.Death   // what died of this call, whichever it was
}

// share is what free permits of an instance with so many in all weigh; the
// scripts reckon the same.
func share(free, total int) int {
	if free <= 0 || total <= 0 {
		return 0
	}
	return max(1, keys.WholeWeight*free/total)
}

// Set is what one instance knows of all partitions.
type Set struct {
	clock   clock
	permits int // of this instance
	events  dispatcher.Events
	short   atomic.Bool // some partition had no memory left, at some time

	mu    sync.Mutex // guards what follows
	list  []partition
	claim int // the partition that is claimed from first, so that each comes first in turn
	trim  int // the partition that is trimmed next for its age
}

// partition is what is known of one.
type partition struct {
	asOf   time.Time // by the partition's clock; the zero time before anything is known
	due    time.Time // by this process' clock; zero: nothing waits for a time
	weight int       // of the lightest lane, -1: none
	tried  int       // free permits with which a claim got nothing though a lane was there; 0: none did

	failed int       // calls in a row that got no answer of it
	until  time.Time // it is left alone before; zero: it is not
	unseen bool      // an answer was lost, and with it what there is to do

	ended bool      // deliveries ended there since it was trimmed
	more  bool      // the last trim found more to forget
	full  bool      // it had no memory for the last message that was put there
	empty time.Time // when it had nothing to make room of; zero: never
}

// New makes a Set for an instance with so many permits. Of the partitions nothing
// is known yet.
func New(partitions, permits int) *Set {
	s := &Set{permits: permits, list: make([]partition, partitions)}
	for n := range s.list {
		s.list[n].weight = -1
	}
	s.Notify(dispatcher.Events{})
	return s
}

// Notify has e called from now on. It comes before any other call.
func (s *Set) Notify(e dispatcher.Events) { s.events = e.Whole() }

// Len is the number of partitions.
func (s *Set) Len() int { return len(s.list) }

// All are the numbers of all partitions.
func (s *Set) All() []int {
	all := make([]int, len(s.list))
	for n := range all {
		all[n] = n
	}
	return all
}

// goneBack is how much older than what is known an answer must be for the
// store's clock to have gone back: another node took over. Else, until it has
// caught up, nothing would ever be over, and mover and claimer would ask for it
// without a pause. An answer that was only slow costs a look.
const goneBack = time.Second

// Answered takes in what a call that may change something was answered.
func (s *Set) Answered(h Hint) { s.observe(h, true) }

// Heard takes in what was read, or told by another instance: it does not prove
// that a call which changes something would be answered.
func (s *Set) Heard(h Hint) { s.observe(h, false) }

// observe takes in a hint. Answers may overtake each other: an older one only
// ever adds what there is to do, so that nothing is forgotten.
func (s *Set) observe(h Hint, answered bool) {
	local := time.Now()
	s.clock.set(h.Now, h.Sent, local)
	s.mu.Lock()
	p := &s.list[h.Partition]
	if answered {
		p.failed, p.until, p.unseen = 0, time.Time{}, false
	}
	sooner, back := p.observe(h, local)
	claimable := p.weight >= 0
	s.mu.Unlock()
	if sooner {
		s.events.Due()
	}
	if claimable {
		s.events.Ready()
	}
	if back {
		s.events.Back() // a slow one may hide news by this
	}
}

// observe reports whether something is due sooner than was known, and whether
// the clock went back. The set's mu is held.
func (p *partition) observe(h Hint, local time.Time) (sooner, back bool) {
	var due time.Time
	if !h.Due.IsZero() {
		due = local.Add(h.Due.Sub(h.Now))
	}
	newer := h.Now.After(p.asOf)
	if back = p.asOf.Sub(h.Now) > goneBack; back {
		p.asOf, p.tried = h.Now, 0 // the next one counts
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

// Waits before a partition that did not answer is asked again: they double from
// restFirst to restMost, as between the engine's repeats of a whole call.
const (
	restFirst = 50 * time.Millisecond
	restMost  = 2 * time.Second
)

// Fail leaves the partitions alone that an error names, longer each time: calls
// for the others go on without them. After that they are looked at, which also
// tells the stages that wait for them.
func (s *Set) Fail(err error) {
	failed := In(err)
	if len(failed) == 0 {
		return
	}
	now := time.Now()
	s.mu.Lock()
	for _, n := range failed {
		p := &s.list[n]
		p.failed++
		wait := min(restFirst<<min(p.failed-1, 10), restMost)
		p.until, p.unseen = now.Add(wait/2+rand.N(wait/2+1)), true
	}
	s.mu.Unlock()
	s.events.Unseen()
}

// rests is for how long a partition is still left alone. The set's mu is held.
func (p *partition) rests(now time.Time) time.Duration {
	if p.until.IsZero() {
		return 0
	}
	return max(p.until.Sub(now), 0)
}

// sooner is the smaller of two waits, of which one that is negative has no end.
func sooner(a, b time.Duration) time.Duration {
	if a < 0 || b >= 0 && b < a {
		return b
	}
	return a
}

// Due answers the partitions where something is due, and how long to wait for
// the next where there is none; wait < 0: nothing waits for a time.
func (s *Set) Due() (partitions []int, wait time.Duration) {
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
		}
	}
	return partitions, wait
}

// Unseen answers, once, the partitions of which an answer was lost and that are
// not left alone any more, and how long to wait for the next; wait < 0: there is
// none.
func (s *Set) Unseen() (partitions []int, wait time.Duration) {
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

// Now is what time it is by the store's clock, by this host's while nothing was
// heard.
func (s *Set) Now() time.Time { return s.clock.now() }
