// Package httpapi serves the HTTP API: it checks who calls and what is asked,
// hands it to the engine, and writes the answer.
//
// The story of a publish is told by publish.go: read the body (request.go),
// decode it strictly (decode.go, fields.go), validate it, hand it on, answer
// (response.go). Endpoints are read field by field from endpoint_fields.go, and
// changed by the merge patch of patch.go. Everything that goes wrong becomes a
// problem in problem.go, by one table. keys.go says who may call what.
package httpapi

import (
	"context"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/signer"
)

// Service is the engine as the API needs it.
type Service interface {
	MessageService
	EndpointService
	LaneService
	// Stats counts.
	Stats(ctx context.Context) (dispatcher.Stats, error)
	// Ready says what the store is, or why it can't be used now.
	Ready(ctx context.Context) (dispatcher.StoreInfo, error)
}

// MessageService takes messages and tells of them.
type MessageService interface {
	// Publish takes a batch and answers one Published for each message, in
	// order; what failed for one of them stands in its Err. It may keep the
	// messages, and changes an endpoint that is named by its uid to its id.
	Publish(ctx context.Context, batch []*dispatcher.Message) ([]dispatcher.Published, error)
	// Message reads a message with its deliveries, or dispatcher.ErrNotFound.
	Message(ctx context.Context, id string) (dispatcher.MessageView, error)
	// Cancel ends what is not finished of a message's deliveries, or of the one
	// in lane where that is set, and answers them as they are now.
	Cancel(ctx context.Context, id string, lane dispatcher.Lane) ([]dispatcher.Delivery, error)
	// Retry attempts the same deliveries at once, those that were delivered only
	// where they are meant too, and tells why it leaves the others.
	Retry(ctx context.Context, id string, lane dispatcher.Lane, delivered bool) ([]dispatcher.Retried, error)
	// Deliveries reads a page of a list; dispatcher.ErrCursor where the cursor
	// is none.
	Deliveries(ctx context.Context, f dispatcher.Filter) (dispatcher.Page, error)
}

// EndpointService keeps endpoints. A name is an id or a uid; one that is
// nobody's is dispatcher.ErrNoEndpoint.
type EndpointService interface {
	// CreateEndpoint registers an endpoint, whose secret may be missing. created
	// is false where one with its uid is there and equal; dispatcher.ErrTaken
	// where it is not equal.
	CreateEndpoint(ctx context.Context, e *dispatcher.Endpoint) (view dispatcher.EndpointView, created bool, err error)
	// Endpoint reads one endpoint.
	Endpoint(ctx context.Context, name string) (dispatcher.EndpointView, error)
	// Endpoints reads a page of endpoints; dispatcher.ErrCursor where the cursor
	// is none.
	Endpoints(ctx context.Context, f dispatcher.EndpointFilter) (views []dispatcher.EndpointView, next string, err error)
	// PublicKeys reads a page of public keys; dispatcher.ErrCursor where the
	// cursor is none. It costs the store next to nothing, however often it is called.
	PublicKeys(ctx context.Context, f dispatcher.PublicKeyFilter) (dispatcher.PublicKeyPage, error)
	// ChangeEndpoint has change made to a copy of an endpoint and stores it. An
	// error of change comes back as it is; it may be called again after a race.
	ChangeEndpoint(ctx context.Context, name string, change func(e *dispatcher.Endpoint) error) (dispatcher.EndpointView, error)
	// DeleteEndpoint forgets an endpoint and counts what it cancels.
	DeleteEndpoint(ctx context.Context, name string) (cancelled int, err error)
	// RotateSecret gives an endpoint another secret, a zero one: one that is made.
	RotateSecret(ctx context.Context, name string, next signer.Secret, overlap time.Duration) (dispatcher.EndpointView, error)
	// TestEndpoint sends a message and tells what the receiver said.
	TestEndpoint(ctx context.Context, name string) (dispatcher.TestResult, error)
}

// LaneService holds destinations: lanes, endpoints' ids and uids, URLs, and *.
type LaneService interface {
	// Lane is the lane that a destination means, a URL that of tenant;
	// dispatcher.ErrNoEndpoint where a uid is nobody's.
	Lane(ctx context.Context, destination, tenant string) (dispatcher.Lane, error)
	// MessageLane is Lane of a message's own tenant; dispatcher.ErrNotFound where
	// there is no such message.
	MessageLane(ctx context.Context, id, destination string) (dispatcher.Lane, error)
	// Lanes reads a page of all lanes; dispatcher.ErrCursor where the cursor is
	// none.
	Lanes(ctx context.Context, limit int, cursor string) (states []dispatcher.LaneState, next string, err error)
	// PausedLanes are the lanes that were paused last, and how many there are.
	PausedLanes(ctx context.Context) (states []dispatcher.LaneState, total int, err error)
	// Pause holds a destination; dispatcher.ErrNoEndpoint where it is none, and
	// dispatcher.ErrNoLane where a lane is named that is not there.
	Pause(ctx context.Context, destination, tenant string) (dispatcher.LaneState, error)
	// Resume lets it go on.
	Resume(ctx context.Context, destination, tenant string) (dispatcher.LaneState, error)
	// OtherTenants counts the lanes that other tenants have at a URL's origin.
	OtherTenants(ctx context.Context, url, tenant string) (dispatcher.OtherTenants, error)
	// PauseTenants holds the lanes of all tenants there; dispatcher.ErrCursor
	// where the cursor is none.
	PauseTenants(ctx context.Context, url, cursor string) (dispatcher.OtherTenants, error)
	// ResumeTenants lets them go on.
	ResumeTenants(ctx context.Context, url, cursor string) (dispatcher.OtherTenants, error)
}
