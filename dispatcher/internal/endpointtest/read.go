package endpointtest

import (
	"encoding/base64"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

var readCases = []testCase{
	{name: "endpoints come in the order asked for, nil for those that are not there", run: func(r *rig) {
		a, b := r.create(), r.create()
		got, err := r.Store.Endpoints(r.ctx, []string{b.ID, "ep_none", a.ID, "", b.ID})
		require.NoError(r, err)
		require.Equal(r, []*dispatcher.Endpoint{b, nil, a, nil, b}, got)
	}},
	{name: "an empty query returns nothing", run: func(r *rig) {
		r.create()
		got, err := r.Store.Endpoints(r.ctx, nil)
		require.NoError(r, err)
		require.Empty(r, got)
	}},
	{name: "an empty store has nothing", run: func(r *rig) {
		require.Empty(r, r.tenantIDs("shop"))
		require.Empty(r, r.tenantIDs(""))
		require.Empty(r, r.listedIDs(dispatcher.EndpointFilter{}))
		r.mustNotFind("main")
	}},
	{name: "a tenant's endpoints come in the order of creation, without endpoints of others", run: func(r *rig) {
		late := r.create(madeAt(start.Add(time.Hour)))
		early := r.create(madeAt(start.Add(-time.Hour)))
		between := r.create(madeAt(start))
		none, other := r.create(tenant("")), r.create(tenant("shop2"))
		got, err := r.Store.TenantEndpoints(r.ctx, "shop")
		require.NoError(r, err)
		require.Equal(r, []*dispatcher.Endpoint{early, between, late}, got)
		require.Equal(r, []string{none.ID}, r.tenantIDs(""))
		require.Equal(r, []string{other.ID}, r.tenantIDs("shop2"))
		require.Empty(r, r.tenantIDs("sho"))
	}},
	{name: "names with characters that a store may use itself are kept apart", run: func(r *rig) {
		names := []string{"a", "a:b", "{a}", "}{", "*", "a*", "?", "[a]", "%00", "all", ":", "\\", "A", "tenant:a"}
		made := map[string]*dispatcher.Endpoint{}
		for _, name := range names {
			made[name] = r.create(tenant(name), uid(name))
		}
		for _, name := range names {
			require.Equal(r, []string{made[name].ID}, r.tenantIDs(name), name)
			r.mustFind(name, made[name])
		}
		require.Len(r, r.listedIDs(dispatcher.EndpointFilter{}), len(names))
	}},
	{name: "a tenant with many endpoints", run: func(r *rig) {
		var want []string
		for range many {
			want = append(want, r.create().ID)
		}
		require.Equal(r, want, r.tenantIDs("shop"))
		all, err := r.Store.Endpoints(r.ctx, want)
		require.NoError(r, err)
		require.Equal(r, want, idsOf(all))
	}},
}

// many is more than a store should read in one query.
const many = 600

var listCases = []testCase{
	{name: "pages come newest first and hold each endpoint once", run: func(r *rig) {
		var want []string
		for range 23 {
			want = append(want, r.create().ID)
		}
		slices.Reverse(want)
		for _, limit := range []int{1, 2, 5, 22, 23, 24, 500} {
			require.Equal(r, want, r.listedIDs(dispatcher.EndpointFilter{Limit: limit}), "limit %d", limit)
		}
	}},
	{name: "a list without a limit has the default one", run: func(r *rig) {
		for range 120 {
			r.create()
		}
		page, next, err := r.Store.ListEndpoints(r.ctx, dispatcher.EndpointFilter{})
		require.NoError(r, err)
		require.Len(r, page, 50)
		require.NotEmpty(r, next)
	}},
	{name: "the last page has no cursor, even if it is full", run: func(r *rig) {
		for range 4 {
			r.create()
		}
		f := dispatcher.EndpointFilter{Limit: 2}
		_, f.Cursor, _ = r.Store.ListEndpoints(r.ctx, f)
		page, next, err := r.Store.ListEndpoints(r.ctx, f)
		require.NoError(r, err)
		require.Len(r, page, 2)
		require.Empty(r, next)
	}},
	{name: "endpoints of one millisecond have an order too", run: func(r *rig) {
		r.create(madeAt(start.Add(-time.Second)))
		var want []string
		for range 20 {
			want = append(want, r.create(madeAt(start)).ID)
		}
		r.create(madeAt(start.Add(time.Second)))
		all := r.listedIDs(dispatcher.EndpointFilter{Limit: 100})
		require.Len(r, all, 22)
		require.ElementsMatch(r, want, all[1:21])
		for _, limit := range []int{1, 3, 7} {
			require.Equal(r, all, r.listedIDs(dispatcher.EndpointFilter{Limit: limit}), "limit %d", limit)
		}
	}},
	{name: "a list of one tenant, or of endpoints without a tenant", run: func(r *rig) {
		var shop, none []string
		for range 5 {
			shop = append([]string{r.create().ID}, shop...)
			none = append([]string{r.create(tenant("")).ID}, none...)
		}
		name, empty, other := "shop", "", "other"
		require.Equal(r, shop, r.listedIDs(dispatcher.EndpointFilter{Tenants: []string{name}, Limit: 2}))
		require.Equal(r, none, r.listedIDs(dispatcher.EndpointFilter{Tenants: []string{empty}, Limit: 2}))
		require.Empty(r, r.listedIDs(dispatcher.EndpointFilter{Tenants: []string{other}}))
		require.Equal(r, r.listedIDs(dispatcher.EndpointFilter{}), r.listedIDs(dispatcher.EndpointFilter{Tenants: []string{name, empty, name, other}, Limit: 2}), "any of them matches, newest first")
		require.Len(r, r.listedIDs(dispatcher.EndpointFilter{Limit: 3}), 10)
	}},
	{name: "a list of endpoints with a public key, as that changes", run: func(r *rig) {
		all := dispatcher.EndpointFilter{Public: true, Limit: 2}
		r.create()
		require.Empty(r, r.listedIDs(all))
		a, b, c := r.create(public), r.create(public, tenant("")), r.create(uid("c"))
		require.Equal(r, []string{b.ID, a.ID}, r.listedIDs(all))
		c = next(c, public)
		require.NoError(r, r.Store.ChangeEndpoint(r.ctx, c))
		require.Equal(r, []string{c.ID, b.ID, a.ID}, r.listedIDs(all))
		c = next(c, paused)
		require.NoError(r, r.Store.ChangeEndpoint(r.ctx, c))
		require.NoError(r, r.Store.ChangeEndpoint(r.ctx, next(a, private)))
		require.Equal(r, []string{c.ID, b.ID}, r.listedIDs(all))
		r.mustDelete(b)
		require.Equal(r, []string{c.ID}, r.listedIDs(all))
		r.mustDelete(c)
		require.Empty(r, r.listedIDs(all))
	}},
	{name: "a list continues though its last endpoint was deleted, and new ones do not shift it", run: func(r *rig) {
		var made []*dispatcher.Endpoint
		for range 6 {
			made = append(made, r.create(madeAt(start)))
		}
		all := r.listedIDs(dispatcher.EndpointFilter{})
		page, next, err := r.Store.ListEndpoints(r.ctx, dispatcher.EndpointFilter{Limit: 3})
		require.NoError(r, err)
		require.Equal(r, all[:3], idsOf(page))
		for _, e := range page {
			r.mustDelete(e)
		}
		r.create(madeAt(start.Add(time.Hour)))
		require.Equal(r, all[3:], r.listedIDs(dispatcher.EndpointFilter{Limit: 3, Cursor: next}))
		require.Len(r, made, 6)
	}},
	{name: "a cursor of another list is refused", run: func(r *rig) {
		r.create()
		encode := base64.RawURLEncoding.EncodeToString
		for _, cursor := range []string{
			"x", "!!", "ep_000000001", encode([]byte(" ")), encode([]byte("due  1 a:b")), encode([]byte("due 1 ep_1")), encode([]byte("endpoints")),
			encode([]byte("endpoints x ep_1")), encode([]byte("endpoints 1 ")), encode([]byte("endpoints 1 ep_1 2")),
		} {
			_, _, err := r.Store.ListEndpoints(r.ctx, dispatcher.EndpointFilter{Cursor: cursor})
			require.ErrorIs(r, err, dispatcher.ErrCursor, "%q", cursor)
		}
	}},
}
