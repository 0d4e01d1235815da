// Package httpapi serves the HTTP API: it checks who calls and what is asked,
// hands it to the engine, and writes the answer.
//
// The story of a publish is told by publish.go: read the body (request.go),
// decode it strictly (decode.go, fields.go), validate it, hand it on, answer
// (answer.go). Everything that goes wrong becomes a problem in problem.go, by
// one table. keys.go says who may call what.
package httpapi

import (
	"context"

	"github.com/hookladder/hookladder/dispatcher"
)

// Service is the engine as the API needs it.
type Service interface {
	// Publish takes a batch and answers one Published for each message, in
	// order; what failed for one of them stands in its Err. It may keep the
	// messages.
	Publish(ctx context.Context, batch []*dispatcher.Message) ([]dispatcher.Published, error)
	// Message reads a message with its deliveries, or dispatcher.ErrNotFound.
	Message(ctx context.Context, id string) (dispatcher.Record, error)
	// Cancel ends what is not finished of a message's deliveries, or of the one
	// in lane where that is set, and answers them as they are now.
	Cancel(ctx context.Context, id string, lane dispatcher.Lane) ([]dispatcher.Delivery, error)
	// Retry attempts the same deliveries at once; dispatcher.ErrInFlight where
	// an attempt is under way.
	Retry(ctx context.Context, id string, lane dispatcher.Lane) ([]dispatcher.Delivery, error)
	// Deliveries reads a page of a list; dispatcher.ErrCursor where the cursor
	// is none.
	Deliveries(ctx context.Context, f dispatcher.Filter) (dispatcher.Page, error)
	// Stats counts.
	Stats(ctx context.Context) (dispatcher.Stats, error)
	// Ready says what the store is, or why it can't be used now.
	Ready(ctx context.Context) (dispatcher.StoreInfo, error)
}
