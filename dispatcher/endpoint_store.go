package dispatcher

import (
	"context"
	"errors"
)

// What a store of endpoints may answer besides success.
var (
	// ErrStale says that an endpoint was changed meanwhile: read it again.
	ErrStale = errors.New("changed meanwhile")
	// ErrTaken says that the id or the uid is another endpoint's.
	ErrTaken = errors.New("taken by another endpoint")
	// ErrNoEndpoint says that there is no such endpoint.
	ErrNoEndpoint = errors.New("no such endpoint")
	// ErrTenant says that a message of one tenant names another's endpoint.
	ErrTenant = errors.New("the endpoint is another tenant's")
	// ErrFanOut says that a message matches more endpoints than one may.
	ErrFanOut = errors.New("too many endpoints match")
	// ErrUnmatched says that a message which has to match an endpoint matches none.
	ErrUnmatched = errors.New("no endpoint matches")
	// ErrEndpoints says that a project has as many endpoints as it may, a million.
	ErrEndpoints = errors.New("too many endpoints are registered")
	// ErrTenantEndpoints says that a tenant has as many endpoints as a link may add.
	ErrTenantEndpoints = errors.New("the tenant has too many endpoints for a link to add one")
	// ErrDisabled says that a destination takes nothing until it is resumed.
	ErrDisabled = errors.New("its endpoint is disabled")
	// ErrDeleted says that a destination is gone for good.
	ErrDeleted = errors.New("its endpoint was deleted")
	// ErrSealed says that a stored secret can't be read with the keys there are.
	ErrSealed = errors.New("no ENCRYPTION_KEY opens this endpoint's secrets")
)

// EndpointFilter selects endpoints.
type EndpointFilter struct {
	Tenants []string // none: all; an empty one: those without a tenant
	Public  bool     // only those that have a public key, whatever their tenant
	Limit   int      `json:"-"`
	Cursor  string   `json:"-"` // of the page before; empty for the first
	View    View
}

// EndpointChange tells that an endpoint is another than it was.
type EndpointChange struct {
	ID      string
	Tenant  string
	Version int64 // 0: it was deleted
}

// EndpointVersion is what is known of an endpoint besides its record.
type EndpointVersion struct {
	Version int64 // 0: there is none; -1: its record can't be read
	End     int64 // above any version it had; 0: it was not deleted, or nothing of that is left to be done
}

// EndpointStore keeps the endpoints: what it says is the truth, of which the
// lanes have copies. Each change is one step, and told to all instances by that
// same step (see Subscriber).
type EndpointStore interface {
	// CreateEndpoint stores a new endpoint. ErrTaken: there is one with that id
	// or, if taken is set, one with that UID, which is answered. ErrEndpoints:
	// there are too many.
	CreateEndpoint(ctx context.Context, e *Endpoint) (taken *Endpoint, err error)
	// ChangeEndpoint stores an endpoint whose version is one above the stored
	// one; ErrStale: it is not; ErrNoEndpoint: there is none. ID, UID, Tenant
	// and CreatedAt never change.
	ChangeEndpoint(ctx context.Context, e *Endpoint) error
	// RaiseEndpoint is ChangeEndpoint with any later version, where before is
	// the stored one.
	RaiseEndpoint(ctx context.Context, before int64, e *Endpoint) error
	// DeleteEndpoint forgets an endpoint, whatever its version, and notes its
	// end, a version above any that it had: in the same step, so that everybody
	// can finish what is to follow. Of one that was deleted before it answers
	// the same again until ForgetDeleted, and then ErrNoEndpoint. An id that is
	// noted so is given to no other.
	DeleteEndpoint(ctx context.Context, id string) (end int64, err error)
	// DeletedEndpoints reads a page of what was deleted and is not forgotten:
	// ids and ends. One may come twice. next is empty at the end.
	DeletedEndpoints(ctx context.Context, cursor string) (ends map[string]int64, next string, err error)
	// ForgetDeleted forgets that an endpoint was deleted: nothing waits for it.
	ForgetDeleted(ctx context.Context, id string) error
	// EndpointVersions reads the versions of endpoints, in the order asked for.
	EndpointVersions(ctx context.Context, ids []string) ([]EndpointVersion, error)
	// Endpoints reads endpoints by id, nil for each that is not there. One whose
	// secrets can't be opened has none, and no header values.
	Endpoints(ctx context.Context, ids []string) ([]*Endpoint, error)
	// EndpointID is the id of the endpoint with a uid, or ErrNoEndpoint.
	EndpointID(ctx context.Context, uid string) (string, error)
	// TenantEndpoints reads all endpoints of a tenant (empty: those without
	// one), the first made first.
	TenantEndpoints(ctx context.Context, tenant string) ([]*Endpoint, error)
	// ListEndpoints reads a page, newest first; ErrCursor for a foreign cursor.
	ListEndpoints(ctx context.Context, f EndpointFilter) (page []*Endpoint, next string, err error)
}

// Overtake makes an endpoint newer than its lane, where that outlived the endpoint's last
// changes: it would take no later change. The endpoint is held as the lane is, because
// somebody asked for that in one of the lost changes.
func (e *Endpoint) Overtake(lane LaneLimits) {
	before := *e
	e.Version = lane.Version + 1
	e.Disabled = lane.Held == HeldDisabled
	e.Unverified = e.Unverified && lane.Held == HeldPaused
	e.Paused = lane.Held == HeldPaused && !e.Unverified
	e.NoteHold(&before, lane.By, lane.Since)
}
