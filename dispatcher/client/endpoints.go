package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

// testPatience bounds a test whose context has no deadline: an attempt takes 60 s at
// most.
const testPatience = 80 * time.Second

// CreateEndpoint registers an endpoint. The answer has its secret where it is new;
// created is false where an equal one with its UID exists.
func (c *Client) CreateEndpoint(ctx context.Context, e *wire.Endpoint) (view wire.EndpointView, created bool, err error) {
	body, err := json.Marshal(e)
	if err != nil {
		return view, false, fmt.Errorf("create endpoint: %w", err)
	}
	status := 0
	err = c.do(ctx, request{verb: "create endpoint", method: http.MethodPost, path: "/v1/endpoints", body: body, status: &status}, &view)
	return view, err == nil && status == http.StatusCreated, err
}

// Endpoint reads an endpoint. Here and below, name is its id or its UID.
func (c *Client) Endpoint(ctx context.Context, name string) (wire.EndpointView, error) {
	return c.endpoint(ctx, "get endpoint", http.MethodGet, name, "")
}

// EndpointFilter selects endpoints.
type EndpointFilter struct {
	Tenants []string // none: all; an empty one: those without a tenant
	Limit   int      // 0: the API's default
	Cursor  string   // NextCursor of the page before
}

// Endpoints reads a page of endpoints, newest first.
func (c *Client) Endpoints(ctx context.Context, f EndpointFilter) (wire.EndpointPage, error) {
	q := page(f.Limit, f.Cursor)
	for _, tenant := range f.Tenants {
		q.Add("tenant", tenant)
	}
	var out wire.EndpointPage
	err := c.do(ctx, request{verb: "list endpoints", method: http.MethodGet, path: "/v1/endpoints", query: q}, &out)
	return out, err
}

// PatchEndpoint changes an endpoint. The patch is a JSON Merge Patch, such as a
// map[string]any or a json.RawMessage: what it leaves out stays, null is the
// default.
func (c *Client) PatchEndpoint(ctx context.Context, name string, patch any) (wire.EndpointView, error) {
	var out wire.EndpointView
	body, err := json.Marshal(patch)
	if err != nil {
		return out, fmt.Errorf("patch endpoint %s: %w", name, err)
	}
	err = c.do(ctx, request{
		verb: "patch endpoint " + name, method: http.MethodPatch, path: endpointPath(name, ""),
		body: body, media: "application/merge-patch+json",
	}, &out)
	return out, err
}

// DeleteEndpoint deletes an endpoint and counts its waiting deliveries, which are
// cancelled.
func (c *Client) DeleteEndpoint(ctx context.Context, name string) (cancelled int, err error) {
	var out wire.EndpointDeleted
	err = c.do(ctx, request{verb: "delete endpoint " + name, method: http.MethodDelete, path: endpointPath(name, "")}, &out)
	return out.Cancelled, err
}

// PauseEndpoint holds the deliveries to an endpoint.
func (c *Client) PauseEndpoint(ctx context.Context, name string) (wire.EndpointView, error) {
	return c.endpoint(ctx, "pause endpoint", http.MethodPost, name, "/pause")
}

// ResumeEndpoint ends a pause of an endpoint, enables it, and closes its breaker.
func (c *Client) ResumeEndpoint(ctx context.Context, name string) (wire.EndpointView, error) {
	return c.endpoint(ctx, "resume endpoint", http.MethodPost, name, "/resume")
}

// RotateSecret gives an endpoint another secret, which the answer has.
func (c *Client) RotateSecret(ctx context.Context, name string, r wire.Rotation) (wire.Rotated, error) {
	var out wire.Rotated
	body, err := json.Marshal(r)
	if err != nil {
		return out, fmt.Errorf("rotate secret of %s: %w", name, err)
	}
	err = c.do(ctx, request{verb: "rotate secret of " + name, method: http.MethodPost, path: endpointPath(name, "/rotate-secret"), body: body}, &out)
	return out, err
}

// EndpointSecret reads the secrets of an endpoint, the current one first.
func (c *Client) EndpointSecret(ctx context.Context, name string) (wire.EndpointSecrets, error) {
	var out wire.EndpointSecrets
	err := c.do(ctx, request{verb: "get secret of " + name, method: http.MethodGet, path: endpointPath(name, "/secret")}, &out)
	return out, err
}

// TestEndpoint sends a test message to an endpoint and answers what its receiver
// answered. A refusal by the receiver is no error here.
func (c *Client) TestEndpoint(ctx context.Context, name string) (wire.EndpointTest, error) {
	var out wire.EndpointTest
	err := c.do(ctx, request{
		verb: "test endpoint " + name, method: http.MethodPost, path: endpointPath(name, "/test"), patience: testPatience,
	}, &out)
	return out, err
}

// WebhookKeys reads a page of the public keys of endpoints that are signed with
// ed25519, or the keys of one endpoint.
func (c *Client) WebhookKeys(ctx context.Context, name string, limit int, cursor string) (wire.PublicKeyPage, error) {
	q := page(limit, cursor)
	if name != "" {
		q.Set("endpoint", name)
	}
	var out wire.PublicKeyPage
	err := c.do(ctx, request{verb: "list public keys", method: http.MethodGet, path: "/.well-known/webhook-keys", query: q}, &out)
	return out, err
}

// endpoint makes a call without a body whose answer is an endpoint.
func (c *Client) endpoint(ctx context.Context, verb, method, name, call string) (wire.EndpointView, error) {
	var out wire.EndpointView
	err := c.do(ctx, request{verb: verb + " " + name, method: method, path: endpointPath(name, call)}, &out)
	return out, err
}

func endpointPath(name, call string) string { return "/v1/endpoints/" + url.PathEscape(name) + call }

// page is the query for a page of a list.
func page(limit int, cursor string) url.Values {
	q := url.Values{}
	if limit != 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
	if cursor != "" {
		q.Set("cursor", cursor)
	}
	return q
}
