package httpapi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/callers"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/apikey"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// Jobs change many deliveries. dispatcher.ErrNoJob says that no job has a number.
type Jobs interface {
	// StartJob begins a job; dispatcher.ErrJobs if too many have not ended. A job
	// that finds nothing has ended at once.
	StartJob(ctx context.Context, j dispatcher.Job) (dispatcher.Job, error)
	// SurveyJob counts the deliveries that a job would change.
	SurveyJob(ctx context.Context, kind dispatcher.JobKind, f dispatcher.Filter) (dispatcher.Survey, error)
	// Job reads a job.
	Job(ctx context.Context, number int64) (dispatcher.Job, error)
	// Jobs reads a page of jobs, the newest first.
	Jobs(ctx context.Context, limit int, cursor string) (list []dispatcher.Job, next string, err error)
	// StopJob ends a job: when it returns, nothing more is changed.
	StopJob(ctx context.Context, number int64) (dispatcher.Job, error)
	// ResumeJob continues a job; dispatcher.ErrJobState if it was not stopped and
	// did not fail.
	ResumeJob(ctx context.Context, number int64) (dispatcher.Job, error)
}

// jobBytes bounds a request for a job, whose filter is kept with it: a hundred
// destinations.
const jobBytes = 16 << 10

// surveyWithin is how long a dry run may take: ten seconds of reading, and its calls.
const surveyWithin = 30 * time.Second

var aJob = &subject{"id", "The id of the job.", known(dispatcher.ValidJobID, dispatcher.ErrNoJob)}

func refuseJobID(v string) string {
	return unless(dispatcher.ValidJobID(v), "must be the id of a job")
}

// jobs are the numbers of the jobs that a parameter names; refuseJobID has checked them.
func (q *request) jobs(name string) (all []int64) {
	for _, text := range q.all(name) {
		number, _ := dispatcher.ParseJobID(text)
		all = append(all, number)
	}
	return all
}

// jobID names a job to a caller who sees everything; empty: there is none, or it is hidden.
func (q *request) jobID(number int64) string {
	if number == 0 || q.view != (dispatcher.View{}) {
		return ""
	}
	return (&dispatcher.Job{Number: number}).ID()
}

func (s *server) jobOperations() []operation {
	answers := map[int]any{202: wire.Job{}, 200: wire.Survey{}}
	one := ok(wire.Job{})
	return []operation{
		{
			id: "retry-deliveries", method: "POST", path: "/v1/deliveries/retry", scope: apikey.Admin, audit: "deliveries.retry",
			summary: "Send again what is dead, as a job", do: s.jobOf(dispatcher.JobRetry),
			body: wire.JobRequest{}, limit: jobBytes, answers: answers, problems: []*problemKind{tooManyJobs, full},
		},
		{
			id: "cancel-deliveries", method: "POST", path: "/v1/deliveries/cancel", scope: apikey.Admin, audit: "deliveries.cancel",
			summary: "Cancel what is unfinished, as a job", do: s.jobOf(dispatcher.JobCancel),
			body: wire.JobRequest{}, limit: jobBytes, answers: answers, problems: []*problemKind{tooManyJobs, full},
		},
		{
			id: "purge-deliveries", method: "POST", path: "/v1/deliveries/purge", scope: apikey.Admin, audit: "deliveries.purge",
			summary: "Forget what is dead, as a job; the ids stay known", do: s.jobOf(dispatcher.JobPurge),
			body: wire.JobRequest{}, limit: jobBytes, answers: answers, problems: []*problemKind{tooManyJobs, full},
		},
		{
			id: "list-jobs", method: "GET", path: "/v1/jobs", scope: apikey.Read,
			summary: "List jobs, newest first", do: s.jobs,
			query: ofPage(maxLimit), answers: ok(wire.JobPage{}), problems: []*problemKind{malformed},
		},
		{
			id: "get-job", method: "GET", path: "/v1/jobs/{id}", scope: apikey.Read,
			summary: "Read a job", do: s.job, subject: aJob, answers: one,
		},
		{
			id: "stop-job", method: "DELETE", path: "/v1/jobs/{id}", scope: apikey.Admin, audit: "job.stop",
			summary: "Stop a job: when the answer is there, nothing more is changed", do: s.stopJob, subject: aJob, answers: one,
		},
		{
			id: "resume-job", method: "POST", path: "/v1/jobs/{id}/resume", scope: apikey.Admin, audit: "job.resume",
			summary: "Go on with a job that was stopped, or failed", do: s.resumeJob, subject: aJob, answers: one,
			problems: []*problemKind{notStopped},
		},
	}
}

// jobRequest is the body of a request for a job.
type jobRequest struct {
	filters url.Values
	all     bool
	dryRun  bool
	probe   bool
	rate    dispatcher.Rate
}

// jobFields are the filters of lists, and what only jobs have.
var jobFields = func() fieldset[jobRequest] {
	fields := fieldset[jobRequest]{
		{name: "all", set: func(r *jobRequest, v jsontext.Value) error { return boolean(&r.all, v) }, null: itself},
		{name: "dry_run", set: func(r *jobRequest, v jsontext.Value) error { return boolean(&r.dryRun, v) }, null: itself},
		{name: "probe", set: func(r *jobRequest, v jsontext.Value) error { return boolean(&r.probe, v) }, null: itself},
		{name: "rate", set: func(r *jobRequest, v jsontext.Value) error { return jobRate(&r.rate, v) }},
	}
	for _, p := range filterParams() {
		fields = append(fields, field[jobRequest]{name: p.name, null: itself, set: func(r *jobRequest, v jsontext.Value) error {
			values, err := filterValues(p, v)
			if err == nil && (p.name != "failed" || values[0] == "true") { // false asks for nothing
				r.filters[p.name] = values
			}
			return err
		}})
	}
	return fields
}()

// filterValues reads a filter: a text, or a list of texts where it may be repeated.
func filterValues(p *param, v jsontext.Value) ([]string, error) {
	values := make([]string, 1)
	if kind := v.Kind(); kind == 't' || kind == 'f' {
		values[0] = string(v)
	} else if err := filled(&values[0], v); err != nil {
		if v.Kind() != '[' || !p.many {
			return nil, err
		}
		if values, err = list(v); err != nil {
			return nil, err
		}
	}
	if why := p.check(values); why != "" {
		return nil, errors.New(why)
	}
	return values, nil
}

var errTextList = errors.New("must be a text or a list of texts, with one at least")

// list reads a list of texts.
func list(v jsontext.Value) (all []string, err error) {
	d := jsontext.NewDecoder(strings.NewReader(string(v)))
	if _, err := d.ReadToken(); err != nil {
		return nil, errTextList
	}
	for d.PeekKind() == '"' {
		one, err := d.ReadValue()
		if err != nil {
			return nil, errTextList
		}
		all = append(all, string(unquoted(one)))
	}
	if d.PeekKind() != ']' || len(all) == 0 {
		return nil, errTextList
	}
	return all, nil
}

// jobRate reads a rate as endpoints have it, or a number a second.
func jobRate(to *dispatcher.Rate, v jsontext.Value) (err error) {
	s := string(v) + "/s"
	if v.Kind() != '0' {
		if err := text(&s, v); err != nil {
			return errors.New("must be a rate as in 200/s, or a number a second")
		}
	}
	*to, err = dispatcher.ParseRate(s)
	return err
}

// jobOf serves the POST of a kind of job.
func (s *server) jobOf(kind dispatcher.JobKind) func(context.Context, *request) (*response, error) {
	return func(ctx context.Context, q *request) (*response, error) {
		asked, err := decode(q, func(d *decoder) decoded[jobRequest] {
			return jobFields.fill(d, single, &jobRequest{filters: url.Values{}})
		})
		if err != nil {
			return nil, err
		}
		wrong := asked.wrong
		if asked.value != nil && len(wrong) == 0 {
			wrong = refuseJob(kind, asked.value)
		}
		if err := wrongFields(wrong); err != nil {
			return nil, err
		}
		q.query = asked.value.filters
		f, err := s.filter(ctx, q)
		if err != nil {
			return nil, inBody(err)
		}
		if asked.value.dryRun {
			q.idle = true
			return s.survey(ctx, q, kind, f)
		}
		j, err := s.o.Jobs.StartJob(ctx, dispatcher.Job{Kind: kind, Filter: f, Rate: asked.value.rate, Probe: asked.value.probe})
		s.recordMade(ctx, q, dispatcher.AuditEntry{Target: j.ID(), Tenant: asked.value.tenant(), Detail: asked.value.detail()}, err)
		if err != nil {
			return nil, err
		}
		return answerJSON(http.StatusAccepted, wireJob(&j))
	}
}

// tenant is the only tenant that it asks for; empty: there are others.
func (r *jobRequest) tenant() string {
	if tenants := r.filters["tenant"]; len(tenants) == 1 {
		return tenants[0]
	}
	return ""
}

// detail is the request for the audit: its filters, without the paths of URLs.
func (r *jobRequest) detail() string {
	var words []string
	for _, name := range slices.Sorted(maps.Keys(r.filters)) {
		for _, value := range r.filters[name] {
			words = append(words, name+"="+withoutSecrets(value))
		}
	}
	if r.all {
		words = append(words, "all")
	}
	if r.probe {
		words = append(words, "probe")
	}
	if !r.rate.IsZero() {
		words = append(words, "rate="+r.rate.String())
	}
	return strings.Join(words, " ")
}

// refuseJob says what is wrong with a request for a job.
func refuseJob(kind dispatcher.JobKind, r *jobRequest) (wrong []dispatcher.FieldError) {
	may, _ := kind.Statuses()
	for _, status := range r.filters["status"] {
		if !slices.Contains(may, dispatcher.Status(status)) {
			detail := fmt.Sprintf("a %s takes only what is %s", kind, wordsOf(may))
			wrong = append(wrong, dispatcher.FieldError{Path: "$.status", Detail: detail})
			break
		}
	}
	if r.probe && kind != dispatcher.JobRetry {
		wrong = append(wrong, dispatcher.FieldError{Path: "$.probe", Detail: "only a retry probes destinations"})
	}
	if len(r.filters) == 0 && !r.all {
		wrong = append(wrong, dispatcher.FieldError{Path: "$", Detail: `needs a filter, or "all": true`})
	}
	return wrong
}

func wordsOf(statuses []dispatcher.Status) string {
	words := make([]string, len(statuses))
	for i, status := range statuses {
		words[i] = string(status)
	}
	return strings.Join(words, ", ")
}

// inBody names the field of the body in place of the parameter of a query.
func inBody(err error) error {
	var p *problem
	if !errors.As(err, &p) {
		return err
	}
	for i := range p.fields {
		if name, ok := strings.CutPrefix(p.fields[i].Path, "query."); ok {
			p.fields[i].Path = "$." + name
		}
	}
	return p
}

// survey answers a dry run.
func (s *server) survey(ctx context.Context, q *request, kind dispatcher.JobKind, f dispatcher.Filter) (*response, error) {
	// Where the deadline can't be changed, a late answer is cut.
	_ = http.NewResponseController(q.w).SetWriteDeadline(time.Now().Add(surveyWithin))
	waits, leave, ok := s.waiting.Enter(ctx, q.w.caller)
	if !ok {
		return nil, &problem{kind: waiting, detail: "half of MAX_CONNECTIONS do; make one dry run at a time, or raise the setting"}
	}
	defer leave()
	found, err := s.o.Jobs.SurveyJob(waits, kind, f)
	if callers.CrowdedOut(waits) && ctx.Err() == nil {
		err = callers.ErrCrowdedOut
	}
	if err != nil {
		return nil, err
	}
	w := wire.Survey{
		Matched: found.Matched, Complete: found.Complete, ByReason: map[string]int{},
		Oldest: wire.Time{Time: found.Oldest}, Newest: wire.Time{Time: found.Newest}, Sample: convert(found.Sample, Listed),
	}
	for reason, n := range found.ByReason {
		w.ByReason[string(reason)] = n
	}
	return answerJSON(http.StatusOK, w)
}

// jobs serves GET /v1/jobs.
func (s *server) jobs(ctx context.Context, q *request) (*response, error) {
	found, next, err := s.o.Jobs.Jobs(ctx, q.limit(), q.cursor())
	if err != nil {
		return nil, err
	}
	return answerJSON(http.StatusOK, wire.JobPage{Data: convert(found, wireJob), NextCursor: nextCursor(next)})
}

// job serves GET /v1/jobs/{id}.
func (s *server) job(ctx context.Context, q *request) (*response, error) {
	return s.oneJob(ctx, q, s.o.Jobs.Job)
}

// stopJob serves DELETE /v1/jobs/{id}.
func (s *server) stopJob(ctx context.Context, q *request) (*response, error) {
	return s.oneJob(ctx, q, s.o.Jobs.StopJob)
}

// resumeJob serves POST /v1/jobs/{id}/resume.
func (s *server) resumeJob(ctx context.Context, q *request) (*response, error) {
	return s.oneJob(ctx, q, s.o.Jobs.ResumeJob)
}

func (s *server) oneJob(ctx context.Context, q *request, do func(context.Context, int64) (dispatcher.Job, error)) (*response, error) {
	number, _ := dispatcher.ParseJobID(q.id()) // aJob has checked it
	j, err := do(ctx, number)
	if err != nil {
		return nil, err
	}
	return answerJSON(http.StatusOK, wireJob(&j))
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
