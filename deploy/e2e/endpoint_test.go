package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

// endpoint registers one at a path of the receiver, which trusts its secret
// from then on.
func (i *instance) endpoint(path string, e wire.Endpoint) wire.EndpointView {
	i.t.Helper()
	e.URL = i.receiver.URL(0) + path
	view, created, err := i.CreateEndpoint(i.t.Context(), &e)
	require.NoError(i.t, err)
	require.True(i.t, created)
	require.NotEmpty(i.t, view.Secret, "the answer that creates it holds the secret")
	i.receiver.Trust(path, verifierOf(i.t, view.Signature, view.Secret))
	return view
}

// deliveries reads a message's deliveries by destination.
func (i *instance) deliveries(id string) map[string]wire.Delivery {
	i.t.Helper()
	r, err := i.Message(i.t.Context(), id)
	require.NoError(i.t, err)
	byLane := map[string]wire.Delivery{}
	for _, d := range r.Deliveries {
		byLane[d.Destination] = d
	}
	return byLane
}

func TestAMessageGoesToTheEndpointsOfItsTenantThatMatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.serve("PARTITIONS=8")
	for path, e := range map[string]wire.Endpoint{
		"/all":     {Tenant: "acme", Topics: []string{"*"}, Headers: map[string]string{"X-Shop": "7"}},
		"/payment": {Tenant: "acme", Topics: []string{"payment.*"}},
		"/refund":  {Tenant: "acme", Topics: []string{"payment.refund.*", "order.paid"}},
		"/named":   {Tenant: "acme", UID: "by-name", Topics: []string{}},
		"/other":   {Tenant: "other"},
		"/nobody":  {},
	} {
		i.endpoint(path, e)
	}
	for topic, want := range map[string][]string{
		"payment.paid":          {"/all", "/payment"},
		"payment.refund.begun":  {"/all", "/payment", "/refund"},
		"payment":               {"/all"},
		"order.paid":            {"/all", "/refund"},
		"order.paid.not_really": {"/all"},
	} {
		id := strings.ReplaceAll(topic, ".", "-")
		p := i.publish(wire.Message{ID: id, Tenant: "acme", Topic: topic})
		require.Equal(t, len(want), p.Matched, topic)
		w.receiver.until("all of "+topic, func() bool { return len(w.receiver.arrivals(id)) >= len(want) })
		var came []string
		for _, a := range w.receiver.arrivals(id) {
			came = append(came, a.path)
			require.Equal(t, "acme", a.header.Get("hookladder-tenant"))
			if a.path == "/all" {
				require.Equal(t, "7", a.header.Get("x-shop"))
			}
		}
		require.ElementsMatch(t, want, came, topic)

		again := i.publish(wire.Message{ID: id, Tenant: "acme", Topic: topic})
		require.True(t, again.Duplicate)
		require.Equal(t, len(want), again.Matched)
	}
	require.Zero(t, i.publish(wire.Message{ID: "nowhere", Tenant: "stranger"}).Matched)
	require.Equal(t, 1, i.publish(wire.Message{ID: "free"}).Matched, "without a tenant: those without one")
	require.Equal(t, 1, i.publish(wire.Message{ID: "direct", Endpoint: "by-name"}).Matched)
	w.receiver.wait("direct", 1)
	w.receiver.wait("free", 1)

	other := wire.Message{ID: "order-paid", Tenant: "acme", Topic: "order.paid", Body: []byte(`"another"`)}
	_, err := i.Client.Publish(t.Context(), &other)
	require.Equal(t, http.StatusConflict, problemOf(t, err).Status)
	_, all := w.receiver.ids()
	require.Equal(t, 2+3+1+2+1+2, all)
}

func TestACorrectedURLRescuesWhatWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, two := w.serve(), w.serve()
	w.receiver.answers(func(rw http.ResponseWriter, req *http.Request, _ string, _ int) {
		if req.URL.Path == "/wrong" {
			rw.WriteHeader(http.StatusNotFound)
		}
	})
	e := one.endpoint("/wrong", wire.Endpoint{UID: "shop"})
	for n := range 5 {
		one.publish(wire.Message{ID: fmt.Sprint("m", n), Endpoint: "shop"})
	}
	w.receiver.until("five refusals", func() bool { return len(w.receiver.at("/wrong")) == 5 })
	w.receiver.Trust("/right", verifierOf(t, e.Signature, e.Secret))
	changed, err := two.PatchEndpoint(t.Context(), "shop", map[string]any{"url": w.receiver.URL(0) + "/right"})
	require.NoError(t, err)
	require.Equal(t, e.ID, changed.ID)
	for n := range 5 {
		eventually(t, "its attempt is recorded", func() bool { // an attempt may still be about to be recorded
			_, err := two.Retry(context.WithoutCancel(t.Context()), fmt.Sprint("m", n), "")
			return err == nil
		})
	}
	w.receiver.until("all five", func() bool { return len(w.receiver.at("/right")) == 5 })
	require.Len(t, w.receiver.at("/wrong"), 5)
}

func TestWhatIsPausedIsHeldAndGoesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, two := w.serve(), w.serve()
	e := one.endpoint("/e", wire.Endpoint{Tenant: "acme"})
	bare := w.receiver.URL(0) + "/bare"
	for _, c := range []struct {
		name, destination string
		message           wire.Message
	}{
		{"endpoint", e.ID, wire.Message{Tenant: "acme"}},
		{"url", bare, wire.Message{URL: bare}},
		{"all", "*", wire.Message{URL: bare}},
	} {
		state, err := one.PauseLane(t.Context(), c.destination, "")
		require.NoError(t, err)
		require.Equal(t, "paused", state.State)
		for n, i := range []*instance{one, two, one, two} {
			m := c.message
			m.ID = fmt.Sprint(c.name, n)
			i.publish(m)
		}
		d := two.until(c.name+"0", "ready")
		require.Equal(t, "paused", d.WaitingFor)
		// What is not held goes on, and would have been overtaken.
		if c.destination != "*" {
			free := "http://127.0.1.9" + strings.TrimPrefix(w.receiver.URL(0), "http://127.0.0.1") + "/free"
			two.publish(wire.Message{ID: c.name + "free", URL: free})
			w.receiver.wait(c.name+"free", 1)
		}
		require.Empty(t, w.receiver.arrivals(c.name+"0"))
		_, err = two.ResumeLane(t.Context(), c.destination, "")
		require.NoError(t, err)
		for n := range 4 {
			w.receiver.wait(fmt.Sprint(c.name, n), 1)
		}
	}
}

func TestADisabledEndpointTakesNothingAndADeletedOneIsForgotten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.serve("GUARD_INTERVAL=1h")
	w.receiver.answers(func(rw http.ResponseWriter, _ *http.Request, id string, n int) {
		if id == "gone" && n == 1 {
			rw.WriteHeader(http.StatusGone)
		}
	})
	e := i.endpoint("/e", wire.Endpoint{UID: "shop", Tenant: "acme"})
	i.publish(wire.Message{ID: "later", Endpoint: "shop", Delay: hour})
	i.publish(wire.Message{ID: "gone", Endpoint: "shop"})
	require.Equal(t, "gone", i.until("gone", "dead").DeadReason)
	require.Equal(t, "disabled", i.until("later", "dead").DeadReason, "what waited")
	p := i.publish(wire.Message{ID: "after", Tenant: "acme"})
	require.Equal(t, "dead", p.Deliveries[0].Status)
	require.Equal(t, "disabled", i.until("after", "dead").DeadReason)
	require.Zero(t, i.delivery("after").Attempts)
	view, err := i.Endpoint(t.Context(), e.ID)
	require.NoError(t, err)
	require.Equal(t, "disabled", view.State)
	_, err = i.Retry(t.Context(), "after", "")
	require.Equal(t, http.StatusConflict, problemOf(t, err).Status)

	_, err = i.ResumeEndpoint(t.Context(), "shop")
	require.NoError(t, err)
	for _, id := range []string{"later", "gone", "after"} {
		_, err = i.Retry(t.Context(), id, "")
		require.NoError(t, err)
		i.until(id, "delivered")
	}

	_, err = i.PauseEndpoint(t.Context(), "shop")
	require.NoError(t, err)
	for n := range 3 {
		i.publish(wire.Message{ID: fmt.Sprint("held", n), Endpoint: "shop", Delay: hour * wire.Duration(n%2)})
	}
	cancelled, err := i.DeleteEndpoint(t.Context(), "shop")
	require.NoError(t, err)
	require.Equal(t, 3, cancelled)
	i.untilAll("cancelled", named("held", 3)...)
	_, err = i.Endpoint(t.Context(), e.ID)
	require.Equal(t, http.StatusNotFound, problemOf(t, err).Status)
	_, err = i.Client.Publish(t.Context(), &wire.Message{Topic: "t", Endpoint: e.ID, Body: []byte(`1`)})
	require.Equal(t, http.StatusUnprocessableEntity, problemOf(t, err).Status)
	i.counts("three are cancelled and none waits", func(s wire.Stats) bool {
		return s.Counts["cancelled"] == 3 && s.Counts["ready"]+s.Counts["scheduled"] == 0
	})
}

func TestATestMessageTellsWhatTheReceiverSaid(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.serve()
	w.receiver.answers(func(rw http.ResponseWriter, _ *http.Request, _ string, _ int) {
		rw.WriteHeader(http.StatusTeapot)
		_, _ = fmt.Fprint(rw, "short and stout")
	})
	e := i.endpoint("/e", wire.Endpoint{UID: "shop"})
	_, err := i.PauseEndpoint(t.Context(), e.ID)
	require.NoError(t, err)
	got, err := i.TestEndpoint(t.Context(), "shop")
	require.NoError(t, err)
	require.Equal(t, http.StatusTeapot, got.StatusCode)
	require.Equal(t, "short and stout", got.ResponseExcerpt)
	a := w.receiver.wait(got.MessageID, 1)
	require.Equal(t, "hookladder.test", a.header.Get("hookladder-topic"))
	w.receiver.expect(got.MessageID, &wire.Message{Body: []byte(a.body)})
	_, err = i.Message(t.Context(), got.MessageID)
	require.Equal(t, http.StatusNotFound, problemOf(t, err).Status, "nothing of it is kept")
}

// An instance that dies between the two steps of a change leaves a lane whose
// limits are older than the endpoint's: the next claim has to notice.
func TestAChangeThatWasHalfMadeCountsAllTheSame(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.serve()
	e := i.endpoint("/e", wire.Endpoint{UID: "shop"})
	i.publish(wire.Message{ID: "before", Endpoint: "shop"})
	i.until("before", "delivered")
	limits, err := w.rdb.HGet(t.Context(), "{default:0}:limits", e.ID).Result()
	require.NoError(t, err)
	_, err = i.PauseEndpoint(t.Context(), "shop")
	require.NoError(t, err)
	// As if the copy had never been written.
	require.NoError(t, w.rdb.HSet(t.Context(), "{default:0}:limits", e.ID, limits).Err())
	i.publish(wire.Message{ID: "held", Endpoint: "shop"})
	eventually(t, "it stands as it should", func() bool {
		d := i.delivery("held")
		return d.Status == "ready" && d.WaitingFor == "paused"
	})
	require.Empty(t, w.receiver.arrivals("held"))
	_, err = i.ResumeEndpoint(t.Context(), "shop")
	require.NoError(t, err)
	w.receiver.wait("held", 1)
}
