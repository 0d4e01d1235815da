package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

// Message returns a message with its deliveries.
func (c *Client) Message(ctx context.Context, id string) (wire.MessageView, error) {
	return call[wire.MessageView](ctx, c, apiRequest{verb: "get " + id, method: http.MethodGet, path: messagePath(id)})
}

// Cancel cancels the unfinished deliveries of a message, and returns all of its
// deliveries. If destination is not empty, it cancels only the delivery to that
// destination: a lane, an endpoint's id or UID, or a URL.
func (c *Client) Cancel(ctx context.Context, id, destination string) ([]wire.Delivery, error) {
	out, err := call[wire.Deliveries](ctx, c, apiRequest{verb: "cancel " + id, method: http.MethodDelete, path: messagePath(id), query: to(destination), repeats: safe})
	return out.Deliveries, err
}

// Retry makes a message's deliveries due now, or only the one to destination if that is
// not empty. It returns the deliveries, with a reason for each one that is not retried. A
// delivered one is retried only if destination names it. If none is retried, the error is
// a *Problem with the same Deliveries.
func (c *Client) Retry(ctx context.Context, id, destination string) ([]wire.RetriedDelivery, error) {
	return c.retry(ctx, id, to(destination))
}

// Resend is Retry for all deliveries, including delivered ones.
func (c *Client) Resend(ctx context.Context, id string) ([]wire.RetriedDelivery, error) {
	return c.retry(ctx, id, url.Values{"all": {"true"}})
}

func (c *Client) retry(ctx context.Context, id string, query url.Values) ([]wire.RetriedDelivery, error) {
	out, err := call[wire.Retried](ctx, c, apiRequest{verb: "retry " + id, method: http.MethodPost, path: messagePath(id) + "/retry", query: query})
	return out.Deliveries, err
}

// Deliveries returns a page of deliveries, newest first.
func (c *Client) Deliveries(ctx context.Context, f Filter) (wire.Page, error) {
	return call[wire.Page](ctx, c, apiRequest{verb: "list deliveries", method: http.MethodGet, path: "/v1/deliveries", query: listQuery(f)})
}

// Attempts returns a page of attempts, newest first.
func (c *Client) Attempts(ctx context.Context, f AttemptFilter) (wire.LoggedPage, error) {
	return call[wire.LoggedPage](ctx, c, apiRequest{verb: "list attempts", method: http.MethodGet, path: "/v1/attempts", query: listQuery(f)})
}

// EndpointDeliveries returns a page of the finished deliveries of an endpoint, ordered by
// completion time, oldest first. To poll for later ones, pass ResumeCursor of the last
// page as the cursor.
func (c *Client) EndpointDeliveries(ctx context.Context, name string, f EndedFilter) (wire.EndedPage, error) {
	return call[wire.EndedPage](ctx, c, apiRequest{verb: "list finished deliveries of " + name, method: http.MethodGet, path: endpointPath(name, "/deliveries"), query: listQuery(f)})
}

// Dead counts the dead deliveries by destination and reason, largest group first.
func (c *Client) Dead(ctx context.Context, f DeadFilter) (wire.DeadPage, error) {
	return call[wire.DeadPage](ctx, c, apiRequest{verb: "count the dead", method: http.MethodGet, path: "/v1/dead", query: listQuery(f)})
}

// Stats returns the counts of the queue.
func (c *Client) Stats(ctx context.Context) (wire.Stats, error) {
	return call[wire.Stats](ctx, c, apiRequest{verb: "stats", method: http.MethodGet, path: "/v1/stats"})
}

// Instances returns a page of the instances, most recently started first. A limit of 0 is
// the API's default. cursor is NextCursor of the page before.
func (c *Client) Instances(ctx context.Context, limit int, cursor string) (wire.InstancePage, error) {
	return call[wire.InstancePage](ctx, c, apiRequest{verb: "list instances", method: http.MethodGet, path: "/v1/instances", query: page(limit, cursor)})
}

// Ready returns the state of the store, or a *Problem with the reason if it can't be
// used.
func (c *Client) Ready(ctx context.Context) (wire.Ready, error) {
	return call[wire.Ready](ctx, c, apiRequest{verb: "ready", method: http.MethodGet, path: "/readyz", repeats: never})
}

func messagePath(id string) string { return "/v1/messages/" + url.PathEscape(id) }

func to(destination string) url.Values {
	if destination == "" {
		return nil
	}
	return url.Values{"destination": {destination}}
}
