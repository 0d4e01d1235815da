package endpoints

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

// finishing is a store and a queue. Between the two steps of a deletion a comparison comes by.
type finishing struct {
	dispatcher.EndpointStore
	Lanes
	registry *Registry
	waiting  int
}

func (f *finishing) Endpoints(context.Context, []string) ([]*dispatcher.Endpoint, error) {
	return []*dispatcher.Endpoint{nil}, nil
}

func (f *finishing) DeleteEndpoint(ctx context.Context, _ string) (int64, error) {
	return 7, f.registry.repairs.deleted(ctx)
}

func (f *finishing) DeletedEndpoints(context.Context, string) (map[string]int64, string, error) {
	return map[string]int64{"ep_000000001": 7}, "", nil
}

func (f *finishing) ForgetDeleted(context.Context, string) error { return nil }

// Limit returns the number of waiting deliveries, and then none, because a sweep cancels them.
func (f *finishing) Limit(context.Context, string, dispatcher.Lane, dispatcher.LaneLimits, bool) (count dispatcher.LaneCount, err error) {
	count.Waiting, f.waiting = f.waiting, 0
	return count, nil
}

func TestADeletionCountsWhatItCancelsThoughAComparisonComesBy(t *testing.T) {
	f := &finishing{waiting: 3}
	f.registry = New(Options{Store: f, Queue: f, Name: func() string { return "one" }, OnActivity: func() {}})
	cancelled, err := f.registry.DeleteEndpoint(t.Context(), "ep_000000001")
	require.NoError(t, err)
	require.Equal(t, 3, cancelled)
	require.NoError(t, f.registry.repairs.deleted(t.Context()))
	require.Zero(t, f.waiting)
}
