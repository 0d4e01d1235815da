package engine

import (
	"container/list"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/endpoints"
	"github.com/hookladder/hookladder/dispatcher/internal/outage"
	"github.com/hookladder/hookladder/dispatcher/internal/wait"
)

// claimer leases ready deliveries. It takes permits first, and then claims at most that many
// deliveries.
type claimer struct {
	engine *Engine
	batch  int // permits to gather for each claimable batch
	most   int // permits of one claim; fewer after a claim failed
	lends  *time.Timer
	unread []dispatcher.Claimed // leased, and to be read by the next claim
}

// Run claims until ctx ends.
func (c *claimer) Run(ctx context.Context) error {
	e := c.engine
	c.most = c.batch * batchesAtOnce
	c.lends = newIdleTimer()
	defer c.lends.Stop()
	for failures := 0; ctx.Err() == nil; {
		batches, ok := c.wait(ctx)
		if !ok {
			continue
		}
		first := lendAfter
		if c.unread != nil {
			first = gatherWait
		}
		got := e.permits.gather(ctx, min(c.batch*batches, c.most), first)
		if got == 0 { // ctx ended, or a publish took the last permits
			c.read(ctx)
			continue
		}
		name, ok := e.mayLease()
		if !ok || ctx.Err() != nil { // this may have changed while permits were gathered
			e.permits.release(got)
			continue
		}
		err := c.claim(ctx, name, got)
		if errors.Is(err, dispatcher.ErrNothing) { // other instances left nothing to claim
			c.read(ctx)
			continue
		}
		c.learn(got, err)
		if errors.Is(err, dispatcher.ErrFenced) {
			e.rename(name)
			err = nil
		}
		failures = e.outages.Continue(ctx, "claim", failures, err)
	}
	e.handBack(c.unread, 0)
	return nil
}

// learn halves the size of the next claim, down to one, if this one got no response. A smaller
// response may arrive in time over a slow connection. After a success the size doubles again.
func (c *claimer) learn(asked int, err error) {
	if errors.Is(err, dispatcher.ErrUnavailable) {
		c.most = max(asked/2, 1)
	} else {
		c.most = min(2*c.most, c.batch*batchesAtOnce)
	}
}

// batchesAtOnce bounds the batches of one claim, because permits for more would take long to
// gather.
const batchesAtOnce = 4

// wait blocks until there may be something to claim. It returns an estimate of the claimable
// batches. If ok is false, the caller has to call it again.
func (c *claimer) wait(ctx context.Context) (batches int, ok bool) {
	e := c.engine
	batches, idle := c.poll()
	if !idle {
		return batches, batches > 0
	}
	if c.unread != nil { // no claim reads them now
		c.read(ctx)
		return 0, false
	}
	select {
	case <-ctx.Done():
	case <-e.ready:
	case <-e.permits.freed:
	case <-e.settled:
	case <-c.lends.C:
	}
	return 0, false
}

// poll returns an estimate of the claimable batches. If there are none, idle says whether to
// wait for a signal; otherwise something has changed in the meantime.
func (c *claimer) poll() (batches int, idle bool) {
	e := c.engine
	e.progress.claim.begin()
	defer e.progress.claim.end()
	if _, may := e.mayLease(); !may {
		return 0, true
	}
	free := e.permits.free()
	batches, waiting := e.deliveries.Claimable(free)
	if batches > 0 && free > 0 {
		return min(batches, batchesAtOnce), false
	}
	if !waiting {
		return 0, true
	}
	// Only a free permit or an event can change that. Request a signal, then check again.
	if soon := e.loans.lend(time.Now()); soon >= 0 {
		c.lends.Reset(soon)
	}
	e.permits.asked.Store(true)
	return 0, e.permits.free() == free
}

// laterLeast is the number of permits from which a claim may leave deliveries unread. For fewer,
// the query that reads their messages costs the store more than it saves.
const laterLeast = 16

// claim leases at most got deliveries and begins them, together with the unread ones of the claim
// before. While enough deliveries wait for their attempts, the new ones stay unread, because the
// store then does less for them. The caller has taken got permits.
func (c *claimer) claim(ctx context.Context, name string, got int) error {
	e := c.engine
	e.progress.claim.begin()
	defer e.progress.claim.end()
	call := e.beginLease(ctx, name)
	claimed, err := e.deliveries.Claim(call.Ctx, name, dispatcher.Claim{
		Wanted: got, Free: e.permits.free() + got, Suspects: e.leases.suspectLanes(),
		Later: got >= laterLeast && e.workers.busy(), Unread: c.unread,
	})
	e.endLease(call, claimed, err)
	e.permits.release(got - len(claimed))
	if errors.Is(err, dispatcher.ErrNothing) {
		return err
	}
	c.beginRead(ctx)
	if later := func(c dispatcher.Claimed) bool { return c.Unread }; slices.ContainsFunc(claimed, later) {
		c.unread = slices.DeleteFunc(slices.Clone(claimed), func(c dispatcher.Claimed) bool { return !c.Unread })
		claimed = slices.DeleteFunc(claimed, later)
	}
	e.begin(ctx, claimed)
	return err
}

// read reads the messages of the unread deliveries without another claim, and begins these.
func (c *claimer) read(ctx context.Context) {
	if c.unread == nil || ctx.Err() != nil {
		return
	}
	e := c.engine
	e.progress.claim.begin()
	defer e.progress.claim.end()
	call, cancel := outage.Within(context.WithoutCancel(ctx))
	defer cancel()
	e.outages.Report("claim", e.deliveries.Messages(call, c.unread))
	c.beginRead(ctx)
}

// beginRead begins the deliveries of the claim before, whose messages were read. It hands back
// those that could not be read. If a message is missing, the store then drops the delivery.
func (c *claimer) beginRead(ctx context.Context) {
	if c.unread == nil {
		return
	}
	var back []dispatcher.Claimed
	read := slices.DeleteFunc(c.unread, func(d dispatcher.Claimed) bool {
		if d.Unread {
			back = append(back, d)
		}
		return d.Unread
	})
	c.unread = nil
	c.engine.handBack(back, 0)
	c.engine.begin(ctx, read)
}

// begin starts the attempts at leased deliveries. It checks deliveries to endpoints first, and
// returns those that may not be called now to their lanes.
func (e *Engine) begin(ctx context.Context, leased []dispatcher.Claimed) {
	first := slices.IndexFunc(leased, func(c dispatcher.Claimed) bool { return c.ID.Lane.IsEndpoint() })
	if first < 0 {
		e.attempt(leased...)
		return
	}
	bare, toEndpoints := append([]dispatcher.Claimed{}, leased[:first]...), []dispatcher.Claimed{}
	for _, c := range leased[first:] {
		if c.ID.Lane.IsEndpoint() {
			toEndpoints = append(toEndpoints, c)
		} else {
			bare = append(bare, c)
		}
	}
	e.attempt(bare...) // bare URLs need no check
	may, back, err := e.endpoints.CheckVersions(ctx, toEndpoints)
	e.attempt(may...)
	e.permits.release(len(back))
	e.settler.put(back...)
	e.outages.Report("admit", err)
	if err != nil {
		outage.Pause(ctx, 1) // returned deliveries are ready at once, and would be claimed again in a loop
	}
}

// attempt gives deliveries to the workers, or to the loader first if they have large bodies.
// It hands them back if the workers are closed.
func (e *Engine) attempt(leased ...dispatcher.Claimed) {
	size, first := int64(0), -1
	for i := range leased {
		switch m := leased[i].Message; {
		case m == nil:
		case m.Apart == nil:
			size += int64(len(m.Body))
		case first < 0:
			first = i
		}
	}
	if first >= 0 {
		leased = e.load(leased)
	}
	e.loader.small.Add(size)
	if !e.workers.start(leased...) {
		e.loader.small.Add(-size)
		e.handBack(leased, 0)
	}
}

// load gives deliveries with large bodies to the loader, and returns the rest.
func (e *Engine) load(leased []dispatcher.Claimed) (rest []dispatcher.Claimed) {
	var apart []dispatcher.Claimed
	for i := range leased {
		if large(&leased[i]) {
			apart = append(apart, leased[i])
		} else {
			rest = append(rest, leased[i])
		}
	}
	if !e.loader.put(apart) {
		e.handBack(apart, 0)
	}
	return rest
}

// handBack gives up leases whose attempts did not begin. Their lanes wait for the given pause.
func (e *Engine) handBack(leased []dispatcher.Claimed, pause time.Duration) {
	e.permits.release(len(leased))
	e.settler.put(backs(leased, pause)...)
}

// backs returns the outcomes of leases whose attempts did not begin.
func backs(leased []dispatcher.Claimed, pause time.Duration) []dispatcher.Settlement {
	back := make([]dispatcher.Settlement, len(leased))
	for i, c := range leased {
		back[i] = dispatcher.Settlement{ID: c.ID, Verdict: dispatcher.Back, Due: c.Due, Leased: c.Leased, Pause: pause}
	}
	return back
}

// permits limits the number of leases of an instance. A permit is taken before the lease, and
// released when the attempt has its response.
type permits struct {
	total int
	sem   *semaphore.Weighted
	inUse atomic.Int64
	asked atomic.Bool // the claimer waits for freed
	freed wait.Signal
}

func newPermits(total int) *permits {
	return &permits{total: total, sem: semaphore.NewWeighted(int64(total)), freed: wait.NewSignal()}
}

// free returns the number of free permits.
func (p *permits) free() int { return p.total - int(p.inUse.Load()) }

// try takes up to n permits without waiting.
func (p *permits) try(n int) int {
	n = min(n, p.free())
	for n > 0 && !p.sem.TryAcquire(int64(n)) {
		n /= 2 // another goroutine took some in the meantime
	}
	p.inUse.Add(int64(max(n, 0)))
	return max(n, 0)
}

// A claim is for at least gatherLeast deliveries, unless gathering that many permits takes
// longer than gatherWait. In measurements the batches grew from 25 to 50 deliveries.
const (
	gatherLeast = 32
	gatherWait  = time.Millisecond
)

// gather takes up to n permits. It waits for the first one for at most the given time, and then for
// more for at most gatherWait. It returns 0 if no permit was free, or if ctx has ended.
func (p *permits) gather(ctx context.Context, n int, first time.Duration) int {
	if !p.sem.TryAcquire(1) {
		ctx, cancel := context.WithTimeout(ctx, first)
		defer cancel()
		if p.sem.Acquire(ctx, 1) != nil {
			return 0
		}
	}
	p.inUse.Add(1)
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

// release returns n permits, and wakes the claimer if it waits.
func (p *permits) release(n int) {
	if n <= 0 {
		return
	}
	p.inUse.Add(int64(-n))
	p.sem.Release(int64(n))
	p.wake()
}

// wake wakes the claimer if it waits.
func (p *permits) wake() {
	if p.asked.Load() && p.asked.CompareAndSwap(true, false) {
		p.freed.Set()
	}
}

// An attempt in a new lane gets a loan after lendAfter. Most receivers respond in that time, and
// a hundred new lanes that hang give up a few permits in turn within a second.
const lendAfter = 25 * time.Millisecond

// LoansFor returns the default number of loans for a number of permits. 128 waiting attempts
// need 3 to 12 MiB. With fewer than 16 permits there are none: a hung lane then reserves no
// permit for better ones, and MAX_IN_FLIGHT=1 means one attempt at a time.
func LoansFor(permits int) int {
	if permits < 16 {
		return 0
	}
	return min(2*permits, max(128, permits/8))
}

// loans lets attempts in new lanes continue without a permit, one for each lane. A new lane may
// hang or not. Without loans, the new lanes that hang would occupy the permits that
// other new lanes need, until the timeout of their attempts.
type loans struct {
	permits *permits
	most    int // at once

	mu      sync.Mutex                   // guards the fields below
	waiting *list.List                   // of *newcomer: attempts without a loan, the oldest first
	lanes   map[dispatcher.Lane]struct{} // lanes with a loan
}

// newcomer is an attempt in a new lane.
type newcomer struct {
	lane  dispatcher.Lane
	since time.Time
	place *list.Element // nil: it has a loan
}

func newLoans(p *permits, most int) *loans {
	return &loans{permits: p, most: most, waiting: list.New(), lanes: map[dispatcher.Lane]struct{}{}}
}

// begin registers an attempt that has a permit. It returns nil for a lane that is not new.
func (l *loans) begin(c *dispatcher.Claimed) *newcomer {
	if !c.NewLane {
		return nil
	}
	n := &newcomer{lane: c.ID.Lane, since: time.Now()}
	l.mu.Lock()
	n.place = l.waiting.PushBack(n)
	l.mu.Unlock()
	l.permits.wake() // the claimer waits until it may get a loan
	return n
}

// end releases the permit or the loan of an attempt. n is nil if its lane was not new.
func (l *loans) end(n *newcomer) {
	if n == nil || l.leave(n) {
		l.permits.release(1)
	} else {
		l.permits.wake() // another attempt may get the loan
	}
}

// leave removes an attempt. It reports whether the attempt has a permit.
func (l *loans) leave(n *newcomer) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n.place == nil {
		delete(l.lanes, n.lane)
		return false
	}
	l.waiting.Remove(n.place)
	return true
}

// lend gives loans to the attempts that wait for lendAfter, and releases their permits. It
// returns the time until the next attempt may get one, and a negative time if none may.
func (l *loans) lend(now time.Time) (next time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for at := l.waiting.Front(); at != nil && len(l.lanes) < l.most; {
		n := at.Value.(*newcomer)
		if age := now.Sub(n.since); age < lendAfter {
			return lendAfter - age
		}
		at = at.Next()
		if _, has := l.lanes[n.lane]; has {
			continue
		}
		l.waiting.Remove(n.place)
		n.place = nil
		l.lanes[n.lane] = struct{}{}
		l.permits.release(1)
	}
	return -1
}

const (
	// sealedMost bounds the wait of a message whose headers no key opens, so that it is delivered
	// soon after its key came back, however many wait.
	sealedMost = 10 * time.Minute
	// sealedGap limits what they all cost: one instance leases at most 100 of them a second, until
	// so many wait that sealedMost makes it more.
	sealedGap = 10 * time.Millisecond
)

// sealedWaits chooses how long a message waits whose headers this instance can't open. Only that
// message waits, because the other messages of its lane may be fine.
type sealedWaits struct {
	mu   sync.Mutex // guards last
	last time.Time  // until when the latest of them waits
}

// next returns the wait of one more message.
func (w *sealedWaits) next(now time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	least := now.Add(endpoints.StalledFor)
	if w.last = w.last.Add(sealedGap); w.last.Before(least) {
		w.last = least
	}
	if most := now.Add(sealedMost); w.last.After(most) {
		w.last = most
	}
	return w.last.Sub(now)
}

// waitAlone returns the outcome of a delivery whose message this instance can't open: it waits
// without an attempt, and its lane continues.
func (e *Engine) waitAlone(c *dispatcher.Claimed) dispatcher.Settlement {
	return dispatcher.Settlement{
		ID: c.ID, Verdict: dispatcher.Back, Due: c.Due, First: c.First, Leased: c.Leased,
		Wait: e.sealed.next(e.store.Now()), Stalled: dispatcher.WhySealed,
	}
}
