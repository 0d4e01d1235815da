package httpapi_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/signer"
)

// Fake accepts every call and records it. If a func is set, it returns the response instead.
type Fake struct {
	Mu        sync.Mutex // guards published and calls
	Published []*dispatcher.Message
	Calls     []string

	OnPublish func(batch []*dispatcher.Message) ([]dispatcher.Published, error)
	View      dispatcher.MessageView
	Filter    dispatcher.Filter
	LogFilter dispatcher.LogFilter
	LogPage   dispatcher.LogPage
	Behind    string                                                                  // whence a log was followed
	OnFollow  func(ctx context.Context, show func([]dispatcher.LogEvent) error) error // the log; nil: it can't be
	Page      dispatcher.Page
	Counts    dispatcher.Stats
	Store     dispatcher.StoreInfo
	InLane    dispatcher.Lane
	Missing   bool              // Err is returned for the thing that a call names
	Left      []dispatcher.Left // why a retry leaves the first deliveries of record
	DeadOf    dispatcher.DeadFilter
	Groups    dispatcher.DeadPage
	EndedPage dispatcher.EndedPage
	EndedOf   []dispatcher.EndedFilter
	FakeEndpoints
	fakeTakers
	Err    error
	Stuck  error // of Alive
	Panics any

	Delivered bool // delivered ones were to be retried too

	Recorded  []dispatcher.AuditEntry
	Before    [][]string // the calls before each of recorded
	FirstURL  string     // of the endpoint, when the first was recorded
	AuditPage dispatcher.AuditPage
	fakeLinks
	AuditOf dispatcher.AuditFilter
	OneJob  dispatcher.Job // as it was begun, and is answered
	Survey  dispatcher.Survey
	jobKind dispatcher.JobKind
	Ticked  dispatcher.Tick
	Within  time.Duration // how long a tick was to last
	Waits   chan struct{} // until it is closed a tick lasts; nil: no time
}

func (f *Fake) called(name string) {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	f.Calls = append(f.Calls, name)
	if f.Panics != nil {
		panic(f.Panics)
	}
}

func (f *Fake) Record(_ context.Context, e dispatcher.AuditEntry) {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	f.Recorded, f.Before = append(f.Recorded, e), append(f.Before, slices.Clone(f.Calls))
	if f.There != nil && f.FirstURL == "" {
		f.FirstURL = f.There.URL
	}
}

func (f *Fake) ReadAudit(_ context.Context, filter dispatcher.AuditFilter) (dispatcher.AuditPage, error) {
	f.called("audit")
	f.AuditOf = filter
	return f.AuditPage, f.Err
}

func (f *Fake) Publish(_ context.Context, batch []*dispatcher.Message) ([]dispatcher.Published, error) {
	f.called("publish")
	f.Mu.Lock()
	f.Published = append(f.Published, batch...)
	f.Mu.Unlock()
	if f.OnPublish != nil {
		return f.OnPublish(batch)
	}
	out := make([]dispatcher.Published, len(batch))
	for i, m := range batch {
		out[i] = Accepted(m)
	}
	return out, f.Err
}

func (f *Fake) Message(context.Context, string) (dispatcher.MessageView, error) {
	f.called("message")
	return f.View, f.Err
}

func (f *Fake) Cancel(_ context.Context, _ string, lane dispatcher.Lane) ([]dispatcher.Delivery, error) {
	f.called("cancel")
	f.InLane = lane
	return f.View.Deliveries, f.Err
}

func (f *Fake) Retry(_ context.Context, _ string, lane dispatcher.Lane, delivered bool) ([]dispatcher.Retried, error) {
	f.called("retry")
	f.InLane, f.Delivered = lane, delivered
	var out []dispatcher.Retried
	for i, d := range f.View.Deliveries {
		out = append(out, dispatcher.Retried{Delivery: d})
		if i < len(f.Left) {
			out[i].Left = f.Left[i]
		}
	}
	return out, f.Err
}

func (f *Fake) Deliveries(_ context.Context, filter dispatcher.Filter) (dispatcher.Page, error) {
	f.called("deliveries")
	f.Filter = filter
	page := f.Page
	page.Deliveries = page.Deliveries[:min(filter.Limit, len(page.Deliveries))]
	return page, f.Err
}

func (f *Fake) ReadLog(_ context.Context, filter dispatcher.LogFilter, limit int, cursor string) (dispatcher.LogPage, error) {
	f.called("attempts")
	f.LogFilter, f.Filter.Limit, f.Filter.Cursor = filter, limit, cursor
	page := f.LogPage
	page.Lines = page.Lines[:min(limit, len(page.Lines))]
	return page, f.Err
}

func (f *Fake) Ended(_ context.Context, name string, filter dispatcher.EndedFilter) (dispatcher.EndedPage, error) {
	if _, err := f.find("ended", name); err != nil {
		return dispatcher.EndedPage{}, err
	}
	f.EndedOf = append(f.EndedOf, filter)
	page := f.EndedPage
	page.Deliveries = page.Deliveries[:min(filter.Limit, len(page.Deliveries))]
	return page, f.Err
}

func (f *Fake) FollowLog(ctx context.Context, filter dispatcher.LogFilter, behind string, show func([]dispatcher.LogEvent) error) error {
	f.called("follow")
	f.LogFilter, f.Behind = filter, behind
	if f.OnFollow == nil {
		return f.Err
	}
	return f.OnFollow(ctx, show)
}

func (f *Fake) Dead(_ context.Context, filter dispatcher.DeadFilter) (dispatcher.DeadPage, error) {
	f.called("dead")
	f.DeadOf = filter
	return f.Groups, f.Err
}

func (f *Fake) Stats(context.Context) (dispatcher.Stats, error) {
	f.called("stats")
	return f.Counts, f.Err
}

func (f *Fake) Alive() error { return f.Stuck }

func (f *Fake) Ready(context.Context) (dispatcher.StoreInfo, error) {
	f.called("ready")
	return f.Store, f.Err
}

// The is the one message that was published.
func (f *Fake) The(t testing.TB) *dispatcher.Message {
	t.Helper()
	require.Len(t, f.Published, 1)
	return f.Published[0]
}

// FakeEndpoints is what fakeService knows of endpoints and lanes: one of each.
type FakeEndpoints struct {
	There        *dispatcher.Endpoint // nil: none
	Equal        bool                 // one that is created is there already
	Races        int                  // how often a change comes too late
	Meanwhile    func()               // is called before a change; nil: nothing
	Secret       signer.Secret        // made where none is given
	Test         dispatcher.TestResult
	State        dispatcher.LaneState
	paused       []dispatcher.LaneState
	AskedLanes   []dispatcher.Lane // asked for
	InstanceList []dispatcher.InstanceState
	Others       dispatcher.OtherTenants
	Cursor       string
	CountErr     error // of OtherTenants
	Next         string
	Asked        string // the name or destination
	askedID      string // the message whose lane it is to be
	Tenant       string // whose lane it is to be
	FilterOf     dispatcher.EndpointFilter
	KeyPage      dispatcher.PublicKeyPage
	KeysOf       dispatcher.PublicKeyFilter
	Rotated      signer.Secret
	Overlap      time.Duration
	Inside       dispatcher.Browser // on whose behalf one was created inside the process
	Caller       string             // the same, as lanes keep it
}

func (f *Fake) view(e *dispatcher.Endpoint) dispatcher.EndpointView {
	return dispatcher.EndpointView{Endpoint: e, State: dispatcher.StateActive, LaneCount: dispatcher.LaneCount{InFlight: 2, Waiting: 9}, LastFailure: f.State.LastFailure}
}

// find is the endpoint with a name, or an error.
func (f *Fake) find(call, name string) (*dispatcher.Endpoint, error) {
	f.called(call)
	f.Asked = name
	if f.Err != nil {
		return nil, f.Err
	}
	if f.There == nil || name != f.There.ID && name != f.There.UID {
		return nil, dispatcher.ErrNoEndpoint
	}
	return f.There, nil
}

func (f *Fake) CreateEndpoint(ctx context.Context, e *dispatcher.Endpoint) (dispatcher.EndpointView, bool, error) {
	f.called("create")
	f.Inside, _ = dispatcher.BrowserOf(ctx)
	f.Caller = dispatcher.CallerOf(ctx)
	if f.Err != nil {
		return dispatcher.EndpointView{}, false, f.Err
	}
	e = e.Clone()
	e.ID, e.Version, e.CreatedAt, e.UpdatedAt = "ep_123456789", 1, Now, Now
	if len(e.Secrets) == 0 {
		e.Secrets = []dispatcher.EndpointSecret{{Secret: f.Secret}}
	}
	f.There = e
	return f.view(e), !f.Equal, nil
}

// TryCreate creates nothing.
func (f *Fake) TryCreate(ctx context.Context, e *dispatcher.Endpoint) (dispatcher.EndpointView, bool, error) {
	there := f.There
	defer func() { f.There = there }()
	return f.CreateEndpoint(ctx, e)
}

func (f *Fake) Endpoint(_ context.Context, name string) (dispatcher.EndpointView, error) {
	e, err := f.find("endpoint", name)
	if err != nil {
		return dispatcher.EndpointView{}, err
	}
	return f.view(e), nil
}

func (f *Fake) Endpoints(_ context.Context, filter dispatcher.EndpointFilter) ([]dispatcher.EndpointView, string, error) {
	f.called("endpoints")
	f.FilterOf = filter
	if f.Err != nil || f.There == nil {
		return nil, "", f.Err
	}
	return []dispatcher.EndpointView{f.view(f.There)}, f.Next, nil
}

func (f *Fake) PublicKeys(_ context.Context, filter dispatcher.PublicKeyFilter) (dispatcher.PublicKeyPage, error) {
	f.called("public keys")
	f.KeysOf = filter
	return f.KeyPage, f.Err
}

func (f *Fake) ChangeEndpoint(_ context.Context, name string, change func(*dispatcher.Endpoint) error) (dispatcher.EndpointView, error) {
	e, err := f.find("change", name)
	if err != nil {
		return dispatcher.EndpointView{}, err
	}
	if f.Meanwhile != nil {
		f.Meanwhile()
	}
	for range f.Races + 1 {
		e = f.There.Clone()
		if err := change(e); err != nil {
			return dispatcher.EndpointView{}, err
		}
	}
	f.There = e
	return f.view(e), nil
}

// TryChange changes nothing.
func (f *Fake) TryChange(ctx context.Context, name string, change func(*dispatcher.Endpoint) error) (dispatcher.EndpointView, error) {
	there := f.There
	defer func() { f.There = there }()
	return f.ChangeEndpoint(ctx, name, change)
}

func (f *Fake) DeleteEndpoint(_ context.Context, name string) (int, error) {
	_, err := f.find("delete", name)
	return 3, err
}

func (f *Fake) RotateSecret(_ context.Context, name string, next signer.Secret, overlap time.Duration) (dispatcher.EndpointView, error) {
	e, err := f.find("rotate", name)
	if err != nil {
		return dispatcher.EndpointView{}, err
	}
	f.Rotated, f.Overlap = next, overlap
	return f.view(e), nil
}

func (f *Fake) TestEndpoint(_ context.Context, name string) (dispatcher.TestResult, error) {
	_, err := f.find("test", name)
	return f.Test, err
}

func (f *Fake) MessageTenant(_ context.Context, id string) (string, error) {
	if f.Missing {
		return "", f.Err
	}
	return "of " + id, nil
}

func (f *Fake) MessageLane(ctx context.Context, id, destination string) (dispatcher.Lane, error) {
	f.askedID = id
	return f.Lane(ctx, destination, "of "+id)
}

func (f *Fake) Lane(_ context.Context, destination, tenant string) (dispatcher.Lane, error) {
	f.Asked = destination
	if strings.Contains(destination, "://") {
		u, err := dispatcher.ParseURL(destination)
		if err != nil {
			return "", err
		}
		return dispatcher.URLLane(u, tenant), nil
	}
	for _, prefix := range []string{"ep_", "u_", "q_"} {
		if strings.HasPrefix(destination, prefix) {
			return dispatcher.Lane(destination), nil
		}
	}
	if f.There != nil && destination == f.There.UID {
		return f.There.Lane(), nil
	}
	return "", dispatcher.ErrNoEndpoint
}

func (f *Fake) Lanes(_ context.Context, limit int, cursor string) ([]dispatcher.LaneState, string, error) {
	f.called("lanes")
	f.FilterOf = dispatcher.EndpointFilter{Limit: limit, Cursor: cursor}
	if f.Err != nil || f.State.Lane == "" {
		return nil, "", f.Err
	}
	return []dispatcher.LaneState{f.State}, f.Next, nil
}

func (f *Fake) LaneStates(_ context.Context, lanes []dispatcher.Lane) ([]dispatcher.LaneState, error) {
	f.called("lanes")
	f.AskedLanes = lanes
	if f.Err != nil || f.State.Lane == "" {
		return nil, f.Err
	}
	return []dispatcher.LaneState{f.State}, nil
}

func (f *Fake) Instances(_ context.Context, limit int, cursor string) ([]dispatcher.InstanceState, string, error) {
	f.called("instances")
	f.FilterOf = dispatcher.EndpointFilter{Limit: limit, Cursor: cursor}
	return f.InstanceList, f.Next, f.Err
}

func (f *Fake) Tick(ctx context.Context, within time.Duration) (dispatcher.Tick, error) {
	f.called("tick")
	f.Within = within
	if f.Waits != nil {
		select {
		case <-f.Waits:
		case <-ctx.Done():
		}
	}
	return f.Ticked, f.Err
}

func (f *Fake) FailingLanes(context.Context) ([]dispatcher.LaneState, error) {
	f.called("failing-lanes")
	return []dispatcher.LaneState{f.State, f.State}, f.Err
}

func (f *Fake) PausedLanes(context.Context) ([]dispatcher.LaneState, int, error) {
	return f.paused, len(f.paused), f.Err
}

func (f *Fake) Pause(_ context.Context, destination, tenant string) (dispatcher.LaneState, error) {
	f.called("pause")
	f.Asked, f.Tenant = destination, tenant
	return f.State, f.Err
}

func (f *Fake) Resume(_ context.Context, destination, tenant string) (dispatcher.LaneState, error) {
	f.called("resume")
	f.Asked, f.Tenant = destination, tenant
	return f.State, f.Err
}

func (f *Fake) OtherTenants(_ context.Context, url, tenant string) (dispatcher.OtherTenants, error) {
	f.called("other tenants")
	f.Asked, f.Tenant = url, tenant
	return f.Others, f.CountErr
}

func (f *Fake) PauseTenants(_ context.Context, url, cursor string) (dispatcher.OtherTenants, error) {
	f.called("pause tenants")
	f.Asked, f.Cursor = url, cursor
	return f.Others, f.Err
}

func (f *Fake) ResumeTenants(_ context.Context, url, cursor string) (dispatcher.OtherTenants, error) {
	f.called("resume tenants")
	f.Asked, f.Cursor = url, cursor
	return f.Others, f.Err
}

// fakeLinks keeps one link.
type fakeLinks struct {
	Token string
	Lasts time.Duration
	Made  dispatcher.Link // as it was made, and is answered
	Most  int             // links that were asked for
}

func (f *Fake) CreateLink(_ context.Context, l dispatcher.Link, lasts time.Duration) (string, dispatcher.Link, error) {
	f.called("create link")
	token := dispatcher.AccessKey{}.NewLink()
	f.Token, f.Lasts, f.Made = token, lasts, l
	l.ID, l.CreatedAt, l.ExpiresAt = dispatcher.LinkID(token), Now, Now.Add(lasts)
	return token, l, f.Err
}

func (f *Fake) Link(_ context.Context, id string) (dispatcher.Link, error) {
	if id != Link().ID {
		return dispatcher.Link{}, dispatcher.ErrNoLink
	}
	return Link(), f.Err
}

func (f *Fake) Links(_ context.Context, limit int, cursor string) ([]dispatcher.Link, string, error) {
	f.called("links")
	f.Most, f.Behind = limit, cursor
	return []dispatcher.Link{Link(), {ID: dispatcher.LinkID("y"), Tenant: "m8", By: "key:ops", CreatedAt: Now, ExpiresAt: Now}}, f.Next, f.Err
}

func (f *Fake) RevokeLink(_ context.Context, id string) error {
	f.called("revoke link")
	if id != Link().ID {
		return dispatcher.ErrNoLink
	}
	return f.Err
}

func (f *Fake) StartJob(ctx context.Context, j dispatcher.Job) (dispatcher.Job, error) {
	kind, filter, rate := j.Kind, j.Filter, j.Rate
	f.called("start job")
	f.OneJob.Number = 7
	f.OneJob.Kind, f.OneJob.Filter, f.OneJob.Rate, f.OneJob.By = kind, filter, rate, dispatcher.CallerOf(ctx)
	return f.OneJob, f.Err
}

func (f *Fake) RetryLane(ctx context.Context, lane dispatcher.Lane) (dispatcher.Job, error) {
	f.called("retry lane")
	f.OneJob.Number = 7
	f.OneJob.Kind, f.OneJob.Filter.Lanes, f.OneJob.By = dispatcher.JobRetry, []dispatcher.Lane{lane}, dispatcher.CallerOf(ctx)
	return f.OneJob, f.Err
}

func (f *Fake) SurveyJob(_ context.Context, kind dispatcher.JobKind, filter dispatcher.Filter, whole bool) (dispatcher.Survey, error) {
	f.called("survey job")
	if whole {
		f.called("for longer")
	}
	f.jobKind, f.Filter = kind, filter
	return f.Survey, f.Err
}

func (f *Fake) Job(_ context.Context, number int64) (dispatcher.Job, error) {
	f.called("job")
	f.OneJob.Number = number
	return f.OneJob, f.Err
}

func (f *Fake) Jobs(_ context.Context, limit int, cursor string) ([]dispatcher.Job, string, error) {
	f.called("jobs")
	f.Filter.Limit, f.Filter.Cursor = limit, cursor
	return []dispatcher.Job{f.OneJob}, f.Next, f.Err
}

func (f *Fake) StopJob(ctx context.Context, number int64) (dispatcher.Job, error) {
	f.called("stop job")
	return f.Job(ctx, number)
}

func (f *Fake) ResumeJob(ctx context.Context, number int64) (dispatcher.Job, error) {
	f.called("resume job")
	return f.Job(ctx, number)
}

// fakeTakers is what fakeService gives out.
type fakeTakers struct {
	OnTake   func(ctx context.Context, a dispatcher.TakerAsk) ([]dispatcher.Given, error) // nil: there is nothing
	Asks     []dispatcher.TakerAsk
	OnSettle []dispatcher.TakerOutcome
	owner    string
	From     dispatcher.Lane
	Settled  []dispatcher.TakerSettled

	backMu sync.Mutex // guards back
	back   []dispatcher.Given
}

func (f *fakeTakers) Take(ctx context.Context, a dispatcher.TakerAsk) ([]dispatcher.Given, error) {
	f.Asks = append(f.Asks, a)
	if f.OnTake == nil {
		return nil, nil
	}
	return f.OnTake(ctx, a)
}

func (f *fakeTakers) GiveBack(given []dispatcher.Given) {
	f.backMu.Lock()
	defer f.backMu.Unlock()
	f.back = append(f.back, given...)
}

func (f *fakeTakers) Given() int {
	f.backMu.Lock()
	defer f.backMu.Unlock()
	return len(f.back)
}

func (f *fakeTakers) SettleTaken(_ context.Context, lane dispatcher.Lane, owner string, list []dispatcher.TakerOutcome) ([]dispatcher.TakerSettled, error) {
	f.From, f.owner, f.OnSettle = lane, owner, list
	return f.Settled, nil
}
