package dispatcher

import (
	"context"
	"log/slog"
	"maps"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// engine is what the stages share.
type engine struct {
	queue   Queue
	log     *slog.Logger
	trouble *trouble
	view    *view
	permits *permits
	gate    *gate
	settler *settler
	trimmer *trimmer

	base    string // of this process' names
	renamed atomic.Int64
	born    time.Time
	beaten  atomic.Int64 // ns from born to the last beat; 0: none yet

	leasing sync.RWMutex // held for writing while leases are compared with the queue's
	leased  atomic.Bool  // something was leased since they were
	unsure  atomic.Bool  // an answer was lost: compare at the next beat

	holding sync.Mutex // guards held
	held    map[DeliveryID]struct{}

	look    chan struct{} // 1 deep: look at all partitions
	settled chan struct{} // 1 deep: outcomes were recorded
	stopped chan struct{} // closed when nothing is accepted any more
}

// name is what this instance is called in the queue. One that was declared
// dead goes on under another: what it held is no longer its own.
func (e *engine) name() string {
	if n := e.renamed.Load(); n > 0 {
		return e.base + "-" + strconv.FormatInt(n+1, 10)
	}
	return e.base
}

// rename leaves the name old, unless another stage that met the same did so.
func (e *engine) rename(old string) {
	n := e.renamed.Load()
	if e.name() != old || !e.renamed.CompareAndSwap(n, n+1) {
		return
	}
	e.beaten.Store(0)
	e.log.Info("declared dead, going on under another name", "instance", old, "name", e.name())
}

// mayLease reports whether this instance is sure enough to be alive, and has
// few enough outcomes waiting, to take more.
func (e *engine) mayLease() bool {
	beaten := e.beaten.Load()
	return beaten > 0 && time.Since(e.born)-time.Duration(beaten) < beatOld && !e.settler.behind()
}

// hold remembers what was leased.
func (e *engine) hold(claimed []Claimed) {
	if len(claimed) == 0 {
		return
	}
	e.leased.Store(true)
	e.holding.Lock()
	defer e.holding.Unlock()
	for i := range claimed {
		e.held[claimed[i].ID] = struct{}{}
	}
}

func (e *engine) release(id DeliveryID) {
	e.holding.Lock()
	defer e.holding.Unlock()
	delete(e.held, id)
}

// holds is all that is held now.
func (e *engine) holds() map[DeliveryID]struct{} {
	e.holding.Lock()
	defer e.holding.Unlock()
	return maps.Clone(e.held)
}

// lookAround has all partitions looked at soon.
func (e *engine) lookAround() { signal(e.look) }

// repeat tells of err, if it is one, and waits before the call is made again.
// It answers how many have failed in a row.
func (e *engine) repeat(ctx context.Context, stage string, failures int, err error) int {
	if ctx.Err() != nil {
		return failures
	}
	e.trouble.note(stage, err)
	if err == nil {
		return 0
	}
	pause(ctx, failures+1)
	return failures + 1
}

// newIdleTimer is a timer that does not run yet.
func newIdleTimer() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}
