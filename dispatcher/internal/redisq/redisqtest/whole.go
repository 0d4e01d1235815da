package redisqtest

import (
	"context"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/attempts"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/endpoints"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/lanes"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/read"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/shelf"
)

// An embedded Store would hide its method Store, and several types are called Reader.
type (
	changes       = redisq.Store
	laneReader    = lanes.Reader
	logReader     = attempts.Reader
	shelfReader   = shelf.Reader
	endpointStore = endpoints.Store
)

// Whole is a store and its readers in one value, of which a test replaces some methods.
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

// Bare is the store alone.
func (w *Whole) Bare() *redisq.Store { return w.changes }

// Endpoints is the method of the endpoints' store, which has the name of a field of the Store.
func (w *Whole) Endpoints(ctx context.Context, ids []string) ([]*dispatcher.Endpoint, error) {
	return w.endpointStore.Endpoints(ctx, ids)
}

// ListPlace and ListCursor are those of Deliveries: a shelf has the same.
func (w *Whole) ListPlace(ctx context.Context, f dispatcher.Filter) (*dispatcher.EndPlace, error) {
	return w.Deliveries.ListPlace(ctx, f)
}

// ListCursor is the cursor of a list by acceptance.
func (w *Whole) ListCursor(ctx context.Context, f dispatcher.Filter, at dispatcher.EndPlace) (string, error) {
	return w.Deliveries.ListCursor(ctx, f, at)
}
