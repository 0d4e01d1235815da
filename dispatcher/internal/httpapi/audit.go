package httpapi

import (
	"context"
	"net/http"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/internal/callers"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/api"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// Every operation that changes something has a word in the audit (operation.audit). Its entry
// is recorded before the change. If the path names everything that is changed, handle records
// it, and otherwise the handler calls record. If a handler does not call it, handle records
// the entry after the change. A call with a key that failed gets a second entry.
//
// A call that creates something is recorded after it (recordMade), so that its entry has the
// new name. An act of a person is recorded after it too (recordAct), so that it has one entry.

// readAudit serves GET /v1/audit.
func (s *server) readAudit(ctx context.Context, q *api.Request) (*api.Response, error) {
	page, err := s.o.Audit.ReadAudit(ctx, dispatcher.AuditFilter{
		By: q.All("by"), What: q.All("what"), Targets: q.All("target"), Tenants: q.All("tenant"),
		Since: q.Time("since"), Until: q.Time("until"), Limit: q.Limit(), Cursor: q.Cursor(), View: q.View,
	})
	if err != nil {
		return nil, err
	}
	return api.JSON(http.StatusOK, wire.AuditPage{Data: api.Convert(page.Entries, wireAudit), NextCursor: api.NextCursor(page.Next)})
}

func (s *server) auditOperations() []api.Operation {
	return []api.Operation{{
		ID: "list-audit", Method: "GET", Path: "/v1/audit", Scope: callers.Admin,
		Summary: "List changes with their callers, newest first; the newest 10,000 entries are kept, and in addition the newest 2,000 by links", Do: s.readAudit,
		Answers: api.OK(exampleAuditPage), Query: api.OfFilter(client.AuditFilter{}),
		Problems: []*api.Kind{api.Malformed},
	}}
}

func wireAudit(e *dispatcher.AuditEntry) wire.AuditEntry {
	return wire.AuditEntry{At: wire.Time{Time: e.At}, By: e.By, What: e.What, Target: e.Target, Tenant: e.Tenant, Detail: e.Detail}
}

// recordNamed is record for a call without a body. A missing object has no entry. If the
// object can't be read now, it is recorded after the call, if that succeeds.
func (s *server) recordNamed(ctx context.Context, q *api.Request) {
	switch {
	case q.Operation.Audit == "" || q.Operation.Body != nil || q.Operation.Subject == nil:
	case q.Operation.Subject == endpointSubject:
		s.recordEndpoint(ctx, q, "")
	default:
		e := q.Named()
		if s.complete(ctx, q, &e) == nil {
			q.Record(ctx, e)
		}
	}
}

// complete adds the tenant of a message or a link, and names an endpoint's lane as the
// endpoint. It returns an error if the object in the path can't be read, or does not exist.
func (s *server) complete(ctx context.Context, q *api.Request, e *dispatcher.AuditEntry) (err error) {
	switch {
	case q.Operation.Subject == messageSubject:
		e.Tenant, err = s.o.MessageLanes.MessageTenant(ctx, q.ID())
	case q.Operation.Subject == jobSubject:
		number, _ := dispatcher.ParseJobID(q.ID()) // aJob has checked it before
		_, err = s.o.Jobs.Job(ctx, number)
	case q.Operation.Subject == linkSubject:
		var l dispatcher.Link
		l, err = s.o.Links.Link(ctx, q.ID())
		e.Tenant = l.Tenant
	case q.Operation.Subject == laneSubject && !api.IsURL(q.ID()) && q.ID() != "*":
		var lane dispatcher.Lane
		if lane, err = s.o.Lanes.Lane(ctx, q.ID(), ""); err != nil {
			return err
		}
		if !lane.IsEndpoint() { // the call itself checks whether it exists
			return dispatcher.ErrNoLane
		}
		var view dispatcher.EndpointView
		if view, err = s.o.Endpoints.Endpoint(ctx, string(lane)); err == nil {
			e.Target, e.Tenant = view.ID, view.Tenant
		}
	}
	return err
}

// recordEndpoint is record for the endpoint in the path.
func (s *server) recordEndpoint(ctx context.Context, q *api.Request, detail string) {
	if view, err := s.o.Endpoints.Endpoint(ctx, q.ID()); err == nil {
		q.Record(ctx, dispatcher.AuditEntry{Target: view.ID, Tenant: view.Tenant, Detail: detail})
	}
}
