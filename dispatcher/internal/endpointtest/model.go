package endpointtest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

// modelSteps is the number of random steps of one run, some fifty of each kind.
const modelSteps = 200

var modelCases = []testCase{
	{name: "after each of many random steps the store is as the model says", run: func(r *rig) {
		seed := uint64(time.Now().UnixNano())
		r.Logf("seed %d", seed)
		m := &model{rig: r, dice: rand.New(rand.NewPCG(seed, 0)), by: map[string]*dispatcher.Endpoint{}, ends: map[string]int64{}}
		for range modelSteps {
			m.step()
			m.check()
		}
	}},
}

// model is the expected content of a store.
type model struct {
	*rig
	dice *rand.Rand
	by   map[string]*dispatcher.Endpoint // id
	gone []*dispatcher.Endpoint
	ends map[string]int64 // recorded deletions
}

func (m *model) step() {
	switch m.dice.IntN(8) {
	case 0, 1, 2:
		m.create()
	case 3, 4, 5:
		m.change()
	default:
		m.delete()
	}
}

func (m *model) create() {
	e := m.endpoint(
		tenant([]string{"", "a", "b"}[m.dice.IntN(3)]),
		madeAt(start.Add(time.Duration(m.dice.IntN(5))*time.Millisecond)),
	)
	if m.dice.IntN(3) == 0 {
		public(e)
	}
	if n := m.dice.IntN(8); n < 5 {
		e.UID = fmt.Sprintf("u%d", n)
	}
	if had := m.any(); had != nil && m.dice.IntN(4) == 0 {
		e.ID = had.ID
	}
	taken, err := m.Store.CreateEndpoint(m.ctx, e)
	other := m.named(e.UID)
	if other != nil || m.by[e.ID] != nil || m.ends[e.ID] > 0 {
		require.ErrorIs(m, err, dispatcher.ErrTaken)
		require.Equal(m, other, taken)
		return
	}
	require.NoError(m, err)
	require.Nil(m, taken)
	m.by[e.ID] = e
}

func (m *model) change() {
	e := m.any()
	if e == nil {
		return
	}
	e = next(e, func(e *dispatcher.Endpoint) { e.Paused = m.dice.IntN(2) == 0 })
	switch m.dice.IntN(4) {
	case 0:
		public(e)
	case 1:
		private(e)
	}
	if m.dice.IntN(3) == 0 {
		e.Version += int64(m.dice.IntN(5)) - 2
	}
	err := m.Store.ChangeEndpoint(m.ctx, e)
	had := m.by[e.ID]
	switch {
	case had == nil:
		require.ErrorIs(m, err, dispatcher.ErrNoEndpoint)
	case had.Version+1 != e.Version:
		require.ErrorIs(m, err, dispatcher.ErrStale)
	case had.UID != e.UID || had.Tenant != e.Tenant || !had.CreatedAt.Equal(e.CreatedAt):
		require.Error(m, err, "the endpoint was deleted, and another one has its id now")
	default:
		require.NoError(m, err)
		m.by[e.ID] = e
	}
}

func (m *model) delete() {
	e := m.any()
	if e == nil {
		return
	}
	end, err := m.Store.DeleteEndpoint(m.ctx, e.ID)
	had := m.by[e.ID]
	switch {
	case had != nil:
		require.NoError(m, err)
		require.Equal(m, had.Version+1, end)
		delete(m.by, e.ID)
		m.gone, m.ends[e.ID] = append(m.gone, e), end
	case m.ends[e.ID] > 0:
		require.NoError(m, err)
		require.Equal(m, m.ends[e.ID], end)
		if m.dice.IntN(2) == 0 {
			require.NoError(m, m.Store.ForgetDeleted(m.ctx, e.ID))
			delete(m.ends, e.ID)
		}
	default:
		require.ErrorIs(m, err, dispatcher.ErrNoEndpoint)
	}
}

// any returns a stored endpoint, or sometimes a deleted one.
func (m *model) any() *dispatcher.Endpoint {
	all := m.sorted()
	if len(m.gone) > 0 && m.dice.IntN(6) == 0 {
		all = m.gone
	}
	if len(all) == 0 {
		return nil
	}
	return all[m.dice.IntN(len(all))]
}

func (m *model) named(name string) *dispatcher.Endpoint {
	for _, e := range m.by {
		if e.UID == name && name != "" {
			return e
		}
	}
	return nil
}

// sorted returns the endpoints of these tenants, or all, in the order of creation.
func (m *model) sorted(tenants ...string) []*dispatcher.Endpoint {
	var out []*dispatcher.Endpoint
	for _, e := range m.by {
		if len(tenants) == 0 || slices.Contains(tenants, e.Tenant) {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b *dispatcher.Endpoint) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	return out
}

func (m *model) check() {
	require.Equal(m, m.ends, m.deleted())
	for _, name := range []string{"", "a", "b"} {
		got, err := m.Store.TenantEndpoints(m.ctx, name)
		require.NoError(m, err)
		require.Equal(m, m.sorted(name), append([]*dispatcher.Endpoint(nil), got...), "nil where there are none")
	}
	want := idsOf(m.sorted())
	slices.Reverse(want)
	require.Equal(m, want, m.listedIDs(dispatcher.EndpointFilter{Limit: 1 + m.dice.IntN(9)}))
	want = slices.DeleteFunc(want, func(id string) bool { return len(m.by[id].PublicKeys()) == 0 })
	require.Equal(m, want, m.listedIDs(dispatcher.EndpointFilter{Public: true, Limit: 1 + m.dice.IntN(9)}))
	for n := range 5 {
		name := fmt.Sprintf("u%d", n)
		if e := m.named(name); e != nil {
			m.mustFind(name, e)
		} else {
			m.mustNotFind(name)
		}
	}
}
