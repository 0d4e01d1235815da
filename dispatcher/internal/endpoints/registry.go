package endpoints

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/singleflight"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/callers"
	"github.com/hookladder/hookladder/dispatcher/internal/outage"
)

// Options are what a Registry needs of its instance.
type Options struct {
	Store   dispatcher.EndpointStore // nil: there are none
	Queue   dispatcher.Queue
	Log     *slog.Logger
	Outages *outage.Log
	Audit   dispatcher.Audit // nil: what is changed here is not kept
	Lists   *callers.Turns

	Name     func() string // this instance's present name in the queue
	PollSoon func()        // has the engine poll the queue soon

	FailingAfter time.Duration // a lane that fails for so long is logged, and told of; 0: none is

	Stirred func()                // is told that something happened in the queue; must not block
	Tell    func(dispatcher.News) // is told of lanes that fail and endpoints that are disabled; must not block
}

// Registry keeps the endpoints. It creates, changes, deletes and caches them, and writes
// their limits to their lanes. It also pauses and resumes lanes, those of bare URLs too.
type Registry struct {
	Options
	Cache    *Cache
	sweeper  *sweeper
	finisher *finisher
	keys     *keyCache
	gone     singleflight.Group // changes that disable an endpoint by an answer
	quitter  *quitter
	deleting sync.Map // ids of endpoints that calls of this process delete now

	missing, sealed seldom // logged: endpoints that don't exist, and that can't be read
}

// New makes a Registry.
func New(o Options) *Registry {
	r := &Registry{Options: o, Cache: newEndpointCache(o.Store, o.Stirred)}
	r.sweeper = newSweeper(r)
	r.finisher = newFinisher(r)
	r.keys = newKeyCache(r)
	r.quitter = newQuitter(r)
	return r
}

// Run sweeps lanes, gives up those that failed for too long, and finishes changes that
// stopped half-way, until ctx ends.
func (r *Registry) Run(ctx context.Context) error {
	var all errgroup.Group
	all.Go(func() error { return r.sweeper.Run(ctx) })
	all.Go(func() error { return r.quitter.Run(ctx) })
	all.Go(func() error { return r.finisher.Run(ctx) })
	return all.Wait()
}

// Busy reports whether something of this is under way.
func (r *Registry) Busy() bool { return r.sweeper.busy() || r.quitter.busy() || r.finisher.busy() }

// wake wakes the goroutine that waits for c, or the next that will.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// record adds what Hookladder itself changes to the audit.
func (r *Registry) record(ctx context.Context, e dispatcher.AuditEntry) {
	if r.Audit != nil {
		e.By = dispatcher.System
		r.Audit.Record(ctx, e)
	}
}

// byCaller is the attribute of the log that names the caller.
func byCaller(ctx context.Context) slog.Attr {
	return slog.String("by", cmp.Or(dispatcher.CallerOf(ctx), dispatcher.System))
}
