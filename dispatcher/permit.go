package dispatcher

import (
	"context"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// permits bound what an instance has leased. One is taken before a lease is
// asked for, and given back when the attempt's answer is there.
type permits struct {
	total int
	sem   *semaphore.Weighted
	held  atomic.Int64
	asked atomic.Bool   // somebody waits for freed
	freed chan struct{} // 1 deep
}

func newPermits(total int) *permits {
	return &permits{total: total, sem: semaphore.NewWeighted(int64(total)), freed: make(chan struct{}, 1)}
}

// free is how many are not held now.
func (p *permits) free() int { return p.total - int(p.held.Load()) }

// try takes up to n permits without waiting.
func (p *permits) try(n int) int {
	n = min(n, p.free())
	for n > 0 && !p.sem.TryAcquire(int64(n)) {
		n /= 2 // others were quicker
	}
	p.held.Add(int64(max(n, 0)))
	return max(n, 0)
}

// Claims are asked for gatherLeast deliveries or more where that takes no
// longer than gatherWait: measured, it makes batches of 50 out of such of 25.
const (
	gatherLeast = 32
	gatherWait  = time.Millisecond
)

// gather takes up to n permits: one it waits for, a few more for a moment.
// It answers 0 when ctx has ended.
func (p *permits) gather(ctx context.Context, n int) int {
	if p.sem.Acquire(ctx, 1) != nil {
		return 0
	}
	p.held.Add(1)
	got := 1 + p.try(n-1)
	least := min(n, gatherLeast, p.total/2)
	if got >= least {
		return got
	}
	timer := time.NewTimer(gatherWait)
	defer timer.Stop()
	for got < least {
		p.asked.Store(true)
		if got += p.try(n - got); got >= least {
			break
		}
		select {
		case <-p.freed:
		case <-timer.C:
			return got + p.try(n-got)
		}
	}
	return got
}

// release gives n permits back.
func (p *permits) release(n int) {
	if n <= 0 {
		return
	}
	p.held.Add(int64(-n))
	p.sem.Release(int64(n))
	if p.asked.Load() && p.asked.CompareAndSwap(true, false) {
		signal(p.freed)
	}
}
