package endpointtest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

var createCases = []testCase{
	{name: "a new endpoint is found by its id, its uid and its tenant, and is listed", run: func(r *rig) {
		e := r.create(uid("main"))
		r.mustBe(e)
		r.mustFind("main", e)
		require.Equal(r, []string{e.ID}, r.tenantIDs("shop"))
		require.Equal(r, []string{e.ID}, r.listedIDs(dispatcher.EndpointFilter{}))
	}},
	{name: "an id is given once", run: func(r *rig) {
		e := r.create(uid("main"))
		again := r.endpoint(uid("other"), tenant("else"))
		again.ID = e.ID
		taken, err := r.Store.CreateEndpoint(r.ctx, again)
		require.ErrorIs(r, err, dispatcher.ErrTaken)
		require.Nil(r, taken)
		r.mustBe(e)
		r.mustNotFind("other")
		require.Empty(r, r.tenantIDs("else"))
	}},
	{name: "a uid is given once, in all tenants, and its endpoint is returned", run: func(r *rig) {
		e := r.create(uid("main"))
		other := r.endpoint(uid("main"), tenant("else"))
		taken, err := r.Store.CreateEndpoint(r.ctx, other)
		require.ErrorIs(r, err, dispatcher.ErrTaken)
		require.Equal(r, e, taken)
		r.mustNotBe(other)
		r.mustFind("main", e)
	}},
	{name: "a repeated creation returns the endpoint of the first", run: func(r *rig) {
		e := r.create(uid("main"))
		taken, err := r.Store.CreateEndpoint(r.ctx, e)
		require.ErrorIs(r, err, dispatcher.ErrTaken)
		require.Equal(r, e, taken)
		require.Equal(r, []string{e.ID}, r.listedIDs(dispatcher.EndpointFilter{}))
	}},
	{name: "a check returns what the creation would, and stores nothing", run: func(r *rig) {
		e := r.create(uid("main"))
		taken, err := r.Store.CheckEndpoint(r.ctx, r.endpoint(uid("main"), tenant("else")))
		require.ErrorIs(r, err, dispatcher.ErrTaken)
		require.Equal(r, e, taken)
		for range 2 {
			taken, err = r.Store.CheckEndpoint(r.ctx, r.endpoint(uid("new")))
			require.NoError(r, err)
			require.Nil(r, taken)
			r.mustNotFind("new")
			require.Equal(r, []string{e.ID}, r.listedIDs(dispatcher.EndpointFilter{}))
		}
	}},
	{name: "any number of endpoints may have no uid", run: func(r *rig) {
		a, b := r.create(), r.create()
		r.mustBe(a, b)
		r.mustNotFind("")
	}},
	{name: "a uid may be another's id", run: func(r *rig) {
		a := r.create()
		b := r.create(uid(a.ID))
		r.mustFind(a.ID, b)
		r.mustBe(a, b)
	}},
	{name: "an endpoint without a secret is refused", run: func(r *rig) {
		e := r.endpoint()
		e.Secrets = nil
		_, err := r.Store.CreateEndpoint(r.ctx, e)
		require.Error(r, err)
		r.mustNotBe(e)
	}},
}

var changeCases = []testCase{
	{name: "the next version replaces the one before", run: func(r *rig) {
		e := r.create(uid("main"))
		for range 3 {
			e = next(e, func(e *dispatcher.Endpoint) {
				e.Paused = !e.Paused
				e.URL += "/next"
				e.Topics = []string{"payment.*"}
			})
			require.NoError(r, r.Store.ChangeEndpoint(r.ctx, e))
			r.mustBe(e)
		}
		r.mustFind("main", e)
		require.Equal(r, []string{e.ID}, r.tenantIDs("shop"))
		require.Equal(r, []string{e.ID}, r.listedIDs(dispatcher.EndpointFilter{}))
	}},
	{name: "any other version is stale and changes nothing", run: func(r *rig) {
		e := r.create()
		e = next(e)
		require.NoError(r, r.Store.ChangeEndpoint(r.ctx, e))
		for _, version := range []int64{0, 1, 2, 4, 22} {
			other := next(e, paused)
			other.Version = version
			require.ErrorIs(r, r.Store.ChangeEndpoint(r.ctx, other), dispatcher.ErrStale, "version %d", version)
		}
		r.mustBe(e)
	}},
	{name: "any later version replaces the one that its caller read, and no other", run: func(r *rig) {
		e := r.create()
		raised := next(e, paused)
		raised.Version = 9
		require.NoError(r, r.Store.RaiseEndpoint(r.ctx, 1, raised))
		r.mustBe(raised)
		for _, c := range [][2]int64{{1, 10}, {8, 10}, {10, 11}, {9, 9}, {9, 8}} {
			other := next(raised)
			other.Version = c[1]
			require.ErrorIs(r, r.Store.RaiseEndpoint(r.ctx, c[0], other), dispatcher.ErrStale, "from %d to %d", c[0], c[1])
		}
		r.mustBe(raised)
		require.ErrorIs(r, r.Store.RaiseEndpoint(r.ctx, 1, r.endpoint()), dispatcher.ErrNoEndpoint)
	}},
	{name: "an endpoint that is not there can't be changed", run: func(r *rig) {
		e := r.endpoint(uid("main"))
		require.ErrorIs(r, r.Store.ChangeEndpoint(r.ctx, next(e)), dispatcher.ErrNoEndpoint)
		r.mustNotBe(e)
		r.mustNotFind("main")
	}},
	{name: "a deleted endpoint can't be changed", run: func(r *rig) {
		e := r.create()
		r.mustDelete(e)
		require.ErrorIs(r, r.Store.ChangeEndpoint(r.ctx, next(e)), dispatcher.ErrNoEndpoint)
		r.mustNotBe(e)
	}},
	{name: "a change without secrets is refused, because the endpoint was read without the key to them", run: func(r *rig) {
		e := r.create()
		bare := next(e)
		bare.Secrets = nil
		require.ErrorIs(r, r.Store.ChangeEndpoint(r.ctx, bare), dispatcher.ErrSealed)
		r.mustBe(e)
	}},
	{name: "its id, uid, tenant and time of creation never change", run: func(r *rig) {
		e := r.create(uid("main"))
		for _, change := range []func(*dispatcher.Endpoint){uid("other"), uid(""), tenant("else"), tenant(""), madeAt(start.Add(-time.Hour))} {
			require.Error(r, r.Store.ChangeEndpoint(r.ctx, next(e, change)))
		}
		r.mustBe(e)
		r.mustFind("main", e)
		r.mustNotFind("other")
		require.Equal(r, []string{e.ID}, r.tenantIDs("shop"))
	}},
}

var deleteCases = []testCase{
	{name: "a deleted endpoint is not found", run: func(r *rig) {
		e, other := r.create(uid("main")), r.create(uid("other"))
		r.mustDelete(e)
		r.mustNotBe(e)
		r.mustNotFind("main")
		r.mustBe(other)
		r.mustFind("other", other)
		require.Equal(r, []string{other.ID}, r.tenantIDs("shop"))
	}},
	{name: "an endpoint of any version can be deleted", run: func(r *rig) {
		e := r.create()
		for range 3 {
			e = next(e)
			require.NoError(r, r.Store.ChangeEndpoint(r.ctx, e))
		}
		r.mustDelete(e)
		r.mustNotBe(e)
	}},
	{name: "an endpoint without a tenant can be deleted", run: func(r *rig) {
		e := r.create(tenant(""))
		r.mustDelete(e)
		r.mustNotBe(e)
	}},
	{name: "a delete of an endpoint that is not there is refused", run: func(r *rig) {
		e := r.create()
		_, err := r.Store.DeleteEndpoint(r.ctx, "ep_none")
		require.ErrorIs(r, err, dispatcher.ErrNoEndpoint)
		r.mustDelete(e)
		require.NoError(r, r.Store.ForgetDeleted(r.ctx, e.ID))
		_, err = r.Store.DeleteEndpoint(r.ctx, e.ID)
		require.ErrorIs(r, err, dispatcher.ErrNoEndpoint)
	}},
	{name: "a deletion is recorded with a version above all others, until it is forgotten", run: func(r *rig) {
		e, other := r.create(), r.create()
		for range 3 {
			e = next(e)
			require.NoError(r, r.Store.ChangeEndpoint(r.ctx, e))
		}
		require.Equal(r, []dispatcher.EndpointVersion{{Version: 4}, {Version: 1}, {}}, r.versions(e.ID, other.ID, "ep_none"))
		require.Empty(r, r.deleted())
		r.mustDelete(e)
		require.Equal(r, []dispatcher.EndpointVersion{{End: 5}, {Version: 1}}, r.versions(e.ID, other.ID))
		require.Equal(r, map[string]int64{e.ID: 5}, r.deleted())
		end, err := r.Store.DeleteEndpoint(r.ctx, e.ID)
		require.NoError(r, err, "a repeated deletion finishes the first")
		require.Equal(r, int64(5), end)
		require.NoError(r, r.Store.ForgetDeleted(r.ctx, e.ID))
		require.NoError(r, r.Store.ForgetDeleted(r.ctx, e.ID))
		require.Empty(r, r.deleted())
		require.Equal(r, []dispatcher.EndpointVersion{{}, {Version: 1}}, r.versions(e.ID, other.ID))
	}},
	{name: "no other endpoint gets the id of a deleted one while the deletion is recorded", run: func(r *rig) {
		e := r.create(uid("main"))
		r.mustDelete(e)
		taken, err := r.Store.CreateEndpoint(r.ctx, e)
		require.ErrorIs(r, err, dispatcher.ErrTaken)
		require.Nil(r, taken)
		r.mustNotBe(e)
		r.mustNotFind("main")
		require.NoError(r, r.Store.ForgetDeleted(r.ctx, e.ID))
		r.mustCreate(e)
	}},
	{name: "any number of deletions may be recorded, and their versions read", run: func(r *rig) {
		want, ids := map[string]int64{}, []string{}
		for range 700 {
			e := r.create()
			r.mustDelete(e)
			want[e.ID], ids = 2, append(ids, e.ID)
		}
		require.Equal(r, want, r.deleted())
		versions := r.versions(ids...)
		require.Len(r, versions, len(ids))
		for _, v := range versions {
			require.Equal(r, dispatcher.EndpointVersion{End: 2}, v)
		}
	}},
	{name: "the uid of a deleted endpoint is free again", run: func(r *rig) {
		e := r.create(uid("main"))
		r.mustDelete(e)
		again := r.create(uid("main"))
		r.mustFind("main", again)
		r.mustBe(again)
	}},
}
