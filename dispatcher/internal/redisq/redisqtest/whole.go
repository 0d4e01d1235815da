package redisqtest

import (
	"context"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/home"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/read"
)

// These types have other names here. An embedded Store would hide its method
// Store, and several types have the name Reader.
type (
	changes       = redisq.Store
	laneReader    = read.LaneReader
	logReader     = read.LogReader
	shelfReader   = read.ShelfReader
	endpointStore = home.Endpoints
)

// Whole is a store with its readers in one value. A test replaces some of its
// methods.
type Whole struct {
	*changes
	*read.Deliveries
	*laneReader
	*logReader
	*shelfReader
	*endpointStore
}

// WholeOf joins a store with its readers.
func WholeOf(s *redisq.Store) *Whole {
	return &Whole{s, s.Deliveries, s.LaneReader, s.Attempts, s.Shelves, s.Endpoints}
}

// Bare returns the store alone.
func (w *Whole) Bare() *redisq.Store { return w.changes }

// Endpoints is the method of the endpoints' store. A field of the Store has the
// same name.
func (w *Whole) Endpoints(ctx context.Context, ids []string) ([]*dispatcher.Endpoint, error) {
	return w.endpointStore.Endpoints(ctx, ids)
}

// ListPlace is the method of Deliveries, because a shelf has a method of the
// same name.
func (w *Whole) ListPlace(ctx context.Context, f dispatcher.Filter) (*dispatcher.EndPlace, error) {
	return w.Deliveries.ListPlace(ctx, f)
}

// ListCursor returns the cursor of a list by acceptance. It is the method of
// Deliveries too.
func (w *Whole) ListCursor(ctx context.Context, f dispatcher.Filter, at dispatcher.EndPlace) (string, error) {
	return w.Deliveries.ListCursor(ctx, f, at)
}
