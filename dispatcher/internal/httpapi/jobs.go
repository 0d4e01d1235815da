package httpapi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/client"
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

// surveyWithin is the timeout of a dry run: ten seconds of reading, and its calls.
const surveyWithin = 30 * time.Second

// jobSubject is a job in a path.
var jobSubject = &api.Subject{Name: "id", Doc: "The id of the job.", Schema: api.JobForm.Schema, Example: "job_1", Check: api.Known(dispatcher.ValidJobID, dispatcher.ErrNoJob)}

// jobOperations returns the operations about jobs.
func (s *server) jobOperations() []api.Operation {
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
func (s *server) jobOf(kind dispatcher.JobKind) func(context.Context, *api.Request) (*api.Response, error) {
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
		f, err := s.deliveryFilter(ctx, q, q.All("destination"))
		if err != nil {
			return nil, inBody(err)
		}
		if asked.Value.dryRun {
			q.Idle = true
			return s.survey(ctx, q, kind, f, asked.Value.whole)
		}
		j, err := s.o.Jobs.StartJob(ctx, dispatcher.Job{Kind: kind, Filter: f, Rate: asked.Value.rate, Probe: asked.Value.probe})
		q.RecordMade(ctx, dispatcher.AuditEntry{Target: j.ID(), Tenant: asked.Value.tenant(), Detail: asked.Value.detail()}, err)
		if err != nil {
			return nil, err
		}
		return api.JSON(http.StatusAccepted, wireJob(&j))
	}
}

// retryEndpoint serves POST /v1/endpoints/{id}/retry.
func (s *server) retryEndpoint(ctx context.Context, q *api.Request) (*api.Response, error) {
	e, err := s.o.Endpoints.Endpoint(ctx, q.ID())
	if err != nil {
		return nil, err
	}
	j, err := s.o.Jobs.RetryLane(ctx, e.Lane())
	if err != nil {
		return nil, err
	}
	return api.JSON(http.StatusAccepted, outwardJob(q, wireJob(&j)))
}

// survey responds to a dry run.
func (s *server) survey(ctx context.Context, q *api.Request, kind dispatcher.JobKind, f dispatcher.Filter, whole bool) (*api.Response, error) {
	// If the deadline can't be changed, a late response is cut.
	_ = http.NewResponseController(q.Writer).SetWriteDeadline(time.Now().Add(surveyWithin))
	waits, leave, ok := q.Wait(ctx)
	if !ok {
		return nil, &api.Problem{Kind: api.Waiting, Detail: "half of MAX_CONNECTIONS do; make one dry run at a time, or raise the setting"}
	}
	defer leave()
	found, err := s.o.Jobs.SurveyJob(waits, kind, f, whole)
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
func (s *server) jobs(ctx context.Context, q *api.Request) (*api.Response, error) {
	found, next, err := s.o.Jobs.Jobs(ctx, q.Limit(), q.Cursor())
	if err != nil {
		return nil, err
	}
	return api.JSON(http.StatusOK, wire.JobPage{Data: api.Convert(found, wireJob), NextCursor: api.NextCursor(next)})
}

// job serves GET /v1/jobs/{id}.
func (s *server) job(ctx context.Context, q *api.Request) (*api.Response, error) {
	return s.oneJob(ctx, q, s.o.Jobs.Job)
}

// stopJob serves DELETE /v1/jobs/{id}.
func (s *server) stopJob(ctx context.Context, q *api.Request) (*api.Response, error) {
	return s.oneJob(ctx, q, s.o.Jobs.StopJob)
}

// resumeJob serves POST /v1/jobs/{id}/resume.
func (s *server) resumeJob(ctx context.Context, q *api.Request) (*api.Response, error) {
	return s.oneJob(ctx, q, s.o.Jobs.ResumeJob)
}

func (s *server) oneJob(ctx context.Context, q *api.Request, do func(context.Context, int64) (dispatcher.Job, error)) (*api.Response, error) {
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

// jobBytes limits a request for a job, because its filter is stored with the job. It is enough
// for a hundred destinations.
const jobBytes = 16 << 10

// jobRequest is the body of a request for a job.
type jobRequest struct {
	filters url.Values
	all     bool
	dryRun  bool
	whole   bool // a dry run counts for longer
	probe   bool
	rate    dispatcher.Rate
}

// jobFilters are the filters of lists of deliveries that a job has too, in its body.
func jobFilters() []*api.Param {
	fields := reflect.TypeFor[wire.JobFilter]()
	return slices.DeleteFunc(api.OfFilter(client.Filter{}), func(p *api.Param) bool {
		for i := range fields.NumField() {
			if name, _, _ := strings.Cut(fields.Field(i).Tag.Get("json"), ","); name == p.Name {
				return false
			}
		}
		return true
	})
}

// jobFields has the filters of lists, and the fields that only jobs have.
var jobFields = func() api.Fieldset[jobRequest] {
	fields := api.Fieldset[jobRequest]{
		{Name: "all", Set: func(r *jobRequest, v jsontext.Value) error { return api.Boolean(&r.all, v) }, Null: api.Itself},
		{Name: "count_all", Set: func(r *jobRequest, v jsontext.Value) error { return api.Boolean(&r.whole, v) }, Null: api.Itself},
		{Name: "dry_run", Set: func(r *jobRequest, v jsontext.Value) error { return api.Boolean(&r.dryRun, v) }, Null: api.Itself},
		{Name: "probe", Set: func(r *jobRequest, v jsontext.Value) error { return api.Boolean(&r.probe, v) }, Null: api.Itself},
		{Name: "rate", Set: func(r *jobRequest, v jsontext.Value) error { return jobRate(&r.rate, v) }},
	}
	for _, p := range jobFilters() {
		fields = append(fields, api.Field[jobRequest]{Name: p.Name, Null: api.Itself, Set: func(r *jobRequest, v jsontext.Value) error {
			values, err := filterValues(p, v)
			if err == nil && (p.Name != "failed" || values[0] == "true") { // false means the default
				r.filters[p.Name] = values
			}
			return err
		}})
	}
	return fields
}()

// filterValues parses a filter: a text, or a list of texts if it may be repeated.
func filterValues(p *api.Param, v jsontext.Value) ([]string, error) {
	values := make([]string, 1)
	if kind := v.Kind(); p.Name == "failed" && (kind == 't' || kind == 'f') {
		values[0] = string(v)
	} else if err := api.Filled(&values[0], v); err != nil {
		if v.Kind() != '[' || !p.Many {
			return nil, err
		}
		if values, err = list(v); err != nil {
			return nil, err
		}
	}
	if why := p.Check(values); why != "" {
		return nil, errors.New(why)
	}
	return values, nil
}

var errTextList = errors.New("must be a text or a list of texts, with one at least")

// list parses a list of texts.
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
		all = append(all, string(api.Unquoted(one)))
	}
	if d.PeekKind() != ']' || len(all) == 0 {
		return nil, errTextList
	}
	return all, nil
}

// jobRate parses a rate in the format of endpoints, or a number per second.
func jobRate(to *dispatcher.Rate, v jsontext.Value) (err error) {
	var s string
	if n, ok := api.Whole(v); ok {
		s = strconv.Itoa(n) + "/s"
	} else if err := api.Text(&s, v); err != nil {
		return errors.New("must be a rate as in 200/s, or a whole number a second")
	}
	*to, err = dispatcher.ParseRate(s)
	return err
}

// tenant returns the only tenant in the request; empty: there are others.
func (r *jobRequest) tenant() string {
	if tenants := r.filters["tenant"]; len(tenants) == 1 {
		return tenants[0]
	}
	return ""
}

// detail returns the request for the audit: its filters, without the paths of URLs.
func (r *jobRequest) detail() string {
	var words []string
	for _, name := range slices.Sorted(maps.Keys(r.filters)) {
		for _, value := range r.filters[name] {
			words = append(words, name+"="+api.WithoutSecrets(value))
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

// refuseJob returns the errors of a request for a job.
func refuseJob(kind dispatcher.JobKind, r *jobRequest) (wrong []dispatcher.FieldError) {
	may, _ := kind.Statuses()
	for _, status := range r.filters["status"] {
		if !slices.Contains(may, dispatcher.Status(status)) {
			detail := fmt.Sprintf("a %s takes only deliveries that are %s", kind, wordsOf(may))
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

// inBody replaces the parameter of a query in an error by the field of the body.
func inBody(err error) error {
	var p *api.Problem
	if !errors.As(err, &p) {
		return err
	}
	for i := range p.Fields {
		if name, ok := strings.CutPrefix(p.Fields[i].Path, "query."); ok {
			p.Fields[i].Path = "$." + name
		}
	}
	return p
}

// names are the names of the schemas of requests. Each kind of job has another one, because it
// accepts other states.
var names = map[dispatcher.JobKind]string{
	dispatcher.JobRetry: "RetryRequest", dispatcher.JobCancel: "CancelRequest", dispatcher.JobPurge: "PurgeRequest",
}

// drawRequest returns a function that draws the schema of a request for a job.
func drawRequest(kind dispatcher.JobKind) func(huma.Registry) *huma.Schema {
	return func(r huma.Registry) *huma.Schema {
		docs := huma.SchemaFromType(r, reflect.TypeFor[wire.JobRequest]()).Properties
		s := &huma.Schema{Type: huma.TypeObject, AdditionalProperties: false, Properties: map[string]*huma.Schema{}}
		var filters []*huma.Schema
		for _, p := range jobFilters() {
			s.Properties[p.Name] = filterSchema(r, p, kind)
			s.Properties[p.Name].Description = docs[p.Name].Description
			if p.Name != "failed" {
				filters = append(filters, api.Holding(p.Name, &huma.Schema{}))
			}
		}
		for _, name := range []string{"all", "count_all", "dry_run", "probe"} {
			s.Properties[name] = &huma.Schema{Type: huma.TypeBoolean, Description: docs[name].Description}
		}
		if kind != dispatcher.JobRetry {
			s.Properties["probe"].Enum = []any{false}
		}
		s.Properties["rate"] = rateSchema(docs["rate"].Description)
		filters = append(filters, api.Holding("failed", api.OneOf(true, "true")), api.Holding("all", api.OneOf(true)))
		api.Never(s, api.Unlike(api.Either(filters...)))
		s.Description = "At least one filter is needed, or all. A filter is a text, or a list of texts of which any may match."
		return named(r, names[kind], s)
	}
}

// filterSchema returns the schema of a filter in a body: a text, or a list of texts.
func filterSchema(r huma.Registry, p *api.Param, kind dispatcher.JobKind) *huma.Schema {
	if p.Name == "failed" {
		return api.Either(&huma.Schema{Type: huma.TypeBoolean}, p.Schema)
	}
	if !p.Many {
		one := *p.Schema
		return &one
	}
	one := p.Schema.Items
	if p.Name == "status" {
		one = &huma.Schema{Type: huma.TypeString}
		may, _ := kind.Statuses()
		for _, status := range may {
			one.Enum = append(one.Enum, string(status))
		}
		one = named(r, strings.TrimSuffix(names[kind], "Request")+"Status", one)
	}
	if p.Name == "dead_reason" {
		one = named(r, "DeadReason", one)
	}
	return api.Either(one, &huma.Schema{Type: huma.TypeArray, Items: one, MinItems: api.Ref(1), MaxItems: api.Ref(api.MaxValues)})
}

// named adds a schema that is used twice, and returns a reference to it. Generators make one type
// of it.
func named(r huma.Registry, name string, s *huma.Schema) *huma.Schema {
	r.Map()[name] = s
	return &huma.Schema{Ref: "#/components/schemas/" + name}
}

// rateSchema returns the schema of a rate, or of a number a second.
func rateSchema(doc string) *huma.Schema {
	s := api.OrNull(api.Either(
		&huma.Schema{Type: huma.TypeString, Pattern: api.RatePattern},
		&huma.Schema{Type: huma.TypeInteger, Minimum: api.Ref(1.0), Maximum: api.Ref(100_000.0)},
	))
	s.Description, s.Examples = doc, []any{"200/s", 200}
	return s
}
