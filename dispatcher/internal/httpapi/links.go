package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/access"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/apikey"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/ladder"
)

// Links let people of a tenant look in. access.ErrNoLink says that no link has an id.
type Links interface {
	// CreateLink stores a link. It returns its token, and the link with its id
	// and times; access.ErrLinks if there are too many.
	CreateLink(ctx context.Context, l access.Link, lasts time.Duration) (token string, made access.Link, err error)
	// Link reads a link.
	Link(ctx context.Context, id string) (access.Link, error)
	// Links reads a page of the links that have not expired, newest first.
	Links(ctx context.Context, limit int, cursor string) (list []access.Link, next string, err error)
	// RevokeLink ends a link and its sessions.
	RevokeLink(ctx context.Context, id string) error
}

// linkBytes bounds the description of a link: its longest texts and space.
const linkBytes = 8 << 10

var aLink = &subject{"id", "The id of the link.", known(access.ValidLinkID, access.ErrNoLink)}

func (s *server) linkOperations() []operation {
	return []operation{
		{
			id: "create-link", method: "POST", path: "/v1/links", scope: apikey.Admin, audit: "link.create",
			summary: "Make a link by which people of a tenant see its deliveries; only this answer has its URL", do: s.createLink,
			body: wire.LinkRequest{}, limit: linkBytes, answers: map[int]any{201: wire.NewLink{}},
			problems: []*problemKind{tooManyLinks},
		},
		{
			id: "list-links", method: "GET", path: "/v1/links", scope: apikey.Admin,
			summary: "List the links that have not expired, newest first", do: s.links,
			query: ofPage(maxLimit), answers: ok(wire.LinkPage{}), problems: []*problemKind{malformed},
		},
		{
			id: "revoke-link", method: "DELETE", path: "/v1/links/{id}", scope: apikey.Admin, audit: "link.revoke",
			summary: "End a link, and with it all browsers that it let in", do: s.revokeLink,
			subject: aLink, answers: map[int]any{204: nil},
		},
	}
}

// linkRequest is the body of a request for a link.
type linkRequest struct {
	access.Link
	lasts time.Duration
}

var linkFields = fieldset[linkRequest]{
	{name: "tenant", set: func(r *linkRequest, v jsontext.Value) error { return filled(&r.Tenant, v) }},
	{name: "for", set: setLasts},
	{name: "manage", set: func(r *linkRequest, v jsontext.Value) error { return boolean(&r.Manage, v) }},
	{name: "endpoint", set: func(r *linkRequest, v jsontext.Value) error { return filled(&r.Endpoint, v) }},
	{name: "name", set: func(r *linkRequest, v jsontext.Value) error { return text(&r.Name, v) }},
}

var bitTenant, bitEndpoint = linkFields.bit("tenant"), linkFields.bit("endpoint")

func decodeLink(d *decoder) decoded[linkRequest] {
	p := linkFields.fill(d, single, &linkRequest{lasts: access.UsualLinkFor})
	if p.value == nil {
		return p
	}
	var more []dispatcher.FieldError
	switch {
	case !p.has(bitTenant):
		more = append(more, dispatcher.FieldError{Path: "$.tenant", Detail: "is missing: a link belongs to one tenant"})
	case !dispatcher.ValidTenant(p.value.Tenant):
		more = append(more, dispatcher.FieldError{Path: "$.tenant", Detail: "must be 1 to 128 printable ASCII characters without spaces"})
	}
	if p.value.Name != "" && !dispatcher.ValidSubject(p.value.Name) {
		more = append(more, dispatcher.FieldError{Path: "$.name", Detail: "must have at most 128 characters, none of them a control one"})
	}
	p.wrong = join(p.wrong, more)
	return p
}

func setLasts(r *linkRequest, v jsontext.Value) error {
	err := duration(&r.lasts, v)
	if err == nil && (r.lasts < time.Second || r.lasts > access.MaxLinkFor) {
		return errors.New("must be 1s to 30d")
	}
	return err
}

// createLink serves POST /v1/links.
func (s *server) createLink(ctx context.Context, q *request) (*response, error) {
	p, err := decode(q, decodeLink)
	switch {
	case err != nil:
		return nil, err
	case s.linksTo == nil:
		return nil, &problem{kind: invalid, detail: s.noLinks}
	case p.value != nil && p.has(bitEndpoint) && len(p.wrong) == 0:
		if p.wrong, err = s.ownEndpoint(ctx, &p.value.Link); err != nil {
			return nil, err
		}
	}
	if err := wrongFields(p.wrong); err != nil {
		return nil, err
	}
	l := p.value.Link
	l.By, l.Key = q.w.by, q.owner
	token, l, err := s.o.Links.CreateLink(ctx, l, p.value.lasts)
	s.recordMade(ctx, q, dispatcher.AuditEntry{Target: l.ID, Tenant: l.Tenant, Detail: linkDetail(l, p.value.lasts)}, err)
	if err != nil {
		return nil, err
	}
	return answerJSON(http.StatusCreated, wire.NewLink{
		ID: l.ID, URL: s.linksTo.JoinPath("link", token).String(), ExpiresAt: wire.Time{Time: l.ExpiresAt},
	})
}

// ownEndpoint replaces a uid by its id. It answers what is wrong with an endpoint that is
// not the tenant's own.
func (s *server) ownEndpoint(ctx context.Context, l *access.Link) ([]dispatcher.FieldError, error) {
	err := dispatcher.ErrNoEndpoint
	var view dispatcher.EndpointView
	if dispatcher.ValidName(l.Endpoint) {
		view, err = s.o.Endpoints.Endpoint(ctx, l.Endpoint)
	}
	switch {
	case errors.Is(err, dispatcher.ErrNoEndpoint), err == nil && view.Tenant != l.Tenant:
		return []dispatcher.FieldError{{Path: "$.endpoint", Detail: "is no endpoint of this tenant"}}, nil
	case err != nil:
		return nil, err
	}
	l.Endpoint = view.ID
	return nil, nil
}

// linkDetail is what the audit tells of a link besides its tenant.
func linkDetail(l access.Link, lasts time.Duration) string {
	parts := []string{"for " + ladder.FormatDuration(lasts)}
	if l.Manage {
		parts = append(parts, "manage")
	}
	if l.Endpoint != "" {
		parts = append(parts, l.Endpoint)
	}
	if l.Name != "" {
		parts = append(parts, l.Name)
	}
	return strings.Join(parts, " ")
}

// links serves GET /v1/links.
func (s *server) links(ctx context.Context, q *request) (*response, error) {
	list, next, err := s.o.Links.Links(ctx, q.limit(), q.cursor())
	if err != nil {
		return nil, err
	}
	return answerJSON(http.StatusOK, wire.LinkPage{Data: convert(list, wireLink), NextCursor: nextCursor(next)})
}

func wireLink(l *access.Link) wire.Link {
	return wire.Link{
		ID: l.ID, Tenant: l.Tenant, Endpoint: l.Endpoint, Manage: l.Manage, Name: l.Name, By: l.By,
		CreatedAt: wire.Time{Time: l.CreatedAt}, ExpiresAt: wire.Time{Time: l.ExpiresAt}, Ended: l.Ended,
	}
}

// revokeLink serves DELETE /v1/links/{id}.
func (s *server) revokeLink(ctx context.Context, q *request) (*response, error) {
	if err := s.o.Links.RevokeLink(ctx, q.id()); err != nil {
		return nil, err
	}
	return &response{status: http.StatusNoContent}, nil
}
