package engine

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// shortage is the state in which this host has no file descriptor, port or buffer left
// for a connection to a receiver. No receiver is to blame, so the delivery goes back to
// the head of its lane. Leasing pauses: else the delivery would be leased again at once
// and fail again.
type shortage struct {
	log  *slog.Logger
	over chan struct{} // signalled when leases may be taken again

	on    atomic.Bool  // leasing pauses now
	total atomic.Int64 // attempts that were not made

	mu    sync.Mutex    // guards what follows
	wait  time.Duration // the last pause
	ended time.Time     // when that pause was over
	told  time.Time     // when the shortage was last logged
	again int           // attempts that were not made since then
}

const (
	// Pauses double while the shortage lasts. The longest is short beside the
	// ladder, and long enough for 1,024 failing dials to cost no noticeable CPU.
	shortageFirst = 50 * time.Millisecond
	shortageMost  = time.Second
	// After shortageCalm without a shortage the pauses begin with the shortest again.
	shortageCalm = 10 * time.Second
	// shortageTold is how often a shortage that lasts is logged.
	shortageTold = time.Minute
)

// report counts an attempt that was not made since this host had no means for it.
func (s *shortage) report(err error) {
	s.total.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.again++
	if s.told.IsZero() || now.Sub(s.told) >= shortageTold {
		s.log.Error("no connection could be opened: deliveries wait, no receiver is blamed",
			"err", err, "deliveries", s.again,
			"cure", "raise the limit of file descriptors (ulimit -n), lower MAX_IN_FLIGHT, or run more instances")
		s.told, s.again = now, 0
	}
	if s.on.Load() {
		return // the attempt was begun before the pause
	}
	if now.Sub(s.ended) >= shortageCalm {
		s.wait = 0
	}
	s.wait = min(max(2*s.wait, shortageFirst), shortageMost)
	s.on.Store(true)
	time.AfterFunc(s.wait, s.end)
}

// end ends the pause.
func (s *shortage) end() {
	s.mu.Lock()
	s.ended = time.Now()
	s.on.Store(false)
	s.mu.Unlock()
	signal(s.over)
}

// Exhausted is how many attempts were not made since this host had no file descriptor,
// port or buffer left for a connection.
func (e *Engine) Exhausted() int64 { return e.shortage.total.Load() }
