package engine

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/beats"
)

// beatWithin bounds one beat, so that it has ended before the next one is due.
const beatWithin = 1500 * time.Millisecond

// jumpLeast is the least difference of the two clocks that counts as a jump. It is more
// than the difference that comes from adjusting the wall clock slowly.
const jumpLeast = time.Second

// heartbeat keeps this instance alive and finds out which others are dead.
type heartbeat struct {
	engine   *Engine
	identity *identity // under which it beats
	number   int64
	joined   bool // the queue knows this name
	known    bool // a beat under this name was answered
	peers    *beats.Pulses
	last     *clockReading    // when the last beat was answered; nil: none yet
	tried    *clockReading    // when the last beat began, answered or not
	others   map[string]int64 // of the last reading
}

func newHeartbeat(e *Engine) *heartbeat {
	return &heartbeat{engine: e, peers: beats.NewPulses(beats.Every, beats.DeadReadings)}
}

// Run beats until ctx ends.
func (h *heartbeat) Run(ctx context.Context) error {
	tick := time.NewTicker(beats.Every)
	defer tick.Stop()
	for {
		h.engine.dead.put(h.beat(ctx))
		for waits := true; waits; {
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
				waits = false
			case <-h.engine.rouse:
				// Two readings that are close together would prove nothing of the others.
				if waits = h.engine.readClock().elapsed(*h.tried) < beats.Every; !waits {
					tick.Reset(beats.Every)
				}
			}
		}
	}
}

// stageBeat is its name in the log. Each beat writes to the store.
const stageBeat = "beat"

// beat writes the next number and answers the instances that are dead.
func (h *heartbeat) beat(ctx context.Context) (dead []string) {
	e := h.engine
	if s := e.identity.Load(); s != h.identity {
		h.identity, h.number, h.joined, h.known = s, 0, false, false
	}
	h.number += beatStep
	if e.worked.Swap(false) {
		h.number++
	}
	name := h.identity.name()
	began := e.readClock()
	h.awake(ctx, began)
	call, cancel := context.WithTimeout(ctx, beatWithin)
	defer cancel()
	fresh, all, err := h.call(call, name)
	if err != nil {
		if ctx.Err() == nil {
			e.outages.Report(stageBeat, err)
			h.beatFailed(began, err)
		}
		if errors.Is(err, dispatcher.ErrMoved) {
			e.quit(err)
		}
		return nil
	}
	e.outages.Report(stageBeat, nil)
	if fresh && h.known {
		// This instance was declared dead, or the queue forgot its name. The beat made the old name
		// known once more, so that another instance finds it dead and takes over its leases.
		e.rename(name)
		return h.beat(ctx) // this recurses once: known is false for the new name
	}
	h.known = true
	now := e.readClock()
	since := time.Duration(0)
	if h.last != nil {
		since = now.elapsed(*h.last)
	}
	h.last = &now
	_, could := e.mayLease()
	h.identity.beaten.Store(&began) // the time before the call: the queue may have answered late
	if !could {
		e.ready.Set() // the claimer may have had to leave work alone until now
	}
	delete(all, name)
	h.compare(all)
	grown, dead := h.peers.Read(all, since)
	e.seen.note(append(grown, name), all, e.store.Now())
	return dead
}

// beatStep is added to the number at each beat. One more says that the instance did
// something since the beat before. Between two readings there are always fewer beats.
const beatStep = 1 << 10

// compare reports that an instance of the last reading is gone, because it left or another
// one took over from it, and that another instance did something.
func (h *heartbeat) compare(all map[string]int64) {
	gone, stirred := false, false
	for name, before := range h.others {
		number, there := all[name]
		gone = gone || !there
		stirred = stirred || there && (number-before)%beatStep != 0
	}
	if o := &h.engine.options; gone && o.Departed != nil {
		o.Departed()
	}
	if o := &h.engine.options; (gone || stirred || len(all) > len(h.others)) && o.Stirred != nil {
		o.Stirred()
	}
	h.others = all
}

// call joins before the first beat under a name, and beats.
func (h *heartbeat) call(ctx context.Context, name string) (fresh bool, all map[string]int64, err error) {
	e := h.engine
	if !h.joined {
		i := dispatcher.Instance{Permits: e.permits.total, Version: e.options.Version, StartedAt: e.store.Now()}
		if err := e.instances.Join(ctx, name, i); err != nil {
			return false, nil, err
		}
		h.joined = true
	}
	return e.instances.Beat(ctx, name, h.number)
}

// beatFailed notes a beat that was not answered (see alive).
func (h *heartbeat) beatFailed(began clockReading, err error) {
	if !errors.Is(err, dispatcher.ErrUnavailable) {
		return
	}
	_, could := h.engine.mayLease()
	h.identity.missed.Store(&began)
	if !could {
		h.engine.ready.Set()
	}
}

// awake finds out whether the machine slept. Its timers stood still meanwhile, so the
// queue is polled for what became due. Connections may be dead, and other instances may
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

// sightings are when this instance saw each other one beat last, and itself.
type sightings struct {
	mu     sync.Mutex
	at     map[string]time.Time // by the queue's clock
	others []string             // that were there at the last beat
}

// note takes in which instances were seen to beat, and which there are besides.
func (s *sightings) note(seen []string, there map[string]int64, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.others = slices.Sorted(maps.Keys(there))
	maps.DeleteFunc(s.at, func(name string, _ time.Time) bool { _, ok := there[name]; return !ok })
	if s.at == nil {
		s.at = map[string]time.Time{}
	}
	for _, name := range seen {
		s.at[name] = now
	}
}

// silent are the others that were not seen to beat since then.
func (s *sightings) silent(since time.Time) (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range s.others {
		if s.at[name].Before(since) {
			names = append(names, name)
		}
	}
	return names
}

// fill sets the times at which instances were seen.
func (s *sightings) fill(list []dispatcher.InstanceState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range list {
		list[i].SeenAt = s.at[list[i].Name]
	}
}

// identity is this instance's name in the queue, and when it last beat there. Both
// change together: leases under a name that never beat would not be taken over after a
// crash.
type identity struct {
	base   string                       // the first name of this process; later ones add a number
	count  int                          // of names so far, this one included
	beaten atomic.Pointer[clockReading] // the last beat under this name; nil: none yet
	missed atomic.Pointer[clockReading] // the last beat that was not answered; nil: none
}

func (i *identity) name() string {
	if i.count == 1 {
		return i.base
	}
	return i.base + "-" + strconv.Itoa(i.count)
}

// Name is the name of this instance. It changes where others declared it dead.
func (e *Engine) Name() string { return e.name() }

func (e *Engine) name() string { return e.identity.Load().name() }

// rename gives up the name old, unless another goroutine already did. An instance that
// was declared dead goes on under another name: its leases were taken over.
func (e *Engine) rename(old string) {
	s := e.identity.Load()
	next := &identity{base: s.base, count: s.count + 1}
	if s.name() == old && e.identity.CompareAndSwap(s, next) {
		e.log.Info("declared dead, going on under another name", "instance", old, "name", next.name())
	}
}

// mayLease reports whether this instance may lease more, and under which name. It may
// not while it could be declared dead, while too many outcomes wait to be recorded,
// while it can open no connection, and once the shutdown has begun.
func (e *Engine) mayLease() (name string, ok bool) {
	s := e.identity.Load()
	return s.name(), e.taking.Err() == nil && e.alive(s) && !e.settler.behind() && !e.shortage.on.Load()
}

// missedMost is how long an instance goes on without an answer to its beats. That is
// safe as long as fences are kept, which is a week.
const missedMost = 24 * time.Hour

// alive reports whether this instance can't have been declared dead yet. In a queue of
// several nodes one of them holds the heartbeats. While that node is out of reach no
// instance is declared dead, so the others may be used. Where only this instance does
// not reach it, the partitions that it was fenced from refuse its calls.
func (e *Engine) alive(s *identity) bool {
	beaten, now := s.beaten.Load(), e.readClock()
	if beaten == nil {
		return false
	}
	silent := now.elapsed(*beaten)
	if silent < beats.Old {
		return true
	}
	missed := s.missed.Load()
	return e.instances.Nodes() > 1 && missed != nil && now.elapsed(*missed) < beats.Old && silent < missedMost
}

// clockReading is a time by both clocks of this host. The monotonic clock stands still
// while the machine sleeps, and the wall clock jumps when it is set.
type clockReading struct{ monotonic, wall time.Time }

// readClock reads both clocks.
func (e *Engine) readClock() clockReading {
	now := time.Now()
	return clockReading{monotonic: now, wall: e.wall(now)}
}

// elapsed is the time since an earlier reading: the longer one of the two clocks'
// answers.
func (c clockReading) elapsed(earlier clockReading) time.Duration {
	return max(c.monotonic.Sub(earlier.monotonic), c.wall.Sub(earlier.wall))
}

// jump is by how much the two clocks differ about the time since an earlier reading:
// the machine slept, or its clock was set.
func (c clockReading) jump(earlier clockReading) time.Duration {
	return (c.wall.Sub(earlier.wall) - c.monotonic.Sub(earlier.monotonic)).Abs()
}

// wallClock strips the monotonic part of a time.
func wallClock(now time.Time) time.Time { return now.Round(0) }

// seconds is a duration as an attribute of the log, to the millisecond. Its key ends in
// _s: in JSON a slog.Duration would be a number of nanoseconds without a unit.
func seconds(key string, d time.Duration) slog.Attr {
	return slog.Float64(key, d.Round(time.Millisecond).Seconds())
}
