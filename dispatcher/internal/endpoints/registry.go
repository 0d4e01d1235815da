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

// Lanes are the changes of lanes that a Registry makes, with the cursors of its lists. After
// an error that wraps dispatcher.ErrUnavailable it is unknown whether the change was made.
type Lanes interface {
	// Limit writes the copy of a lane's limits, unless the stored copy is as new, and moves
	// the lane to its new place. It always writes limits with version 0, to pause and resume a
	// lane without an endpoint. For AllLanes it only uses Mode, for every lane. With clear it
	// also closes the breaker, and forgets the pause that a receiver requested and the start
	// of the lane's failures. It returns the count from before the change.
	Limit(ctx context.Context, by string, lane dispatcher.Lane, l dispatcher.LaneLimits, clear bool) (dispatcher.LaneCount, error)
	// Sweep ends a batch of the waiting deliveries of a disabled, deleted or cut lane, from
	// cursor on ("" at first). It returns the next cursor, "" at the end. Deliveries that it
	// does not reach end when they become due.
	Sweep(ctx context.Context, by string, lane dispatcher.Lane, cursor string) (ended int, next string, err error)
	// Cut gives up a bare URL's lane that has failed since then, unless a person paused it.
	// Messages accepted before end with LaneCut, and the lane no longer counts as failing.
	// waiting is the count from before. cut is false if nothing was changed.
	Cut(ctx context.Context, by string, lane dispatcher.Lane, since time.Time) (waiting int, cut bool, err error)
	// Uncut removes the cut of a lane after a whole sweep that ended nothing, unless deliveries
	// in flight may be older.
	Uncut(ctx context.Context, by string, lane dispatcher.Lane) error
	// Works records that an attempt outside the queue succeeded: the lane does not fail any
	// more, and its breaker closes.
	Works(ctx context.Context, by string, lane dispatcher.Lane) error
	// ForgetLane deletes the limits of a lane without an endpoint, if they still have that
	// version and are at least age old, and the lane is empty. It reports whether it did. A
	// paused lane that is not empty had an endpoint: from then on that endpoint is missing
	// (WhyMissing), and the lane is not paused any more.
	ForgetLane(ctx context.Context, by string, copied dispatcher.LaneVersion, age time.Duration) (forgotten bool, err error)
	// Intact checks, after nothing was found, that the store still has the data that it had
	// when this instance started: the data of these lanes, or all data if none is named. The
	// project's own data belong to the lanes of endpoints. Otherwise the error is an Emptied.
	Intact(ctx context.Context, lanes ...dispatcher.Lane) error
	// Now is the time by the queue's clock.
	Now() time.Time
	// SealCursor makes a cursor from the place where a page ended, which must marshal to JSON.
	// list is a ListName.
	SealCursor(ctx context.Context, list string, place any) (cursor string, err error)
	// OpenCursor reads the place of a cursor. It returns ErrCursor for a cursor of another
	// list, and for one of data that the store has lost.
	OpenCursor(ctx context.Context, list, cursor string, place any) error
}

// LaneReads are the queries of a Registry for lanes. None changes anything.
type LaneReads interface {
	// StoppedLanes reads a page of the paused, disabled, deleted and cut lanes, without AllLanes.
	// One may be listed twice. next is empty at the end. Beside an error, next is behind the
	// part that could not be read.
	StoppedLanes(ctx context.Context, cursor string) (list []dispatcher.StoppedLane, next string, err error)
	// LaneNames reads a page of the names of lanes. One may be listed twice. next is as with
	// StoppedLanes.
	LaneNames(ctx context.Context, cursor string) (list []dispatcher.LaneName, next string, err error)
	// LaneStates reads lanes, in the given order.
	LaneStates(ctx context.Context, lanes []dispatcher.Lane) ([]dispatcher.LaneState, error)
	// Lanes reads a page of all known lanes: the paused ones, then the others, last made first.
	// While everything is paused, AllLanes is the first lane of the first page.
	Lanes(ctx context.Context, limit int, cursor string) (states []dispatcher.LaneState, next string, err error)
	// PausedLanes reads at most most paused lanes: AllLanes first, then the last paused ones.
	// total counts all of them. Lanes that were read are returned also beside an error of other
	// partitions.
	PausedLanes(ctx context.Context, most int) (states []dispatcher.LaneState, total int, err error)
	// FailingLanes reads the lanes of which no attempt succeeded since one failed, the most waiting
	// first, at most 500.
	FailingLanes(ctx context.Context) ([]dispatcher.LaneState, error)
}

// Dead counts the dead deliveries by destination and reason. It returns ErrListing if too
// many callers list now.
func (r *Registry) Dead(ctx context.Context, f dispatcher.DeadFilter) (dispatcher.DeadPage, error) {
	_, leave, err := r.Lists.Enter(ctx)
	if err != nil {
		return dispatcher.DeadPage{}, err
	}
	defer leave()
	if r.Store != nil {
		for _, tenant := range f.Tenants {
			list, err := r.Cache.tenant(ctx, tenant)
			if err != nil {
				return dispatcher.DeadPage{}, err
			}
			for _, e := range list {
				f.Owned = append(f.Owned, e.Endpoint.Lane())
			}
		}
	}
	page, err := r.ReadDead(ctx, f)
	if err != nil {
		return dispatcher.DeadPage{}, err
	}
	states := make([]dispatcher.LaneState, len(page.Groups))
	for i, g := range page.Groups {
		states[i].Lane = g.Lane
	}
	if err := r.FillURLs(ctx, states); err != nil {
		return dispatcher.DeadPage{}, err
	}
	for i, s := range states {
		if s.URL != "" {
			g := &page.Groups[i]
			g.URL, g.Tenant, g.UID = s.URL, s.Tenant, s.UID
		}
	}
	return page, nil
}
