package client

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

// testPatience is the timeout of a test whose context has no deadline, because an attempt
// takes at most 60 s.
const testPatience = 80 * time.Second

// CreateEndpoint registers an endpoint. The response of a new endpoint has its secret.
// created is false if an equal endpoint with its UID exists.
func (c *Client) CreateEndpoint(ctx context.Context, e *wire.Endpoint) (view wire.EndpointView, created bool, err error) {
	repeats := untaken
	if e != nil && e.UID != "" {
		repeats = safe
	}
	return c.createEndpoint(ctx, e, nil, repeats)
}

// TryCreateEndpoint returns what CreateEndpoint would return, and creates nothing. A new
// endpoint has neither id nor secret.
func (c *Client) TryCreateEndpoint(ctx context.Context, e *wire.Endpoint) (view wire.EndpointView, created bool, err error) {
	return c.createEndpoint(ctx, e, dryRun, safe)
}

// dryRun is the query of a call that changes nothing.
var dryRun = url.Values{"dry_run": {"true"}}

func (c *Client) createEndpoint(ctx context.Context, e *wire.Endpoint, query url.Values, repeats repetition) (view wire.EndpointView, created bool, err error) {
	if e == nil {
		return view, false, errors.New("create endpoint: there is no endpoint")
	}
	status := 0
	view, err = send[wire.EndpointView](ctx, c, apiRequest{
		verb: "create endpoint", method: http.MethodPost, path: "/v1/endpoints", query: query, status: &status, repeats: repeats,
	}, e)
	return view, err == nil && status == http.StatusCreated, err
}

// Endpoint returns an endpoint. Here and below, name is its id or its UID.
func (c *Client) Endpoint(ctx context.Context, name string) (wire.EndpointView, error) {
	return c.endpoint(ctx, "get endpoint", http.MethodGet, name, "")
}

// Endpoints returns a page of endpoints, newest first.
func (c *Client) Endpoints(ctx context.Context, f EndpointFilter) (wire.EndpointPage, error) {
	return call[wire.EndpointPage](ctx, c, apiRequest{verb: "list endpoints", method: http.MethodGet, path: "/v1/endpoints", query: listQuery(f)})
}

// PatchEndpoint changes an endpoint. The patch is a JSON Merge Patch, such as a
// map[string]any or a json.RawMessage. Missing fields keep their values, and null sets
// the default. If the patch changes nothing, UpdatedAt is the same as before.
func (c *Client) PatchEndpoint(ctx context.Context, name string, patch any) (wire.EndpointView, error) {
	return c.patchEndpoint(ctx, name, patch, nil)
}

// TryPatchEndpoint returns what PatchEndpoint would return, and changes nothing.
func (c *Client) TryPatchEndpoint(ctx context.Context, name string, patch any) (wire.EndpointView, error) {
	return c.patchEndpoint(ctx, name, patch, dryRun)
}

func (c *Client) patchEndpoint(ctx context.Context, name string, patch any, query url.Values) (wire.EndpointView, error) {
	return send[wire.EndpointView](ctx, c, apiRequest{
		verb: "patch endpoint " + name, method: http.MethodPatch, path: endpointPath(name, ""), query: query, media: "application/merge-patch+json", repeats: safe,
	}, patch)
}

// DeleteEndpoint deletes an endpoint. It cancels the waiting deliveries and returns their
// number.
func (c *Client) DeleteEndpoint(ctx context.Context, name string) (cancelled int, err error) {
	out, err := call[wire.EndpointDeleted](ctx, c, apiRequest{verb: "delete endpoint " + name, method: http.MethodDelete, path: endpointPath(name, "")})
	return out.Cancelled, err
}

// PauseEndpoint pauses an endpoint: its deliveries wait.
func (c *Client) PauseEndpoint(ctx context.Context, name string) (wire.EndpointView, error) {
	return c.endpoint(ctx, "pause endpoint", http.MethodPost, name, "/pause")
}

// ResumeEndpoint ends a pause of an endpoint, enables it, and closes its breaker.
func (c *Client) ResumeEndpoint(ctx context.Context, name string) (wire.EndpointView, error) {
	return c.endpoint(ctx, "resume endpoint", http.MethodPost, name, "/resume")
}

// RetryEndpoint starts a job that attempts what waits for an endpoint now, one delivery first. Where
// such a job has not ended, it returns that one.
func (c *Client) RetryEndpoint(ctx context.Context, name string) (wire.Job, error) {
	return call[wire.Job](ctx, c, apiRequest{verb: "retry endpoint " + name, method: http.MethodPost, path: endpointPath(name, "/retry"), repeats: safe})
}

// ConfirmEndpoint accepts a URL that was set through a link, so that the endpoint's
// headers are sent to it. It returns ErrConflict if the endpoint has another URL by now.
func (c *Client) ConfirmEndpoint(ctx context.Context, name, url string) (wire.EndpointView, error) {
	return send[wire.EndpointView](ctx, c, apiRequest{
		verb: "confirm endpoint " + name, method: http.MethodPost, path: endpointPath(name, "/confirm"), repeats: safe,
	}, wire.Confirmation{URL: url})
}

// RotateSecret gives an endpoint a new secret and returns it.
func (c *Client) RotateSecret(ctx context.Context, name string, r wire.Rotation) (wire.Rotated, error) {
	return send[wire.Rotated](ctx, c, apiRequest{verb: "rotate secret of " + name, method: http.MethodPost, path: endpointPath(name, "/rotate-secret")}, r)
}

// EndpointSecret returns the secrets of an endpoint, the current one first.
func (c *Client) EndpointSecret(ctx context.Context, name string) (wire.EndpointSecrets, error) {
	return call[wire.EndpointSecrets](ctx, c, apiRequest{verb: "get secret of " + name, method: http.MethodGet, path: endpointPath(name, "/secret")})
}

// TestEndpoint sends a test message to an endpoint and returns the receiver's response.
// An error status of the receiver is not an error here.
func (c *Client) TestEndpoint(ctx context.Context, name string) (wire.EndpointTest, error) {
	return call[wire.EndpointTest](ctx, c, apiRequest{
		verb: "test endpoint " + name, method: http.MethodPost, path: endpointPath(name, "/test"), patience: testPatience,
	})
}

// WebhookKeys returns a page of the public keys of endpoints that sign with ed25519, or
// the keys of one endpoint if name is not empty.
func (c *Client) WebhookKeys(ctx context.Context, name string, limit int, cursor string) (wire.PublicKeyPage, error) {
	q := page(limit, cursor)
	if name != "" {
		q.Set("endpoint", name)
	}
	return call[wire.PublicKeyPage](ctx, c, apiRequest{verb: "list public keys", method: http.MethodGet, path: "/.well-known/webhook-keys", query: q})
}

// endpoint makes a call without a body that returns an endpoint.
func (c *Client) endpoint(ctx context.Context, verb, method, name, below string) (wire.EndpointView, error) {
	return call[wire.EndpointView](ctx, c, apiRequest{verb: verb + " " + name, method: method, path: endpointPath(name, below)})
}

func endpointPath(name, below string) string { return "/v1/endpoints/" + url.PathEscape(name) + below }
