package endpointtest

import (
	"errors"
	"fmt"
	"maps"
	"sync"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

// racers is the number of goroutines that run at once, each as an instance.
const racers = 32

var raceCases = []testCase{
	{name: "no change of one endpoint is lost among many", run: func(r *rig) {
		e := r.create()
		stores := []dispatcher.EndpointStore{r.Store, r.Open(), r.Open()}
		for _, err := range race(func(n int) error { return r.sign(stores[n%len(stores)], e.ID, fmt.Sprint(n)) }) {
			require.NoError(r, err)
		}
		got, err := r.Store.Endpoints(r.ctx, []string{e.ID})
		require.NoError(r, err)
		require.Len(r, got[0].Metadata, racers)
		require.Equal(r, int64(1+racers), got[0].Version)
	}},
	{name: "one of many creates gets a uid, and the others learn which endpoint has it", run: func(r *rig) {
		stores := []dispatcher.EndpointStore{r.Store, r.Open(), r.Open()}
		made := make([]*dispatcher.Endpoint, racers)
		for n := range made {
			made[n] = r.endpoint(uid("main"))
		}
		taken := make([]*dispatcher.Endpoint, racers)
		var winner *dispatcher.Endpoint
		for n, err := range race(func(n int) (err error) {
			taken[n], err = stores[n%len(stores)].CreateEndpoint(r.ctx, made[n])
			return err
		}) {
			if err == nil {
				require.Nil(r, winner, "two have it")
				winner = made[n]
				continue
			}
			require.ErrorIs(r, err, dispatcher.ErrTaken)
		}
		require.NotNil(r, winner, "no endpoint has it")
		r.mustFind("main", winner)
		r.mustBe(winner)
		require.Equal(r, []string{winner.ID}, r.tenantIDs("shop"))
		for n, other := range taken {
			if made[n] != winner {
				require.Equal(r, winner, other)
			}
		}
	}},
	{name: "only one of many changes from the same version is stored", run: func(r *rig) {
		e := r.create()
		done := 0
		for _, err := range race(func(n int) error { return r.Store.ChangeEndpoint(r.ctx, next(e)) }) {
			if err == nil {
				done++
				continue
			}
			require.ErrorIs(r, err, dispatcher.ErrStale)
		}
		require.Equal(r, 1, done)
	}},
	{name: "all of many deletes return the same version, and no change brings the endpoint back", run: func(r *rig) {
		e := r.create(uid("main"))
		var ends [racers]int64
		signed := int64(0)
		for n, err := range race(func(n int) (err error) {
			if n%2 == 0 {
				ends[n], err = r.Store.DeleteEndpoint(r.ctx, e.ID)
				return err
			}
			return r.sign(r.Store, e.ID, fmt.Sprint(n))
		}) {
			switch {
			case n%2 == 0:
				require.NoError(r, err)
				require.Equal(r, ends[0], ends[n])
			case err != nil:
				require.ErrorIs(r, err, dispatcher.ErrNoEndpoint)
			default:
				signed++
			}
		}
		require.Equal(r, 2+signed, ends[0], "above each that was stored")
		r.mustNotBe(e)
		r.mustNotFind("main")
	}},
}

// race calls do in many goroutines at once and returns the error of each.
func race(do func(n int) error) []error {
	errs := make([]error, racers)
	var all sync.WaitGroup
	begin := make(chan struct{})
	for n := range racers {
		all.Go(func() {
			<-begin
			errs[n] = do(n)
		})
	}
	close(begin)
	all.Wait()
	return errs
}

// sign adds a name to an endpoint's metadata. It retries until no other change comes
// first.
func (r *rig) sign(store dispatcher.EndpointStore, id, name string) error {
	for {
		got, err := store.Endpoints(r.ctx, []string{id})
		if err != nil {
			return err
		}
		if got[0] == nil {
			return dispatcher.ErrNoEndpoint
		}
		err = store.ChangeEndpoint(r.ctx, next(got[0], func(e *dispatcher.Endpoint) {
			e.Metadata = maps.Clone(e.Metadata)
			if e.Metadata == nil {
				e.Metadata = map[string]string{}
			}
			e.Metadata[name] = "here"
		}))
		if !errors.Is(err, dispatcher.ErrStale) {
			return err
		}
	}
}
