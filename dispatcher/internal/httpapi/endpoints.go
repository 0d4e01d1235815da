package httpapi

import (
	"context"
	"net/http"
	"strings"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// endpointBytes bounds the description of an endpoint. All its fields at their
// largest have some 45 KiB, and space and escapes may double that.
const endpointBytes = 128 << 10

// mediaPatch is the media type of a JSON Merge Patch; plain JSON is taken too.
const mediaPatch = "application/merge-patch+json"

// createEndpoint serves POST /v1/endpoints.
func (s *server) createEndpoint(ctx context.Context, q *request) (*response, error) {
	p, err := decode(q, decodeEndpoint)
	if err != nil {
		return nil, err
	}
	if p.value != nil {
		p.wrong = join(p.wrong, p.value.Validate(s.policy))
	}
	if err := wrongFields(p.wrong); err != nil {
		return nil, err
	}
	e := p.value.Endpoint
	e.ID = dispatcher.NewEndpointID()
	where := "url " + withoutSecrets(e.URL)
	if e.Pull {
		where = "kind " + kindPull
	}
	asked := dispatcher.AuditEntry{Target: e.ID, Tenant: e.Tenant, Detail: strings.TrimSpace(where + " " + e.UID)}
	s.record(ctx, q, asked)
	view, created, err := s.svc.CreateEndpoint(ctx, e)
	if err != nil {
		return nil, err
	}
	if view.ID != asked.Target { // an equal one is there, or the id was taken
		s.recordOther(ctx, q, "it is "+view.ID)
	}
	w := wireEndpoint(&view)
	if !created {
		return answerJSON(http.StatusOK, w)
	}
	if len(view.Secrets) > 0 { // only this answer has it
		w.Secret = view.Secrets[0].Secret.Reveal()
	}
	return answerJSON(http.StatusCreated, w)
}

// endpoint serves GET /v1/endpoints/{id}.
func (s *server) endpoint(ctx context.Context, q *request) (*response, error) {
	return answerEndpoint(s.svc.Endpoint(ctx, q.id()))
}

// pauseEndpoint serves POST /v1/endpoints/{id}/pause.
func (s *server) pauseEndpoint(ctx context.Context, q *request) (*response, error) {
	if _, err := s.svc.Pause(ctx, q.id(), ""); err != nil {
		return nil, err
	}
	return s.endpoint(ctx, q)
}

// resumeEndpoint serves POST /v1/endpoints/{id}/resume.
func (s *server) resumeEndpoint(ctx context.Context, q *request) (*response, error) {
	if _, err := s.svc.Resume(ctx, q.id(), ""); err != nil {
		return nil, err
	}
	return s.endpoint(ctx, q)
}

// endpoints serves GET /v1/endpoints.
func (s *server) endpoints(ctx context.Context, q *request) (*response, error) {
	f := dispatcher.EndpointFilter{Tenants: q.all("tenant"), Limit: q.limit(), Cursor: q.cursor()}
	views, next, err := s.svc.Endpoints(ctx, f)
	if err != nil {
		return nil, err
	}
	return answerJSON(http.StatusOK, wire.EndpointPage{Data: convert(views, wireEndpoint), NextCursor: nextCursor(next)})
}

// patchEndpoint serves PATCH /v1/endpoints/{id}.
func (s *server) patchEndpoint(ctx context.Context, q *request) (*response, error) {
	p, err := decode(q, decodePatch)
	if err != nil {
		return nil, err
	}
	return answerEndpoint(s.svc.ChangeEndpoint(ctx, q.id(), func(e *dispatcher.Endpoint) error {
		if len(e.Secrets) == 0 { // they could not be opened, and would be lost
			return dispatcher.ErrSealed
		}
		if err := wrongFields(p.apply(e, s.policy)); err != nil {
			return err
		}
		s.record(ctx, q, dispatcher.AuditEntry{Target: e.ID, Tenant: e.Tenant, Detail: p.fields()})
		return nil
	}))
}

// deleteEndpoint serves DELETE /v1/endpoints/{id}.
func (s *server) deleteEndpoint(ctx context.Context, q *request) (*response, error) {
	cancelled, err := s.svc.DeleteEndpoint(ctx, q.id())
	if err != nil {
		return nil, err
	}
	return answerJSON(http.StatusOK, wire.EndpointDeleted{Cancelled: cancelled})
}

func answerEndpoint(view dispatcher.EndpointView, err error) (*response, error) {
	if err != nil {
		return nil, err
	}
	return answerJSON(http.StatusOK, wireEndpoint(&view))
}
