package engine_test

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	d "github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/engine"
	"github.com/hookladder/hookladder/signer"
)

// endpointRig is a dispatcher with endpoints, of whose changes it is told.
type endpointRig struct {
	*rig
	store *fakeEndpoints
}

func newTestEndpointRig(t testing.TB, change func(*engine.Options, *testQueue, *fakeSender)) *endpointRig {
	t.Helper()
	r := &endpointRig{store: newFakeEndpoints()}
	r.rig = newTestRig(t, func(o *engine.Options, q *testQueue, s *fakeSender) {
		o.Endpoints, q.hears = r.store, true
		if change != nil {
			change(o, q, s)
		}
	})
	r.store.listen("here", r.queue.notify)
	return r
}

// notify has the instance hear of a change.
func (q *testQueue) notify(c d.EndpointChange) {
	q.mu.Lock()
	hear := q.ears.OnEndpoint
	q.mu.Unlock()
	if hear != nil {
		hear(c)
	}
}

// create registers a valid endpoint.
func (r *endpointRig) create(t testing.TB, with ...func(*d.Endpoint)) d.EndpointView {
	t.Helper()
	view, created, err := r.CreateEndpoint(t.Context(), newTestEndpoint(with...))
	require.NoError(t, err)
	require.True(t, created)
	return view
}

// change changes one.
func (r *endpointRig) change(t testing.TB, name string, change func(*d.Endpoint)) d.EndpointView {
	t.Helper()
	view, err := r.ChangeEndpoint(t.Context(), name, func(e *d.Endpoint) error { change(e); return nil })
	require.NoError(t, err)
	return view
}

// publish publishes one message, which must be taken.
func (r *endpointRig) publish(t testing.TB, m *d.Message) d.Published {
	t.Helper()
	out, err := r.Publish(t.Context(), []*d.Message{m})
	require.NoError(t, err)
	require.NoError(t, out[0].Err)
	return out[0]
}

// to is a message to an endpoint, by id or uid.
func to(name, id string) *d.Message {
	m := message(id)
	m.URL, m.Endpoint = "", name
	return m
}

// fan is a message to all endpoints of a tenant that match.
func fan(tenant, id string) *d.Message {
	m := message(id)
	m.URL, m.Tenant = "", tenant
	return m
}

// statuses are those of deliveries by their lane.
func statuses(list []d.Delivery) map[d.Lane]d.Status {
	all := map[d.Lane]d.Status{}
	for _, delivery := range list {
		all[delivery.ID.Lane] = delivery.Status
	}
	return all
}

// named are the calls of these names in the order they were made.
func (q *testQueue) order(names ...string) (seen []string) {
	for _, c := range q.seen("") {
		if slices.Contains(names, c.name) {
			seen = append(seen, c.name)
		}
	}
	return seen
}

// limited are the limits that a lane was told, in order.
func (q *testQueue) limited(lane d.Lane) (all []d.LaneLimits) {
	for _, c := range q.seen("limit") {
		if c.lane == lane {
			all = append(all, c.limits)
		}
	}
	return all
}

// limitsOf are those that a lane keeps.
func (q *testQueue) limitsOf(lane d.Lane) d.LaneLimits {
	states, err := q.still().LaneStates(context.Background(), []d.Lane{lane})
	require.NoError(q.t, err)
	return states[0].Limits
}

// hasLane reports whether anything is kept of a lane.
func (q *testQueue) hasLane(lane d.Lane) bool {
	states, err := q.still().LaneStates(context.Background(), []d.Lane{lane})
	require.NoError(q.t, err)
	return states[0].Known
}

// ended is how a delivery ended; empty: it has not.
func (q *testQueue) ended(lane d.Lane, message string) (d.Status, d.DeadReason) {
	record, err := q.still().Read(context.Background(), message)
	require.NoError(q.t, err)
	for _, one := range record.Deliveries {
		if one.ID.Lane == lane && !one.Ended.IsZero() {
			return one.Status, one.Reason
		}
	}
	return "", ""
}

func paused(e *d.Endpoint)   { e.Paused = true }
func disabled(e *d.Endpoint) { e.Disabled = true }

func uid(name string) func(*d.Endpoint)       { return func(e *d.Endpoint) { e.UID = name } }
func tenant(name string) func(*d.Endpoint)    { return func(e *d.Endpoint) { e.Tenant = name } }
func address(url string) func(*d.Endpoint)    { return func(e *d.Endpoint) { e.URL = url } }
func topics(list ...string) func(*d.Endpoint) { return func(e *d.Endpoint) { e.Topics = list } }

func newTestEndpoint(with ...func(*d.Endpoint)) *d.Endpoint {
	e := &d.Endpoint{Tenant: "acme", URL: "https://acme.example/hook", Topics: []string{"payment.*"}, Signature: signer.Standard}
	for _, change := range with {
		change(e)
	}
	return e
}
