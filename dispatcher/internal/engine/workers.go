package engine

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/wait"
)

// Only some of the leased deliveries are attempted at once. On 2 cores the queue drains 1.5
// times as fast with 64 slots as with 1,024. An attempt that is older than slowAfter gives its
// slot to another and continues without one, so slow receivers occupy no slots.
const (
	slotsPerCore = 32
	slowAfter    = 4 * time.Millisecond
)

// workers is a pool of goroutines. They are reused, because a new goroutine for each delivery
// would grow its stack each time.
type workers struct {
	run   func(*dispatcher.Claimed)
	slots int

	mu      sync.Mutex           // guards the fields below
	queue   []dispatcher.Claimed // leased, not running; the next one is at head
	head    int
	taken   int       // slots in use
	running worker    // head of a ring: workers with a slot, the longest first
	idle    []*worker // last busy one at the end
	closed  bool      // no new task is started
	all     sync.WaitGroup
	crowded wait.Signal // a task waits for a slot
}

type worker struct {
	wake           chan struct{}      // task is set
	task           dispatcher.Claimed // the task that runs; here, because the stack has to be small
	since          time.Time          // when its task got the slot
	earlier, later *worker            // its neighbours in the ring; nil: it has no slot
}

func newWorkers(run func(*dispatcher.Claimed)) *workers {
	g := &workers{run: run, slots: slotsPerCore * runtime.GOMAXPROCS(0), crowded: wait.NewSignal()}
	g.running.earlier, g.running.later = &g.running, &g.running
	return g
}

// start starts tasks, or queues them for the next free slots. After close it takes none and
// returns false.
func (g *workers) start(tasks ...dispatcher.Claimed) bool {
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return false
	}
	if len(g.queue)+len(tasks) > cap(g.queue) {
		// Reuse the front of the slice first, because a queue that never runs empty would grow
		// for ever.
		n := copy(g.queue, g.queue[g.head:])
		clear(g.queue[n:])
		g.queue, g.head = g.queue[:n], 0
	}
	g.queue = append(g.queue, tasks...)
	g.fill()
	waits := g.head < len(g.queue)
	g.mu.Unlock()
	if waits {
		g.crowded.Set()
	}
	return true
}

// fill fills the free slots. mu is locked.
func (g *workers) fill() {
	for g.taken < g.slots && g.head < len(g.queue) && !g.closed {
		var w *worker
		if n := len(g.idle); n > 0 {
			w, g.idle = g.idle[n-1], g.idle[:n-1]
		} else {
			w = &worker{wake: make(chan struct{}, 1)}
			g.all.Go(func() { g.work(w) })
		}
		w.task = g.next(w)
		w.wake <- struct{}{}
	}
}

// next gives a worker a slot and returns the first task of the queue. mu is locked.
func (g *workers) next(w *worker) dispatcher.Claimed {
	task := g.queue[g.head]
	g.queue[g.head] = dispatcher.Claimed{}
	if g.head++; g.head == len(g.queue) {
		g.queue, g.head = g.queue[:0], 0
	}
	g.taken++
	w.since = time.Now()
	w.earlier, w.later = g.running.earlier, &g.running
	w.earlier.later, w.later.earlier = w, w
	return task
}

// work runs the tasks of one goroutine. If a slot is free after a task, it continues with the
// next task at once.
func (g *workers) work(w *worker) {
	for range w.wake {
		for more := true; more; {
			g.run(&w.task)
			more = g.finish(w)
		}
	}
}

// finish ends the task of a worker, and reports whether the worker has another one.
func (g *workers) finish(w *worker) (more bool) {
	w.task = dispatcher.Claimed{}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.leave(w)
	if g.taken < g.slots && g.head < len(g.queue) && !g.closed {
		w.task = g.next(w)
		return true
	}
	if g.closed {
		close(w.wake)
	} else {
		g.idle = append(g.idle, w)
	}
	return false
}

// busy reports whether the waiting tasks fill all slots once more.
func (g *workers) busy() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.queue)-g.head >= g.slots
}

// leave frees a worker's slot, if it still has one. mu is locked.
func (g *workers) leave(w *worker) {
	if w.later == nil {
		return
	}
	g.taken--
	w.earlier.later, w.later.earlier = w.later, w.earlier
	w.earlier, w.later = nil, nil
}

// Run takes slots from slow attempts while other tasks wait for one, until ctx ends.
func (g *workers) Run(ctx context.Context) error {
	tick := time.NewTicker(slowAfter / 2)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-g.crowded:
		}
		for g.displace() {
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
			}
		}
	}
}

// displace gives the slots of slow attempts to waiting tasks. It reports whether any task
// still waits.
func (g *workers) displace() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.head == len(g.queue) || g.closed {
		return false
	}
	now := time.Now()
	for g.taken > 0 && now.Sub(g.running.later.since) >= slowAfter {
		g.leave(g.running.later)
	}
	g.fill()
	return g.head < len(g.queue)
}

// close starts no more tasks and returns the tasks that were not started.
func (g *workers) close() []dispatcher.Claimed {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	left := append([]dispatcher.Claimed(nil), g.queue[g.head:]...)
	g.queue, g.head = nil, 0
	for _, w := range g.idle {
		close(w.wake)
	}
	g.idle = nil
	return left
}

// wait blocks until all tasks have ended.
func (g *workers) wait() { g.all.Wait() }
