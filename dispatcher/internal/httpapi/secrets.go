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
	"github.com/hookladder/hookladder/dispatcher/internal/callers"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/api"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/ladder"
	"github.com/hookladder/hookladder/signer"
)

// Tester tests endpoints.
type Tester interface {
	// TestEndpoint sends a message and returns the receiver's response.
	TestEndpoint(ctx context.Context, name string) (dispatcher.TestResult, error)
}

func (s *server) secretOperations() []api.Operation {
	return []api.Operation{
		{
			ID: "get-secret", Method: "GET", Path: endpointPath + "/secret", Scope: callers.Admin, Audit: "secret.read",
			Summary: "Read an endpoint's secrets", Do: s.secret,
			Subject: endpointSubject, Answers: api.OK(exampleEndpointSecrets),
			Problems: []*api.Kind{api.Sealed},
		},
		{
			ID: "rotate-secret", Method: "POST", Path: endpointPath + "/rotate-secret", Scope: callers.Admin, Link: api.ManagingLink, Audit: "secret.rotate",
			Summary: "Give an endpoint another secret, which the answer holds", Do: s.rotateSecret,
			Subject: endpointSubject, Body: exampleRotation, Draw: rotationSchema, Limit: rotationBytes, Optional: true,
			Answers:  api.OK(exampleRotated),
			Problems: []*api.Kind{api.Changed, api.Sealed},
		},
		{
			ID: "test-endpoint", Method: "POST", Path: endpointPath + "/test", Scope: callers.Admin, Link: api.ManagingLink, Audit: "endpoint.test",
			Summary: "Send an endpoint a test message and answer what its receiver answered", Do: s.test,
			Subject: endpointSubject, Answers: api.OK(exampleEndpointTest),
			Problems: []*api.Kind{api.Busy, api.Sealed},
		},
		{
			ID: "webhook-keys", Method: "GET", Path: "/.well-known/webhook-keys",
			Summary: "List the public keys of endpoints whose signature is standard-ed25519; they are at most a minute old", Do: s.webhookKeys,
			Answers: api.OK(examplePublicKeyPage), Query: append([]*api.Param{
				api.Repeated(api.OfText("endpoint", "Only those of the endpoint with this id or uid. May be repeated.", api.NameForm)),
			}, api.OfPage(maxKeys)...),
			Problems: []*api.Kind{api.Malformed},
		},
	}
}

const (
	// rotationBytes limits a rotation. The longest secret has 256 characters.
	rotationBytes = 8 << 10
	// usualOverlap is the default time that old secrets stay valid, as in the contract.
	usualOverlap = 24 * time.Hour
	// testTime is the timeout of a test: the longest attempt takes 60 s, and the store takes some
	// more.
	testTime = 75 * time.Second
	// maxKeys is the highest number of endpoints in a page of public keys.
	maxKeys = 50
)

// rotateSecret serves POST /v1/endpoints/{id}/rotate-secret. Its response has the new secret.
func (s *server) rotateSecret(ctx context.Context, q *api.Request) (*api.Response, error) {
	p := api.Decoded[rotation]{Value: newRotation()}
	if q.HTTP.ContentLength != 0 { // without a body, all fields have their defaults
		var err error
		if p, err = api.Decode(q, decodeRotation); err != nil {
			return nil, err
		}
	}
	var next signer.Secret
	if p.Has(bitNextSecret) {
		view, err := s.o.Endpoints.Endpoint(ctx, q.ID()) // the endpoint's signature decides which secret is valid
		if err != nil {
			return nil, err
		}
		if next, err = view.Signature.ParseSecret(p.Value.secret); err != nil {
			p.Wrong = api.JoinErrors(p.Wrong, []dispatcher.FieldError{{Path: "$.secret", Detail: err.Error()}})
		}
	}
	if err := api.WrongFields(p.Wrong); err != nil {
		return nil, err
	}
	s.recordEndpoint(ctx, q, "overlap "+ladder.FormatDuration(p.Value.overlap))
	view, err := s.o.Endpoints.RotateSecret(ctx, q.ID(), next, p.Value.overlap)
	if err != nil {
		return nil, err
	}
	if len(view.Secrets) == 0 {
		return nil, fmt.Errorf("rotate secret of %s: %w", view.ID, dispatcher.ErrSealed)
	}
	w := wireRotated(view)
	w.EndpointView = outwardEndpoint(q, w.EndpointView)
	return api.JSON(http.StatusOK, w)
}

// rotation is the body of a call to rotate a secret.
type rotation struct {
	overlap time.Duration
	secret  string // as given; empty: it is not
}

var rotationFields = api.Fieldset[rotation]{
	{Name: "overlap", Set: setOverlap},
	{Name: "secret", Set: func(r *rotation, v jsontext.Value) error { return api.Text(&r.secret, v) }},
}

var bitNextSecret = rotationFields.Bit("secret")

func newRotation() *rotation { return &rotation{overlap: usualOverlap} }

func decodeRotation(d *api.Decoder) api.Decoded[rotation] {
	return rotationFields.Fill(d, api.Single, newRotation())
}

func setOverlap(r *rotation, v jsontext.Value) error {
	err := api.Duration(&r.overlap, v)
	if err == nil && (r.overlap < 0 || r.overlap > dispatcher.MaxOverlap) {
		return errors.New("must be 0s to 30d")
	}
	return err
}

// wireRotated returns an endpoint with its new secret.
func wireRotated(v dispatcher.EndpointView) wire.Rotated {
	w := wire.Rotated{EndpointView: wireEndpoint(&v)}
	w.Secret, w.LastFailure = v.Secrets[0].Secret.Reveal(), nil // the response is about the secrets
	w.PublicKey, _ = v.Secrets[0].Secret.PublicKey()
	if len(v.Secrets) > 1 && v.Rotates() {
		w.PreviousUntil = wire.Time{Time: v.Secrets[1].Until}
	}
	return w
}

// secret serves GET /v1/endpoints/{id}/secret.
func (s *server) secret(ctx context.Context, q *api.Request) (*api.Response, error) {
	view, err := s.o.Endpoints.Endpoint(ctx, q.ID())
	if err != nil {
		return nil, err
	}
	if len(view.Secrets) == 0 {
		return nil, fmt.Errorf("read secret of %s: %w", view.ID, dispatcher.ErrSealed)
	}
	return api.JSON(http.StatusOK, wire.EndpointSecrets{
		ID: view.ID, Signature: view.Signature.String(), Secrets: api.Convert(s.living(view.Secrets), wireSecret),
	})
}

func wireSecret(s *dispatcher.EndpointSecret) wire.EndpointSecret {
	public, _ := s.Secret.PublicKey()
	return wire.EndpointSecret{Secret: s.Secret.Reveal(), PublicKey: public, Until: wire.Time{Time: s.Until}}
}

// living returns the secrets that are still used.
func (s *server) living(all []dispatcher.EndpointSecret) []dispatcher.EndpointSecret {
	now := time.Now()
	if s.o.Policy.Now != nil {
		now = s.o.Policy.Now()
	}
	return slices.DeleteFunc(slices.Clone(all), func(one dispatcher.EndpointSecret) bool {
		return !one.Until.IsZero() && !one.Until.After(now)
	})
}

// test serves POST /v1/endpoints/{id}/test.
func (s *server) test(ctx context.Context, q *api.Request) (*api.Response, error) {
	// The receiver may take longer than any other call. If the deadline can't be changed, a late
	// response is cut.
	_ = http.NewResponseController(q.Writer).SetWriteDeadline(time.Now().Add(testTime))
	result, err := s.o.Tester.TestEndpoint(ctx, q.ID())
	if err != nil {
		return nil, err
	}
	a := api.Attempt(&result.Attempt)
	if result.Attempt.Verdict != dispatcher.Delivered {
		a.Outcome = "failed" // a test has no retry, so retry and dead are the same
	}
	if q.Linked() {
		a.Error = outward(a.Error)
	}
	return api.JSON(http.StatusOK, wire.EndpointTest{
		MessageID: result.MessageID, At: a.At, DurationMS: a.DurationMS, StatusCode: a.StatusCode,
		Outcome: a.Outcome, Error: a.Error, ResponseExcerpt: a.ResponseExcerpt,
	})
}

// webhookKeys serves GET /.well-known/webhook-keys. It needs no key, so it does not show whether
// an endpoint without a public key exists. It queries the store at most once a minute, and
// receivers may cache the response for that time.
func (s *server) webhookKeys(ctx context.Context, q *api.Request) (*api.Response, error) {
	f := dispatcher.PublicKeyFilter{Limit: q.Limit(), Cursor: q.Cursor()}
	if f.Cursor != "" && q.Query.Has("endpoint") {
		return nil, api.WrongField("query.endpoint", "has a page of its own: leave the cursor out")
	}
	page, err := s.publicKeys(ctx, f, q.All("endpoint"))
	if err != nil {
		return nil, err
	}
	w := wire.PublicKeyPage{Data: api.Convert(page.Keys, wirePublicKey), NextCursor: api.NextCursor(page.Next)}
	r, err := api.JSON(http.StatusOK, w)
	if err != nil {
		return nil, err
	}
	seconds := int64((page.Fresh + time.Second - 1) / time.Second)
	r.CacheControl = "public, max-age=" + strconv.FormatInt(seconds, 10)
	return r, nil
}

func wirePublicKey(k *dispatcher.PublicKey) wire.PublicKey {
	return wire.PublicKey{Endpoint: k.Endpoint, PublicKey: k.Key, Until: wire.Time{Time: k.Until}}
}

// publicKeys returns the keys of the named endpoints, or a page of all keys.
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
