package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// The errors that a store of endpoints returns.
var (
	// ErrStale reports that an endpoint was changed in the meantime: read it again.
	ErrStale = errors.New("changed meanwhile")
	// ErrTaken reports that another endpoint has the id or the uid.
	ErrTaken = errors.New("taken by another endpoint")
	// ErrNoEndpoint reports that there is no such endpoint.
	ErrNoEndpoint = errors.New("no such endpoint")
	// ErrTenant reports that a message of one tenant names another tenant's endpoint.
	ErrTenant = errors.New("the endpoint is another tenant's")
	// ErrFanOut reports that a message matches more endpoints than allowed.
	ErrFanOut = errors.New("too many endpoints match")
	// ErrUnmatched reports that a message has to match an endpoint, but matches none.
	ErrUnmatched = errors.New("no endpoint matches")
	// ErrEndpoints reports that a project already has its limit of a million endpoints.
	ErrEndpoints = errors.New("too many endpoints are registered")
	// ErrTenantEndpoints reports that a tenant already has as many endpoints as a link may add.
	ErrTenantEndpoints = errors.New("the tenant has too many endpoints for a link to add one")
	// ErrDisabled reports that a destination accepts nothing until it is resumed.
	ErrDisabled = errors.New("its endpoint is disabled")
	// ErrDeleted reports that a destination was deleted for good.
	ErrDeleted = errors.New("its endpoint was deleted")
	// ErrSealed reports that none of the keys opens a stored secret.
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

// EndpointChange reports that an endpoint was changed.
type EndpointChange struct {
	ID      string
	Tenant  string
	Version int64 // 0: it was deleted
}

// EndpointVersion is the version of an endpoint, without its record.
type EndpointVersion struct {
	Version int64 // 0: there is none; -1: its record can't be read
	End     int64 // above any version it had; 0: it was not deleted, or nothing is left to do about that
}

// EndpointStore keeps the endpoints. Lanes have only copies of its records. Each change is one
// step, and the same step reports it to all instances (see Subscriber).
type EndpointStore interface {
	// CreateEndpoint stores a new endpoint. It returns ErrTaken if there is one with that id. If
	// taken is set, it returns the one that has the UID. It returns ErrEndpoints if there are too
	// many.
	CreateEndpoint(ctx context.Context, e *Endpoint) (taken *Endpoint, err error)
	// CheckEndpoint returns what CreateEndpoint would return, and stores nothing.
	CheckEndpoint(ctx context.Context, e *Endpoint) (taken *Endpoint, err error)
	// ChangeEndpoint stores an endpoint whose version is one above the stored one. It returns
	// ErrStale if the version is another one, and ErrNoEndpoint if there is none. ID, UID, Tenant
	// and CreatedAt never change.
	ChangeEndpoint(ctx context.Context, e *Endpoint) error
	// RaiseEndpoint is ChangeEndpoint with any later version; before is the stored one.
	RaiseEndpoint(ctx context.Context, before int64, e *Endpoint) error
	// DeleteEndpoint deletes an endpoint of any version. In the same step it records the end: a
	// version above any that the endpoint had. So every instance can finish the work that
	// follows. A second call returns the same end until ForgetDeleted, and then ErrNoEndpoint. No
	// other endpoint gets a recorded id.
	DeleteEndpoint(ctx context.Context, id string) (end int64, err error)
	// DeletedEndpoints returns a page of deleted endpoints that are not forgotten: ids and ends.
	// One may come twice. next is empty at the end.
	DeletedEndpoints(ctx context.Context, cursor string) (ends map[string]int64, next string, err error)
	// ForgetDeleted removes the record of a deleted endpoint, because no work waits for it.
	ForgetDeleted(ctx context.Context, id string) error
	// EndpointVersions returns the versions of endpoints, in the order of ids.
	EndpointVersions(ctx context.Context, ids []string) ([]EndpointVersion, error)
	// Endpoints returns endpoints by id, and nil for each that is not there. An endpoint whose
	// secrets can't be opened has no secrets and no header values.
	Endpoints(ctx context.Context, ids []string) ([]*Endpoint, error)
	// EndpointID returns the id of the endpoint with a uid, or ErrNoEndpoint.
	EndpointID(ctx context.Context, uid string) (string, error)
	// TenantEndpoints returns all endpoints of a tenant, oldest first. An empty tenant means
	// endpoints without one.
	TenantEndpoints(ctx context.Context, tenant string) ([]*Endpoint, error)
	// ListEndpoints returns a page, newest first. It returns ErrCursor for a foreign cursor.
	ListEndpoints(ctx context.Context, f EndpointFilter) (page []*Endpoint, next string, err error)
}

// Overtake makes an endpoint newer than its lane, if the lane survived a loss of the endpoint's
// last changes. Otherwise the lane would ignore each later change. The endpoint is paused or
// disabled as the lane is, because one of the lost changes asked for it.
func (e *Endpoint) Overtake(lane LaneLimits) {
	before := *e
	e.Version = lane.Version + 1
	e.Disabled = lane.Mode == LaneDisabled
	e.Unverified = e.Unverified && lane.Mode == LanePaused
	e.Paused = lane.Mode == LanePaused && !e.Unverified
	e.NoteHold(&before, lane.By, lane.Since)
}

// Unchanged reports whether a change left everything as it was before. In doubt it reports false.
func (e *Endpoint) Unchanged(before *Endpoint) bool {
	same := *e
	if e.Success.Equal(before.Success) && (e.Success == nil) == (before.Success == nil) {
		same.Success = before.Success // one of them may not be parsed yet
	}
	return reflect.DeepEqual(&same, before)
}

// A link changes the URL and the topics of an endpoint. It must not inherit settings that an
// operator made for another receiver: the headers, the private networks that may be called,
// and topics that the operator did not allow.

// HeldHeaders returns the names of the headers that are not sent, because an operator gave their
// values for another URL than the one that a link has set. Only Confirm releases all of them.
func (e *Endpoint) HeldHeaders() (names []string) {
	for _, h := range e.Headers {
		if e.holds(h.Name) {
			names = append(names, h.Name)
		}
	}
	return names
}

// SentHeaders returns the headers that are not held.
func (e *Endpoint) SentHeaders() []Header {
	if len(e.HeadersFor) == 0 {
		return e.Headers
	}
	return slices.DeleteFunc(slices.Clone(e.Headers), func(h Header) bool { return e.holds(h.Name) })
}

// Released returns the names of the headers that are sent, and were held before.
func (e *Endpoint) Released(before *Endpoint) (names []string) {
	for _, h := range e.SentHeaders() {
		if before.holds(h.Name) {
			names = append(names, h.Name)
		}
	}
	return names
}

func (e *Endpoint) holds(name string) bool {
	url, noted := e.HeadersFor[strings.ToLower(name)]
	return noted && url != e.URL
}

// NoteHeader records the URL for which an operator gave a header its value. This is the URL of the
// endpoint if the same change names it. If it does not, a link may have set a URL that the
// operator has not seen. So a held header stays held, and a new one is held for no URL.
func (e *Endpoint) NoteHeader(name string, isNew, named bool) {
	name = strings.ToLower(name)
	switch {
	case named:
		delete(e.HeadersFor, name)
	case isNew && e.Linked:
		e.hold(name, "")
	}
}

func (e *Endpoint) hold(name, url string) {
	if e.HeadersFor == nil {
		e.HeadersFor = map[string]string{}
	}
	e.HeadersFor[name] = url
}

// Confirm makes the operator the owner of the URL and the headers, without a test.
func (e *Endpoint) Confirm() { e.Linked, e.HeadersFor, e.Unverified = false, nil, false }

// NoteSetter records the owner of the URL, the headers and the topics after a change. A link
// never becomes the owner of the operator's headers or topics: only an operator's change may
// confirm.
func (e *Endpoint) NoteSetter(before *Endpoint, byLink bool) {
	moved := e.URL != before.URL
	switch {
	case !byLink && moved:
		e.Linked = false
	case byLink:
		e.Linked, e.HeadersFor, e.TopicsAllowed = before.Linked || moved, maps.Clone(before.HeadersFor), before.TopicsAllowed
		for _, h := range before.Headers {
			if moved && !before.holds(h.Name) {
				e.hold(strings.ToLower(h.Name), before.URL)
			}
		}
	}
	held := e.HeldHeaders() // without those whose URL it is again, and those that are gone
	maps.DeleteFunc(e.HeadersFor, func(name, _ string) bool {
		return !slices.ContainsFunc(held, func(one string) bool { return strings.EqualFold(one, name) })
	})
	if len(held) == 0 {
		e.HeadersFor = nil
	}
	switch same := slices.Equal(e.Topics, before.Topics); {
	case same:
	case !byLink:
		e.TopicsGiven = nil
	case before.TopicsGiven == nil:
		e.TopicsGiven = append([]string{}, before.Topics...)
	}
}

// NoteCreator records whether a link created the endpoint. All topics of the tenant are then
// allowed, because no operator has set any.
func (e *Endpoint) NoteCreator(byLink bool) {
	e.Linked, e.HeadersFor, e.TopicsGiven = byLink && !e.Pull, nil, nil
	e.Unverified = e.Linked
	if byLink {
		e.TopicsGiven = []string{"*"}
	}
}

// AllowedTopics returns the patterns that links may use: the operator's list, or else the topics
// that an operator set last.
func (e *Endpoint) AllowedTopics() []string {
	switch {
	case e.TopicsAllowed != nil:
		return e.TopicsAllowed
	case e.TopicsGiven != nil:
		return e.TopicsGiven
	}
	return e.Topics
}

// CheckLinkTopics returns the errors of topics that a link may not set. A link for this endpoint
// alone stays within an allowed pattern. Any link needs an allowed pattern that names
// Hookladder's own topics to use them.
func CheckLinkTopics(topics, allowed []string, single bool) []FieldError {
	var f faults
	for i, pattern := range topics {
		own := strings.HasPrefix(pattern, ownTopics)
		within := func(a string) bool {
			return MatchTopic(a, pattern) && (!own || takesTopic(a, pattern))
		}
		if (single || own) && !slices.ContainsFunc(allowed, within) {
			f.add(fmt.Sprintf("$.topics[%d]", i), "is not within the topics that the operator allows here; ask the operator")
		}
	}
	return f
}

// sameList reports whether two lists that may be left out are equal.
func sameList(a, b []string) bool { return (a == nil) == (b == nil) && slices.Equal(a, b) }
