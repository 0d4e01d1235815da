package client

import (
	"context"
	"maps"
	"net/http"
	"net/url"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

// AllLanes stands for every lane where one is paused or resumed: the switch for
// a bad day.
const AllLanes = "*"

// Lanes reads a page of all lanes that are known, those last made first. A limit
// of 0 is the API's default; cursor is NextCursor of the page before.
func (c *Client) Lanes(ctx context.Context, limit int, cursor string) (wire.LanePage, error) {
	var out wire.LanePage
	err := c.do(ctx, request{verb: "list lanes", method: http.MethodGet, path: "/v1/lanes", query: page(limit, cursor)}, &out)
	return out, err
}

// PauseLane holds what goes to a destination: a lane, an endpoint's id or UID,
// a URL, or AllLanes. A URL means what a tenant's messages send to its origin;
// with an empty tenant, what messages without one do.
func (c *Client) PauseLane(ctx context.Context, destination, tenant string) (wire.LaneState, error) {
	return c.lane(ctx, "pause", destination, url.Values{"tenant": {tenant}})
}

// ResumeLane lets it go on, and closes its breaker.
func (c *Client) ResumeLane(ctx context.Context, destination, tenant string) (wire.LaneState, error) {
	return c.lane(ctx, "resume", destination, url.Values{"tenant": {tenant}})
}

// PauseTenants holds what the messages of all tenants, and those without one,
// send to the origin of a URL by now. One call changes 1,000 lanes: it is
// repeated with NextCursor of OtherTenants until there is none.
func (c *Client) PauseTenants(ctx context.Context, destination, cursor string) (wire.LaneState, error) {
	return c.lane(ctx, "pause", destination, url.Values{"all_tenants": {"true"}, "cursor": {cursor}})
}

// ResumeTenants lets them go on.
func (c *Client) ResumeTenants(ctx context.Context, destination, cursor string) (wire.LaneState, error) {
	return c.lane(ctx, "resume", destination, url.Values{"all_tenants": {"true"}, "cursor": {cursor}})
}

func (c *Client) lane(ctx context.Context, verb, destination string, query url.Values) (wire.LaneState, error) {
	var out wire.LaneState
	maps.DeleteFunc(query, func(_ string, values []string) bool { return values[0] == "" })
	path := "/v1/lanes/" + url.PathEscape(destination) + "/" + verb
	err := c.do(ctx, request{verb: verb + " " + named(destination), method: http.MethodPost, path: path, query: query}, &out)
	return out, err
}

// named is a destination as errors tell it: of a URL only what names the lane,
// since the rest may hold a token.
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
