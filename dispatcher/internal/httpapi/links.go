package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/callers"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/api"
	"github.com/hookladder/hookladder/dispatcher/internal/input"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/ladder"
)

// Links let people of a tenant look in. access.ErrNoLink says that no link has an id.
type Links interface {
	// CreateLink stores a link. It returns its token, and the link with its id
	// and times; access.ErrLinks if there are too many.
	CreateLink(ctx context.Context, l dispatcher.Link, lasts time.Duration) (token string, made dispatcher.Link, err error)
	// Link reads a link.
	Link(ctx context.Context, id string) (dispatcher.Link, error)
	// Links reads a page of the links that have not expired, newest first.
	Links(ctx context.Context, limit int, cursor string) (list []dispatcher.Link, next string, err error)
	// RevokeLink ends a link and its sessions.
	RevokeLink(ctx context.Context, id string) error
}

// linkBytes bounds the description of a link: its longest texts and space.
const linkBytes = 8 << 10

// linkSubject is a link in a path.
var linkSubject = &api.Subject{Name: "id", Doc: "The id of the link.", Schema: &huma.Schema{Type: huma.TypeString, Pattern: `^lnk_[a-z2-7]+$`}, Example: "lnk_mfrggzdf", Check: api.Known(dispatcher.ValidLinkID, dispatcher.ErrNoLink)}

// linkOperations are the calls about links.
func (s *server) linkOperations() []api.Operation {
	return []api.Operation{
		{
			ID: "create-link", Method: "POST", Path: "/v1/links", Scope: callers.Admin, Audit: "link.create",
			Summary: "Make a link by which people of a tenant see its deliveries; only this answer has its URL", Do: s.createLink,
			Body: exampleLinkRequest, Draw: linkSchema, Limit: linkBytes, Answers: map[int]any{201: exampleNewLink},
			Problems: []*api.Kind{api.TooManyLinks},
		},
		{
			ID: "list-links", Method: "GET", Path: "/v1/links", Scope: callers.Admin,
			Summary: "List the links that have not expired, newest first", Do: s.links,
			Query: api.OfPage(input.MaxPage), Answers: api.OK(exampleLinkPage), Problems: []*api.Kind{api.Malformed},
		},
		{
			ID: "revoke-link", Method: "DELETE", Path: "/v1/links/{id}", Scope: callers.Admin, Audit: "link.revoke",
			Summary: "End a link, and with it all browsers that it let in", Do: s.revokeLink,
			Subject: linkSubject, Answers: map[int]any{204: nil},
		},
	}
}

// linkRequest is the body of a request for a link.
type linkRequest struct {
	dispatcher.Link
	lasts time.Duration
}

var linkFields = api.Fieldset[linkRequest]{
	{Name: "tenant", Set: func(r *linkRequest, v jsontext.Value) error { return api.Filled(&r.Tenant, v) }},
	{Name: "for", Set: setLasts},
	{Name: "manage", Set: func(r *linkRequest, v jsontext.Value) error { return api.Boolean(&r.Manage, v) }},
	{Name: "endpoint", Set: func(r *linkRequest, v jsontext.Value) error { return api.Filled(&r.Endpoint, v) }},
	{Name: "name", Set: func(r *linkRequest, v jsontext.Value) error { return api.Text(&r.Name, v) }},
}

var bitTenant, bitEndpoint = linkFields.Bit("tenant"), linkFields.Bit("endpoint")

func decodeLink(d *api.Decoder) api.Decoded[linkRequest] {
	p := linkFields.Fill(d, api.Single, &linkRequest{lasts: dispatcher.UsualLinkFor})
	if p.Value == nil {
		return p
	}
	var more []dispatcher.FieldError
	switch {
	case !p.Has(bitTenant):
		more = append(more, dispatcher.FieldError{Path: "$.tenant", Detail: "is missing: a link belongs to one tenant"})
	case !dispatcher.ValidTenant(p.Value.Tenant):
		more = append(more, dispatcher.FieldError{Path: "$.tenant", Detail: "must be 1 to 128 printable ASCII characters without spaces"})
	}
	if p.Value.Name != "" && !dispatcher.ValidSubject(p.Value.Name) {
		more = append(more, dispatcher.FieldError{Path: "$.name", Detail: "must have at most 128 characters, none of them a control one"})
	}
	p.Wrong = api.JoinErrors(p.Wrong, more)
	return p
}

func setLasts(r *linkRequest, v jsontext.Value) error {
	err := api.Duration(&r.lasts, v)
	if err == nil && (r.lasts < time.Second || r.lasts > dispatcher.MaxLinkFor) {
		return errors.New("must be 1s to 30d")
	}
	return err
}

// createLink serves POST /v1/links.
func (s *server) createLink(ctx context.Context, q *api.Request) (*api.Response, error) {
	p, err := api.Decode(q, decodeLink)
	switch {
	case err != nil:
		return nil, err
	case s.o.LinksTo == nil:
		problem := api.InvalidFields(p.Wrong) // all mistakes at once
		problem.Detail = s.o.NoLinks
		return nil, problem
	case p.Value != nil && p.Has(bitEndpoint) && len(p.Wrong) == 0:
		if p.Wrong, err = s.linkEndpoint(ctx, &p.Value.Link); err != nil {
			return nil, err
		}
	}
	if err := api.WrongFields(p.Wrong); err != nil {
		return nil, err
	}
	l := p.Value.Link
	l.By, l.Key = q.Writer.By, q.Owner
	token, l, err := s.o.Links.CreateLink(ctx, l, p.Value.lasts)
	q.RecordMade(ctx, dispatcher.AuditEntry{Target: l.ID, Tenant: l.Tenant, Detail: linkDetail(l, p.Value.lasts)}, err)
	if err != nil {
		return nil, err
	}
	return api.JSON(http.StatusCreated, wire.NewLink{
		ID: l.ID, URL: s.o.LinksTo.JoinPath("link", token).String(), ExpiresAt: wire.Time{Time: l.ExpiresAt},
	})
}

// linkEndpoint replaces a uid by its id. It returns an error for an endpoint that is not the
// tenant's own.
func (s *server) linkEndpoint(ctx context.Context, l *dispatcher.Link) ([]dispatcher.FieldError, error) {
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

// linkDetail is the detail of a link in the audit, besides its tenant.
func linkDetail(l dispatcher.Link, lasts time.Duration) string {
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
func (s *server) links(ctx context.Context, q *api.Request) (*api.Response, error) {
	list, next, err := s.o.Links.Links(ctx, q.Limit(), q.Cursor())
	if err != nil {
		return nil, err
	}
	return api.JSON(http.StatusOK, wire.LinkPage{Data: api.Convert(list, wireLink), NextCursor: api.NextCursor(next)})
}

func wireLink(l *dispatcher.Link) wire.Link {
	return wire.Link{
		ID: l.ID, Tenant: l.Tenant, Endpoint: l.Endpoint, Manage: l.Manage, Name: l.Name, By: l.By,
		CreatedAt: wire.Time{Time: l.CreatedAt}, ExpiresAt: wire.Time{Time: l.ExpiresAt}, Ended: l.Ended,
	}
}

// revokeLink serves DELETE /v1/links/{id}.
func (s *server) revokeLink(ctx context.Context, q *api.Request) (*api.Response, error) {
	if err := s.o.Links.RevokeLink(ctx, q.ID()); err != nil {
		return nil, err
	}
	return &api.Response{Status: http.StatusNoContent}, nil
}

// linkSchema returns the schema of a request for a link.
func linkSchema(r huma.Registry) *huma.Schema {
	p := api.Input(r, wire.LinkRequest{}).Properties
	p["tenant"].Pattern, p["tenant"].MaxLength = api.TenantPattern, api.Ref(128)
	p["endpoint"].Pattern, p["endpoint"].Not = api.NameForm.Schema.Pattern, api.NameForm.Schema.Not
	p["name"].Pattern, p["name"].MinLength = api.PrintPattern, nil
	api.Between(p["for"], time.Second, dispatcher.MaxLinkFor)
	return api.RefTo[wire.LinkRequest](r)
}
