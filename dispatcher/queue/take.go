package queue

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/engine"
	"github.com/hookladder/hookladder/dispatcher/internal/outage"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
)

// handledLane is a queue with its handler.
type handledLane struct {
	lane    dispatcher.Lane
	queue   string
	handle  HandlerFunc
	running int  // workers that it has
	asked   bool // there may be something to take
}

// handlers take deliveries and have workers handle them. A worker is free before anything is
// taken for it: what waits in Redis another program may take.
type handlers struct {
	engine *engine.Engine
	store  *redisq.Store
	log    *slog.Logger
	grace  time.Duration
	polls  bool // nothing is told: look once a second

	cut    context.Context // ends when handlers may no longer go on
	cutOff context.CancelFunc

	unrecorded atomic.Int64 // outcomes of attempts that could not be recorded

	wake  chan struct{} // 1 deep: a worker is free, or there may be something to take
	tasks chan task     // as deep as there are workers: there is always room for one more

	mu       sync.Mutex // guards what follows
	lanes    []*handledLane
	of       map[dispatcher.Lane]*handledLane
	next     int // the lane whose turn it is
	workers  int // in all
	started  int // goroutines of them
	free     int
	need     int // so many free workers wake the taker; 0: it does not wait for any
	stopping bool
	under    map[*attempt]struct{} // begun and not returned
	alone    *attempt              // begins once nothing is under way, and nothing begins beside it; nil: none does so
	turn     *sync.Cond            // told when under or alone change while one is alone, and when stopping does
	idle     chan struct{}         // closed when it stops and nothing is under way
	all      sync.WaitGroup        // of workers
}

// task is a delivery on its way to a worker.
type task struct {
	of      *handledLane
	claimed dispatcher.Claimed
}

func newHandlers(s settings) *handlers {
	h := &handlers{
		log: s.log, grace: s.grace, workers: s.workers, free: s.workers,
		wake: make(chan struct{}, 1), tasks: make(chan task, s.workers),
		of: map[dispatcher.Lane]*handledLane{}, under: map[*attempt]struct{}{}, idle: make(chan struct{}),
	}
	h.cut, h.cutOff = context.WithCancel(context.Background())
	h.turn = sync.NewCond(&h.mu)
	return h
}

func (h *handlers) has(name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.of[dispatcher.QueueLane(name)] != nil
}

// count is how many queues have a handler.
func (h *handlers) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.lanes)
}

// add adds a handler, before run.
func (h *handlers) add(name string, f HandlerFunc) {
	l := &handledLane{lane: dispatcher.QueueLane(name), queue: name, handle: f, asked: true}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.of[l.lane] = l
	h.lanes = append(h.lanes, l)
}

// run takes until ctx ends, and then waits for the handlers as Queue.Run says.
func (h *handlers) run(ctx context.Context) {
	defer h.cutOff()
	var looking sync.WaitGroup
	if h.polls {
		looking.Go(func() { h.look(ctx) })
	}
	for failures := 0; ctx.Err() == nil; {
		lanes, most := h.choose(ctx)
		if most == 0 {
			select {
			case <-ctx.Done():
			case <-h.wake:
			}
			continue
		}
		if err := h.take(ctx, lanes, most); err == nil {
			failures = 0
		} else {
			failures++
			outage.Pause(ctx, failures)
		}
	}
	looking.Wait()
	h.stop()
}

// lookEvery is the time between two looks where nothing is told.
const lookEvery = time.Second

func (h *handlers) look(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			h.takeable([]dispatcher.Lane{dispatcher.AllLanes})
		}
	}
}

// takeable hears that there may be something to take from lanes.
func (h *handlers) takeable(lanes []dispatcher.Lane) {
	h.mu.Lock()
	found := false
	for _, name := range lanes {
		if name == dispatcher.AllLanes {
			for _, l := range h.lanes {
				l.asked = true
			}
			found = true
		} else if l := h.of[name]; l != nil {
			l.asked, found = true, true
		}
	}
	h.mu.Unlock()
	if found {
		h.signal()
	}
}

func (h *handlers) signal() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// A take is for gatherLeast deliveries or more, unless that many workers take longer than
// gatherWait to come free: as the engine gathers permits for a claim.
const (
	gatherLeast = 32
	gatherWait  = time.Millisecond
)

// choose answers from which lanes to take now, and how many; 0: none.
func (h *handlers) choose(ctx context.Context) (lanes []dispatcher.Lane, most int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.need = 0
	if !slices.ContainsFunc(h.lanes, func(l *handledLane) bool { return l.asked }) {
		return nil, 0
	}
	if h.alone != nil { // what it takes now, another program may begin
		h.need = 1
		return nil, 0
	}
	if least := min(gatherLeast, (h.workers+1)/2); h.free > 0 && h.free < least {
		h.gather(ctx, least)
	}
	most = min(h.free, dispatcher.TakeMost)
	for i := range h.lanes {
		l := h.lanes[(h.next+i)%len(h.lanes)]
		if may := h.share(l); l.asked && may > 0 && len(lanes) < dispatcher.TakeLanes {
			lanes, most = append(lanes, l.lane), min(most, may)
			l.asked = false // whatever is told from now on counts
		}
	}
	if len(lanes) == 0 {
		h.need = 1 // only that can change it
		return nil, 0
	}
	h.next = (h.next + 1) % len(h.lanes) // each lane is the first one in turn
	return lanes, most
}

// gather waits until so many workers are free, for gatherWait at most. mu is held, but not
// while it waits.
func (h *handlers) gather(ctx context.Context, least int) {
	timer := time.NewTimer(gatherWait)
	defer timer.Stop()
	for over := false; h.free < least && !over; {
		h.need = least
		h.mu.Unlock()
		select {
		case <-h.wake:
		case <-timer.C:
			over = true
		case <-ctx.Done():
			over = true
		}
		h.mu.Lock()
	}
	h.need = 0
}

// share is how many more workers a lane may get. Where there are several queues, one takes
// only while it has fewer workers than are free, so that slow handlers of one, or of some,
// leave workers to those of another. mu is held.
func (h *handlers) share(l *handledLane) int {
	switch {
	case len(h.lanes) == 1:
		return h.free
	case h.free == 0 || l.running >= h.free && l.running > 0:
		return 0
	}
	return max((h.free-l.running)/2, 1)
}

// mostBytes bounds the records of one take, as those of a claim.
const mostBytes = 1 << 20

// take makes one call, and has workers begin what it got.
func (h *handlers) take(ctx context.Context, lanes []dispatcher.Lane, most int) error {
	var more []dispatcher.Lane
	claimed, err := h.engine.Lease(ctx, func(ctx context.Context, by string) ([]dispatcher.Claimed, error) {
		ask := dispatcher.Take{Lanes: lanes, Most: most, Bytes: mostBytes, Suspects: 1}
		if h.engine.HasSuspect() { // one at a time: if its handler ends the program, no other suspect is blamed
			ask.Suspects = 0
		}
		taken, err := h.store.Take(ctx, by, ask)
		more = taken.More
		return taken.Claimed, err
	})
	if err != nil {
		more = lanes // what there is can still be taken
	}
	h.takeable(more)
	h.begin(claimed)
	return err
}

// begin gives deliveries to free workers.
func (h *handlers) begin(claimed []dispatcher.Claimed) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range claimed {
		l := h.of[c.ID.Lane]
		l.running++
		h.free--
		h.tasks <- task{l, c}
	}
	for range min(len(claimed), h.workers-h.started) {
		h.started++
		h.all.Go(h.work)
	}
}
