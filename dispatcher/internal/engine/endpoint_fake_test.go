package engine_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	d "github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/endpointtest"
)

// fakeEndpoints is a store of endpoints in memory that does what it is told to
// go wrong. It tells its listeners what changed, in the same step.
type fakeEndpoints struct {
	// hook runs at the start of each call, outside of mu: it may block or, with
	// an error, keep the call from being made. read runs when an answer was
	// read and is not given yet.
	hook func(call string) error
	read func(call string)

	mu     sync.Mutex // guards the fields below
	byID   map[string]*d.Endpoint
	ends   map[string]int64 // of those that were deleted
	counts map[string]int
	ears   map[string]func(d.EndpointChange)
}

func newFakeEndpoints() *fakeEndpoints {
	return &fakeEndpoints{byID: map[string]*d.Endpoint{}, ends: map[string]int64{}, counts: map[string]int{}, ears: map[string]func(d.EndpointChange){}}
}

var _ d.EndpointStore = (*fakeEndpoints)(nil)

// TestTheFakeIsAStoreOfEndpoints is what makes the tests that use it worth something.
func TestTheFakeIsAStoreOfEndpoints(t *testing.T) {
	t.Parallel()
	endpointtest.Run(t, func(testing.TB) endpointtest.Fixture {
		f := newFakeEndpoints()
		return endpointtest.Fixture{
			Store: f,
			Open:  func() d.EndpointStore { return f },
			Watch: func(ctx context.Context, by string, ears d.Subscriber) error {
				f.listen(by, ears.OnEndpoint)
				ears.OnGap()
				<-ctx.Done()
				return nil
			},
		}
	})
}

// begin counts a call; what hook says keeps it from being made.
func (f *fakeEndpoints) begin(ctx context.Context, name string) error {
	f.mu.Lock()
	f.counts[name]++
	hook := f.hook
	f.mu.Unlock()
	if hook != nil {
		if err := hook(name); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w: %w", name, d.ErrUnavailable, err)
	}
	return nil
}

// set changes the fake while a dispatcher uses it.
func (f *fakeEndpoints) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *fakeEndpoints) count(name string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts[name]
}

// total is how many calls there were.
func (f *fakeEndpoints) total() (n int) {
	f.set(func() {
		for _, count := range f.counts {
			n += count
		}
	})
	return n
}

// stored is an endpoint as it is kept.
func (f *fakeEndpoints) stored(id string) *d.Endpoint {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.byID[id]
}

// put stores an endpoint as it is, and tells no listener.
func (f *fakeEndpoints) put(e *d.Endpoint) {
	f.set(func() { f.byID[e.ID] = e.Clone() })
}

// listen has somebody told of every change from now on; nil: no more.
func (f *fakeEndpoints) listen(by string, hear func(d.EndpointChange)) {
	f.set(func() { f.ears[by] = hear })
}

// notify reports what changed. mu is held.
func (f *fakeEndpoints) notify(c d.EndpointChange) {
	for _, hear := range f.ears {
		if hear != nil {
			hear(c)
		}
	}
}

func (f *fakeEndpoints) answered(name string) {
	f.mu.Lock()
	read := f.read
	f.mu.Unlock()
	if read != nil {
		read(name)
	}
}

func (f *fakeEndpoints) CreateEndpoint(ctx context.Context, e *d.Endpoint) (*d.Endpoint, error) {
	if err := f.begin(ctx, "create endpoint"); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if taken, err := f.check(e); err != nil {
		return taken, err
	}
	f.byID[e.ID] = e.Clone()
	f.notify(d.EndpointChange{ID: e.ID, Tenant: e.Tenant, Version: e.Version})
	return nil, nil
}

func (f *fakeEndpoints) CheckEndpoint(ctx context.Context, e *d.Endpoint) (*d.Endpoint, error) {
	if err := f.begin(ctx, "check endpoint"); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.check(e)
}

func (f *fakeEndpoints) check(e *d.Endpoint) (*d.Endpoint, error) {
	if len(e.Secrets) == 0 {
		return nil, fmt.Errorf("%s: without a secret", e.ID)
	}
	for _, other := range f.byID {
		if e.UID != "" && other.UID == e.UID {
			return other.Clone(), d.ErrTaken
		}
	}
	if f.byID[e.ID] != nil || f.ends[e.ID] > 0 {
		return nil, d.ErrTaken
	}
	return nil, nil
}

func (f *fakeEndpoints) ChangeEndpoint(ctx context.Context, e *d.Endpoint) error {
	return f.RaiseEndpoint(ctx, e.Version-1, e)
}

func (f *fakeEndpoints) RaiseEndpoint(ctx context.Context, version int64, e *d.Endpoint) error {
	if err := f.begin(ctx, "change endpoint"); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch before := f.byID[e.ID]; {
	case before == nil:
		return fmt.Errorf("%s: %w", e.ID, d.ErrNoEndpoint)
	case before.Version != version || e.Version <= version:
		return fmt.Errorf("%s: %w", e.ID, d.ErrStale)
	case len(e.Secrets) == 0:
		return fmt.Errorf("%s: %w", e.ID, d.ErrSealed)
	case before.UID != e.UID || before.Tenant != e.Tenant || !before.CreatedAt.Equal(e.CreatedAt):
		return fmt.Errorf("%s: what it is found by was changed", e.ID)
	}
	f.byID[e.ID] = e.Clone()
	f.notify(d.EndpointChange{ID: e.ID, Tenant: e.Tenant, Version: e.Version})
	return nil
}

func (f *fakeEndpoints) Endpoints(ctx context.Context, ids []string) ([]*d.Endpoint, error) {
	if err := f.begin(ctx, "endpoints"); err != nil {
		return nil, err
	}
	defer f.answered("endpoints")
	f.mu.Lock()
	defer f.mu.Unlock()
	list := make([]*d.Endpoint, len(ids))
	for i, id := range ids {
		if e := f.byID[id]; e != nil {
			list[i] = e.Clone()
		}
	}
	return list, nil
}

func (f *fakeEndpoints) EndpointID(ctx context.Context, uid string) (string, error) {
	if err := f.begin(ctx, "endpoint id"); err != nil {
		return "", err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, e := range f.byID {
		if uid != "" && e.UID == uid {
			return id, nil
		}
	}
	return "", fmt.Errorf("uid %s: %w", uid, d.ErrNoEndpoint)
}

func (f *fakeEndpoints) TenantEndpoints(ctx context.Context, tenant string) ([]*d.Endpoint, error) {
	if err := f.begin(ctx, "tenant endpoints"); err != nil {
		return nil, err
	}
	defer f.answered("tenant endpoints")
	return f.sorted(tenant), nil
}

// sorted are copies of the endpoints of a tenant, or all, the first made first.
func (f *fakeEndpoints) sorted(tenants ...string) (list []*d.Endpoint) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.byID {
		if len(tenants) == 0 || slices.Contains(tenants, e.Tenant) {
			list = append(list, e.Clone())
		}
	}
	slices.SortFunc(list, func(a, b *d.Endpoint) int { return cmp.Compare(place(a), place(b)) })
	return list
}

// place is where an endpoint stands in lists; the cursor is the last one's.
func place(e *d.Endpoint) string {
	return e.CreatedAt.UTC().Format("fake 2006-01-02T15:04:05.000000000 ") + e.ID
}

func (f *fakeEndpoints) ListEndpoints(ctx context.Context, filter d.EndpointFilter) ([]*d.Endpoint, string, error) {
	if err := f.begin(ctx, "list endpoints"); err != nil {
		return nil, "", err
	}
	if filter.Cursor != "" && !strings.HasPrefix(filter.Cursor, "fake ") {
		return nil, "", d.ErrCursor
	}
	all := f.sorted(filter.Tenants...)
	slices.Reverse(all)
	all = slices.DeleteFunc(all, func(e *d.Endpoint) bool { return filter.Public && len(e.PublicKeys()) == 0 })
	all = slices.DeleteFunc(all, func(e *d.Endpoint) bool { return filter.Cursor != "" && place(e) >= filter.Cursor })
	limit := cmp.Or(filter.Limit, 50)
	if len(all) <= limit {
		return all, "", nil
	}
	return all[:limit], place(all[limit-1]), nil
}

// journal notes every call of the store among those of the queue, whose order
// tests then ask for.
func (f *fakeEndpoints) journal(q *testQueue) {
	f.set(func() {
		f.hook = func(name string) error {
			time.Sleep(time.Millisecond) // what does not wait for it comes before
			q.set(func() { q.calls = append(q.calls, call{name: name, at: time.Now()}) })
			return nil
		}
	})
}
