// Package endpointtest is the conformance suite for dispatcher.EndpointStore. A store's
// test calls Run. The suite has readable cases for each method and rule, races between
// instances, and a random test that compares the store with a model.
package endpointtest

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/signer"
)

// Fixture is an empty store.
type Fixture struct {
	Store dispatcher.EndpointStore
	// Open opens another connection to the same store, as another process would.
	Open func() dispatcher.EndpointStore
	// Watch is the Watch of the store's queue.
	Watch func(ctx context.Context, by string, subscriber dispatcher.Subscriber) error
}

// OpenFunc opens an empty store for one case, and closes it after the case.
type OpenFunc func(t testing.TB) Fixture

// Run runs every case on stores from open.
func Run(t *testing.T, open OpenFunc) {
	t.Helper()
	for _, group := range []struct {
		name  string
		cases []testCase
	}{
		{"keep", keepCases},
		{"create", createCases},
		{"change", changeCases},
		{"delete", deleteCases},
		{"read", readCases},
		{"list", listCases},
		{"watch", watchCases},
		{"races", raceCases},
		{"model", modelCases},
	} {
		t.Run(group.name, func(t *testing.T) {
			for _, c := range group.cases {
				t.Run(c.name, func(t *testing.T) { c.run(newRig(t, open)) })
			}
		})
	}
}

// testCase is one rule of a store.
type testCase struct {
	name string
	run  func(r *rig)
}

// rig is an empty store with short methods for the cases.
type rig struct {
	testing.TB
	Fixture
	ctx  context.Context
	made int
}

func newRig(t testing.TB, open OpenFunc) *rig {
	t.Helper()
	return &rig{TB: t, Fixture: open(t), ctx: t.Context()}
}

// start is the creation time of the first endpoint of each case.
var start = time.Date(2026, 3, 1, 12, 0, 0, int(7*time.Millisecond), time.UTC)

// endpoint returns a new endpoint of the tenant shop, created a second after the one
// before. It is not stored.
func (r *rig) endpoint(with ...func(*dispatcher.Endpoint)) *dispatcher.Endpoint {
	at := start.Add(time.Duration(r.made) * time.Second)
	r.made++
	e := &dispatcher.Endpoint{
		ID: fmt.Sprintf("%s%09d", dispatcher.EndpointPrefix, r.made), Version: 1, Tenant: "shop",
		URL: "https://example.com/hook", Topics: []string{"*"},
		Signature: signer.Standard, Secrets: []dispatcher.EndpointSecret{{Secret: signer.NewSecret()}},
		CreatedAt: at, UpdatedAt: at,
	}
	for _, change := range with {
		change(e)
	}
	return e
}

func uid(name string) func(*dispatcher.Endpoint) {
	return func(e *dispatcher.Endpoint) { e.UID = name }
}

func tenant(name string) func(*dispatcher.Endpoint) {
	return func(e *dispatcher.Endpoint) { e.Tenant = name }
}

func madeAt(at time.Time) func(*dispatcher.Endpoint) {
	return func(e *dispatcher.Endpoint) { e.CreatedAt = at }
}

// create stores a new endpoint and returns it.
func (r *rig) create(with ...func(*dispatcher.Endpoint)) *dispatcher.Endpoint {
	r.Helper()
	e := r.endpoint(with...)
	r.mustCreate(e)
	return e
}

func (r *rig) mustCreate(e *dispatcher.Endpoint) {
	r.Helper()
	taken, err := r.Store.CreateEndpoint(r.ctx, e)
	require.NoError(r, err)
	require.Nil(r, taken)
}

// next returns the next version of an endpoint.
func next(e *dispatcher.Endpoint, with ...func(*dispatcher.Endpoint)) *dispatcher.Endpoint {
	c := *e
	c.Version++
	c.UpdatedAt = e.UpdatedAt.Add(time.Minute)
	for _, change := range with {
		change(&c)
	}
	return &c
}

// public and private give an endpoint a signature with a public key, and one without.
func public(e *dispatcher.Endpoint)  { signs(e, signer.StandardEd25519) }
func private(e *dispatcher.Endpoint) { signs(e, signer.Standard) }

func signs(e *dispatcher.Endpoint, by signer.Scheme) {
	e.Signature, e.Secrets = by, []dispatcher.EndpointSecret{{Secret: by.NewSecret()}}
}

func paused(e *dispatcher.Endpoint) { e.Paused = true }

// mustBe fails the case unless the store returns exactly these endpoints.
func (r *rig) mustBe(want ...*dispatcher.Endpoint) {
	r.Helper()
	got, err := r.Store.Endpoints(r.ctx, idsOf(want))
	require.NoError(r, err)
	require.Equal(r, want, got)
}

func (r *rig) mustDelete(e *dispatcher.Endpoint) {
	r.Helper()
	end, err := r.Store.DeleteEndpoint(r.ctx, e.ID)
	require.NoError(r, err)
	require.Positive(r, end)
}

// deleted returns all recorded deletions.
func (r *rig) deleted() map[string]int64 {
	r.Helper()
	all := map[string]int64{}
	for cursor := ""; ; {
		page, next, err := r.Store.DeletedEndpoints(r.ctx, cursor)
		require.NoError(r, err)
		maps.Copy(all, page)
		if cursor = next; cursor == "" {
			return all
		}
	}
}

func (r *rig) versions(ids ...string) []dispatcher.EndpointVersion {
	r.Helper()
	all, err := r.Store.EndpointVersions(r.ctx, ids)
	require.NoError(r, err)
	return all
}

// mustNotBe fails the case if any read of the store returns an endpoint.
func (r *rig) mustNotBe(e *dispatcher.Endpoint) {
	r.Helper()
	got, err := r.Store.Endpoints(r.ctx, []string{e.ID})
	require.NoError(r, err)
	require.Equal(r, []*dispatcher.Endpoint{nil}, got)
	require.NotContains(r, r.tenantIDs(e.Tenant), e.ID)
	require.NotContains(r, r.listedIDs(dispatcher.EndpointFilter{Limit: 100}), e.ID)
}

func (r *rig) tenantIDs(name string) []string {
	r.Helper()
	all, err := r.Store.TenantEndpoints(r.ctx, name)
	require.NoError(r, err)
	return idsOf(all)
}

// listedIDs reads all pages of a list and returns the ids.
func (r *rig) listedIDs(f dispatcher.EndpointFilter) []string {
	r.Helper()
	ids := []string{}
	for {
		page, next, err := r.Store.ListEndpoints(r.ctx, f)
		require.NoError(r, err)
		if f.Limit > 0 {
			require.LessOrEqual(r, len(page), f.Limit)
		}
		ids = append(ids, idsOf(page)...)
		if next == "" {
			return ids
		}
		require.NotEqual(r, f.Cursor, next, "the cursor does not advance")
		f.Cursor = next
	}
}

func idsOf(all []*dispatcher.Endpoint) []string {
	ids := make([]string, len(all))
	for i, e := range all {
		ids[i] = e.ID
	}
	return ids
}

// mustFind fails the case unless a uid belongs to this endpoint.
func (r *rig) mustFind(name string, want *dispatcher.Endpoint) {
	r.Helper()
	id, err := r.Store.EndpointID(r.ctx, name)
	require.NoError(r, err)
	require.Equal(r, want.ID, id)
}

func (r *rig) mustNotFind(name string) {
	r.Helper()
	_, err := r.Store.EndpointID(r.ctx, name)
	require.ErrorIs(r, err, dispatcher.ErrNoEndpoint)
}
