package dispatcher

import (
	"context"
	"log/slog"
	"slices"
	"strconv"
	"sync/atomic"
	"time"
)

// engine is what the stages share.
type engine struct {
	queue     Queue
	version   string // of the program
	log       *slog.Logger
	outages   *outageLog // the store does not answer
	fullLog   *outageLog // it has no memory left
	watching  watching
	permits   *permits
	workers   *workers
	loader    *loader
	settler   *settler
	trimmer   *trimmer
	endpoints *Registry
	shortage  *shortage
	deaths    *deaths

	taking context.Context // ends when nothing more is moved, claimed or leased
	stop   context.CancelFunc

	over context.Context // ends, with the reason, when this instance can't go on
	quit context.CancelCauseFunc

	identity atomic.Pointer[identity]
	wall     func(time.Time) time.Time // what this host's clock says at a time
	dead     *reaper

	leases *leaseSet
	rounds atomic.Int32  // how often leases are still to be compared with the queue's
	doubt  chan struct{} // 1 deep: an answer was lost, compare soon

	ready   chan struct{} // 1 deep: something may be claimed
	due     chan struct{} // 1 deep: something is due sooner than the mover knows
	unseen  chan struct{} // 1 deep: an answer was lost
	look    chan struct{} // 1 deep: look at all that there is to do
	settled chan struct{} // 1 deep: outcomes were recorded
	stopped chan struct{} // closed when nothing is accepted any more
}

// identity is what this instance is called in the queue, and how alive it is there.
// Both change together: what is leased under a name that never beat would
// not be taken over after a crash.
type identity struct {
	base   string                       // of all names of this process
	count  int                          // of them, this one included
	beaten atomic.Pointer[clockReading] // the last beat under this name; nil: none yet
	missed atomic.Pointer[clockReading] // the last one that the queue did not answer
}

func (s *identity) name() string {
	if s.count == 1 {
		return s.base
	}
	return s.base + "-" + strconv.Itoa(s.count)
}

func (e *engine) name() string { return e.identity.Load().name() }

// rename leaves the name old, unless another stage that met the same did so.
// An instance that was declared dead goes on under another: what it held is no
// longer its own.
func (e *engine) rename(old string) {
	s := e.identity.Load()
	next := &identity{base: s.base, count: s.count + 1}
	if s.name() == old && e.identity.CompareAndSwap(s, next) {
		e.log.Info("declared dead, going on under another name", "instance", old, "name", next.name())
	}
}

// mayLease reports whether this instance is sure enough to be alive, and has
// few enough outcomes waiting, to take more, and under which name. Once it is to
// stop it takes nothing, nor while it can open no connection.
func (e *engine) mayLease() (name string, ok bool) {
	s := e.identity.Load()
	return s.name(), e.taking.Err() == nil && e.alive(s) && !e.settler.behind() && !e.shortage.on.Load()
}

// missedMost is how long an instance goes on whose beats are not answered. It is safe as
// long as fences are kept, which is a week.
const missedMost = 24 * time.Hour

// alive reports whether this instance may lease: it can't have been declared
// dead yet. Where the queue lies on several nodes, and the one that knows who is
// alive can't be reached, the others go on: no instance is declared dead then, and
// where it is this instance alone that does not reach it, what it was fenced
// from refuses it.
func (e *engine) alive(s *identity) bool {
	beaten, now := s.beaten.Load(), e.readClock()
	if beaten == nil {
		return false
	}
	silent := now.elapsed(*beaten)
	if silent < BeatOld {
		return true
	}
	missed := s.missed.Load()
	return e.queue.Nodes() > 1 && missed != nil && now.elapsed(*missed) < BeatOld && silent < missedMost
}

// events are what the engine hears of its queue besides answers.
func (e *engine) events() Events {
	return Events{
		Ready: func() { signal(e.ready) }, Due: func() { signal(e.due) }, Unseen: func() { signal(e.unseen) },
		Back: e.pollSoon, Ended: e.trimmer.ended, Dead: func(deaths []Death) { e.bury(deaths, nil, nil) },
		Opened: func(lane Lane, wait time.Duration) {
			e.log.LogAttrs(context.Background(), slog.LevelInfo, "breaker opened", slog.String("lane", string(lane)), seconds("wait_s", wait))
		},
		Closed: func(lane Lane) {
			e.log.LogAttrs(context.Background(), slog.LevelInfo, "breaker closed", slog.String("lane", string(lane)))
		},
	}
}

// leased ends a call that may have leased something, and remembers what it did.
func (e *engine) leased(c *callGroup, claimed []Claimed) {
	if len(claimed) > 0 {
		e.rounds.Store(looksAfter)
	}
	e.leases.leave(c, claimed)
}

// begin has deliveries attempted that were just leased, but those whose
// endpoints may not be called: they go back.
func (e *engine) begin(ctx context.Context, leased []Claimed) {
	at := slices.IndexFunc(leased, func(c Claimed) bool { return c.ID.Lane.IsEndpoint() })
	if at < 0 {
		e.attempt(leased...)
		return
	}
	bare, known := append([]Claimed{}, leased[:at]...), []Claimed{}
	for _, c := range leased[at:] {
		if c.ID.Lane.IsEndpoint() {
			known = append(known, c)
		} else {
			bare = append(bare, c)
		}
	}
	e.attempt(bare...) // they wait for nothing
	may, back, err := e.endpoints.CheckVersions(ctx, known)
	e.attempt(may...)
	e.permits.release(len(back))
	e.settler.put(back...)
	e.outages.report("admit", err)
	if err != nil {
		pause(ctx, 1) // what went back is there at once: nobody may claim it in a circle
	}
}

// attempt has deliveries attempted, or handed back where nothing is begun any more.
func (e *engine) attempt(leased ...Claimed) {
	size, first := int64(0), -1
	for i := range leased {
		switch m := leased[i].Message; {
		case m == nil:
		case m.Apart == nil:
			size += int64(len(m.Body))
		case first < 0:
			first = i
		}
	}
	if first >= 0 {
		leased = e.load(leased)
	}
	e.loader.small.Add(size)
	if !e.workers.start(leased...) {
		e.loader.small.Add(-size)
		e.handBack(leased)
	}
}

// load has those with large bodies attempted once these are there, and answers
// the others.
func (e *engine) load(leased []Claimed) (rest []Claimed) {
	var apart []Claimed
	for i := range leased {
		if large(&leased[i]) {
			apart = append(apart, leased[i])
		} else {
			rest = append(rest, leased[i])
		}
	}
	if !e.loader.put(apart) {
		e.handBack(apart)
	}
	return rest
}

// handBack gives up leases whose attempts were not begun.
func (e *engine) handBack(leased []Claimed) {
	back := make([]Settlement, len(leased))
	for i, c := range leased {
		back[i] = Settlement{ID: c.ID, Verdict: Back, Due: c.Due, Leased: c.Leased}
	}
	e.permits.release(len(back))
	e.settler.put(back...)
}

// unsure has leases compared with the queue's: an answer was lost, or the queue
// may have gone back in time.
func (e *engine) unsure() {
	e.rounds.Store(looksAfter)
	signal(e.doubt)
}

// pollSoon has all that there is to do looked at soon.
func (e *engine) pollSoon() { signal(e.look) }

// goOn is repeat for a call that concerns many parts of the queue: it leaves those
// alone that failed, and the others need not wait.
func (e *engine) goOn(ctx context.Context, stage string, failures int, err error) int {
	if _, rest := degraded(err); rest != nil || ctx.Err() != nil {
		return e.outages.repeat(ctx, stage, failures, err)
	}
	e.outages.report(stage, err)
	return 0
}

// signal wakes the goroutine that waits for c, or the next that will.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// sooner is the smaller of two waits, of which one that is negative has no end.
func sooner(a, b time.Duration) time.Duration {
	if a < 0 || b >= 0 && b < a {
		return b
	}
	return a
}

// newIdleTimer is a timer that does not run yet.
func newIdleTimer() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}
