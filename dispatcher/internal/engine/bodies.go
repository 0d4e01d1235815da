package engine

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/outage"
)

// backPause is for how long a lane is left alone whose deliveries went back
// since no bytes were free: else they would be claimed again at once, in a circle.
const backPause = 50 * time.Millisecond

// loader reads large bodies just before their attempts, within a budget of
// bytes. A delivery waits for bytes with its permit, so only some may wait; what
// is beyond goes back. Small bodies come with their records, and only count.
type loader struct {
	engine *Engine
	budget int64
	most   int // deliveries that may wait for bytes
	small  atomic.Int64

	mu      sync.Mutex                // guards what follows
	used    int64                     // of the budget, by large bodies
	lanes   map[dispatcher.Lane]int64 // of it, by each lane
	waiting []dispatcher.Claimed      // for bytes, the longest first
	closed  bool                      // nothing new is begun
	reading sync.WaitGroup
	ctx     context.Context // ends when nothing is read any more
	stop    context.CancelFunc
}

func newLoader(e *Engine, budget int64, permits int) *loader {
	if budget <= 0 {
		budget = math.MaxInt64 / 2
	}
	l := &loader{engine: e, budget: budget, most: max(permits/4, 1), lanes: map[dispatcher.Lane]int64{}}
	l.ctx, l.stop = context.WithCancel(context.Background())
	return l
}

// large reports whether a delivery's body is one that takes a part of the budget.
func large(c *dispatcher.Claimed) bool { return c.Message != nil && c.Message.Apart != nil }

// put has deliveries with large bodies attempted, each once there are bytes for
// it. It takes none, and says so, once the loader is closed.
func (l *loader) put(tasks []dispatcher.Claimed) bool {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return false
	}
	l.waiting = append(l.waiting, tasks...)
	ready := l.start()
	for i := range l.waiting {
		if m := *l.waiting[i].Message; m.Body != nil { // of a publish a moment ago; what waits takes no memory
			m.Body = nil
			l.waiting[i].Message = &m
		}
	}
	var beyond []dispatcher.Claimed
	if n := len(l.waiting); n > l.most {
		beyond = slices.Clone(l.waiting[l.most:])
		clear(l.waiting[l.most:])
		l.waiting = l.waiting[:l.most]
	}
	l.mu.Unlock()
	l.hand(ready)
	l.back(beyond)
	return true
}

// back hands deliveries back, to be claimed again after a moment.
func (l *loader) back(list []dispatcher.Claimed) {
	outcomes := make([]dispatcher.Settlement, len(list))
	for i, c := range list {
		outcomes[i] = dispatcher.Settlement{ID: c.ID, Verdict: dispatcher.Back, Due: c.Due, Leased: c.Leased, Pause: backPause}
	}
	l.engine.permits.release(len(list))
	l.engine.settler.put(outcomes...)
}

// start begins to read what there are bytes for, and answers what has its body
// already. One that is larger than the whole budget goes alone. No lane takes
// more than half of it, so that one that hangs leaves the rest to others. mu is
// held.
func (l *loader) start() (ready []dispatcher.Claimed) {
	kept := l.waiting[:0]
	for i, c := range l.waiting {
		size := int64(c.Message.Apart.Size)
		if l.used > 0 && l.used+l.small.Load()+size > l.budget {
			kept = append(kept, l.waiting[i:]...) // in their order: else a large one would wait for ever
			break
		}
		if of := l.lanes[c.ID.Lane]; of > 0 && of+size > l.budget/2 {
			kept = append(kept, c)
			continue
		}
		l.used += size
		l.lanes[c.ID.Lane] += size
		if c.Message.Body != nil {
			ready = append(ready, c)
		} else {
			l.reading.Go(func() { l.read(c) })
		}
	}
	clear(l.waiting[len(kept):])
	l.waiting = kept
	return ready
}

// hand has deliveries attempted that have their bodies.
func (l *loader) hand(list []dispatcher.Claimed) {
	if len(list) == 0 || l.engine.workers.start(list...) {
		return
	}
	for i := range list {
		l.done(&list[i])
	}
	l.engine.handBack(list)
}

// done gives the bytes of an attempt back.
func (l *loader) done(c *dispatcher.Claimed) {
	switch {
	case large(c):
		l.free(c.ID.Lane, c.Message.Apart.Size)
	case c.Message != nil:
		l.small.Add(-int64(len(c.Message.Body)))
	}
}

// free gives the bytes of a large body back.
func (l *loader) free(lane dispatcher.Lane, size int) {
	l.mu.Lock()
	l.used -= int64(size)
	if l.lanes[lane] -= int64(size); l.lanes[lane] == 0 {
		delete(l.lanes, lane)
	}
	var ready []dispatcher.Claimed
	if !l.closed {
		ready = l.start()
	}
	l.mu.Unlock()
	l.hand(ready)
}

// read reads a body and hands its delivery on.
func (l *loader) read(c dispatcher.Claimed) {
	e := l.engine
	body, err := e.queue.Body(l.ctx, c.ID, *c.Message.Apart)
	m := *c.Message
	m.Body = body
	switch {
	case err == nil:
		c.Message = &m
	case errors.Is(err, dispatcher.ErrNotFound) && l.unfinished(c.ID):
		e.log.LogAttrs(l.ctx, slog.LevelError, "body missing, its delivery can't be made",
			slog.String("delivery_id", c.ID.String()), slog.Any("err", err))
		l.free(c.ID.Lane, m.Apart.Size)
		c.Message = nil // as one whose record can't be read
	default:
		l.free(c.ID.Lane, m.Apart.Size)
		l.missed(c, err)
		return
	}
	l.hand([]dispatcher.Claimed{c})
}

// missed hands a delivery back whose body could not be read, or which has ended:
// then it ends there as it should.
func (l *loader) missed(c dispatcher.Claimed, err error) {
	e := l.engine
	if l.ctx.Err() == nil && !errors.Is(err, dispatcher.ErrNotFound) {
		e.outages.Report("body", err)
	}
	l.back([]dispatcher.Claimed{c})
}

// unfinished reports whether a delivery without a body is one that waits for
// its attempt. One that another made meanwhile, or that was cancelled, may have
// been forgotten.
func (l *loader) unfinished(id dispatcher.DeliveryID) bool {
	call, cancel := outage.Within(l.ctx)
	defer cancel()
	record, err := l.engine.queue.Read(call, id.Message)
	at := slices.IndexFunc(record.Deliveries, func(d dispatcher.Delivery) bool { return d.ID == id })
	return err == nil && at >= 0 && !record.Deliveries[at].Status.Ended()
}

// close begins nothing any more and answers what was not begun. What is being
// read goes back.
func (l *loader) close() []dispatcher.Claimed {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	left := l.waiting
	l.waiting = nil
	l.stop()
	return left
}

// wait blocks until nothing is being read.
func (l *loader) wait() { l.reading.Wait() }
