package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/access"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/ladder"
	"github.com/hookladder/hookladder/signer"
)

// Endpoints are registered and changed. dispatcher.ErrNoEndpoint: no endpoint has this id or uid.
type Endpoints interface {
	// CreateEndpoint registers an endpoint, whose secret may be missing. If an equal one with its
	// uid exists, created is false; if an unequal one does, the error is dispatcher.ErrTaken.
	CreateEndpoint(ctx context.Context, e *dispatcher.Endpoint) (view dispatcher.EndpointView, created bool, err error)
	// Endpoint reads one endpoint.
	Endpoint(ctx context.Context, name string) (dispatcher.EndpointView, error)
	// Endpoints reads a page of endpoints.
	Endpoints(ctx context.Context, f dispatcher.EndpointFilter) (views []dispatcher.EndpointView, next string, err error)
	// PublicKeys reads a page of public keys, from a cache.
	PublicKeys(ctx context.Context, f dispatcher.PublicKeyFilter) (dispatcher.PublicKeyPage, error)
	// ChangeEndpoint has change edit a copy, and stores that; it calls change again after a race.
	ChangeEndpoint(ctx context.Context, name string, change func(e *dispatcher.Endpoint) error) (dispatcher.EndpointView, error)
	// DeleteEndpoint deletes an endpoint and counts the deliveries that it cancels.
	DeleteEndpoint(ctx context.Context, name string) (cancelled int, err error)
	// RotateSecret gives an endpoint another secret. If next is zero, it makes one.
	RotateSecret(ctx context.Context, name string, next signer.Secret, overlap time.Duration) (dispatcher.EndpointView, error)
}

// Tester tests endpoints.
type Tester interface {
	// TestEndpoint sends a message and returns the receiver's response.
	TestEndpoint(ctx context.Context, name string) (dispatcher.TestResult, error)
}

// endpointBytes bounds the description of an endpoint. All its fields at their
// largest have some 55 KiB, and space and escapes may double that.
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
		policy, l := s.policyOf(ctx)
		p.wrong = join(p.wrong, p.value.Validate(policy))
		if l != nil {
			p.wrong = join(p.wrong, dispatcher.CheckLinkTopics(p.value.Topics, nil, l.View.Endpoint != ""))
		}
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
	view, created, err := s.o.Endpoints.CreateEndpoint(ctx, e)
	made := dispatcher.AuditEntry{Tenant: e.Tenant, Detail: strings.TrimSpace(where + " " + e.UID)}
	if err == nil {
		made.Target = view.ID
	}
	if err == nil && !created {
		made.Detail += ", an equal one was there"
	}
	s.recordMade(ctx, q, made, err)
	if err != nil {
		return nil, err
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
	return answerEndpoint(s.o.Endpoints.Endpoint(ctx, q.id()))
}

// pauseEndpoint serves POST /v1/endpoints/{id}/pause.
func (s *server) pauseEndpoint(ctx context.Context, q *request) (*response, error) {
	if _, err := s.o.Lanes.Pause(ctx, q.id(), ""); err != nil {
		return nil, err
	}
	return s.endpoint(ctx, q)
}

// resumeEndpoint serves POST /v1/endpoints/{id}/resume.
func (s *server) resumeEndpoint(ctx context.Context, q *request) (*response, error) {
	if _, err := s.o.Lanes.Resume(ctx, q.id(), ""); err != nil {
		return nil, err
	}
	return s.endpoint(ctx, q)
}

// endpoints serves GET /v1/endpoints.
func (s *server) endpoints(ctx context.Context, q *request) (*response, error) {
	f := dispatcher.EndpointFilter{Tenants: q.all("tenant"), Limit: q.limit(), Cursor: q.cursor(), View: q.view}
	views, next, err := s.o.Endpoints.Endpoints(ctx, f)
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
	return answerEndpoint(s.o.Endpoints.ChangeEndpoint(ctx, q.id(), func(e *dispatcher.Endpoint) error {
		if len(e.Secrets) == 0 { // they could not be opened, and would be lost
			return dispatcher.ErrSealed
		}
		before := e.Clone()
		policy, l := s.policyOf(ctx)
		wrong := p.apply(e, policy)
		if l != nil && !slices.Equal(before.Topics, e.Topics) {
			wrong = join(wrong, dispatcher.CheckLinkTopics(e.Topics, before.AllowedTopics(), l.View.Endpoint != ""))
		}
		if err := wrongFields(wrong); err != nil {
			return err
		}
		s.record(ctx, q, dispatcher.AuditEntry{Target: e.ID, Tenant: e.Tenant, Detail: p.fields()})
		return nil
	}))
}

// policyOf is the policy for what a caller sets, and the caller where that is a link.
func (s *server) policyOf(ctx context.Context) (dispatcher.Policy, *access.Caller) {
	if c, ok := access.CallerOf(ctx); ok && c.Linked() {
		return s.policy.OfLink(), &c
	}
	return s.policy, nil
}

// confirmation is the body of a call to confirm a URL.
type confirmation struct{ url string }

var confirmationFields = fieldset[confirmation]{
	{name: "url", set: func(c *confirmation, v jsontext.Value) error { return filled(&c.url, v) }},
}

func decodeConfirmation(d *decoder) decoded[confirmation] {
	return confirmationFields.fill(d, single, &confirmation{})
}

// confirmEndpoint serves POST /v1/endpoints/{id}/confirm: the URL is the operator's then,
// so the networks of the operator hold for it, and the headers are sent to it.
func (s *server) confirmEndpoint(ctx context.Context, q *request) (*response, error) {
	p, err := decode(q, decodeConfirmation)
	if err == nil && len(p.wrong) == 0 && p.value.url == "" {
		p.wrong = []dispatcher.FieldError{{Path: "$.url", Detail: "is needed: the url that you have read"}}
	}
	if err == nil {
		err = wrongFields(p.wrong)
	}
	if err != nil {
		return nil, err
	}
	return answerEndpoint(s.o.Endpoints.ChangeEndpoint(ctx, q.id(), func(e *dispatcher.Endpoint) error {
		if len(e.Secrets) == 0 {
			return dispatcher.ErrSealed
		}
		if e.URL != p.value.url {
			return &problem{kind: changed, detail: "the endpoint has another url by now: read it, and confirm that one if it is right"}
		}
		for _, wrong := range e.Validate(s.policy) {
			if wrong.Path == "$.url" {
				return invalidFields([]dispatcher.FieldError{wrong})
			}
		}
		e.Confirm()
		s.record(ctx, q, dispatcher.AuditEntry{Target: e.ID, Tenant: e.Tenant, Detail: "url " + withoutSecrets(e.URL)})
		return nil
	}))
}

// deleteEndpoint serves DELETE /v1/endpoints/{id}.
func (s *server) deleteEndpoint(ctx context.Context, q *request) (*response, error) {
	cancelled, err := s.o.Endpoints.DeleteEndpoint(ctx, q.id())
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

const (
	// rotationBytes bounds a rotation: the longest secret has 256 characters.
	rotationBytes = 8 << 10
	// usualOverlap is how long old secrets stay valid by default, as the contract says.
	usualOverlap = 24 * time.Hour
	// testTime bounds the answer to a test: the longest attempt takes 60 s, and the
	// store some more.
	testTime = 75 * time.Second
	// maxKeys is the most endpoints in a page of public keys.
	maxKeys = 50
)

// rotateSecret serves POST /v1/endpoints/{id}/rotate-secret. Its answer has the new
// secret.
func (s *server) rotateSecret(ctx context.Context, q *request) (*response, error) {
	p := decoded[rotation]{value: newRotation()}
	if q.r.ContentLength != 0 { // else all is left to the defaults
		var err error
		if p, err = decode(q, decodeRotation); err != nil {
			return nil, err
		}
	}
	var next signer.Secret
	if p.has(bitNextSecret) {
		view, err := s.o.Endpoints.Endpoint(ctx, q.id()) // its signature says what a valid secret is
		if err != nil {
			return nil, err
		}
		if next, err = view.Signature.ParseSecret(p.value.secret); err != nil {
			p.wrong = join(p.wrong, []dispatcher.FieldError{{Path: "$.secret", Detail: err.Error()}})
		}
	}
	if err := wrongFields(p.wrong); err != nil {
		return nil, err
	}
	s.recordEndpoint(ctx, q, "overlap "+ladder.FormatDuration(p.value.overlap))
	view, err := s.o.Endpoints.RotateSecret(ctx, q.id(), next, p.value.overlap)
	if err != nil {
		return nil, err
	}
	if len(view.Secrets) == 0 {
		return nil, fmt.Errorf("rotate secret of %s: %w", view.ID, dispatcher.ErrSealed)
	}
	return answerJSON(http.StatusOK, wireRotated(view))
}

// rotation is the body of a call to rotate a secret.
type rotation struct {
	overlap time.Duration
	secret  string // as given; empty: it is not
}

var rotationFields = fieldset[rotation]{
	{name: "overlap", set: setOverlap},
	{name: "secret", set: func(r *rotation, v jsontext.Value) error { return text(&r.secret, v) }},
}

var bitNextSecret = rotationFields.bit("secret")

func newRotation() *rotation { return &rotation{overlap: usualOverlap} }

func decodeRotation(d *decoder) decoded[rotation] {
	return rotationFields.fill(d, single, newRotation())
}

func setOverlap(r *rotation, v jsontext.Value) error {
	err := duration(&r.overlap, v)
	if err == nil && (r.overlap < 0 || r.overlap > dispatcher.MaxOverlap) {
		return errors.New("must be 0s to 30d")
	}
	return err
}

// wireRotated is an endpoint with its new secret.
func wireRotated(v dispatcher.EndpointView) wire.Rotated {
	w := wire.Rotated{EndpointView: wireEndpoint(&v)}
	w.Secret = v.Secrets[0].Secret.Reveal()
	w.PublicKey, _ = v.Secrets[0].Secret.PublicKey()
	if len(v.Secrets) > 1 && v.Signature.Rotates() {
		w.PreviousUntil = wire.Time{Time: v.Secrets[1].Until}
	}
	return w
}

// secret serves GET /v1/endpoints/{id}/secret.
func (s *server) secret(ctx context.Context, q *request) (*response, error) {
	view, err := s.o.Endpoints.Endpoint(ctx, q.id())
	if err != nil {
		return nil, err
	}
	if len(view.Secrets) == 0 {
		return nil, fmt.Errorf("read secret of %s: %w", view.ID, dispatcher.ErrSealed)
	}
	return answerJSON(http.StatusOK, wire.EndpointSecrets{
		ID: view.ID, Signature: view.Signature.String(), Secrets: convert(s.living(view.Secrets), wireSecret),
	})
}

func wireSecret(s *dispatcher.EndpointSecret) wire.EndpointSecret {
	public, _ := s.Secret.PublicKey()
	return wire.EndpointSecret{Secret: s.Secret.Reveal(), PublicKey: public, Until: wire.Time{Time: s.Until}}
}

// living are the secrets that are still used.
func (s *server) living(all []dispatcher.EndpointSecret) []dispatcher.EndpointSecret {
	now := time.Now()
	if s.policy.Now != nil {
		now = s.policy.Now()
	}
	return slices.DeleteFunc(slices.Clone(all), func(one dispatcher.EndpointSecret) bool {
		return !one.Until.IsZero() && !one.Until.After(now)
	})
}

// test serves POST /v1/endpoints/{id}/test.
func (s *server) test(ctx context.Context, q *request) (*response, error) {
	// The receiver may take longer than any other call. Where the deadline can't be
	// changed, a late answer is cut.
	_ = http.NewResponseController(q.w).SetWriteDeadline(time.Now().Add(testTime))
	result, err := s.o.Tester.TestEndpoint(ctx, q.id())
	if err != nil {
		return nil, err
	}
	a := wireAttempt(&result.Attempt)
	if result.Attempt.Verdict != dispatcher.Delivered {
		a.Outcome = "failed" // a test is not repeated, so retry and dead are the same
	}
	return answerJSON(http.StatusOK, wire.EndpointTest{
		MessageID: result.MessageID, At: a.At, DurationMS: a.DurationMS, StatusCode: a.StatusCode,
		Outcome: a.Outcome, Error: a.Error, ResponseExcerpt: a.ResponseExcerpt,
	})
}

// webhookKeys serves GET /.well-known/webhook-keys. It needs no key, so it does not
// show whether an endpoint without a public key exists, and asks the store once a
// minute at most. Receivers may cache the answer that long.
func (s *server) webhookKeys(ctx context.Context, q *request) (*response, error) {
	f := dispatcher.PublicKeyFilter{Limit: q.limit(), Cursor: q.cursor()}
	if f.Cursor != "" && q.query.Has("endpoint") {
		return nil, wrongField("query.endpoint", "has a page of its own: leave the cursor out")
	}
	page, err := s.publicKeys(ctx, f, q.all("endpoint"))
	if err != nil {
		return nil, err
	}
	w := wire.PublicKeyPage{Data: convert(page.Keys, wirePublicKey), NextCursor: nextCursor(page.Next)}
	r, err := answerJSON(http.StatusOK, w)
	if err != nil {
		return nil, err
	}
	seconds := int64((page.Fresh + time.Second - 1) / time.Second)
	r.cacheControl = "public, max-age=" + strconv.FormatInt(seconds, 10)
	return r, nil
}

func wirePublicKey(k *dispatcher.PublicKey) wire.PublicKey {
	return wire.PublicKey{Endpoint: k.Endpoint, PublicKey: k.Key, Until: wire.Time{Time: k.Until}}
}

// publicKeys reads the keys of the named endpoints, or a page of all keys.
func (s *server) publicKeys(ctx context.Context, f dispatcher.PublicKeyFilter, names []string) (dispatcher.PublicKeyPage, error) {
	if len(names) <= 1 {
		f.Name = strings.Join(names, "")
		return s.o.Endpoints.PublicKeys(ctx, f)
	}
	var all dispatcher.PublicKeyPage
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			continue
		}
		f.Name = name
		page, err := s.o.Endpoints.PublicKeys(ctx, f)
		if err != nil {
			return all, err
		}
		if i == 0 || page.Fresh < all.Fresh {
			all.Fresh = page.Fresh
		}
		all.Keys = append(all.Keys, page.Keys...)
	}
	return all, nil
}
