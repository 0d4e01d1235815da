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

	"golang.org/x/sync/errgroup"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/endpoints"
	"github.com/hookladder/hookladder/dispatcher/internal/outage"
)

// backPause is how long a lane rests after its deliveries went back since no bytes were
// free. Without a pause they would be claimed again at once, in a loop.
const backPause = 50 * time.Millisecond

// loader reads large bodies just before their attempts, within a budget of bytes. A
// delivery keeps its permit while it waits for bytes, so only some may wait, and the rest
// go back. Small bodies come with their records: they are counted, and wait for nothing.
type loader struct {
	engine *Engine
	budget int64
	most   int          // deliveries that may wait for bytes
	small  atomic.Int64 // bytes of small bodies

	mu      sync.Mutex                // guards the fields below
	used    int64                     // bytes of large bodies
	lanes   map[dispatcher.Lane]int64 // of these, the bytes of each lane
	waiting []dispatcher.Claimed      // for bytes, the longest first
	closed  bool                      // nothing new is begun
	reading sync.WaitGroup
	ctx     context.Context // of the reads; ends at the shutdown
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

// large reports whether a delivery has a large body, which is stored apart.
func large(c *dispatcher.Claimed) bool { return c.Message != nil && c.Message.Apart != nil }

// put has deliveries with large bodies attempted, each once there are bytes for it. Once
// the loader is closed it takes none and answers false.
func (l *loader) put(tasks []dispatcher.Claimed) bool {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return false
	}
	l.waiting = append(l.waiting, tasks...)
	ready := l.start()
	for i := range l.waiting {
		if m := *l.waiting[i].Message; m.Body != nil { // just published; its body is read again, because waiting deliveries may use no memory
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
	l.engine.handBack(beyond, backPause)
	return true
}

// start begins to read the bodies that there are bytes for, and answers the deliveries
// that have their bodies already. A body larger than the whole budget goes alone. No lane
// takes more than half of the budget, so that a receiver that hangs leaves the rest to
// others. mu is held.
func (l *loader) start() (ready []dispatcher.Claimed) {
	kept := l.waiting[:0]
	for i, c := range l.waiting {
		size := int64(c.Message.Apart.Size)
		if l.used > 0 && l.used+l.small.Load()+size > l.budget {
			kept = append(kept, l.waiting[i:]...) // keep the order: else a large one might wait for ever
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

// hand gives deliveries with their bodies to the workers.
func (l *loader) hand(list []dispatcher.Claimed) {
	if len(list) == 0 || l.engine.workers.start(list...) {
		return
	}
	for i := range list {
		l.done(&list[i])
	}
	l.engine.handBack(list, 0)
}

// done releases the bytes of an attempt that has ended.
func (l *loader) done(c *dispatcher.Claimed) {
	switch {
	case large(c):
		l.free(c.ID.Lane, c.Message.Apart.Size)
	case c.Message != nil:
		l.small.Add(-int64(len(c.Message.Body)))
	}
}

// free releases the bytes of a large body, and starts the deliveries that waited for them.
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

// read reads a body and hands its delivery to the workers.
func (l *loader) read(c dispatcher.Claimed) {
	e := l.engine
	body, err := e.deliveries.Body(l.ctx, c.ID, *c.Message.Apart)
	m := *c.Message
	m.Body = body
	switch {
	case err == nil:
		c.Message = &m
	case errors.Is(err, dispatcher.ErrNotFound) && l.unfinished(c.ID):
		e.log.LogAttrs(l.ctx, slog.LevelError, "body missing, its delivery can't be made",
			slog.String("delivery_id", c.ID.String()), slog.Any("err", err))
		l.free(c.ID.Lane, m.Apart.Size)
		c.Message = nil // the delivery dies, as one whose record can't be read
	default:
		l.free(c.ID.Lane, m.Apart.Size)
		l.missed(c, err)
		return
	}
	l.hand([]dispatcher.Claimed{c})
}

// missed hands back a delivery whose body could not be read, or that has ended. What
// becomes of it is decided in the queue.
func (l *loader) missed(c dispatcher.Claimed, err error) {
	e := l.engine
	if l.ctx.Err() == nil && !errors.Is(err, dispatcher.ErrNotFound) {
		e.outages.Report("body", err)
	}
	e.handBack([]dispatcher.Claimed{c}, backPause)
}

// unfinished reports whether a delivery without a body still waits for its attempt. If it
// ended meanwhile, its message may have been trimmed.
func (l *loader) unfinished(id dispatcher.DeliveryID) bool {
	call, cancel := outage.Within(l.ctx)
	defer cancel()
	record, err := l.engine.reads.Read(call, id.Message)
	at := slices.IndexFunc(record.Deliveries, func(d dispatcher.Delivery) bool { return d.ID == id })
	return err == nil && at >= 0 && !record.Deliveries[at].Status.Ended()
}

// close has nothing more begun, and answers the deliveries that were not begun. It cuts
// the reads under way, whose deliveries go back.
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

// bodiesAtOnce is how many large bodies one Fit reads at once: the store has few
// connections for them.
const bodiesAtOnce = 4

// Fit returns the taken deliveries that the taker may get, with their bodies: one, or more
// with at most that many bytes. unfit are the outcomes of the others, for Settle. Both keep
// the order of leased.
func (e *Engine) Fit(ctx context.Context, leased []dispatcher.Claimed, bytes int) (fit []dispatcher.Claimed, unfit []dispatcher.Settlement) {
	var rest, toEndpoints []dispatcher.Claimed
	stalled := func(c *dispatcher.Claimed) dispatcher.Settlement {
		return dispatcher.Settlement{ID: c.ID, Verdict: dispatcher.Back, Due: c.Due, Leased: c.Leased, Pause: endpoints.StalledFor, Stalled: dispatcher.WhySealed}
	}
	for _, c := range leased {
		switch {
		case c.Message == nil:
			unfit = append(unfit, poisoned(c, e.store.Now()))
		case c.Message.Sealed != "": // without its headers it is not the published message
			unfit = append(unfit, stalled(&c))
		case c.ID.Lane.IsEndpoint():
			toEndpoints = append(toEndpoints, c)
		default:
			rest = append(rest, c)
		}
	}
	if len(toEndpoints) > 0 {
		may, back, err := e.endpoints.CheckVersions(ctx, toEndpoints)
		e.outages.Report("admit", err)
		unfit = append(unfit, back...)
		for _, c := range may {
			if misplaced(c.Message, e.endpoints.Cache.Cached(c.ID.Lane)) {
				unfit = append(unfit, stalled(&c))
				continue
			}
			rest = append(rest, c)
		}
	}
	n, left := 0, bytes
	for ; n < len(rest); n++ {
		if left -= size(&rest[n]); left < 0 && n > 0 {
			break
		}
	}
	unfit = append(unfit, backs(rest[n:], 0)...)
	for i, lost := range e.readBodies(ctx, rest[:n]) {
		if lost != nil {
			unfit = append(unfit, *lost)
		} else {
			fit = append(fit, rest[i])
		}
	}
	return fit, unfit
}

// size is the size of a delivery's body.
func size(c *dispatcher.Claimed) int {
	if large(c) {
		return c.Message.Apart.Size
	}
	return len(c.Message.Body)
}

// readBodies reads the bodies of those that were leased without. lost has the outcome of
// each delivery whose body is gone; nil: it has its body.
func (e *Engine) readBodies(ctx context.Context, list []dispatcher.Claimed) (lost []*dispatcher.Settlement) {
	lost = make([]*dispatcher.Settlement, len(list))
	var reading errgroup.Group
	reading.SetLimit(bodiesAtOnce)
	for i := range list {
		c := &list[i]
		if !large(c) || c.Message.Body != nil {
			continue
		}
		reading.Go(func() error {
			body, err := e.deliveries.Body(ctx, c.ID, *c.Message.Apart)
			m := *c.Message
			m.Body = body
			switch {
			case err == nil:
				c.Message = &m
			case errors.Is(err, dispatcher.ErrNotFound) && e.loader.unfinished(c.ID):
				e.log.LogAttrs(ctx, slog.LevelError, "body missing, its delivery can't be made",
					slog.String("delivery_id", c.ID.String()), slog.Any("err", err))
				s := poisoned(*c, e.store.Now())
				lost[i] = &s
			default:
				lost[i] = &backs([]dispatcher.Claimed{*c}, backPause)[0]
			}
			return nil
		})
	}
	_ = reading.Wait() // none fails: each says what becomes of its own
	return lost
}
