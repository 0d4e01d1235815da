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
	"github.com/hookladder/hookladder/dispatcher/internal/wait"
)

// beatWithin bounds one beat, so that it has ended before the next one is due.
const beatWithin = 1500 * time.Millisecond

// jumpLeast is the smallest difference of the two clocks that counts as a jump. It is larger
// than the difference from a slow adjustment of the wall clock.
const jumpLeast = time.Second

// heartbeat keeps this instance alive and finds dead instances.
type heartbeat struct {
	engine   *Engine
	identity *identity // the identity of its beats
	number   int64
	joined   bool // the queue knows this name
	known    bool // a beat under this name succeeded
	peers    *wait.Pulses
	last     *clockReading    // when the last beat succeeded; nil: none yet
	tried    *clockReading    // when the last beat began, even if it failed
	others   map[string]int64 // of the last reading
}

func newHeartbeat(e *Engine) *heartbeat {
	return &heartbeat{engine: e, peers: wait.NewPulses(e.options.BeatEvery, wait.DeadReadings)}
}

// Run beats until ctx ends.
func (h *heartbeat) Run(ctx context.Context) error {
	every := h.engine.options.BeatEvery
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		h.engine.dead.put(h.beatIfAlive(ctx))
		for waits := true; waits; {
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
				waits = false
			case <-h.engine.rouse:
				// Two readings close together would prove nothing about the others.
				if waits = h.engine.readClock().elapsed(*h.tried) < every; !waits {
					tick.Reset(every)
				}
			}
		}
	}
}

// beatIfAlive beats unless this instance is stuck.
func (h *heartbeat) beatIfAlive(ctx context.Context) (dead []string) {
	if h.engine.Alive() != nil {
		return nil
	}
	h.engine.progress.beat.begin()
	defer h.engine.progress.beat.end()
	return h.beat(ctx)
}

// stageBeat is the name of a beat in the log. Each beat writes to the store.
const stageBeat = "beat"

// beat writes the next number and returns the names of dead instances.
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
		// This instance was declared dead, or the queue forgot its name. The beat registered
		// the old name again, so another instance will find it dead and take over its leases.
		e.rename(name)
		return h.beat(ctx) // recurses only once, because known is false for the new name
	}
	h.known = true
	now := e.readClock()
	since := time.Duration(0)
	if h.last != nil {
		since = now.elapsed(*h.last)
	}
	h.last = &now
	_, could := e.mayLease()
	h.identity.beaten.Store(&began) // the time before the call, because the response may be late
	if !could {
		e.ready.Set() // the claimer may have had to skip work until now
	}
	delete(all, name)
	h.compare(all)
	grown, dead := h.peers.Read(all, since)
	e.seen.note(append(grown, name), all, e.store.Now())
	return dead
}

// beatStep is added to the number at each beat. The number grows by one more if the instance
// did something after the previous beat. There are always fewer beats than beatStep between
// two readings.
const beatStep = 1 << 10

// compare calls Departed if an instance of the last reading left or was taken over. It calls
// Stirred if another instance did something.
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

// call sends a beat. Before the first beat under a name it joins.
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

// beatFailed records the time of a failed beat (see alive).
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

// awake detects that the machine slept. Its timers did not run during the sleep, so the queue
// is polled for due deliveries. Connections may be dead, and other instances may have taken
// over leases.
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

// AloneEvery is the time between two beats, and between two polls, of an instance that is alone: see
// Alone. A poll removes what is older than its retention, and days of simulated time have hundreds of them.
const AloneEvery = 5 * time.Minute

// aloneKey is the key of Alone in a context.
type aloneKey struct{}

// Alone returns a context in which a store is opened that is in the memory of a test, so no other
// instance uses it, and it never fails. Such an instance beats and polls once in AloneEvery, because
// hours of simulated time would have thousands of beats.
func Alone(ctx context.Context) context.Context { return context.WithValue(ctx, aloneKey{}, true) }

// IsAlone reports whether Alone made the context.
func IsAlone(ctx context.Context) bool { return ctx.Value(aloneKey{}) != nil }

// sightings records when this instance last saw a beat of each instance, including its own.
type sightings struct {
	mu     sync.Mutex
	at     map[string]time.Time // by the queue's clock
	others []string             // present at the last beat
}

// note records the instances whose beats were seen, and all instances that are present.
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

// silent returns the other instances without a beat after the given time.
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

// fill sets SeenAt of each instance.
func (s *sightings) fill(list []dispatcher.InstanceState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range list {
		list[i].SeenAt = s.at[list[i].Name]
	}
}

// identity is the name of this instance in the queue, with the time of its last beat. Both
// change together. Leases under a name that never beat would not be taken over after a crash.
type identity struct {
	base   string                       // the first name of this process; later ones add a number
	count  int                          // number of names until now, including this one
	beaten atomic.Pointer[clockReading] // the last beat under this name; nil: none yet
	missed atomic.Pointer[clockReading] // the last beat that failed; nil: none
}

func (i *identity) name() string {
	if i.count == 1 {
		return i.base
	}
	return i.base + "-" + strconv.Itoa(i.count)
}

// Name returns the name of this instance. It changes if other instances declare this one dead.
func (e *Engine) Name() string { return e.name() }

func (e *Engine) name() string { return e.identity.Load().name() }

// rename replaces the name old, unless another goroutine already did. An instance that was
// declared dead continues under another name, because its leases were taken over.
func (e *Engine) rename(old string) {
	s := e.identity.Load()
	next := &identity{base: s.base, count: s.count + 1}
	if s.name() == old && e.identity.CompareAndSwap(s, next) {
		e.log.Info("declared dead, going on under another name", "instance", old, "name", next.name())
	}
}

// mayLease reports whether this instance may lease more, and returns its name. It may not
// lease in these cases:
//   - it could be declared dead,
//   - too many outcomes wait to be recorded,
//   - it can open no connection,
//   - the shutdown has begun.
func (e *Engine) mayLease() (name string, ok bool) {
	s := e.identity.Load()
	return s.name(), e.taking.Err() == nil && e.alive(s) && !e.settler.behind() && !e.shortage.on.Load()
}

// missedMost is how long an instance continues while its beats fail. This is safe because
// fences are kept for a week.
const missedMost = 24 * time.Hour

// alive reports whether this instance can't have been declared dead yet. In a queue of several
// nodes one node stores the heartbeats. While that node is unreachable, no instance is
// declared dead, so the other nodes may be used. If only this instance can't reach it, the
// partitions that fenced this instance refuse its calls.
func (e *Engine) alive(s *identity) bool {
	beaten, now := s.beaten.Load(), e.readClock()
	if beaten == nil {
		return false
	}
	silent := now.elapsed(*beaten)
	if silent < wait.BeatOld+e.options.BeatEvery-wait.BeatEvery {
		return true
	}
	missed := s.missed.Load()
	return e.instances.Nodes() > 1 && missed != nil && now.elapsed(*missed) < wait.BeatOld && silent < missedMost
}

// clockReading is a time by both clocks of this host. The monotonic clock stops while the
// machine sleeps. The wall clock jumps when it is set.
type clockReading struct{ monotonic, wall time.Time }

func (e *Engine) readClock() clockReading {
	now := time.Now()
	return clockReading{monotonic: now, wall: e.wall(now)}
}

// elapsed returns the time from an earlier reading, by the clock that measured more.
func (c clockReading) elapsed(earlier clockReading) time.Duration {
	return max(c.monotonic.Sub(earlier.monotonic), c.wall.Sub(earlier.wall))
}

// jump returns how much the two clocks differ about the time from an earlier reading. A jump
// means that the machine slept, or that its clock was set.
func (c clockReading) jump(earlier clockReading) time.Duration {
	return (c.wall.Sub(earlier.wall) - c.monotonic.Sub(earlier.monotonic)).Abs()
}

// wallClock removes the monotonic part of a time.
func wallClock(now time.Time) time.Time { return now.Round(0) }

// seconds returns a log attribute with a duration, rounded to milliseconds. Its key ends in
// _s, because in JSON a slog.Duration would be a number of nanoseconds without a unit.
func seconds(key string, d time.Duration) slog.Attr {
	return slog.Float64(key, d.Round(time.Millisecond).Seconds())
}
