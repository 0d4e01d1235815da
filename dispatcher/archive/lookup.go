package archive

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// LookupLive is the engine, which queries the store. It has the same methods as the API's ports.
type LookupLive interface {
	Message(ctx context.Context, id string) (dispatcher.MessageView, error)
	Cancel(ctx context.Context, id string, lane dispatcher.Lane) ([]dispatcher.Delivery, error)
	Retry(ctx context.Context, id string, lane dispatcher.Lane, delivered bool) ([]dispatcher.Retried, error)
	Deliveries(ctx context.Context, f dispatcher.Filter) (dispatcher.Page, error)
	Ended(ctx context.Context, name string, f dispatcher.EndedFilter) (dispatcher.EndedPage, error)
	// Address fills in the current URLs and ladders of deliveries.
	Address(ctx context.Context, list []dispatcher.Delivery) error
}

// LookupLanes finds lanes.
type LookupLanes interface {
	Lane(ctx context.Context, destination, tenant string) (dispatcher.Lane, error)
	MessageTenant(ctx context.Context, id string) (string, error)
}

// LookupCursors encrypts the cursors of pages.
type LookupCursors interface {
	// SealCursor returns the cursor for a place, and OpenCursor decrypts it. See
	// endpoints.Lanes.
	SealCursor(ctx context.Context, list string, place any) (cursor string, err error)
	OpenCursor(ctx context.Context, list, cursor string, place any) error
}

// LookupStore reports the limits of the store: the data that it deleted or lost.
type LookupStore interface {
	// Forgotten returns the newest end that it deleted.
	Forgotten(ctx context.Context) (dispatcher.Forgotten, error)
	// Has reports which deliveries it has, in any state.
	Has(ctx context.Context, ids []dispatcher.DeliveryID) ([]bool, error)
	// EndedCursor returns the cursor of a list of ends after a place.
	EndedCursor(ctx context.Context, f dispatcher.EndedFilter, at dispatcher.EndPlace) (string, error)
	// ListPlace returns the place after which a page of a list by acceptance begins; nil: at
	// the newest.
	ListPlace(ctx context.Context, f dispatcher.Filter) (*dispatcher.EndPlace, error)
	// ListCursor returns the cursor of such a list after a place.
	ListCursor(ctx context.Context, f dispatcher.Filter, at dispatcher.EndPlace) (string, error)
}

// DecodeFunc decodes the head of a message's record.
type DecodeFunc func(id string, head []byte) (*dispatcher.Message, error)

// LookupOptions are the dependencies of a Lookup. All are required.
type LookupOptions struct {
	Live    LookupLive
	Lanes   LookupLanes
	Store   LookupStore
	Cursors LookupCursors
	Archive Finder
	Decode  DecodeFunc
	Log     *slog.Logger
	// Comparing reports whether the comparison of archive and store is not finished.
	Comparing func(ctx context.Context) (bool, error)
}

// Lookup queries store and archive.
type Lookup struct {
	live    LookupLive
	lanes   LookupLanes
	store   LookupStore
	cursors LookupCursors
	archive Finder
	decode  DecodeFunc
	log     *slog.Logger

	comparing func(ctx context.Context) (bool, error)
}

// NewLookup returns a Lookup.
func NewLookup(o LookupOptions) *Lookup {
	return &Lookup{live: o.Live, lanes: o.Lanes, store: o.Store, cursors: o.Cursors, archive: o.Archive, decode: o.Decode, log: o.Log, comparing: o.Comparing}
}

// find queries the archive for a message. It returns dispatcher.ErrArchiveAway if the archive
// does not respond.
func (l *Lookup) find(ctx context.Context, id string) (*Found, error) {
	found, err := l.archive.Find(ctx, id)
	if err != nil && !errors.Is(err, dispatcher.ErrNotFound) {
		l.logAway(ctx, err)
		return nil, fmt.Errorf("message %s: %w", id, dispatcher.ErrArchiveAway)
	}
	return found, err
}

// logAway logs the error of the archive. Callers do not get it.
func (l *Lookup) logAway(ctx context.Context, err error) {
	if ctx.Err() == nil {
		l.log.DebugContext(ctx, "archive not read", "err", err)
	}
}

// MessageTenant returns the tenant of a message.
func (l *Lookup) MessageTenant(ctx context.Context, id string) (string, error) {
	tenant, err := l.lanes.MessageTenant(ctx, id)
	if !errors.Is(err, dispatcher.ErrNotFound) {
		return tenant, err
	}
	found, err := l.find(ctx, id)
	if err != nil {
		return "", err
	}
	return found.Message.Tenant, nil
}

// MessageLane returns the lane of a message's destination.
func (l *Lookup) MessageLane(ctx context.Context, id, destination string) (dispatcher.Lane, error) {
	tenant := ""
	if strings.Contains(destination, "://") {
		var err error
		if tenant, err = l.MessageTenant(ctx, id); err != nil {
			return "", err
		}
	}
	return l.lanes.Lane(ctx, destination, tenant)
}

// Cancel ends the unfinished deliveries of a message. It returns dispatcher.ErrArchived if
// only the archive has the message.
func (l *Lookup) Cancel(ctx context.Context, id string, lane dispatcher.Lane) ([]dispatcher.Delivery, error) {
	list, err := l.live.Cancel(ctx, id, lane)
	return list, l.archived(ctx, id, lane, err)
}

// Retry attempts a message now. It returns dispatcher.ErrArchived if only the archive has the
// message.
func (l *Lookup) Retry(ctx context.Context, id string, lane dispatcher.Lane, delivered bool) ([]dispatcher.Retried, error) {
	list, err := l.live.Retry(ctx, id, lane, delivered)
	return list, l.archived(ctx, id, lane, err)
}

// archived corrects an error about a message, or about its delivery in a lane, if the archive
// may still have it.
func (l *Lookup) archived(ctx context.Context, id string, lane dispatcher.Lane, err error) error {
	if !errors.Is(err, dispatcher.ErrNotFound) && !errors.Is(err, dispatcher.ErrNoDelivery) {
		return err
	}
	found, missing := l.find(ctx, id)
	switch {
	case errors.Is(missing, dispatcher.ErrNotFound):
		return err
	case missing != nil:
		return missing
	case lane == "":
		return fmt.Errorf("message %s: %w", id, dispatcher.ErrArchived)
	}
	for i := range found.Deliveries {
		if found.Deliveries[i].ID.Lane == lane {
			return fmt.Errorf("message %s to %s: %w", id, lane, dispatcher.ErrArchived)
		}
	}
	return fmt.Errorf("message %s to %s: %w", id, lane, dispatcher.ErrNoDelivery)
}

// edge is added to the time of the newest end that the store deleted, before the archive is
// queried. The times of an end may differ by some ms between the two, and clocks step.
const edge = time.Second

// reach reports how far back store and archive are complete.
type reach struct {
	forgotten time.Time // the store has all ends from this time; zero: it deleted none
	archived  time.Time // from this time the archive has all ends that the store deleted
	away      bool      // it does not respond
}

// reach queries this for ends of some statuses. It runs after the query of the store's list,
// so the archive has the deliveries that the store deleted in the meantime.
func (l *Lookup) reach(ctx context.Context, statuses []dispatcher.Status) (reach, error) {
	r, _, err := l.reachAnd(ctx, statuses)
	return r, err
}

// reachAnd also returns the newest ends that the store deleted.
func (l *Lookup) reachAnd(ctx context.Context, statuses []dispatcher.Status) (r reach, f dispatcher.Forgotten, err error) {
	if f, err = l.store.Forgotten(ctx); err != nil {
		return r, f, err
	}
	r.forgotten = f.Since(statuses)
	if r.archived, err = l.archive.Since(ctx); err != nil {
		l.logAway(ctx, err)
		r.away = true
	}
	return r, f, ctx.Err()
}

// since returns the time from which a list is complete. An emptied store does not know its
// lost data. So if it deleted nothing, it is as complete as the archive.
func (r *reach) since() time.Time {
	if r.away || !r.forgotten.IsZero() && r.forgotten.Before(r.archived) {
		return r.forgotten
	}
	return r.archived
}

// asks reports whether the archive may have ends, at or before a time, that the store does not
// have.
func (r *reach) asks(at time.Time) bool {
	newest := r.forgotten
	if r.archived.After(newest) {
		newest = r.archived
	}
	return !r.away && at.Before(newest.Add(edge))
}

// lostMessage returns the archive's copy of a message that the store lost, or of which it has
// only some deliveries. err is the store's error.
func (l *Lookup) lostMessage(ctx context.Context, left dispatcher.MessageView, err error) (dispatcher.MessageView, error) {
	found, failed := l.find(ctx, left.Message.ID)
	if failed != nil { // a restore repairs it
		return dispatcher.MessageView{}, err
	}
	kept, failed := l.view(ctx, found)
	if failed != nil || left.Message.Topic == "" {
		return kept, failed
	}
	for i := range kept.Deliveries {
		d := &kept.Deliveries[i]
		if !slices.ContainsFunc(left.Deliveries, func(live dispatcher.Delivery) bool { return live.ID == d.ID }) {
			left.Deliveries = append(left.Deliveries, *d)
		}
	}
	return left, nil
}

// Deliveries returns a page of deliveries. If the store lost some of them, their ends come
// from the archive. Unfinished deliveries must be restored first.
func (l *Lookup) Deliveries(ctx context.Context, f dispatcher.Filter) (dispatcher.Page, error) {
	page, err := l.deliveries(ctx, f)
	var lost *dispatcher.Emptied
	if !errors.As(err, &lost) || !findable(&f) || !onlyEnds(&f) {
		return page, err
	}
	f.Left = true
	page, failed := l.deliveries(ctx, f)
	if errors.Is(failed, dispatcher.ErrArchiveAway) {
		return dispatcher.Page{}, err
	}
	return page, failed
}

// onlyEnds reports whether a filter includes only ends.
func onlyEnds(f *dispatcher.Filter) bool {
	return len(f.Statuses) == 0 && len(f.Reasons) > 0 || len(f.Statuses) > 0 && len(endsOf(f)) == len(f.Statuses)
}

// Ended returns a page of the finished deliveries of an endpoint, oldest first. If the store
// lost some of them, they come from the archive.
func (l *Lookup) Ended(ctx context.Context, name string, f dispatcher.EndedFilter) (dispatcher.EndedPage, error) {
	page, err := l.ended(ctx, name, f)
	var lost *dispatcher.Emptied
	if !errors.As(err, &lost) || lost.Home {
		return page, err
	}
	f.Left = true
	page, failed := l.ended(ctx, name, f)
	if errors.Is(failed, dispatcher.ErrArchiveAway) {
		return dispatcher.EndedPage{}, err
	}
	return page, failed
}
