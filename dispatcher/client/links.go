package client

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/url"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

// CreateLink creates a link through which people of a tenant see its deliveries. Only the
// response has the URL. If the response is lost, the link can't be used, but Links lists
// it.
func (c *Client) CreateLink(ctx context.Context, r wire.LinkRequest) (wire.NewLink, error) {
	return send[wire.NewLink](ctx, c, apiRequest{verb: "make link of " + r.Tenant, method: http.MethodPost, path: "/v1/links"}, r)
}

// Links returns a page of the links that have not expired, newest first. A limit of 0 is
// the API's default. cursor is NextCursor of the page before.
func (c *Client) Links(ctx context.Context, limit int, cursor string) (wire.LinkPage, error) {
	return call[wire.LinkPage](ctx, c, apiRequest{verb: "list links", method: http.MethodGet, path: "/v1/links", query: page(limit, cursor)})
}

// EachLink iterates over all links, newest first.
func (c *Client) EachLink(ctx context.Context) iter.Seq2[wire.Link, error] {
	return each(0, "", func(limit int, cursor string) ([]wire.Link, *string, error) {
		page, err := c.Links(ctx, limit, cursor)
		return page.Data, page.NextCursor, err
	})
}

// RevokeLink revokes a link, and the sessions of all browsers that used it.
func (c *Client) RevokeLink(ctx context.Context, id string) error {
	q := apiRequest{verb: "revoke " + id, method: http.MethodDelete, path: "/v1/links/" + url.PathEscape(id)}
	if _, err := c.exchange(ctx, q, c.newTries()); err != nil {
		return fmt.Errorf("%s: %w", q.verb, err)
	}
	return nil
}
