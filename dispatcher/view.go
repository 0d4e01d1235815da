package dispatcher

import (
	"sync"
	"sync/atomic"
	"time"
)

// view is what this instance knows of each partition: when something becomes
// due there, and how heavy the lightest lane is that may be claimed from. It is
// fed by every answer of the queue and by the hints of other instances, and
// tells the mover and the claimer when there is something to do. There is no
// goroutine, timer or connection for a partition.
type view struct {
	clock clock

	mu    sync.Mutex // guards parts
	parts []part

	due   chan struct{} // 1 deep: a due time came nearer
	ready chan struct{} // 1 deep: something may be claimed
	look  chan struct{} // 1 deep: look at all partitions; nil: nobody does
	miss  chan struct{} // 1 deep: partitions did not answer
}

type part struct {
	asOf   time.Time // by the partition's clock; the zero time before anything is known
	due    time.Time // by this process' clock; zero: nothing waits for a time
	weight int       // of the lightest lane, -1: none
	tried  int       // free permits with which a claim got nothing though a lane was there; 0: none did

	failed int       // calls in a row that got no answer of it
	until  time.Time // it is left alone before; zero: it is not
	unseen bool      // an answer was lost, and with it what there is to do
}

func newView(partitions int) *view {
	v := &view{
		parts: make([]part, partitions),
		due:   make(chan struct{}, 1),
		ready: make(chan struct{}, 1),
		miss:  make(chan struct{}, 1),
	}
	for i := range v.parts {
		v.parts[i].weight = -1
	}
	return v
}

// goneBack is how much older than what is known an answer must be for the
// queue's clock to have gone back: another node took over. Else, until it has
// caught up, nothing would ever be over, and mover and claimer would ask for it
// without a pause. An answer that was only slow costs a look.
const goneBack = time.Second

// note takes in what the queue answered.
func (v *view) note(hints ...Hint) { v.take(hints, true) }

// hear takes in what was read, or told by another instance: it does not prove
// that a call which changes something would be answered.
func (v *view) hear(hints ...Hint) { v.take(hints, false) }

// take takes in hints. Answers may overtake each other: an older one only ever
// adds what there is to do, so that nothing is forgotten.
func (v *view) take(hints []Hint, answered bool) {
	if len(hints) == 0 {
		return
	}
	local := time.Now()
	sooner, claimable, back := false, false, false
	v.mu.Lock()
	for _, h := range hints {
		p := &v.parts[h.Partition]
		if answered {
			p.failed, p.until, p.unseen = 0, time.Time{}, false
		}
		v.clock.set(h.Now, local)
		var due time.Time
		if !h.Due.IsZero() {
			due = local.Add(h.Due.Sub(h.Now))
		}
		newer := h.Now.After(p.asOf)
		if p.asOf.Sub(h.Now) > goneBack {
			back = true
			p.asOf, p.tried = h.Now, 0 // the next one counts
		}
		if newer {
			p.asOf = h.Now
		}
		if !due.IsZero() && (p.due.IsZero() || due.Before(p.due)) {
			sooner = true
		} else if !newer {
			due = p.due
		}
		p.due = due
		if h.Weight >= 0 && (newer || p.weight < 0 || h.Weight < p.weight) || newer {
			p.weight, p.tried = h.Weight, 0
		}
		claimable = claimable || p.weight >= 0
	}
	v.mu.Unlock()
	if sooner {
		signal(v.due)
	}
	if claimable {
		signal(v.ready)
	}
	if back {
		signal(v.look) // a slow one may hide news by this
	}
}

// fail leaves partitions alone that did not answer, longer each time: calls for
// the others go on without them. After that they are looked at, which also tells
// the stages that wait for them.
func (v *view) fail(failed []*PartitionError) {
	if len(failed) == 0 {
		return
	}
	now := time.Now()
	v.mu.Lock()
	for _, f := range failed {
		p := &v.parts[f.Partition]
		p.failed++
		p.until, p.unseen = now.Add(waitBefore(p.failed)), true
	}
	v.mu.Unlock()
	signal(v.miss)
}

// rests is for how long a partition is still left alone. mu is held.
func (p *part) rests(now time.Time) time.Duration {
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

// dues answers the partitions where something is due, and how long to wait for
// the next where there is none; wait < 0: nothing waits for a time.
func (v *view) dues() (partitions []int, wait time.Duration) {
	now := time.Now()
	wait = -1
	v.mu.Lock()
	defer v.mu.Unlock()
	for n := range v.parts {
		p := &v.parts[n]
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

// unseen answers, once, the partitions of which an answer was lost and that are
// not left alone any more, and how long to wait for the next; wait < 0: there is
// none.
func (v *view) unseen() (partitions []int, wait time.Duration) {
	now := time.Now()
	wait = -1
	v.mu.Lock()
	defer v.mu.Unlock()
	for n := range v.parts {
		p := &v.parts[n]
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

// claimable answers the partitions that an instance with free permits of
// total may get something from; waiting says that there is something, if not
// for so few permits.
func (v *view) claimable(free, total, first int) (partitions []int, waiting bool) {
	now := time.Now()
	v.mu.Lock()
	defer v.mu.Unlock()
	for i := range v.parts {
		n := (first + i) % len(v.parts)
		p := &v.parts[n]
		if p.weight < 0 || p.rests(now) > 0 {
			continue
		}
		waiting = true
		// An instance that holds nothing may always take the lightest; but a permit comes back before
		// its attempt is settled, so that here too a claim may get nothing, until that is news.
		if free > p.tried && (free == total || p.weight < share(free, total)) {
			partitions = append(partitions, n)
		}
	}
	return partitions, waiting
}

// stall remembers that claims got nothing with free permits though there was
// something: only more of them, or news, can change that. What was heard since
// then stands, so hints are the claims' own.
func (v *view) stall(hints []Hint, free int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, h := range hints {
		if p := &v.parts[h.Partition]; !p.asOf.After(h.Now) {
			p.tried = free
		}
	}
}

// signal wakes the goroutine that waits for c, or the next that will.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// clock estimates the queue's time from the last answer and this process'
// monotonic clock, so that a host whose clock is wrong, or jumps, is right all
// the same.
type clock struct {
	anchor atomic.Pointer[anchor]
}

type anchor struct {
	queue, local time.Time
}

// anchorFor is how long an anchor serves: quartz drifts by less than a
// millisecond in that time.
const anchorFor = 5 * time.Second

func (c *clock) set(queue, local time.Time) {
	if a := c.anchor.Load(); a != nil && local.Sub(a.local) < anchorFor && queue.Sub(a.queue) <= local.Sub(a.local) {
		return // an answer that took longer on its way knows less
	}
	c.anchor.Store(&anchor{queue: queue, local: local})
}

// now is the queue's time, or this host's while nothing was heard.
func (c *clock) now() time.Time {
	if a := c.anchor.Load(); a != nil {
		return a.queue.Add(time.Since(a.local))
	}
	return time.Now().UTC()
}
