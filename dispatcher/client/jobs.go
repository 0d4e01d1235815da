package client

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

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
