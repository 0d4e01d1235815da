package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/access"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/apikey"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// Every operation that changes something has a word in the audit (operation.audit). Its
// entry is recorded before the change: by handle, where the path names all that is
// changed, and else by the handler with record. If that forgets it, handle records it
// after the change. A call by a key that failed gets a second entry.
//
// A call that makes something is recorded after it (recordMade), so that its entry names
// what there is. An act of a person is too (recordAct), so that it has one entry.

// readAudit serves GET /v1/audit.
func (s *server) readAudit(ctx context.Context, q *request) (*response, error) {
	page, err := s.o.Audit.ReadAudit(ctx, dispatcher.AuditFilter{
		By: q.all("by"), What: q.all("what"), Targets: q.all("target"), Tenants: q.all("tenant"),
		Since: q.time("since"), Until: q.time("until"), Limit: q.limit(), Cursor: q.cursor(), View: q.view,
	})
	if err != nil {
		return nil, err
	}
	return answerJSON(http.StatusOK, wire.AuditPage{Data: convert(page.Entries, wireAudit), NextCursor: nextCursor(page.Next)})
}

func wireAudit(e *dispatcher.AuditEntry) wire.AuditEntry {
	return wire.AuditEntry{At: wire.Time{Time: e.At}, By: e.By, What: e.What, Target: e.Target, Tenant: e.Tenant, Detail: e.Detail}
}

// record adds the entry of a call to the audit, once.
func (s *server) record(ctx context.Context, q *request, e dispatcher.AuditEntry) {
	if q.of.audit == "" || q.recorded != nil || q.idle {
		return
	}
	_, person := access.CallerOf(q.r.Context())
	e.By, e.What, e.Person = q.w.by, q.of.audit, person
	q.recorded = &e
	if !person {
		s.o.Audit.Record(ctx, e)
	}
}

// recordAct records an act of a person, when it is known how that ended. A link's that was
// refused costs it nothing, so it may come in a loop: it is counted as calls are.
func (s *server) recordAct(ctx context.Context, q *request, p *problem) {
	c, person := access.CallerOf(q.r.Context())
	if q.recorded == nil || !person {
		return
	}
	e := *q.recorded
	if p != nil && !e.Failed {
		e.Failed, e.Detail = true, strings.TrimPrefix(e.Detail+", "+failure(p), ", ")
	}
	e.Person = !e.Failed || !c.Linked()
	s.o.Audit.Record(context.WithoutCancel(ctx), e)
	e.Failed = true // it has its entry
	q.recorded = &e
}

// recordMade is record for what a call has made, which is e.Target. The entry of a call
// that failed names nothing.
func (s *server) recordMade(ctx context.Context, q *request, e dispatcher.AuditEntry, err error) {
	if err != nil {
		p, _ := asProblem(err)
		e.Target, e.Failed, e.Detail = "", true, strings.TrimPrefix(e.Detail+", "+failure(p), ", ")
	}
	s.record(context.WithoutCancel(ctx), q, e)
}

// failure is the detail of a call that failed.
func failure(p *problem) string { return fmt.Sprintf("failed: %d %s", p.kind.status, p.kind.word) }

// recordNamed is record for a call without a body. What is not there has no entry. What
// can't be read now is recorded after the call, if that succeeds.
func (s *server) recordNamed(ctx context.Context, q *request) {
	switch {
	case q.of.audit == "" || q.of.body != nil || q.of.subject == nil:
	case q.of.subject == anEndpoint:
		s.recordEndpoint(ctx, q, "")
	default:
		e := q.named()
		if s.complete(ctx, q, &e) == nil {
			s.record(ctx, q, e)
		}
	}
}

// complete adds the tenant of a message or a link, and calls an endpoint's lane as the
// endpoint. Its error says that what the path names can't be read, or is not there.
func (s *server) complete(ctx context.Context, q *request, e *dispatcher.AuditEntry) (err error) {
	switch {
	case q.of.subject == aMessage:
		e.Tenant, err = s.o.MessageLanes.MessageTenant(ctx, q.id())
	case q.of.subject == aJob:
		number, _ := dispatcher.ParseJobID(q.id()) // aJob has checked it
		_, err = s.o.Jobs.Job(ctx, number)
	case q.of.subject == aLink:
		var l access.Link
		l, err = s.o.Links.Link(ctx, q.id())
		e.Tenant = l.Tenant
	case q.of.subject == aLane && !isURL(q.id()) && q.id() != "*":
		var lane dispatcher.Lane
		if lane, err = s.o.Lanes.Lane(ctx, q.id(), ""); err != nil {
			return err
		}
		if !lane.IsEndpoint() { // the call shows whether it is there
			return dispatcher.ErrNoLane
		}
		var view dispatcher.EndpointView
		if view, err = s.o.Endpoints.Endpoint(ctx, string(lane)); err == nil {
			e.Target, e.Tenant = view.ID, view.Tenant
		}
	}
	return err
}

// recordEndpoint is record for the endpoint that the path names.
func (s *server) recordEndpoint(ctx context.Context, q *request, detail string) {
	if view, err := s.o.Endpoints.Endpoint(ctx, q.id()); err == nil {
		s.record(ctx, q, dispatcher.AuditEntry{Target: view.ID, Tenant: view.Tenant, Detail: detail})
	}
}

// named is the entry of what path and query name.
func (q *request) named() (e dispatcher.AuditEntry) {
	if q.of.subject != nil {
		e.Target = withoutSecrets(q.id())
	}
	var detail []string
	for _, name := range []string{"destination", "all", "all_tenants"} {
		if value := q.one(name); value != "" {
			detail = append(detail, name+"="+withoutSecrets(value))
		}
	}
	e.Tenant, e.Detail = q.one("tenant"), strings.Join(detail, " ")
	return e
}

// withoutSecrets is the origin of a URL, whose path and query may hold a token, and any
// other name as it is.
func withoutSecrets(name string) string {
	if !isURL(name) {
		return name
	}
	u, err := dispatcher.ParseURL(name)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

// recordResult records what failed, and what no handler recorded before it changed it.
func (s *server) recordResult(ctx context.Context, q *request, answer *response, err error) {
	p := q.w.refusal
	if err != nil {
		p, _ = asProblem(err)
	}
	failed := err != nil || answer != nil && answer.status >= http.StatusBadRequest
	if q.of.audit == "" {
		return
	}
	if q.recorded == nil && !failed {
		s.record(ctx, q, q.named())
	}
	if !failed {
		p = nil
	}
	s.recordAct(ctx, q, p)
	if p != nil && q.recorded != nil && !q.recorded.Failed {
		e := *q.recorded
		e.Failed, e.Detail = true, failure(p)
		s.o.Audit.Record(context.WithoutCancel(ctx), e)
	}
}

func (s *server) auditOperations() []operation {
	return []operation{{
		id: "list-audit", method: "GET", path: "/v1/audit", scope: apikey.Admin,
		summary: "List what was changed and by whom, newest first; the newest 10,000 entries are kept, and beside them the newest 2,000 by links", do: s.readAudit,
		answers: ok(wire.AuditPage{}), query: append([]*param{
			repeated(ofText("by", "key:<name>, link:<id>, system or local. May be repeated: any of them matches.", nil)),
			repeated(ofWord("what", "May be repeated.", dispatcher.AuditWords)),
			repeated(ofText("target", "The id of an endpoint, a message, a job or a link, a lane, scheme, host and port of a URL, or * for all lanes. May be repeated.", nil)),
			repeated(ofText("tenant", "May be repeated.", refuseTenant)),
			ofTime("since", "At this time or later."),
			ofTime("until", "Before this time."),
		}, ofPage(maxLimit)...),
		problems: []*problemKind{malformed},
	}}
}
