package home_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/home"
)

func TestEndpointsAreReadAMiBAtATime(t *testing.T) {
	store := openTestStore(t, endpointOptions(redistest.Start(t), nil))
	var ids []string
	for i := range 300 {
		e := testEndpoint(fmt.Sprintf("ep_%09d", i))
		e.UID = ""
		if i%3 == 0 { // as large as they come, among small ones
			e.Description = strings.Repeat("x", 20<<10)
		}
		mustCreate(t, store, e)
		ids = append(ids, e.ID)
	}
	ids = append(ids, "ep_unknown00")
	g := measured(store)
	got, err := store.Endpoints(t.Context(), ids)
	require.NoError(t, err)
	require.Len(t, got, len(ids))
	for i, id := range ids[:300] {
		require.Equal(t, id, got[i].ID)
		require.Equal(t, i%3 == 0, len(got[i].Description) > 1<<10)
	}
	require.Nil(t, got[300])
	calls := g.Of("hmget")
	require.Len(t, calls, 3)
	for _, c := range calls {
		require.LessOrEqual(t, c.Bytes, 1<<20)
	}
	_, err = store.Endpoints(t.Context(), ids[:20])
	require.NoError(t, err)
	require.Empty(t, g.Of("hstrlen"), "of so few nothing is asked first")
}

func TestATenantsEndpointsAreReadAPageAtATime(t *testing.T) {
	const page = 16384
	server := redistest.Start(t)
	for name, times := range map[string]func(i int) int{
		"each in its own ms":        func(i int) int { return i },
		"a page and more in one ms": func(i int) int { return max(i-page-100, 0) },
		"pages that end in a ms":    func(i int) int { return i / 3 },
		"all in one ms":             func(i int) int { return 5 },
	} {
		t.Run(name, func(t *testing.T) {
			options := endpointOptions(server, nil)
			store := openTestStore(t, options)
			var list []redis.Z
			var want []string
			for i := range 2*page + 10 {
				want = append(want, fmt.Sprintf("ep_%09d", i))
				list = append(list, redis.Z{Score: float64(times(i)), Member: want[i]})
			}
			require.NoError(t, store.Client().ZAdd(t.Context(), "{"+options.Project+"}:tenant:t1", list...).Err())
			g := measured(store)
			ids, err := store.TenantIDs(t.Context(), "t1")
			require.NoError(t, err)
			require.Equal(t, want, ids)
			if name != "all in one ms" {
				for _, c := range g.Of("zrangebyscore") {
					require.LessOrEqual(t, c.Size, page+200)
				}
			}
		})
	}
}

func TestAProjectKeepsAMillionEndpoints(t *testing.T) {
	store := openTestStore(t, endpointOptions(redistest.Start(t), nil))
	e := testEndpoint("ep_000000001")
	mustCreate(t, store, e)
	before := home.SetMostEndpoints(1)
	t.Cleanup(func() { home.SetMostEndpoints(before) })
	require.Equal(t, 1_000_000, before)
	more := testEndpoint("ep_000000002")
	more.UID = "more"
	_, err := store.CheckEndpoint(t.Context(), more)
	require.ErrorIs(t, err, dispatcher.ErrEndpoints)
	_, err = store.CreateEndpoint(t.Context(), more)
	require.ErrorIs(t, err, dispatcher.ErrEndpoints)
	found, err := store.Endpoints(t.Context(), []string{more.ID})
	require.NoError(t, err)
	require.Nil(t, found[0])
	_, err = store.EndpointID(t.Context(), "more")
	require.ErrorIs(t, err, dispatcher.ErrNoEndpoint, "nothing was stored")

	again := testEndpoint("ep_000000003")
	again.UID = e.UID
	taken, err := store.CreateEndpoint(t.Context(), again)
	require.ErrorIs(t, err, dispatcher.ErrTaken, "what is there already is told as ever")
	require.Equal(t, e.ID, taken.ID)
	e.Version++
	require.NoError(t, store.ChangeEndpoint(t.Context(), e))
	mustDelete(t, store, e.ID)
	mustCreate(t, store, more)
}
