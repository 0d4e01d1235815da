package queue

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/engine"
	"github.com/hookladder/hookladder/dispatcher/internal/outage"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/wait"
	"github.com/hookladder/hookladder/dispatcher/trace"
)

// handledLane is a queue with its handler.
type handledLane struct {
	lane    dispatcher.Lane
	queue   string
	handle  HandlerFunc
	most    int  // workers that may handle its deliveries at once
	running int  // workers that handle its deliveries
	pending bool // there may be deliveries to take
}

// handlers takes deliveries and passes them to workers. It takes only one for each free
// worker, because other programs may take the rest.
type handlers struct {
	engine *engine.Engine
	store  *redisq.Store
	log    *slog.Logger
	tracer trace.Tracer // nil: nothing is traced
	grace  time.Duration
	polls  bool // there are no notifications, so poll once a second

	cut    context.Context // ends when handlers must stop
	cutOff context.CancelFunc

	unrecorded atomic.Int64 // outcomes of attempts that could not be recorded

	wake  wait.Signal // a worker is free, or there may be deliveries to take
	tasks chan task   // its capacity is the number of workers, so a send never blocks

	mu       sync.Mutex // guards the fields below
	lanes    []*handledLane
	of       map[dispatcher.Lane]*handledLane
	next     int // index of the lane that is first in the next take
	workers  int // in total
	started  int // workers whose goroutine was started
	free     int
	need     int // number of free workers that wakes the taker; 0: none
	stopping bool
	under    map[*attempt]struct{} // begun and not returned
	alone    *attempt              // an attempt that must run alone, or waits for it; nil: none
	turn     *sync.Cond            // signals changes of under, alone and stopping
	idle     chan struct{}         // closed when it stops and no handler runs
	all      sync.WaitGroup        // of workers
}

// task is a delivery for a worker.
type task struct {
	of      *handledLane
	claimed dispatcher.Claimed
}

func newHandlers(s settings) *handlers {
	h := &handlers{
		log: s.log, tracer: s.engine.Tracer, grace: s.grace, workers: s.workers, free: s.workers,
		wake: wait.NewSignal(), tasks: make(chan task, s.workers),
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

// names returns the names of the queues.
func (h *handlers) names() (names []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range h.lanes {
		names = append(names, l.queue)
	}
	return names
}

// add adds a queue with its handler, before run.
func (h *handlers) add(l *handledLane) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.of[l.lane] = l
	h.lanes = append(h.lanes, l)
}

// wrap puts middleware around all handlers, before run. It returns an error if a middleware returns
// no handler.
func (h *handlers) wrap(middleware []func(HandlerFunc) HandlerFunc) error {
	for _, l := range h.lanes {
		for _, m := range slices.Backward(middleware) {
			if l.handle = m(l.handle); l.handle == nil {
				return errors.New("a middleware of Use returned no handler")
			}
		}
	}
	return nil
}

// run takes deliveries until ctx ends, and then waits for the handlers, see Queue.Run.
func (h *handlers) run(ctx context.Context) {
	defer h.cutOff()
	var polling sync.WaitGroup
	if h.polls {
		polling.Go(func() { h.poll(ctx) })
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
	polling.Wait()
	h.stop()
}

// pollEach is the time between two polls if there are no notifications.
const pollEach = time.Second

func (h *handlers) poll(ctx context.Context) {
	tick := time.NewTicker(pollEach)
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

// takeable is called when there may be deliveries to take from lanes.
func (h *handlers) takeable(lanes []dispatcher.Lane) {
	h.mu.Lock()
	found := false
	for _, name := range lanes {
		if name == dispatcher.AllLanes {
			for _, l := range h.lanes {
				l.pending = true
			}
			found = true
		} else if l := h.of[name]; l != nil {
			l.pending, found = true, true
		}
	}
	h.mu.Unlock()
	if found {
		h.wake.Set()
	}
}

// A take waits for gatherLeast free workers, but no longer than gatherWait. The engine
// gathers permits for a claim in the same way.
const (
	gatherLeast = 32
	gatherWait  = time.Millisecond
)

// choose returns the lanes to take from now, and the number of deliveries; 0: none.
func (h *handlers) choose(ctx context.Context) (lanes []dispatcher.Lane, most int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.need = 0
	if !slices.ContainsFunc(h.lanes, func(l *handledLane) bool { return l.pending }) {
		return nil, 0
	}
	if h.alone != nil { // another program may handle the deliveries sooner
		h.need = 1
		return nil, 0
	}
	if least := min(gatherLeast, (h.workers+1)/2); h.free > 0 && h.free < least {
		h.gather(ctx, least)
	}
	most = min(h.free, dispatcher.TakeMost)
	for i := range h.lanes {
		l := h.lanes[(h.next+i)%len(h.lanes)]
		if may := h.share(l); l.pending && may > 0 && len(lanes) < dispatcher.TakeLanes {
			lanes, most = append(lanes, l.lane), min(most, may)
			l.pending = false // notifications from now on count
		}
	}
	if len(lanes) == 0 {
		h.need = 1 // only a free worker can change it
		return nil, 0
	}
	h.next = (h.next + 1) % len(h.lanes) // each lane is first in turn
	return lanes, most
}

// gather waits until least workers are free, for at most gatherWait. The caller holds mu,
// which is unlocked during the wait.
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

// share returns how many more workers a lane may get. If there are several queues, a lane
// gets more only while it has fewer workers than are free. So slow handlers of some
// queues leave workers to the others. The caller holds mu.
func (h *handlers) share(l *handledLane) int {
	most := min(h.free, l.most-l.running)
	switch {
	case most <= 0 || len(h.lanes) == 1:
		return max(most, 0)
	case l.running >= h.free && l.running > 0:
		return 0
	}
	return min(max((h.free-l.running)/2, 1), most)
}

// mostBytes bounds the records of one take, as in a claim.
const mostBytes = 1 << 20

// take makes one take, and gives the deliveries to workers.
func (h *handlers) take(ctx context.Context, lanes []dispatcher.Lane, most int) error {
	call, err := h.engine.BeginLease(ctx)
	if err != nil {
		h.takeable(lanes) // all of them may still have deliveries
		return err
	}
	request := dispatcher.Take{Lanes: lanes, Most: most, Bytes: mostBytes, Suspects: 1}
	if h.engine.HasSuspect() { // one at a time: if its handler crashes the program, no other suspect is blamed
		request.Suspects = 0
	}
	taken, err := h.store.Take(call.Ctx, call.By, request)
	if err = h.engine.EndLease(call, taken.Claimed, err); err != nil {
		taken.More = lanes // all of them may still have deliveries
	}
	h.takeable(taken.More)
	h.begin(taken.Claimed)
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
