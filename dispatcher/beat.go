package dispatcher

import (
	"context"
	"errors"
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

// jumpLeast is more than two readings of a host's clocks disagree in by
// themselves: the one is steered towards the right time by some thousandths.
const jumpLeast = time.Second

// heartbeat keeps this instance alive and finds out who is not.
type heartbeat struct {
	engine *engine
	self   *identity // as whom it beats
	number int64
	joined bool // the others were told of that name
	known  bool // a beat under it was answered
	seen   map[string]reading
	last   *clockReading // of the reading before; nil: there was none
	tried  *clockReading // when it last beat, answered or not
}

type reading struct {
	number int64
	same   int // punctual readings in a row without growth
}

func newHeartbeat(e *engine) *heartbeat {
	return &heartbeat{engine: e, seen: map[string]reading{}}
}

// Run beats until ctx ends.
func (h *heartbeat) Run(ctx context.Context) error {
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for {
		h.engine.dead.put(h.beat(ctx))
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// beat writes the next number and answers the instances that are dead.
func (h *heartbeat) beat(ctx context.Context) (dead []string) {
	e := h.engine
	if s := e.identity.Load(); s != h.self {
		h.self, h.number, h.joined, h.known = s, 0, false, false
	}
	h.number++
	name := h.self.name()
	began := e.readClock()
	h.awake(ctx, began)
	call, cancel := context.WithTimeout(ctx, beatWithin)
	defer cancel()
	fresh, all, err := h.call(call, name)
	if err != nil {
		if ctx.Err() == nil {
			e.outages.report("beat", err)
			h.beatFailed(began, err)
		}
		if errors.Is(err, ErrMoved) {
			e.quit(err)
		}
		return nil
	}
	e.outages.report("beat", nil)
	e.many.ask(ctx, e.queue)
	if fresh && h.known {
		// That beat made the old name known once more: the instance that finds it dead
		// takes over what was held under it, also where the queue had only forgotten the name.
		e.rename(name)
		return h.beat(ctx) // once: the new name is not known to others yet
	}
	h.known = true
	now := e.readClock()
	punctual := h.last != nil && now.elapsed(*h.last) <= beatLate
	h.last = &now
	_, could := e.mayLease()
	h.self.beaten.Store(&began) // from before the call: the queue may have answered late
	if !could {
		signal(e.view.ready) // the claimer may have met work and not have been allowed to take it
	}
	return h.judge(all, punctual)
}

// call tells the others who this is, before the first beat, and beats.
func (h *heartbeat) call(ctx context.Context, name string) (fresh bool, all map[string]int64, err error) {
	e := h.engine
	if !h.joined {
		i := Instance{Permits: e.permits.total, Version: e.version, StartedAt: e.view.clock.now()}
		if err := e.queue.Join(ctx, name, i); err != nil {
			return false, nil, err
		}
		h.joined = true
	}
	return e.queue.Beat(ctx, name, h.number)
}

// beatFailed notes that this instance is awake, though nobody hears it.
func (h *heartbeat) beatFailed(began clockReading, err error) {
	if !errors.Is(err, ErrUnavailable) {
		return
	}
	_, could := h.engine.mayLease()
	h.self.missed.Store(&began)
	if !could {
		signal(h.engine.view.ready)
	}
}

// awake notices that the machine slept: its timers stood still meanwhile, so
// that what became due must be looked for; lines may be dead, and others may
// have taken over.
func (h *heartbeat) awake(ctx context.Context, now clockReading) {
	e := h.engine
	if h.tried != nil && now.jump(*h.tried) > jumpLeast {
		e.log.LogAttrs(ctx, slog.LevelInfo, "the machine slept, or its clock was set",
			seconds("by_s", now.jump(*h.tried)))
		e.pollSoon()
		e.unsure()
	}
	h.tried = &now
}

// judge compares the numbers with those of the reading before.
func (h *heartbeat) judge(all map[string]int64, punctual bool) (dead []string) {
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
