package e2e_test

import (
	"context"
	"fmt"
	"net/http"
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
