package engine_test

import (
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	d "github.com/hookladder/hookladder/dispatcher"

	"github.com/hookladder/hookladder/dispatcher/internal/endpoints"
	"github.com/hookladder/hookladder/signer"
)

// remembering has n tenants with one endpoint each, by the names of number.
func remembering(t *testing.T, n int) *endpointRig {
	t.Helper()
	r := newTestEndpointRig(t, acceptsOnly)
	shared := newTestEndpoint()
	shared.Secrets = []d.EndpointSecret{{Secret: signer.NewSecret()}} // what can't be used is not remembered
	for i := range n {
		e := *shared
		e.ID, e.Tenant, e.Version = fmt.Sprintf("ep_%09d", i), strconv.Itoa(i), 1
		r.store.byID[e.ID] = &e
	}
	r.start(t)
	r.queue.ears.OnGap() // it listens from now on
	return r
}

func TestBeyondItsBoundAnInstanceForgetsTheEndpointThatWasNotUsedForTheLongestTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := remembering(t, endpoints.MostKnown+1)
		find := func(numbers ...int) (reads int) {
			before := r.store.count("endpoints")
			for _, n := range numbers {
				require.NoError(t, r.Find(t.Context(), fmt.Sprintf("ep_%09d", n)))
			}
			return r.store.count("endpoints") - before
		}
		all := make([]int, endpoints.MostKnown+1)
		for i := range all {
			all[i] = i
		}
		require.Equal(t, endpoints.MostKnown, find(all[:endpoints.MostKnown]...))
		require.Zero(t, find(0), "it is the one that was used last")
		require.Equal(t, 1, find(endpoints.MostKnown))
		require.Zero(t, find(0))
		require.Zero(t, find(all[2:]...), "one was forgotten, no more")
		require.Equal(t, 1, find(1))
		r.stop(t)
	})
}

func TestBeyondItsBoundAnInstanceForgetsTheTenantThatWasNotUsedForTheLongestTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const most = endpoints.MostKnown / 2 // with an endpoint each
		r := remembering(t, 0)
		match := func(from, to int) (reads int) {
			before := r.store.count("tenant endpoints")
			for n := from; n < to; n++ {
				// The fake looks through all it has, so it has no other just now.
				e := newTestEndpoint()
				e.ID, e.Tenant, e.Topics = fmt.Sprintf("ep_%09d", n), strconv.Itoa(n), []string{"*"}
				r.store.set(func() { clear(r.store.byID) })
				r.store.put(e)
				got, err := r.Matching(t.Context(), e.Tenant)
				require.NoError(t, err)
				require.Equal(t, 1, got)
			}
			return r.store.count("tenant endpoints") - before
		}
		require.Equal(t, most, match(0, most))
		require.Zero(t, match(0, 1))
		require.Equal(t, 1, match(most, most+1))
		require.Zero(t, match(0, 1))
		require.Zero(t, match(2, most+1), "one was forgotten, no more")
		require.Equal(t, 1, match(1, 2))
		r.stop(t)
	})
}
