package engine

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/outage"
	"github.com/hookladder/hookladder/dispatcher/internal/wait"
)

const (
	// networkFirst is the wait of a lane after the first attempt that failed because of our
	// own network. Each further wait doubles, up to networkMost.
	networkFirst = time.Second
	networkMost  = 15 * time.Second
	// networkBlame is how long a lane waits for our network without using a rung. The limit
	// exists because a broken zone may look like a fault of ours for ever.
	networkBlame = time.Hour
	// networkRate is the number of attempts a second that all waiting lanes make together
	// while our network is down.
	networkRate = 20
	// networkLogged is the interval for logging a fault that lasts.
	networkLogged = time.Minute
	// networkLanes limits the remembered lanes. Other lanes wait for at most networkMost.
	networkLanes = 1 << 16
)

// ownNetwork handles attempts that failed because of our own network: the resolver, the route
// or the proxy. Their lanes wait, and no receiver is blamed. Lanes without such a fault are
// not slowed, because a tenant can make any number of its own attempts fail.
type ownNetwork struct {
	engine *Engine
	sender dispatcher.Network // nil: the sender does not know its network
	works  wait.Signal        // signalled when controls succeed again
	faults map[dispatcher.EgressFault]*atomic.Int64

	mu     sync.Mutex                           // guards the fields below
	begun  [networkRate]time.Time               // ring of the last attempts of waiting lanes
	oldest int                                  // index of the oldest one
	lanes  map[dispatcher.Lane]struct{}         // waiting lanes
	down   map[dispatcher.EgressFault]time.Time // when controls began to fail
	logged time.Time
	again  int // attempts that failed after the last log line
}

func newOwnNetwork(e *Engine, s dispatcher.Sender) *ownNetwork {
	n := &ownNetwork{
		engine: e, works: wait.NewSignal(), faults: map[dispatcher.EgressFault]*atomic.Int64{},
		lanes: map[dispatcher.Lane]struct{}{}, down: map[dispatcher.EgressFault]time.Time{},
	}
	n.sender, _ = s.(dispatcher.Network)
	for _, why := range dispatcher.EgressFaults() {
		n.faults[why] = &atomic.Int64{}
	}
	return n
}

// nextWait returns the wait of a lane after an attempt that failed because of our network.
func nextWait(last dispatcher.EgressWait) time.Duration {
	return min(max(2*last.Wait, networkFirst), networkMost)
}

// mayAttempt reports whether a delivery may be attempted now. It only limits lanes that wait
// for our network, and only while the network is down. Otherwise wait is how long the lane has
// to wait. It is partly random, because thousands of lanes may wait.
func (n *ownNetwork) mayAttempt(c *dispatcher.Claimed) (wait time.Duration, may bool) {
	if c.Egress.Since.IsZero() || n.sender == nil {
		return 0, true
	}
	switch n.sender.NetworkState() {
	case dispatcher.NetworkUp:
		return 0, true
	case dispatcher.NetworkUnknown: // another instance made the lane wait
		n.sender.CheckNetwork()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.remember(c.ID.Lane)
	now := time.Now()
	if first := n.begun[n.oldest]; !first.IsZero() && now.Sub(first) < time.Second {
		wait = nextWait(c.Egress)
		return wait - rand.N(wait/2), false
	}
	n.begun[n.oldest] = now
	n.oldest = (n.oldest + 1) % networkRate
	return 0, true
}

// remember records a waiting lane. mu is locked.
func (n *ownNetwork) remember(lane dispatcher.Lane) {
	if len(n.lanes) < networkLanes {
		n.lanes[lane] = struct{}{}
	}
}

// failed counts an attempt that failed because of our network. It reports whether the delivery
// goes back, and how long its lane then waits. If the lane has waited for networkBlame without
// another outcome, the delivery does not go back, and the receiver is blamed.
func (n *ownNetwork) failed(c *dispatcher.Claimed, fault *dispatcher.EgressError) (wait time.Duration, back bool) {
	if count := n.faults[fault.Why]; count != nil {
		count.Add(1)
	}
	since := c.Egress.Since
	n.mu.Lock()
	defer n.mu.Unlock()
	n.again++
	if now := time.Now(); n.logged.IsZero() || now.Sub(n.logged) >= networkLogged {
		n.engine.log.Error("our own network failed: deliveries wait, no receiver is blamed",
			"why", string(fault.Why), "err", fault.Err, "attempts", n.again, "cure", networkCures[fault.Why])
		n.logged, n.again = now, 0
	}
	if !since.IsZero() && n.engine.store.Now().Sub(since) >= networkBlame {
		return 0, false
	}
	n.remember(c.ID.Lane)
	return nextWait(c.Egress), true
}

// networkCures are instructions for the operator.
var networkCures = map[dispatcher.EgressFault]string{
	dispatcher.FaultResolver: "make the resolver of this host answer (/etc/resolv.conf)",
	dispatcher.FaultRoute:    "give this host its route and its network interface back",
	dispatcher.FaultProxy:    "make the proxy of EGRESS_PROXY answer",
}

// Run follows the controls until ctx ends. When they succeed again, it attempts the waiting
// lanes at once.
func (n *ownNetwork) Run(ctx context.Context) error {
	if n.sender == nil {
		return nil
	}
	n.sender.WatchNetwork(ctx, n.changed)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-n.works:
		}
		n.engine.outages.Report("end waits", n.endWaits(ctx))
	}
}

// endWaits ends the waits of the remembered lanes. If the queue does not respond, the lanes
// wait for at most networkMost, and stay remembered.
func (n *ownNetwork) endWaits(ctx context.Context) error {
	n.mu.Lock()
	lanes := make([]dispatcher.Lane, 0, len(n.lanes))
	for lane := range n.lanes {
		lanes = append(lanes, lane)
	}
	clear(n.lanes)
	n.mu.Unlock()
	if len(lanes) == 0 {
		return nil
	}
	ctx, cancel := outage.Within(ctx)
	defer cancel()
	err := n.engine.deliveries.EndWaits(ctx, n.engine.name(), lanes)
	if err != nil {
		n.mu.Lock()
		defer n.mu.Unlock()
		for _, lane := range lanes {
			n.remember(lane)
		}
	}
	return err
}

// changed logs and publishes that controls of a kind began to fail, or succeed again.
func (n *ownNetwork) changed(why dispatcher.EgressFault, err error) {
	now := n.engine.store.Now()
	n.mu.Lock()
	since, was := n.down[why]
	if err != nil {
		n.down[why] = now
	} else {
		delete(n.down, why)
	}
	n.mu.Unlock()
	switch {
	case err != nil:
		n.engine.notify(dispatcher.News{
			Notice: dispatcher.NoticeEgressDown, Since: now.Truncate(time.Millisecond), Reason: string(why), Detail: err.Error(),
		})
		return
	case was:
		n.engine.log.LogAttrs(context.Background(), slog.LevelInfo, "our own network works again",
			slog.String("why", string(why)), seconds("after_s", now.Sub(since)))
		n.engine.notify(dispatcher.News{Notice: dispatcher.NoticeEgressUp, Since: since.Truncate(time.Millisecond), Reason: string(why)})
	}
	n.works.Set()
}

// Network reports whether our own network works according to the controls. It also returns how
// many attempts each fault made fail.
func (e *Engine) Network() (up bool, faults map[dispatcher.EgressFault]int64) {
	n := e.network
	faults = make(map[dispatcher.EgressFault]int64, len(n.faults))
	for why, count := range n.faults {
		faults[why] = count.Load()
	}
	return n.sender == nil || n.sender.NetworkState() != dispatcher.NetworkDown, faults
}

// shortage is the state in which this host has no file descriptor, port or buffer left for a
// connection to a receiver. No receiver is to blame, so the delivery returns to the head of
// its lane. Leasing pauses, because otherwise the delivery would be leased again at once and
// fail again.
type shortage struct {
	log  *slog.Logger
	over wait.Signal // signalled when leases may be taken again

	on    atomic.Bool  // leasing is paused
	total atomic.Int64 // attempts that were not made

	mu     sync.Mutex    // guards the fields below
	wait   time.Duration // length of the last pause
	ended  time.Time     // when the last pause ended
	logged time.Time     // when the shortage was last logged
	again  int           // attempts that were not made after the last log line
}

const (
	// Pauses double while the shortage lasts. The longest is short compared to the ladder. It
	// is long enough that 1,024 failing dials cost no noticeable CPU.
	shortageFirst = 50 * time.Millisecond
	shortageMost  = time.Second
	// After shortageCalm without a shortage the pauses start again with the shortest.
	shortageCalm = 10 * time.Second
	// shortageEvery is the interval for logging a shortage that lasts.
	shortageEvery = time.Minute
)

// report counts an attempt that was not made because this host could not open a connection.
func (s *shortage) report(err error) {
	s.total.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.again++
	if s.logged.IsZero() || now.Sub(s.logged) >= shortageEvery {
		s.log.Error("no connection could be opened: deliveries wait, no receiver is blamed",
			"err", err, "deliveries", s.again,
			"cure", "raise the limit of file descriptors (ulimit -n), lower MAX_IN_FLIGHT, or run more instances")
		s.logged, s.again = now, 0
	}
	if s.on.Load() {
		return // the attempt began before the pause
	}
	if now.Sub(s.ended) >= shortageCalm {
		s.wait = 0
	}
	s.wait = min(max(2*s.wait, shortageFirst), shortageMost)
	s.on.Store(true)
	time.AfterFunc(s.wait, s.end)
}

func (s *shortage) end() {
	s.mu.Lock()
	s.ended = time.Now()
	s.on.Store(false)
	s.mu.Unlock()
	s.over.Set()
}

// Exhausted returns how many attempts were not made because this host had no file descriptor,
// port or buffer left for a connection.
func (e *Engine) Exhausted() int64 { return e.shortage.total.Load() }
