package httpapi_test

import (
	"context"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/signer"
)

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
