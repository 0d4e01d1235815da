package dispatcher

import (
	"context"
	"log/slog"
	"time"
)

// Times of being alive. An instance is dead when its number did not grow in
// three readings that were punctual: no clock is compared with another's.
const (
	beatEvery    = 2 * time.Second
	beatLate     = 3 * time.Second // a reading later than this after the one before proves nothing
	beatOld      = 5 * time.Second // older, and this instance leases nothing: it may have been declared dead
	deadReadings = 3
	beatWithin   = 1500 * time.Millisecond
)

// heart keeps this instance alive and takes over from those that are not.
type heart struct {
	engine *engine
	self   *self // as whom it beats
	number int64
	known  bool // a beat under that name was answered
	seen   map[string]reading
	last   time.Time // of the reading before
}

type reading struct {
	number int64
	same   int // punctual readings in a row without growth
}

func newHeart(e *engine) *heart {
	return &heart{engine: e, seen: map[string]reading{}}
}

// Run beats until ctx ends.
func (h *heart) Run(ctx context.Context) error {
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for {
		for _, name := range h.beat(ctx) {
			h.reap(ctx, name)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// beat writes the next number and answers the instances that are dead.
func (h *heart) beat(ctx context.Context) (dead []string) {
	e := h.engine
	if s := e.self.Load(); s != h.self {
		h.self, h.number, h.known = s, 0, false
	}
	h.number++
	name := h.self.name()
	began := time.Now()
	call, cancel := context.WithTimeout(ctx, beatWithin)
	defer cancel()
	fresh, all, err := e.queue.Beat(call, name, h.number)
	if err != nil {
		if ctx.Err() == nil {
			e.trouble.note("beat", err)
		}
		return nil
	}
	e.trouble.note("beat", nil)
	if fresh && h.known {
		// That beat made the old name known once more: whoever finds it dead takes over what
		// was held under it, also where the queue had only forgotten the name.
		e.rename(name)
		return h.beat(ctx) // once: nobody knows the new name yet
	}
	h.known = true
	now := time.Now()
	punctual := !h.last.IsZero() && now.Sub(h.last) <= beatLate
	h.last = now
	_, could := e.mayLease()
	h.self.beaten.Store(max(int64(began.Sub(e.born)), 1)) // from before the call: the queue may have answered late
	if !could {
		signal(e.view.ready) // the claimer may have met work and not have been allowed to take it
	}
	return h.judge(all, punctual)
}

// judge compares the numbers with those of the reading before.
func (h *heart) judge(all map[string]int64, punctual bool) (dead []string) {
	for name, number := range all {
		r, known := h.seen[name]
		switch {
		case name == h.self.name():
		case !known || r.number != number:
			h.seen[name] = reading{number: number}
		case !punctual:
			h.seen[name] = reading{number: number}
		default:
			r.same++
			h.seen[name] = r
			if r.same >= deadReadings {
				dead = append(dead, name)
			}
		}
	}
	for name := range h.seen {
		if _, ok := all[name]; !ok {
			delete(h.seen, name)
		}
	}
	return dead
}

func (h *heart) reap(ctx context.Context, name string) {
	e := h.engine
	call, cancel := context.WithTimeout(ctx, beatWithin) // the next beat must not wait; who is left is reaped again
	defer cancel()
	taken, hints, err := e.queue.Reap(call, e.name(), name)
	e.view.note(hints...)
	e.trouble.note("reap", err)
	if err == nil {
		e.log.LogAttrs(ctx, slog.LevelInfo, "takeover", slog.String("instance", name), slog.Int("deliveries", taken))
	}
	e.lookAround() // its hints are lost with it
}
