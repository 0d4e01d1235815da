package endpoints

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/callers"
	"github.com/hookladder/hookladder/dispatcher/internal/outage"
)

// Options configure a Registry.
type Options struct {
	Store   dispatcher.EndpointStore // nil: there are no endpoints
	Queue   Lanes
	Log     *slog.Logger
	Outages *outage.Log
	Audit   dispatcher.Audit // nil: changes made by Hookladder itself are not recorded
	Lists   *callers.Shares

	LaneReads LaneReads
	// Read reads a message and its deliveries, or returns ErrNotFound.
	Read func(ctx context.Context, id string) (dispatcher.MessageView, error)
	// ReadDead counts dead deliveries by destination and reason, as exactly as Stats.
	ReadDead func(ctx context.Context, f dispatcher.DeadFilter) (dispatcher.DeadPage, error)

	Name     func() string // the current name of this instance in the queue
	PollSoon func()        // makes the engine poll the queue soon

	FailingAfter time.Duration // how long a lane fails before it is logged and notified; 0: never

	OnActivity func()                // called when something happened in the queue; must not block
	Notify     func(dispatcher.News) // called for failing lanes and disabled endpoints; must not block
}

// Registry manages the endpoints. It creates, changes, deletes and caches them, and
// writes their limits to their lanes. It also pauses and resumes lanes, including the
// lanes of bare URLs.
//
// The engine reads endpoints from the Cache and reports failing destinations (Failing,
// GiveUp). The API calls the other methods. Run repairs the rest in the background
// (see repairs).
type Registry struct {
	Options
	Cache    *Cache
	repairs  *repairs
	keys     *keyCache
	gone     singleflight.Group // merges changes that disable one endpoint
	deleting sync.Map           // ids of endpoints that are being deleted by this process

	missing, sealed logLimiter // limit the log about missing endpoints, and about unreadable ones
}

// New returns a Registry.
func New(o Options) *Registry {
	r := &Registry{Options: o, Cache: newEndpointCache(o.Store, o.OnActivity)}
	r.repairs = newRepairs(r)
	r.keys = newKeyCache(r)
	return r
}

// Run gives up failing destinations, finishes changes that stopped half-way, and sweeps lanes,
// until ctx ends.
func (r *Registry) Run(ctx context.Context) error { return r.repairs.Run(ctx) }

// Busy reports whether a background task is running or requested.
func (r *Registry) Busy() bool { return r.repairs.busy() }

// record adds an act of Hookladder itself to the audit log.
func (r *Registry) record(ctx context.Context, e dispatcher.AuditEntry) {
	if r.Audit != nil {
		e.By = dispatcher.System
		r.Audit.Record(ctx, e)
	}
}

// byCaller returns the log attribute with the caller's name.
func byCaller(ctx context.Context) slog.Attr {
	return slog.String("by", cmp.Or(dispatcher.CallerOf(ctx), dispatcher.System))
}

// byLink reports whether the caller is a person with a link.
func byLink(ctx context.Context) bool {
	c, ok := dispatcher.BrowserOf(ctx)
	return ok && c.Linked()
}
