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
	"github.com/hookladder/hookladder/dispatcher/internal/outage"
)

// backPause is how long a lane waits after its deliveries went back because no bytes were
// free. Without the pause they would be claimed again at once, in a loop.
const backPause = 50 * time.Millisecond

// loader reads large bodies just before their attempts, within a budget of bytes. A delivery
// keeps its permit while it waits for bytes. So only some may wait, and the rest go back.
// Small bodies come with their records. They count towards the budget, but never wait.
type loader struct {
	engine *Engine
	budget int64
	most   int          // deliveries that may wait for bytes
	small  atomic.Int64 // bytes of small bodies

	mu      sync.Mutex                // guards the fields below
	used    int64                     // bytes of large bodies
	lanes   map[dispatcher.Lane]int64 // bytes of large bodies by lane
	waiting []dispatcher.Claimed      // for bytes, oldest first
	closed  bool                      // no new delivery is begun
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

// put attempts deliveries with large bodies, each when enough bytes are free for it. After
// close it takes none and returns false.
func (l *loader) put(tasks []dispatcher.Claimed) bool {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return false
	}
	l.waiting = append(l.waiting, tasks...)
	ready := l.start()
	for i := range l.waiting {
		if m := *l.waiting[i].Message; m.Body != nil { // just published; drop the body and read it later, because waiting deliveries may use no memory
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

// start begins to read the bodies that fit in the free bytes. It returns the deliveries that
// already have their bodies. A body larger than the whole budget is read alone. A lane uses at
// most half of the budget, so that a receiver that hangs leaves the rest to others. mu is
// locked.
func (l *loader) start() (ready []dispatcher.Claimed) {
	kept := l.waiting[:0]
	for i, c := range l.waiting {
		size := int64(c.Message.Apart.Size)
		if l.used > 0 && l.used+l.small.Load()+size > l.budget {
			kept = append(kept, l.waiting[i:]...) // keep the order, because a large body might wait for ever otherwise
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

// hand passes deliveries with their bodies to the workers.
func (l *loader) hand(list []dispatcher.Claimed) {
	if len(list) == 0 || l.engine.workers.start(list...) {
		return
	}
	for i := range list {
		l.done(&list[i])
	}
	l.engine.handBack(list, 0)
}

// done releases the bytes of a finished attempt.
func (l *loader) done(c *dispatcher.Claimed) {
	switch {
	case large(c):
		l.free(c.ID.Lane, c.Message.Apart.Size)
	case c.Message != nil:
		l.small.Add(-int64(len(c.Message.Body)))
	}
}

// free releases the bytes of a large body and starts waiting deliveries.
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

// read reads a body and passes its delivery to the workers.
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
		c.Message = nil // the delivery dies, like one with an unreadable record
	default:
		l.free(c.ID.Lane, m.Apart.Size)
		l.missed(c, err)
		return
	}
	l.hand([]dispatcher.Claimed{c})
}

// missed hands back a delivery that has ended, or whose body could not be read. The queue
// decides its fate.
func (l *loader) missed(c dispatcher.Claimed, err error) {
	e := l.engine
	if l.ctx.Err() == nil && !errors.Is(err, dispatcher.ErrNotFound) {
		e.outages.Report("body", err)
	}
	e.handBack([]dispatcher.Claimed{c}, backPause)
}

// unfinished reports whether a delivery without a body still waits for its attempt. If it has
// ended in the meantime, its message may have been trimmed.
func (l *loader) unfinished(id dispatcher.DeliveryID) bool {
	call, cancel := outage.Within(l.ctx)
	defer cancel()
	record, err := l.engine.reads.Read(call, id.Message)
	at := slices.IndexFunc(record.Deliveries, func(d dispatcher.Delivery) bool { return d.ID == id })
	return err == nil && at >= 0 && !record.Deliveries[at].Status.Ended()
}

// close stops new reads and returns the deliveries that are still waiting. It cancels the
// running reads, and their deliveries go back.
func (l *loader) close() []dispatcher.Claimed {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	left := l.waiting
	l.waiting = nil
	l.stop()
	return left
}

// wait blocks until no read is running.
func (l *loader) wait() { l.reading.Wait() }

// bodiesAtOnce is the number of large bodies that one Fit reads at once, because the store has
// few connections for them.
const bodiesAtOnce = 4

// Fit returns the taken deliveries that the taker may get, with their bodies. It returns one
// delivery, or more if their bodies have at most the given bytes. unfit has the outcomes of
// the others, for Settle. Both keep the order of leased.
func (e *Engine) Fit(ctx context.Context, leased []dispatcher.Claimed, bytes int) (fit []dispatcher.Claimed, unfit []dispatcher.Settlement) {
	var rest, toEndpoints []dispatcher.Claimed
	for _, c := range leased {
		switch {
		case c.Message == nil:
			unfit = append(unfit, poisoned(c, e.store.Now()))
		case c.Message.Sealed != "": // without its headers it differs from the published message
			unfit = append(unfit, e.waitAlone(&c))
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
				unfit = append(unfit, e.waitAlone(&c))
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

// size returns the size of a delivery's body.
func size(c *dispatcher.Claimed) int {
	if large(c) {
		return c.Message.Apart.Size
	}
	return len(c.Message.Body)
}

// readBodies reads the bodies of deliveries that were leased without them. lost has an outcome
// for each delivery that has no body now, and nil for the others.
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
	_ = reading.Wait() // always nil: each goroutine stores its own outcome
	return lost
}
