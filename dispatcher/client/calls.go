package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

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

// Filter selects deliveries. An empty field matches everything, and a field with several
// values matches any of them.
type Filter struct {
	Statuses     []string
	Topics       []string // or patterns, such as payment.*
	Tenants      []string
	Subjects     []string // exact
	SubjectLike  []string // as people write them: 8713 finds order_8713; not allowed in jobs
	Failed       bool     // only unfinished deliveries with a failed attempt
	Destinations []string // lanes, endpoints' ids or UIDs, or URLs
	Reasons      []string
	Since, Until time.Time
	Order        string // accepted (with Destinations), ended or due; empty: the API's default
	Limit        int    // 0: the API's default
	Cursor       string // NextCursor of the page before
}

// AttemptFilter selects attempts. An empty field matches everything, and a field with
// several values matches any of them.
type AttemptFilter struct {
	Destinations []string // lanes, endpoints' ids or UIDs, or URLs
	Tenants      []string
	Topics       []string // or patterns, such as payment.*
	Subjects     []string
	Messages     []string // ids
	Outcomes     []string
	StatusCodes  []int    // of responses
	Jobs         []string // ids
	Since, Until time.Time
	Limit        int    // 0: the API's default
	Cursor       string // NextCursor of the page before
}

// Deliveries returns a page of deliveries, newest first.
func (c *Client) Deliveries(ctx context.Context, f Filter) (wire.Page, error) {
	filters := map[string][]string{
		"status": f.Statuses, "topic": f.Topics, "tenant": f.Tenants, "subject": f.Subjects,
		"subject_like": f.SubjectLike, "destination": f.Destinations, "dead_reason": f.Reasons,
	}
	if f.Failed {
		filters["failed"] = []string{"true"}
	}
	if f.Order != "" {
		filters["order"] = []string{f.Order}
	}
	q := listQuery(filters, f.Since, f.Until, f.Limit, f.Cursor)
	return call[wire.Page](ctx, c, apiRequest{verb: "list deliveries", method: http.MethodGet, path: "/v1/deliveries", query: q})
}

// Attempts returns a page of attempts, newest first.
func (c *Client) Attempts(ctx context.Context, f AttemptFilter) (wire.LoggedPage, error) {
	q := listQuery(f.words(), f.Since, f.Until, f.Limit, f.Cursor)
	return call[wire.LoggedPage](ctx, c, apiRequest{verb: "list attempts", method: http.MethodGet, path: "/v1/attempts", query: q})
}

func (f *AttemptFilter) words() map[string][]string {
	words := map[string][]string{
		"destination": f.Destinations, "tenant": f.Tenants, "topic": f.Topics, "subject": f.Subjects,
		"message": f.Messages, "outcome": f.Outcomes, "job": f.Jobs,
	}
	for _, code := range f.StatusCodes {
		words["status_code"] = append(words["status_code"], strconv.Itoa(code))
	}
	return words
}

// listQuery returns the query of a list: filters that may have several values, and the
// parameters that all lists have.
func listQuery(filters map[string][]string, since, until time.Time, limit int, cursor string) url.Values {
	q := page(limit, cursor)
	for name, values := range filters {
		for _, v := range values {
			q.Add(name, v)
		}
	}
	for name, t := range map[string]time.Time{"since": since, "until": until} {
		if !t.IsZero() {
			q.Set(name, t.UTC().Format(time.RFC3339Nano))
		}
	}
	return q
}

// EndedFilter selects the finished deliveries of an endpoint.
type EndedFilter struct {
	Statuses     []string // delivered, dead, cancelled; none: all
	Since, Until time.Time
	Limit        int    // 0: the API's default
	Cursor       string // NextCursor or ResumeCursor of a page before
}

// EndpointDeliveries returns a page of the finished deliveries of an endpoint, ordered by
// completion time, oldest first. To poll for later ones, pass ResumeCursor of the last
// page as the cursor.
func (c *Client) EndpointDeliveries(ctx context.Context, name string, f EndedFilter) (wire.EndedPage, error) {
	q := listQuery(map[string][]string{"status": f.Statuses}, f.Since, f.Until, f.Limit, f.Cursor)
	return call[wire.EndedPage](ctx, c, apiRequest{verb: "list finished deliveries of " + name, method: http.MethodGet, path: endpointPath(name, "/deliveries"), query: q})
}

// DeadFilter selects groups of dead deliveries. An empty field matches everything, and a
// field with several values matches any of them.
type DeadFilter struct {
	Tenants      []string
	Destinations []string // lanes, endpoints' ids or UIDs, or URLs
	Reasons      []string
	Limit        int    // 0: the API's default
	Cursor       string // NextCursor of the page before
}

// Dead counts the dead deliveries by destination and reason, largest group first.
func (c *Client) Dead(ctx context.Context, f DeadFilter) (wire.DeadPage, error) {
	q := page(f.Limit, f.Cursor)
	for name, values := range map[string][]string{"tenant": f.Tenants, "destination": f.Destinations, "dead_reason": f.Reasons} {
		for _, v := range values {
			q.Add(name, v)
		}
	}
	return call[wire.DeadPage](ctx, c, apiRequest{verb: "count the dead", method: http.MethodGet, path: "/v1/dead", query: q})
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
