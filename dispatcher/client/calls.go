package client

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/url"
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

// Audit returns a page of the audit log, newest first.
func (c *Client) Audit(ctx context.Context, f AuditFilter) (wire.AuditPage, error) {
	return call[wire.AuditPage](ctx, c, apiRequest{verb: "list audit", method: http.MethodGet, path: "/v1/audit", query: listQuery(f)})
}

// JobKind is what a job does with its deliveries.
type JobKind string

// The kinds of jobs.
const (
	JobRetry  JobKind = "retry"  // retries dead deliveries
	JobCancel JobKind = "cancel" // cancels unfinished deliveries
	JobPurge  JobKind = "purge"  // forgets dead deliveries
)

// StartJob starts a job that changes the deliveries that the request selects.
func (c *Client) StartJob(ctx context.Context, kind JobKind, r wire.JobRequest) (wire.Job, error) {
	r.DryRun = false
	return send[wire.Job](ctx, c, jobRequest(kind, untaken), r)
}

// SurveyJob returns which deliveries such a job would change.
func (c *Client) SurveyJob(ctx context.Context, kind JobKind, r wire.JobRequest) (wire.Survey, error) {
	r.DryRun = true
	return send[wire.Survey](ctx, c, jobRequest(kind, safe), r)
}

// surveyPatience is longer than the server's timeout of a survey.
const surveyPatience = 30 * time.Second

func jobRequest(kind JobKind, repeats repetition) apiRequest {
	return apiRequest{
		verb: string(kind) + " deliveries", method: http.MethodPost, path: "/v1/deliveries/" + string(kind), patience: surveyPatience, repeats: repeats,
	}
}

// Job returns a job.
func (c *Client) Job(ctx context.Context, id string) (wire.Job, error) {
	return c.oneJob(ctx, "get", id, apiRequest{method: http.MethodGet, path: jobPath(id)})
}

// StopJob stops a job. After it returns, the job changes nothing more.
func (c *Client) StopJob(ctx context.Context, id string) (wire.Job, error) {
	return c.oneJob(ctx, "stop", id, apiRequest{method: http.MethodDelete, path: jobPath(id), repeats: safe})
}

// ResumeJob continues a job that was stopped or has failed.
func (c *Client) ResumeJob(ctx context.Context, id string) (wire.Job, error) {
	return c.oneJob(ctx, "resume", id, apiRequest{method: http.MethodPost, path: jobPath(id) + "/resume"})
}

func (c *Client) oneJob(ctx context.Context, verb, id string, q apiRequest) (wire.Job, error) {
	q.verb = verb + " " + id
	return call[wire.Job](ctx, c, q)
}

func jobPath(id string) string { return "/v1/jobs/" + url.PathEscape(id) }

// Jobs returns a page of jobs, newest first. A limit of 0 is the API's default. cursor is
// NextCursor of the page before.
func (c *Client) Jobs(ctx context.Context, limit int, cursor string) (wire.JobPage, error) {
	return call[wire.JobPage](ctx, c, apiRequest{verb: "list jobs", method: http.MethodGet, path: "/v1/jobs", query: page(limit, cursor)})
}

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

// Take takes deliveries of a queue, or of the endpoint of kind pull with this id. It
// returns none if there is none within t.Wait. A delivery comes again when its lease
// ends, unless Settle reports its outcome before.
func (c *Client) Take(ctx context.Context, queue string, t wire.Take) ([]wire.TakenDelivery, error) {
	got, err := send[wire.Taken](ctx, c, apiRequest{verb: "take", method: http.MethodPost, path: queuePath(queue, "/take"), patience: patience + time.Duration(t.Wait)}, t)
	return got.Data, err
}

// Settle reports the outcomes of at most 1000 taken deliveries. It is retried if all
// results name their leases.
func (c *Client) Settle(ctx context.Context, queue string, results []wire.Settlement) ([]wire.SettledDelivery, error) {
	q := apiRequest{verb: "settle", method: http.MethodPost, path: queuePath(queue, "/settle"), repeats: safe}
	for _, r := range results {
		if r.Lease == "" { // a retry could settle a lease that was taken since
			q.repeats = untaken
		}
	}
	out, err := send[wire.Settled](ctx, c, q, wire.Settle{Results: results})
	return out.Results, err
}

func queuePath(name, below string) string { return "/v1/queues/" + url.PathEscape(name) + below }

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
