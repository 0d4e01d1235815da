package httpapi

import (
	"bytes"
	"context"
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/signer"
)

// endpointBytes bounds what describes an endpoint: all its fields at their
// largest are some 45 KiB, and space and escapes may double that.
const endpointBytes = 128 << 10

// mediaPatch is what a JSON Merge Patch is sent as; plain JSON is taken too.
const mediaPatch = "application/merge-patch+json"

// createEndpoint serves POST /v1/endpoints.
func (s *server) createEndpoint(ctx context.Context, c *request) (*response, error) {
	buf, err := c.json(endpointBytes)
	if err != nil {
		return nil, err
	}
	e, wrong, err := decodeEndpoint(buf)
	release(buf)
	if err != nil {
		return nil, err
	}
	if e != nil {
		wrong = join(wrong, e.Validate(s.limits))
	}
	if p := wrongFields(wrong); p != nil {
		return nil, p
	}
	view, created, err := s.svc.CreateEndpoint(ctx, e)
	if err != nil {
		return nil, err
	}
	w, err := wireEndpoint(view)
	if err != nil {
		return nil, fmt.Errorf("create endpoint: %w", err)
	}
	if !created {
		return answerJSON(http.StatusOK, w)
	}
	if len(view.Secrets) > 0 { // only the call that creates it is told
		w.Secret = view.Secrets[0].Secret.Reveal()
	}
	return answerJSON(http.StatusCreated, w)
}

// decodeEndpoint reads an endpoint as it is to be created, and what is wrong
// with it. It is nil where there is no object.
func decodeEndpoint(buf *bytes.Buffer) (e *dispatcher.Endpoint, wrong []dispatcher.FieldError, err error) {
	fault := func(name, detail string) {
		wrong = append(wrong, dispatcher.FieldError{Path: "$" + member(name), Detail: detail})
	}
	e = &dispatcher.Endpoint{Topics: []string{"*"}, Signature: signer.Standard}
	var secret string
	given := false
	object, err := members(buf, func(name string, v jsontext.Value) {
		f := findEndpointField(name)
		var err error
		switch {
		case f == nil:
			fault(name, "is unknown")
		case v.Kind() == 'n': // left out
		case name == "secret":
			given = true
			err = text(&secret, v)
		case f.set == nil:
			fault(name, f.fixed)
		default:
			err = f.set(e, v)
		}
		if err != nil {
			wrong = append(wrong, faultAt("$"+member(name), err))
		}
	})
	if err != nil {
		return nil, nil, err
	}
	if !object {
		return nil, []dispatcher.FieldError{{Path: "$", Detail: "must be an object"}}, nil
	}
	if given { // the signature may have come behind it
		key, err := e.Signature.ParseSecret(secret)
		if err != nil {
			wrong = join(wrong, []dispatcher.FieldError{{Path: "$.secret", Detail: err.Error()}})
		}
		e.Secrets = []dispatcher.EndpointSecret{{Secret: key}}
	}
	return e, wrong, nil
}

// endpoint serves GET /v1/endpoints/{id}.
func (s *server) endpoint(ctx context.Context, c *request) (*response, error) {
	return s.withEndpoint(c, func(name string) (dispatcher.EndpointView, error) {
		return s.svc.Endpoint(ctx, name)
	})
}

// pauseEndpoint serves POST /v1/endpoints/{id}/pause.
func (s *server) pauseEndpoint(ctx context.Context, c *request) (*response, error) {
	return s.withEndpoint(c, func(name string) (dispatcher.EndpointView, error) {
		if _, err := s.svc.Pause(ctx, name, ""); err != nil {
			return dispatcher.EndpointView{}, err
		}
		return s.svc.Endpoint(ctx, name)
	})
}

// resumeEndpoint serves POST /v1/endpoints/{id}/resume.
func (s *server) resumeEndpoint(ctx context.Context, c *request) (*response, error) {
	return s.withEndpoint(c, func(name string) (dispatcher.EndpointView, error) {
		if _, err := s.svc.Resume(ctx, name, ""); err != nil {
			return dispatcher.EndpointView{}, err
		}
		return s.svc.Endpoint(ctx, name)
	})
}

// withEndpoint answers the endpoint that do does something with.
func (s *server) withEndpoint(c *request, do func(name string) (dispatcher.EndpointView, error)) (*response, error) {
	name, err := c.name()
	if err != nil {
		return nil, err
	}
	if _, err := c.query(); err != nil {
		return nil, err
	}
	view, err := do(name)
	if err != nil {
		return nil, err
	}
	return answerEndpoint(view)
}

// endpoints serves GET /v1/endpoints.
func (s *server) endpoints(ctx context.Context, c *request) (*response, error) {
	q, err := c.query("tenant", "limit", "cursor")
	if err != nil {
		return nil, err
	}
	p := filterParser{q: q}
	var f dispatcher.EndpointFilter
	f.Limit, f.Cursor = p.page()
	p.each("tenant", func(v string) string {
		f.Tenants = append(f.Tenants, v) // an empty one: those that have none
		return unless(v == "" || dispatcher.ValidTenant(v), "must be a tenant, or empty for the endpoints without one")
	})
	if wrong := wrongFields(p.wrong); wrong != nil {
		return nil, wrong
	}
	views, next, err := s.svc.Endpoints(ctx, f)
	if err != nil {
		return nil, err
	}
	w := wire.EndpointPage{Data: make([]wire.EndpointView, len(views)), NextCursor: nextCursor(next)}
	for i, view := range views {
		if w.Data[i], err = wireEndpoint(view); err != nil {
			return nil, fmt.Errorf("list endpoints: %w", err)
		}
	}
	return answerJSON(http.StatusOK, w)
}

// patchEndpoint serves PATCH /v1/endpoints/{id}.
func (s *server) patchEndpoint(ctx context.Context, c *request) (*response, error) {
	name, err := c.name()
	if err != nil {
		return nil, err
	}
	buf, err := c.json(endpointBytes, mediaPatch)
	if err != nil {
		return nil, err
	}
	p, err := decodePatch(buf)
	release(buf)
	if err != nil {
		return nil, err
	}
	view, err := s.svc.ChangeEndpoint(ctx, name, func(e *dispatcher.Endpoint) error {
		if len(e.Secrets) == 0 { // it could not be opened, and would be stored without them
			return dispatcher.ErrSealed
		}
		if wrong := wrongFields(p.apply(e, s.limits)); wrong != nil {
			return wrong
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return answerEndpoint(view)
}

// deleteEndpoint serves DELETE /v1/endpoints/{id}.
func (s *server) deleteEndpoint(ctx context.Context, c *request) (*response, error) {
	name, err := c.name()
	if err != nil {
		return nil, err
	}
	if _, err := c.query(); err != nil {
		return nil, err
	}
	cancelled, err := s.svc.DeleteEndpoint(ctx, name)
	if err != nil {
		return nil, err
	}
	return answerJSON(http.StatusOK, wire.EndpointDeleted{Cancelled: cancelled})
}

func answerEndpoint(view dispatcher.EndpointView) (*response, error) {
	w, err := wireEndpoint(view)
	if err != nil {
		return nil, fmt.Errorf("answer endpoint %s: %w", view.ID, err)
	}
	return answerJSON(http.StatusOK, w)
}

// wireEndpoint is an endpoint as callers read it: without its secrets, and with
// the names of its headers only, whose values may be secret too.
func wireEndpoint(v dispatcher.EndpointView) (wire.EndpointView, error) {
	w := wire.EndpointView{
		ID: v.ID,
		Endpoint: wire.Endpoint{
			UID: v.UID, Tenant: v.Tenant, URL: v.URL, Topics: v.Topics,
			Description: v.Description, Metadata: v.Metadata, Signature: v.Signature.String(),
			Ladder: v.Ladder, Timeout: wire.Duration(v.Timeout), MaxInFlight: v.MaxInFlight,
			Rate: v.Rate.String(), Ordered: v.Ordered, Disabled: v.Disabled,
		},
		State: string(v.State), InFlight: v.InFlight, Waiting: v.Waiting,
		CreatedAt: wire.Time{Time: v.CreatedAt}, UpdatedAt: wire.Time{Time: v.UpdatedAt},
	}
	if v.Disabled {
		w.DisabledAt, w.DisabledReason = wire.Time{Time: v.HeldAt}, string(dispatcher.WhyOperator)
		if v.Gone {
			w.DisabledReason = string(dispatcher.WhyGone)
		}
	}
	if w.Topics == nil {
		w.Topics = []string{} // it gets what names it, which is not everything
	}
	if len(v.Headers) > 0 {
		w.Headers = make(map[string]string, len(v.Headers))
		for _, h := range v.Headers {
			w.Headers[h.Name] = wire.Hidden
		}
	}
	var err error
	w.Success, err = wireSuccess(v.Success)
	return w, err
}
