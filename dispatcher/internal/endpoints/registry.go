package endpoints

import (
	"cmp"
	"context"
	"log/slog"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/singleflight"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/outage"
	"github.com/hookladder/hookladder/dispatcher/internal/turns"
)

// Options are what the endpoints need of the instance that they are part of.
type Options struct {
	Store   dispatcher.EndpointStore // nil: there are none
	Queue   dispatcher.Queue
	Log     *slog.Logger
	Outages *outage.Log
	Lists   turns.Turns

	Name     func() string // what this instance is called in the queue now
	PollSoon func()        // has the queue asked soon what there is to do
}

// Registry keeps the endpoints: it makes, changes and deletes them, knows those
// that were asked for, and has the lanes keep their limits. It pauses and resumes
// any lane, also those of bare URLs.
type Registry struct {
	Options
	Cache    *Cache
	sweeper  *sweeper
	finisher *finisher
	keys     *keyCache
	gone     singleflight.Group // changes that disable an endpoint after a 410

	missing, sealed seldom // told of endpoints that are not there, and that can't be read
}

// New makes a Registry.
func New(o Options) *Registry {
	r := &Registry{Options: o, Cache: newEndpointCache(o.Store)}
	r.sweeper = newSweeper(r)
	r.finisher = newFinisher(r)
	r.keys = newKeyCache(r)
	return r
}

// Run sweeps lanes and finishes changes that stopped half-way, until ctx ends.
func (r *Registry) Run(ctx context.Context) error {
	var both errgroup.Group
	both.Go(func() error { return r.sweeper.Run(ctx) })
	both.Go(func() error { return r.finisher.Run(ctx) })
	return both.Wait()
}

// wake wakes the goroutine that waits for c, or the next that will.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// byCaller tells the log who asked.
func byCaller(ctx context.Context) slog.Attr {
	return slog.String("key", cmp.Or(dispatcher.CallerOf(ctx), dispatcher.System))
}
