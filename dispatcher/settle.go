package dispatcher

import (
	"context"
	"sync"
	"time"
)

// settleMost is how many outcomes one call records; settleWithin is when the
// queue is taken to be unreachable.
const (
	settleMost   = 256
	settleWithin = 5 * time.Second
)

// settler records outcomes. What comes while a call is under way goes together
// in the next; while the queue can't be reached outcomes wait in memory, and
// claiming stops before they are too many.
type settler struct {
	engine *engine
	most   int // outcomes that may wait before claiming stops

	mu      sync.Mutex // guards waiting
	waiting []Settlement

	wake chan struct{} // 1 deep
}

func newSettler(e *engine, most int) *settler {
	return &settler{engine: e, most: most, wake: make(chan struct{}, 1)}
}

// put adds outcomes.
func (s *settler) put(outcomes ...Settlement) {
	if len(outcomes) == 0 {
		return
	}
	s.mu.Lock()
	s.waiting = append(s.waiting, outcomes...)
	s.mu.Unlock()
	signal(s.wake)
}

// behind reports whether too much waits for more to be leased.
func (s *settler) behind() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiting) > s.most
}

// rest is what could not be recorded until the end.
func (s *settler) rest() []Settlement {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting
}

func (s *settler) take() []Settlement {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(len(s.waiting), settleMost)
	batch := append(make([]Settlement, 0, n), s.waiting[:n]...)
	s.waiting = append(s.waiting[:0], s.waiting[n:]...)
	clear(s.waiting[len(s.waiting):min(len(s.waiting)+n, cap(s.waiting))])
	return batch
}

// Run settles until ctx ends and nothing waits. Once ctx has ended a call that
// fails is repeated for settleWithin only; what is left then is the rest.
func (s *settler) Run(ctx context.Context) error {
	failures, last := 0, time.Time{}
	for {
		ended := ctx.Err() != nil // asked before taking: what was put before the end is taken
		batch := s.take()
		if len(batch) == 0 {
			if ended {
				return nil
			}
			select {
			case <-s.wake:
			case <-ctx.Done():
			}
			continue
		}
		left, err := s.settle(ctx, batch)
		if err == nil {
			failures = 0
			continue
		}
		s.mu.Lock()
		s.waiting = append(s.waiting, left...) // behind the others, whose partitions may answer
		s.mu.Unlock()
		if ctx.Err() != nil {
			if last.IsZero() {
				last = time.Now()
			}
			if time.Since(last) > settleWithin {
				return nil
			}
		}
		if len(left) < len(batch) {
			failures = 0
		}
		failures = s.engine.repeat(context.WithoutCancel(ctx), "settle", failures, err)
	}
}

// settle records one batch and answers what was not recorded.
func (s *settler) settle(ctx context.Context, batch []Settlement) ([]Settlement, error) {
	e := s.engine
	call, cancel := within(context.WithoutCancel(ctx))
	defer cancel()
	settled, hints, err := e.queue.Settle(call, e.name(), batch)
	if settled == nil {
		settled = make([]Settled, len(batch))
	}
	var left []Settlement
	ended := 0
	for i := range batch {
		if settled[i] == 0 && err != nil {
			left = append(left, batch[i])
			continue
		}
		e.holding.release(batch[i].ID)
		if v := batch[i].Verdict; v == Delivered || v == Dead || settled[i] == SettledEnd {
			ended++
		}
	}
	if err == nil {
		e.trouble.note("settle", nil)
	}
	e.view.note(hints...)
	e.tellBreakers(hints)
	e.trimmer.ended(ended, hints)
	signal(e.settled)
	return left, err
}
