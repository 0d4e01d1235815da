package client

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

// tickPatience is longer than the longest tick.
const tickPatience = 90 * time.Second

// Tick makes an instance do all due work, and returns when nothing is due, or after
// within: 1s to 1m, or 0 for the API's default. The response has the time of the next
// call.
func (c *Client) Tick(ctx context.Context, within time.Duration) (wire.Tick, error) {
	query := url.Values{}
	if within > 0 {
		query.Set("for", within.String())
	}
	return call[wire.Tick](ctx, c, apiRequest{verb: "tick", method: http.MethodPost, path: "/v1/tick", query: query, patience: tickPatience})
}
