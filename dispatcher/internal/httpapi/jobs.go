package httpapi

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/callers"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/api"
	"github.com/hookladder/hookladder/dispatcher/internal/input"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// Jobs change many deliveries. The methods return dispatcher.ErrNoJob if no job has the
// number.
type Jobs interface {
	// StartJob starts a job. It returns dispatcher.ErrJobs if too many jobs have not ended. A
	// job that finds nothing ends at once.
	StartJob(ctx context.Context, j dispatcher.Job) (dispatcher.Job, error)
	// RetryLane attempts what waits in a lane now, one delivery first, as a job.
	RetryLane(ctx context.Context, lane dispatcher.Lane) (dispatcher.Job, error)
	// SurveyJob counts the deliveries that a job would change, for less than a second, or if whole for
	// up to ten.
	SurveyJob(ctx context.Context, kind dispatcher.JobKind, f dispatcher.Filter, whole bool) (dispatcher.Survey, error)
	// Job returns a job.
	Job(ctx context.Context, number int64) (dispatcher.Job, error)
	// Jobs returns a page of jobs, the newest first.
	Jobs(ctx context.Context, limit int, cursor string) (list []dispatcher.Job, next string, err error)
	// StopJob ends a job. After it returns, nothing more is changed.
	StopJob(ctx context.Context, number int64) (dispatcher.Job, error)
	// ResumeJob continues a job. It returns dispatcher.ErrJobState if the job was not stopped
	// and did not fail.
	ResumeJob(ctx context.Context, number int64) (dispatcher.Job, error)
}

// jobServer serves the calls about jobs.
type jobServer struct {
	Jobs      Jobs
	Lanes     LaneFinder
	Endpoints EndpointFinder
}

// surveyWithin is the timeout of a dry run: ten seconds of reading, and its calls.
const surveyWithin = 30 * time.Second

// jobSubject is a job in a path.
var jobSubject = &api.Subject{Name: "id", Doc: "The id of the job.", Schema: api.JobForm.Schema, Example: "job_1", Check: api.Known(dispatcher.ValidJobID, dispatcher.ErrNoJob)}

// Operations returns the operations about jobs.
func (s *jobServer) Operations() []api.Operation {
	answers := map[int]any{202: exampleJob, 200: exampleSurvey}
	one := api.OK(exampleJob)
	return []api.Operation{
		{
			ID: "retry-deliveries", Method: "POST", Path: "/v1/deliveries/retry", Scope: callers.Admin, Audit: "deliveries.retry",
			Summary: "Send dead deliveries again, as a job", Do: s.jobOf(dispatcher.JobRetry),
			Body: exampleRetryRequest, Draw: drawRequest(dispatcher.JobRetry), Limit: jobBytes, Answers: answers, Problems: []*api.Kind{api.TooManyJobs, api.Full},
		},
		{
			ID: "cancel-deliveries", Method: "POST", Path: "/v1/deliveries/cancel", Scope: callers.Admin, Audit: "deliveries.cancel",
			Summary: "Cancel unfinished deliveries, as a job", Do: s.jobOf(dispatcher.JobCancel),
			Body: exampleCancelRequest, Draw: drawRequest(dispatcher.JobCancel), Limit: jobBytes, Answers: answers, Problems: []*api.Kind{api.TooManyJobs, api.Full},
		},
		{
			ID: "purge-deliveries", Method: "POST", Path: "/v1/deliveries/purge", Scope: callers.Admin, Audit: "deliveries.purge",
			Summary: "Forget dead deliveries, as a job; the ids stay known", Do: s.jobOf(dispatcher.JobPurge),
			Body: examplePurgeRequest, Draw: drawRequest(dispatcher.JobPurge), Limit: jobBytes, Answers: answers, Problems: []*api.Kind{api.TooManyJobs, api.Full},
		},
		{
			ID: "retry-endpoint", Method: "POST", Path: endpointPath + "/retry", Scope: callers.Admin, Link: api.ManagingLink, Audit: "endpoint.retry",
			Summary: "Attempt what waits for an endpoint now, one delivery first, as a job; one that has not ended goes on", Do: s.retryEndpoint,
			Subject: endpointSubject, Answers: map[int]any{202: exampleJob}, Problems: []*api.Kind{api.TooManyJobs, api.Full},
		},
		{
			ID: "list-jobs", Method: "GET", Path: "/v1/jobs", Scope: callers.Read,
			Summary: "List jobs, newest first", Do: s.jobs,
			Query: api.OfPage(input.MaxPage), Answers: api.OK(exampleJobPage), Problems: []*api.Kind{api.Malformed},
		},
		{
			ID: "get-job", Method: "GET", Path: "/v1/jobs/{id}", Scope: callers.Read, Link: api.AnyLink,
			Summary: "Read a job", Do: s.job, Subject: jobSubject, Answers: one,
		},
		{
			ID: "stop-job", Method: "DELETE", Path: "/v1/jobs/{id}", Scope: callers.Admin, Audit: "job.stop",
			Summary: "Stop a job: when the answer is there, nothing more is changed", Do: s.stopJob, Subject: jobSubject, Answers: one,
		},
		{
			ID: "resume-job", Method: "POST", Path: "/v1/jobs/{id}/resume", Scope: callers.Admin, Audit: "job.resume",
			Summary: "Go on with a job that was stopped, or failed", Do: s.resumeJob, Subject: jobSubject, Answers: one,
			Problems: []*api.Kind{api.NotStopped},
		},
	}
}

// jobOf serves the POST of a kind of job.
func (s *jobServer) jobOf(kind dispatcher.JobKind) func(context.Context, *api.Request) (*api.Response, error) {
	return func(ctx context.Context, q *api.Request) (*api.Response, error) {
		asked, err := api.Decode(q, func(d *api.Decoder) api.Decoded[jobRequest] {
			return jobFields.Fill(d, api.Single, &jobRequest{filters: url.Values{}})
		})
		if err != nil {
			return nil, err
		}
		wrong := asked.Wrong
		if asked.Value != nil && len(wrong) == 0 {
			wrong = refuseJob(kind, asked.Value)
		}
		if err := api.WrongFields(wrong); err != nil {
			return nil, err
		}
		q.Query = asked.Value.filters
		f, err := deliveryFilter(ctx, s.Lanes, q, q.All("destination"))
		if err != nil {
			return nil, inBody(err)
		}
		if asked.Value.dryRun {
			q.Idle = true
			return s.survey(ctx, q, kind, f, asked.Value.whole)
		}
		j, err := s.Jobs.StartJob(ctx, dispatcher.Job{Kind: kind, Filter: f, Rate: asked.Value.rate, Probe: asked.Value.probe})
		q.RecordMade(ctx, dispatcher.AuditEntry{Target: j.ID(), Tenant: asked.Value.tenant(), Detail: asked.Value.detail()}, err)
		if err != nil {
			return nil, err
		}
		return api.JSON(http.StatusAccepted, wireJob(&j))
	}
}

// retryEndpoint serves POST /v1/endpoints/{id}/retry.
func (s *jobServer) retryEndpoint(ctx context.Context, q *api.Request) (*api.Response, error) {
	e, err := s.Endpoints.Endpoint(ctx, q.ID())
	if err != nil {
		return nil, err
	}
	j, err := s.Jobs.RetryLane(ctx, e.Lane())
	if err != nil {
		return nil, err
	}
	return api.JSON(http.StatusAccepted, outwardJob(q, wireJob(&j)))
}

// survey responds to a dry run.
func (s *jobServer) survey(ctx context.Context, q *api.Request, kind dispatcher.JobKind, f dispatcher.Filter, whole bool) (*api.Response, error) {
	// If the deadline can't be changed, a late response is cut.
	_ = http.NewResponseController(q.Writer).SetWriteDeadline(time.Now().Add(surveyWithin))
	waits, leave, ok := q.Wait(ctx)
	if !ok {
		return nil, &api.Problem{Kind: api.Waiting, Detail: "half of MAX_CONNECTIONS do; make one dry run at a time, or raise the setting"}
	}
	defer leave()
	found, err := s.Jobs.SurveyJob(waits, kind, f, whole)
	if callers.CrowdedOut(waits) && ctx.Err() == nil {
		err = callers.ErrCrowdedOut
	}
	if err != nil {
		return nil, err
	}
	w := wire.Survey{
		Matched: found.Matched, Complete: found.Complete, ByReason: map[string]int{},
		Oldest: wire.Time{Time: found.Oldest}, Newest: wire.Time{Time: found.Newest}, Sample: api.Convert(found.Sample, api.Listed),
	}
	for reason, n := range found.ByReason {
		w.ByReason[string(reason)] = n
	}
	return api.JSON(http.StatusOK, w)
}

// jobs serves GET /v1/jobs.
func (s *jobServer) jobs(ctx context.Context, q *api.Request) (*api.Response, error) {
	found, next, err := s.Jobs.Jobs(ctx, q.Limit(), q.Cursor())
	if err != nil {
		return nil, err
	}
	return api.JSON(http.StatusOK, wire.JobPage{Data: api.Convert(found, wireJob), NextCursor: api.NextCursor(next)})
}

// job serves GET /v1/jobs/{id}.
func (s *jobServer) job(ctx context.Context, q *api.Request) (*api.Response, error) {
	return s.oneJob(ctx, q, s.Jobs.Job)
}

// stopJob serves DELETE /v1/jobs/{id}.
func (s *jobServer) stopJob(ctx context.Context, q *api.Request) (*api.Response, error) {
	return s.oneJob(ctx, q, s.Jobs.StopJob)
}

// resumeJob serves POST /v1/jobs/{id}/resume.
func (s *jobServer) resumeJob(ctx context.Context, q *api.Request) (*api.Response, error) {
	return s.oneJob(ctx, q, s.Jobs.ResumeJob)
}

func (s *jobServer) oneJob(ctx context.Context, q *api.Request, do func(context.Context, int64) (dispatcher.Job, error)) (*api.Response, error) {
	number, _ := dispatcher.ParseJobID(q.ID()) // aJob has checked it before
	j, err := do(ctx, number)
	if err != nil {
		return nil, err
	}
	return api.JSON(http.StatusOK, outwardJob(q, wireJob(&j)))
}

func wireJob(j *dispatcher.Job) wire.Job {
	w := wire.Job{
		ID: j.ID(), Kind: string(j.Kind), State: string(j.State), Matched: j.Matched, Done: j.Done, Failed: j.Failed, Left: j.Left,
		Rate: j.Rate.String(), Probe: j.Probe, StartedAt: wire.Time{Time: j.StartedAt}, EndedAt: wire.Time{Time: j.EndedAt}, By: j.By, Error: j.Error,
		Filter: wire.JobFilter{
			Status: asTexts(j.Filter.Statuses), Topic: j.Filter.Topics, Tenant: j.Filter.Tenants, Subject: j.Filter.Subjects, Failed: j.Filter.Failed, Destination: asTexts(j.Filter.Lanes),
			DeadReason: asTexts(j.Filter.Reasons), Since: wire.Time{Time: j.Filter.Since}, Until: wire.Time{Time: j.Filter.Until},
		},
	}
	if w.Expected = j.Expected; j.Kind == dispatcher.JobRetry {
		retrying, taken := j.Retrying(), j.Ends.TakenOver
		w.Outcomes = &wire.JobOutcomes{Delivered: j.Ends.Delivered, Dead: j.Ends.Dead, Cancelled: j.Ends.Cancelled}
		w.Retrying, w.TakenOver = &retrying, &taken
	}
	for why, n := range j.Reasons {
		if w.Reasons == nil {
			w.Reasons = wire.LeftReasons{}
		}
		w.Reasons[string(why)] = n
	}
	for _, f := range j.Failures {
		w.Failures = append(w.Failures, wire.JobFailure{ID: f.ID.String(), Why: string(f.Why)})
	}
	return w
}

func asTexts[T ~string](words []T) (texts []string) {
	for _, w := range words {
		texts = append(texts, string(w))
	}
	return texts
}
