// Package lookup answers questions about deliveries from the store and from the archive, so that
// callers need not care which of them has the answer. The store comes first, because it has the
// current state. The archive has the deliveries that the store forgot.
//
// While the archive is away, the store's result is used, and says how far back it is complete.
package lookup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
)

// Live is the engine, which answers from the store. It has the same methods as the API's ports.
type Live interface {
	Message(ctx context.Context, id string) (dispatcher.MessageView, error)
	Cancel(ctx context.Context, id string, lane dispatcher.Lane) ([]dispatcher.Delivery, error)
	Retry(ctx context.Context, id string, lane dispatcher.Lane, delivered bool) ([]dispatcher.Retried, error)
	Deliveries(ctx context.Context, f dispatcher.Filter) (dispatcher.Page, error)
	Ended(ctx context.Context, name string, f dispatcher.EndedFilter) (dispatcher.EndedPage, error)
	// Address fills in the present URLs and ladders of deliveries.
	Address(ctx context.Context, list []dispatcher.Delivery) error
}

// Lanes finds lanes.
type Lanes interface {
	Lane(ctx context.Context, destination, tenant string) (dispatcher.Lane, error)
	MessageTenant(ctx context.Context, id string) (string, error)
}

// Cursors seals the places where pages end.
type Cursors interface {
	// SealCursor makes a cursor of the place where a page ended, and OpenCursor reads it. See endpoints.Lanes.
	SealCursor(ctx context.Context, list string, place any) (cursor string, err error)
	OpenCursor(ctx context.Context, list, cursor string, place any) error
}

// Store reads the limits of the store: the data that it no longer has.
type Store interface {
	// Forgotten is the newest end that it forgot.
	Forgotten(ctx context.Context) (dispatcher.Forgotten, error)
	// Has reports which deliveries it has, in any state.
	Has(ctx context.Context, ids []dispatcher.DeliveryID) ([]bool, error)
	// EndedCursor is the cursor of a list of ends that was read up to a place.
	EndedCursor(ctx context.Context, f dispatcher.EndedFilter, at dispatcher.EndPlace) (string, error)
	// ListPlace is the place behind which a page of a list by acceptance begins; nil: at the newest.
	ListPlace(ctx context.Context, f dispatcher.Filter) (*dispatcher.EndPlace, error)
	// ListCursor is the cursor of such a list whose page ended at a place.
	ListCursor(ctx context.Context, f dispatcher.Filter, at dispatcher.EndPlace) (string, error)
}

// DecodeFunc reads the head of a message's record.
type DecodeFunc func(id string, head []byte) (*dispatcher.Message, error)

// Options say where a Lookup looks. All are needed.
type Options struct {
	Live    Live
	Lanes   Lanes
	Store   Store
	Cursors Cursors
	Archive archive.Finder
	Decode  DecodeFunc
	Log     *slog.Logger
	// Comparing reports whether the archive is still to be compared with the store.
	Comparing func(ctx context.Context) (bool, error)
}

// Lookup looks in both.
type Lookup struct {
	live    Live
	lanes   Lanes
	store   Store
	cursors Cursors
	archive archive.Finder
	decode  DecodeFunc
	log     *slog.Logger

	comparing func(ctx context.Context) (bool, error)
}

// New makes a Lookup.
func New(o Options) *Lookup {
	return &Lookup{live: o.Live, lanes: o.Lanes, store: o.Store, cursors: o.Cursors, archive: o.Archive, decode: o.Decode, log: o.Log, comparing: o.Comparing}
}

// find looks for a message in the archive. dispatcher.ErrArchiveAway says that it does
// not answer.
func (l *Lookup) find(ctx context.Context, id string) (*archive.Found, error) {
	found, err := l.archive.Find(ctx, id)
	if err != nil && !errors.Is(err, dispatcher.ErrNotFound) {
		l.logAway(ctx, err)
		return nil, fmt.Errorf("message %s: %w", id, dispatcher.ErrArchiveAway)
	}
	return found, err
}

// logAway logs why the archive did not answer. Callers do not get the reason.
func (l *Lookup) logAway(ctx context.Context, err error) {
	if ctx.Err() == nil {
		l.log.DebugContext(ctx, "archive not read", "err", err)
	}
}

// MessageTenant is the tenant of a message.
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

// MessageLane is the lane of a message's destination.
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

// Cancel ends the unfinished deliveries of a message. dispatcher.ErrArchived says that the store
// has it no more.
func (l *Lookup) Cancel(ctx context.Context, id string, lane dispatcher.Lane) ([]dispatcher.Delivery, error) {
	list, err := l.live.Cancel(ctx, id, lane)
	return list, l.archived(ctx, id, lane, err)
}

// Retry has a message attempted now. dispatcher.ErrArchived says that the store has it no
// more.
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
	case errors.Is(missing, dispatcher.ErrNotFound), missing != nil && errors.Is(err, dispatcher.ErrNoDelivery):
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

// edge is how far beyond the newest end that the store forgot the archive is asked: the
// times of an end may differ by some ms in the two, and clocks step.
const edge = time.Second

// reach is how far back store and archive are whole.
type reach struct {
	forgotten time.Time // the store has all ends from then on; zero: it forgot none
	archived  time.Time // and the archive those that the store forgot, from then on
	away      bool      // it does not answer
}

// reach finds that out for ends of some statuses. It is read after the store's list, so the
// archive has the deliveries that the store forgot meanwhile.
func (l *Lookup) reach(ctx context.Context, statuses []dispatcher.Status) (reach, error) {
	r, _, err := l.reachAnd(ctx, statuses)
	return r, err
}

// reachAnd returns the newest ends that the store forgot, too.
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

// since is from when on a list is whole. An emptied store does not know its lost data: if it
// forgot nothing, it is as complete as the archive.
func (r *reach) since() time.Time {
	if r.away || !r.forgotten.IsZero() && r.forgotten.Before(r.archived) {
		return r.forgotten
	}
	return r.archived
}

// asks reports whether the archive may have ends which are not after a time, and which
// the store has no more.
func (r *reach) asks(at time.Time) bool {
	newest := r.forgotten
	if r.archived.After(newest) {
		newest = r.archived
	}
	return !r.away && at.Before(newest.Add(edge))
}
