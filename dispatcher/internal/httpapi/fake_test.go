package httpapi_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/access"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/endpoints"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/jobs"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/lanes"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/links"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/lists"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/messages"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/takers"
	"github.com/hookladder/hookladder/dispatcher/success"
	"github.com/hookladder/hookladder/ladder"
	"github.com/hookladder/hookladder/signer"
)

// fakeEndpoints is what fakeService knows of endpoints and lanes: one of each.
type fakeEndpoints struct {
	there     *dispatcher.Endpoint // nil: none
	equal     bool                 // one that is created is there already
	races     int                  // how often a change comes too late
	meanwhile func()               // is called before a change; nil: nothing
	secret    signer.Secret        // made where none is given
	test      dispatcher.TestResult
	state     dispatcher.LaneState
	paused    []dispatcher.LaneState
	lanes     []dispatcher.Lane // asked for
	instances []dispatcher.InstanceState
	others    dispatcher.OtherTenants
	cursor    string
	countErr  error // of OtherTenants
	next      string
	asked     string // the name or destination
	askedID   string // the message whose lane it is to be
	tenant    string // whose lane it is to be
	filterOf  dispatcher.EndpointFilter
	keyPage   dispatcher.PublicKeyPage
	keysOf    dispatcher.PublicKeyFilter
	rotated   signer.Secret
	overlap   time.Duration
	inside    access.Caller // on whose behalf one was created inside the process
	caller    string        // the same, as lanes keep it
}

// service is all that the handlers call.
type service interface {
	messages.Publisher
	messages.Messages
	messages.MessageLanes
	lists.Lists
	lists.Dead
	dispatcher.Log
	lists.Followers
	jobs.Jobs
	endpoints.Endpoints
	endpoints.Tester
	lanes.Lanes
	takers.Takers
	links.Links
	dispatcher.Audit
	httpapi.Stats
	httpapi.Ticks
	httpapi.Readiness
}

// portsOf are options whose ports are all one fake.
func portsOf(f service) httpapi.Options {
	return httpapi.Options{
		Publisher: f, Messages: f, MessageLanes: f, Lists: f, Dead: f, Attempts: f, Followers: f, Jobs: f,
		Endpoints: f, Tester: f, Lanes: f, Takers: f, Links: f, Audit: f, Stats: f, Ticks: f, Readiness: f,
	}
}

// testEndpoint has every field.
func testEndpoint(t testing.TB) *dispatcher.Endpoint {
	t.Helper()
	l, err := ladder.Parse("15s/3m")
	require.NoError(t, err)
	s, err := success.Parse(`{"status":["200"],"body":"ok"}`)
	require.NoError(t, err)
	return &dispatcher.Endpoint{
		ID: "ep_123456789", Version: 7, UID: "merchant:7", Tenant: "m7", URL: "https://shop.example/hooks?k=1&l=2",
		Topics: []string{"payment.*"}, Description: "the shop", Metadata: map[string]string{"plan": "gold"},
		Signature: signer.Standard,
		Secrets: []dispatcher.EndpointSecret{
			{Secret: mustSecret(t, signer.Standard, secretNew)},
			{Secret: mustSecret(t, signer.Standard, secretOld), Until: testNow.Add(time.Hour)},
		},
		Ladder: &l, Timeout: 2 * time.Second, MaxInFlight: 5, Rate: dispatcher.Rate{Count: 100, Per: time.Second},
		Headers: []dispatcher.Header{{Name: "Authorization", Value: "Bearer hunter2"}, {Name: "x-b", Value: "hunter3"}},
		Success: s, Ordered: true, CreatedAt: testNow, UpdatedAt: testNow.Add(time.Minute),
	}
}

const (
	secretNew = "whsec_bmV3bmV3bmV3bmV3bmV3bmV3bmV3bmV3bmV3bmU="
	secretOld = "whsec_b2xkb2xkb2xkb2xkb2xkb2xkb2xkb2xkb2xkb2w="
	secretEd  = "whsk_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
)

func mustSecret(t testing.TB, s signer.Scheme, text string) signer.Secret {
	t.Helper()
	secret, err := s.ParseSecret(text)
	require.NoError(t, err)
	return secret
}

func (f *fakeService) view(e *dispatcher.Endpoint) dispatcher.EndpointView {
	return dispatcher.EndpointView{Endpoint: e, State: dispatcher.StateActive, LaneCount: dispatcher.LaneCount{InFlight: 2, Waiting: 9}}
}

// find is the endpoint with a name, or what is wrong.
func (f *fakeService) find(call, name string) (*dispatcher.Endpoint, error) {
	f.called(call)
	f.asked = name
	if f.err != nil {
		return nil, f.err
	}
	if f.there == nil || name != f.there.ID && name != f.there.UID {
		return nil, dispatcher.ErrNoEndpoint
	}
	return f.there, nil
}

func (f *fakeService) CreateEndpoint(ctx context.Context, e *dispatcher.Endpoint) (dispatcher.EndpointView, bool, error) {
	f.called("create")
	f.inside, _ = access.CallerOf(ctx)
	f.caller = dispatcher.CallerOf(ctx)
	if f.err != nil {
		return dispatcher.EndpointView{}, false, f.err
	}
	e = e.Clone()
	e.ID, e.Version, e.CreatedAt, e.UpdatedAt = "ep_123456789", 1, testNow, testNow
	if len(e.Secrets) == 0 {
		e.Secrets = []dispatcher.EndpointSecret{{Secret: f.secret}}
	}
	f.there = e
	return f.view(e), !f.equal, nil
}

func (f *fakeService) Endpoint(_ context.Context, name string) (dispatcher.EndpointView, error) {
	e, err := f.find("endpoint", name)
	if err != nil {
		return dispatcher.EndpointView{}, err
	}
	return f.view(e), nil
}

func (f *fakeService) Endpoints(_ context.Context, filter dispatcher.EndpointFilter) ([]dispatcher.EndpointView, string, error) {
	f.called("endpoints")
	f.filterOf = filter
	if f.err != nil || f.there == nil {
		return nil, "", f.err
	}
	return []dispatcher.EndpointView{f.view(f.there)}, f.next, nil
}

func (f *fakeService) PublicKeys(_ context.Context, filter dispatcher.PublicKeyFilter) (dispatcher.PublicKeyPage, error) {
	f.called("public keys")
	f.keysOf = filter
	return f.keyPage, f.err
}

func (f *fakeService) ChangeEndpoint(_ context.Context, name string, change func(*dispatcher.Endpoint) error) (dispatcher.EndpointView, error) {
	e, err := f.find("change", name)
	if err != nil {
		return dispatcher.EndpointView{}, err
	}
	if f.meanwhile != nil {
		f.meanwhile()
	}
	for range f.races + 1 {
		e = f.there.Clone()
		if err := change(e); err != nil {
			return dispatcher.EndpointView{}, err
		}
	}
	f.there = e
	return f.view(e), nil
}

func (f *fakeService) DeleteEndpoint(_ context.Context, name string) (int, error) {
	_, err := f.find("delete", name)
	return 3, err
}

func (f *fakeService) RotateSecret(_ context.Context, name string, next signer.Secret, overlap time.Duration) (dispatcher.EndpointView, error) {
	e, err := f.find("rotate", name)
	if err != nil {
		return dispatcher.EndpointView{}, err
	}
	f.rotated, f.overlap = next, overlap
	return f.view(e), nil
}

func (f *fakeService) TestEndpoint(_ context.Context, name string) (dispatcher.TestResult, error) {
	_, err := f.find("test", name)
	return f.test, err
}

func (f *fakeService) MessageTenant(_ context.Context, id string) (string, error) {
	if f.missing {
		return "", f.err
	}
	return "of " + id, nil
}

func (f *fakeService) MessageLane(ctx context.Context, id, destination string) (dispatcher.Lane, error) {
	f.askedID = id
	return f.Lane(ctx, destination, "of "+id)
}

func (f *fakeService) Lane(_ context.Context, destination, tenant string) (dispatcher.Lane, error) {
	f.asked = destination
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
	if f.there != nil && destination == f.there.UID {
		return f.there.Lane(), nil
	}
	return "", dispatcher.ErrNoEndpoint
}

func (f *fakeService) Lanes(_ context.Context, limit int, cursor string) ([]dispatcher.LaneState, string, error) {
	f.called("lanes")
	f.filterOf = dispatcher.EndpointFilter{Limit: limit, Cursor: cursor}
	if f.err != nil || f.state.Lane == "" {
		return nil, "", f.err
	}
	return []dispatcher.LaneState{f.state}, f.next, nil
}

func (f *fakeService) LaneStates(_ context.Context, lanes []dispatcher.Lane) ([]dispatcher.LaneState, error) {
	f.called("lanes")
	f.lanes = lanes
	if f.err != nil || f.state.Lane == "" {
		return nil, f.err
	}
	return []dispatcher.LaneState{f.state}, nil
}

func (f *fakeService) Instances(_ context.Context, limit int, cursor string) ([]dispatcher.InstanceState, string, error) {
	f.called("instances")
	f.filterOf = dispatcher.EndpointFilter{Limit: limit, Cursor: cursor}
	return f.instances, f.next, f.err
}

func (f *fakeService) Tick(ctx context.Context, within time.Duration) (dispatcher.Tick, error) {
	f.called("tick")
	f.within = within
	if f.waits != nil {
		select {
		case <-f.waits:
		case <-ctx.Done():
		}
	}
	return f.ticked, f.err
}

func (f *fakeService) PausedLanes(context.Context) ([]dispatcher.LaneState, int, error) {
	return f.paused, len(f.paused), f.err
}

func (f *fakeService) Pause(_ context.Context, destination, tenant string) (dispatcher.LaneState, error) {
	f.called("pause")
	f.asked, f.tenant = destination, tenant
	return f.state, f.err
}

func (f *fakeService) Resume(_ context.Context, destination, tenant string) (dispatcher.LaneState, error) {
	f.called("resume")
	f.asked, f.tenant = destination, tenant
	return f.state, f.err
}

func (f *fakeService) OtherTenants(_ context.Context, url, tenant string) (dispatcher.OtherTenants, error) {
	f.called("other tenants")
	f.asked, f.tenant = url, tenant
	return f.others, f.countErr
}

func (f *fakeService) PauseTenants(_ context.Context, url, cursor string) (dispatcher.OtherTenants, error) {
	f.called("pause tenants")
	f.asked, f.cursor = url, cursor
	return f.others, f.err
}

func (f *fakeService) ResumeTenants(_ context.Context, url, cursor string) (dispatcher.OtherTenants, error) {
	f.called("resume tenants")
	f.asked, f.cursor = url, cursor
	return f.others, f.err
}
