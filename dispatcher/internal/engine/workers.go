package engine

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// Of what is leased only some run at once: with 64 places on 2 cores the queue
// drains half as fast again as with 1,024 running. So that receivers which
// take long don't hold the places, an attempt that is older than slowAfter
// leaves its place to another and goes on without.
const (
	slotsPerCore = 32
	slowAfter    = 4 * time.Millisecond
)

// workers runs tasks on goroutines that it uses again: a new one for each
// delivery would grow its stack each time.
type workers struct {
	run   func(dispatcher.Claimed)
	slots int

	mu      sync.Mutex           // guards what follows
	queue   []dispatcher.Claimed // leased, not running; taken from head on
	head    int
	taken   int       // places
	running []*worker // those that hold a place, the longest first
	idle    []*worker // the one that was last busy comes last
	closed  bool      // nothing new is started
	all     sync.WaitGroup
	crowded chan struct{} // 1 deep: something waits for a place
}

type worker struct {
	tasks   chan dispatcher.Claimed
	since   time.Time // when its task got the place
	hasSlot bool      // holds a place
}

func newWorkers(run func(dispatcher.Claimed)) *workers {
	return &workers{run: run, slots: slotsPerCore * runtime.GOMAXPROCS(0), crowded: make(chan struct{}, 1)}
}

// start starts tasks, or queues them for the next places. It takes none, and says
// so, once it is closed.
func (g *workers) start(tasks ...dispatcher.Claimed) bool {
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return false
	}
	if len(g.queue)+len(tasks) > cap(g.queue) {
		// What was taken makes room first: a queue that never runs empty would grow for ever.
		n := copy(g.queue, g.queue[g.head:])
		clear(g.queue[n:])
		g.queue, g.head = g.queue[:n], 0
	}
	g.queue = append(g.queue, tasks...)
	g.fill()
	waits := g.head < len(g.queue)
	g.mu.Unlock()
	if waits {
		signal(g.crowded)
	}
	return true
}

// fill fills the free places. mu is held.
func (g *workers) fill() {
	for g.taken < g.slots && g.head < len(g.queue) && !g.closed {
		var w *worker
		if n := len(g.idle); n > 0 {
			w, g.idle = g.idle[n-1], g.idle[:n-1]
		} else {
			w = &worker{tasks: make(chan dispatcher.Claimed, 1)}
			g.all.Go(func() { g.work(w) })
		}
		w.tasks <- g.next(w)
	}
}

// next gives a worker a place and the first task of the queue. mu is held.
func (g *workers) next(w *worker) dispatcher.Claimed {
	task := g.queue[g.head]
	g.queue[g.head] = dispatcher.Claimed{}
	if g.head++; g.head == len(g.queue) {
		g.queue, g.head = g.queue[:0], 0
	}
	g.taken++
	w.hasSlot, w.since = true, time.Now()
	g.running = append(g.running, w)
	return task
}

// work is one goroutine's life: a task, and then the next one if its place is
// still its own.
func (g *workers) work(w *worker) {
	for task := range w.tasks {
		for more := true; more; {
			g.run(task)
			task, more = g.finish(w)
		}
	}
}

func (g *workers) finish(w *worker) (task dispatcher.Claimed, more bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.leave(w)
	if g.taken < g.slots && g.head < len(g.queue) && !g.closed {
		return g.next(w), true
	}
	if g.closed {
		close(w.tasks)
	} else {
		g.idle = append(g.idle, w)
	}
	return dispatcher.Claimed{}, false
}

// leave takes a worker's place. mu is held.
func (g *workers) leave(w *worker) {
	if !w.hasSlot {
		return
	}
	w.hasSlot = false
	g.taken--
	for i, r := range g.running {
		if r == w {
			g.running = append(g.running[:i], g.running[i+1:]...)
			break
		}
	}
}

// Run takes the places of slow attempts while others wait for one, until ctx ends.
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

// displace gives the places of slow attempts to those that wait. It reports
// whether any still wait.
func (g *workers) displace() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.head == len(g.queue) || g.closed {
		return false
	}
	now := time.Now()
	n := 0
	for n < len(g.running) && now.Sub(g.running[n].since) >= slowAfter {
		g.running[n].hasSlot = false
		g.taken--
		n++
	}
	g.running = append(g.running[:0], g.running[n:]...)
	g.fill()
	return g.head < len(g.queue)
}

// close starts nothing any more and answers what was not started.
func (g *workers) close() []dispatcher.Claimed {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	left := append([]dispatcher.Claimed(nil), g.queue[g.head:]...)
	g.queue, g.head = nil, 0
	for _, w := range g.idle {
		close(w.tasks)
	}
	g.idle = nil
	return left
}

// wait blocks until every task has run to its end.
func (g *workers) wait() { g.all.Wait() }
