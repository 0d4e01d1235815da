package client

import (
	"context"
	"maps"
	"net/http"
	"net/url"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

// AllLanes means every lane, for PauseLane and ResumeLane.
const AllLanes = "*"

// Lanes returns a page of all lanes, newest first. A limit of 0 is the API's default.
// cursor is NextCursor of the page before.
func (c *Client) Lanes(ctx context.Context, limit int, cursor string) (wire.LanePage, error) {
	return call[wire.LanePage](ctx, c, apiRequest{verb: "list lanes", method: http.MethodGet, path: "/v1/lanes", query: page(limit, cursor)})
}

// FailingLanes returns the lanes of which no attempt succeeded since FailingSince, the most
// waiting first. There are at most limit, 500 at most.
func (c *Client) FailingLanes(ctx context.Context, limit int) (wire.LanePage, error) {
	query := page(limit, "")
	query.Set("failing", "true")
	return call[wire.LanePage](ctx, c, apiRequest{verb: "list lanes", method: http.MethodGet, path: "/v1/lanes", query: query})
}

// LanesOf returns the lanes of up to 100 destinations: lanes, endpoints' ids or UIDs, or
// URLs. A URL means the lane of tenant, and with an empty tenant the lane without one.
// Lanes that do not exist are left out.
func (c *Client) LanesOf(ctx context.Context, tenant string, destinations ...string) (wire.LanePage, error) {
	query := url.Values{"destination": destinations}
	if tenant != "" {
		query.Set("tenant", tenant)
	}
	return call[wire.LanePage](ctx, c, apiRequest{verb: "list lanes", method: http.MethodGet, path: "/v1/lanes", query: query})
}

// PauseLane pauses a destination, so that its deliveries wait: a lane, an endpoint's id
// or UID, a URL, or AllLanes. A URL means the lane of tenant, and with an empty tenant
// the lane without one.
func (c *Client) PauseLane(ctx context.Context, destination, tenant string) (wire.LaneState, error) {
	return c.lane(ctx, "pause", destination, url.Values{"tenant": {tenant}})
}

// ResumeLane ends the pause and closes the breaker.
func (c *Client) ResumeLane(ctx context.Context, destination, tenant string) (wire.LaneState, error) {
	return c.lane(ctx, "resume", destination, url.Values{"tenant": {tenant}})
}

// PauseTenants pauses the existing lanes of all tenants at the origin of a URL, including
// the lane without a tenant. One call changes 1,000 lanes: repeat it with NextCursor of
// OtherTenants until there is none.
func (c *Client) PauseTenants(ctx context.Context, destination, cursor string) (wire.LaneState, error) {
	return c.lane(ctx, "pause", destination, url.Values{"all_tenants": {"true"}, "cursor": {cursor}})
}

// ResumeTenants ends these pauses.
func (c *Client) ResumeTenants(ctx context.Context, destination, cursor string) (wire.LaneState, error) {
	return c.lane(ctx, "resume", destination, url.Values{"all_tenants": {"true"}, "cursor": {cursor}})
}

func (c *Client) lane(ctx context.Context, verb, destination string, query url.Values) (wire.LaneState, error) {
	maps.DeleteFunc(query, func(_ string, values []string) bool { return values[0] == "" })
	path := "/v1/lanes/" + url.PathEscape(destination) + "/" + verb
	return call[wire.LaneState](ctx, c, apiRequest{verb: verb + " " + named(destination), method: http.MethodPost, path: path, query: query})
}

// named returns a destination for errors. Of a URL it returns only the origin, because
// the rest may contain a token.
func named(destination string) string {
	u, err := url.Parse(destination)
	if err != nil || u.Host == "" {
		if len(destination) > 128 || err != nil {
			return "lane"
		}
		return destination
	}
	return u.Scheme + "://" + u.Host
}
