package engine

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// beatWithin is how long a beat may take. So one that failed has ended before
// the next is due.
const beatWithin = 1500 * time.Millisecond

// jumpLeast is more than two readings of a host's clocks disagree in by
// themselves: the one is steered towards the right time by some thousandths.
const jumpLeast = time.Second

// heartbeat keeps this instance alive and finds out which others are dead.
type heartbeat struct {
	engine   *Engine
	identity *identity // under which it beats
	number   int64
	joined   bool // the others were told of that name
	known    bool // a beat under it was answered
	peers    *dispatcher.Pulses
	last     *clockReading // of the reading before; nil: there was none
	tried    *clockReading // when it last beat, answered or not
}

func newHeartbeat(e *Engine) *heartbeat {
	return &heartbeat{engine: e, peers: dispatcher.NewPulses(dispatcher.BeatEvery, dispatcher.DeadReadings)}
}

// Run beats until ctx ends.
func (h *heartbeat) Run(ctx context.Context) error {
	tick := time.NewTicker(dispatcher.BeatEvery)
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
	if s := e.identity.Load(); s != h.identity {
		h.identity, h.number, h.joined, h.known = s, 0, false, false
	}
	h.number++
	name := h.identity.name()
	began := e.readClock()
	h.awake(ctx, began)
	call, cancel := context.WithTimeout(ctx, beatWithin)
	defer cancel()
	fresh, all, err := h.call(call, name)
	if err != nil {
		if ctx.Err() == nil {
			e.outages.Report("beat", err)
			h.beatFailed(began, err)
		}
		if errors.Is(err, dispatcher.ErrMoved) {
			e.quit(err)
		}
		return nil
	}
	e.outages.Report("beat", nil)
	if fresh && h.known {
		// That beat made the old name known once more: the instance that finds it dead
		// takes over what was held under it, also where the queue had only forgotten the name.
		e.rename(name)
		return h.beat(ctx) // once: the new name is not known to others yet
	}
	h.known = true
	now := e.readClock()
	since := time.Duration(0)
	if h.last != nil {
		since = now.elapsed(*h.last)
	}
	h.last = &now
	_, could := e.mayLease()
	h.identity.beaten.Store(&began) // from before the call: the queue may have answered late
	if !could {
		signal(e.ready) // the claimer may have met work and not have been allowed to take it
	}
	delete(all, name)
	_, dead = h.peers.Read(all, since)
	return dead
}

// call tells the others who this is, before the first beat, and beats.
func (h *heartbeat) call(ctx context.Context, name string) (fresh bool, all map[string]int64, err error) {
	e := h.engine
	if !h.joined {
		i := dispatcher.Instance{Permits: e.permits.total, Version: e.options.Version, StartedAt: e.queue.Now()}
		if err := e.queue.Join(ctx, name, i); err != nil {
			return false, nil, err
		}
		h.joined = true
	}
	return e.queue.Beat(ctx, name, h.number)
}

// beatFailed notes that this instance is awake, though its beat was not answered.
func (h *heartbeat) beatFailed(began clockReading, err error) {
	if !errors.Is(err, dispatcher.ErrUnavailable) {
		return
	}
	_, could := h.engine.mayLease()
	h.identity.missed.Store(&began)
	if !could {
		signal(h.engine.ready)
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
