package httpapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/ladder"
	"github.com/hookladder/hookladder/signer"
)

func TestTheClientKeepsEndpoints(t *testing.T) {
	f := &Fake{FakeEndpoints: FakeEndpoints{Secret: MustSecret(t, signer.Standard, SecretNew), Next: "c2"}}
	c := newTestClient(t, f)
	l, err := ladder.Parse("1s/2s")
	require.NoError(t, err)
	view, created, err := c.CreateEndpoint(t.Context(), &wire.Endpoint{
		UID: "a:b@c", Tenant: "m7", URL: "http://a/?<&>", Topics: []string{}, Description: "<x>", Metadata: map[string]string{"a": "b"},
		Secret: SecretOld, Signature: "stripe", Ladder: &l, Timeout: wire.Duration(2 * time.Second), MaxInFlight: 3, Rate: "5/s",
		Headers: map[string]string{"x": "hunter2"}, Success: &wire.Success{Body: json.RawMessage(`"ok"`)}, Ordered: true,
	})
	require.NoError(t, err)
	require.True(t, created)
	require.Equal(t, SecretOld, view.Secret)
	require.Equal(t, "http://a/?<&>", f.There.URL)
	require.Empty(t, f.There.Topics)
	require.Equal(t, 2, f.There.Ladder.Len())
	require.Equal(t, map[string]string{"x": "***"}, view.Headers)
	f.Equal = true
	_, created, err = c.CreateEndpoint(t.Context(), &wire.Endpoint{URL: "http://a"})
	require.NoError(t, err)
	require.False(t, created)
	require.Equal(t, []string{"*"}, f.There.Topics)

	f.There.UID = "a:b@c"
	m7 := "m7"
	page, err := c.Endpoints(t.Context(), client.EndpointFilter{Tenants: []string{m7}, Limit: 3, Cursor: "c1"})
	require.NoError(t, err)
	require.Len(t, page.Data, 1)
	require.Equal(t, "c2", *page.NextCursor)
	require.Equal(t, dispatcher.EndpointFilter{Tenants: []string{m7}, Limit: 3, Cursor: "c1"}, f.FilterOf)
	_, err = c.Endpoints(t.Context(), client.EndpointFilter{})
	require.NoError(t, err)
	require.Nil(t, f.FilterOf.Tenants)

	view, err = c.PatchEndpoint(t.Context(), "a:b@c", map[string]any{"description": "new", "topics": nil})
	require.NoError(t, err)
	require.Equal(t, "new", view.Description)
	view, err = c.PatchEndpoint(t.Context(), "a:b@c", json.RawMessage(`{"description":null}`))
	require.NoError(t, err)
	require.Empty(t, view.Description)
	_, err = c.PatchEndpoint(t.Context(), "a", json.RawMessage(`{`))
	require.Error(t, err)
	n, err := c.DeleteEndpoint(t.Context(), "a:b@c")
	require.NoError(t, err)
	require.Equal(t, 3, n)
}

func TestTheClientCallsEndpointsAndLanes(t *testing.T) {
	f := &Fake{FakeEndpoints: FakeEndpoints{
		There: Endpoint(t), State: dispatcher.LaneState{Lane: "u_1"}, Next: "c2", Overlap: -1,
		Test: dispatcher.TestResult{MessageID: "msg_1", Attempt: dispatcher.Attempt{Verdict: dispatcher.Delivered}},
	}}
	c := newTestClient(t, f)
	for _, call := range []func() (wire.EndpointView, error){
		func() (wire.EndpointView, error) { return c.Endpoint(t.Context(), "merchant:7") },
		func() (wire.EndpointView, error) { return c.PauseEndpoint(t.Context(), "merchant:7") },
		func() (wire.EndpointView, error) { return c.ResumeEndpoint(t.Context(), "merchant:7") },
		func() (wire.EndpointView, error) {
			rotated, err := c.RotateSecret(t.Context(), "merchant:7", wire.Rotation{})
			return rotated.EndpointView, err
		},
	} {
		view, err := call()
		require.NoError(t, err)
		require.Equal(t, "ep_123456789", view.ID)
		require.Equal(t, "merchant:7", f.Asked)
	}
	require.Equal(t, 24*time.Hour, f.Overlap)
	none := wire.Duration(0)
	_, err := c.RotateSecret(t.Context(), "merchant:7", wire.Rotation{Overlap: &none, Secret: SecretOld})
	require.NoError(t, err)
	require.Zero(t, f.Overlap)
	require.Equal(t, SecretOld, f.Rotated.Reveal())
	secrets, err := c.EndpointSecret(t.Context(), "merchant:7")
	require.NoError(t, err)
	require.Equal(t, SecretNew, secrets.Secrets[0].Secret)
	require.True(t, secrets.Secrets[0].Until.IsZero())
	said, err := c.TestEndpoint(t.Context(), "merchant:7")
	require.NoError(t, err)
	require.Equal(t, "delivered", said.Outcome)
	keys, err := c.WebhookKeys(t.Context(), "", 2, "c1")
	require.NoError(t, err)
	require.Empty(t, keys.Data)
	require.Equal(t, dispatcher.PublicKeyFilter{Limit: 2, Cursor: "c1"}, f.KeysOf)
	_, err = c.WebhookKeys(t.Context(), "merchant:7", 0, "")
	require.NoError(t, err)

	lanes, err := c.Lanes(t.Context(), 5, "c1")
	require.NoError(t, err)
	require.Equal(t, "u_1", lanes.Data[0].Lane)
	require.Equal(t, "c2", *lanes.NextCursor)
	for _, destination := range []string{"u_1", "merchant:7", client.AllLanes, "https://shop.example/a/../b//c?x=%2F&y"} {
		for _, call := range []func() (wire.LaneState, error){
			func() (wire.LaneState, error) { return c.PauseLane(t.Context(), destination, "") },
			func() (wire.LaneState, error) { return c.ResumeLane(t.Context(), destination, "") },
		} {
			got, err := call()
			require.NoError(t, err)
			require.Equal(t, "u_1", got.Lane)
			require.Equal(t, destination, f.Asked)
		}
	}
}

func TestAClientPausesAndResumesAllTenants(t *testing.T) {
	f := &Fake{FakeEndpoints: FakeEndpoints{State: dispatcher.LaneState{Lane: "u_1"}, Others: dispatcher.OtherTenants{Lanes: 3, Changed: 3, Next: "0-7"}}}
	c := newTestClient(t, f)
	for _, call := range []func(context.Context, string, string) (wire.LaneState, error){c.PauseTenants, c.ResumeTenants} {
		for _, cursor := range []string{"", "0-7"} {
			got, err := call(t.Context(), "https://shop.example/x", cursor)
			require.NoError(t, err)
			require.Equal(t, 3, got.OtherTenants.Changed)
			require.Equal(t, "0-7", *got.OtherTenants.NextCursor)
			require.Equal(t, cursor, f.Cursor)
		}
	}
}

func TestAClientsErrorsHoldNoSecretOfADestination(t *testing.T) {
	f := &Fake{Err: dispatcher.ErrUnavailable}
	c := newTestClient(t, f)
	_, err := c.PauseLane(t.Context(), "https://shop.example/hooks?token=hunter2", "")
	require.ErrorContains(t, err, "pause https://shop.example: ")
	require.NotContains(t, err.Error(), "hunter2")
	_, err = c.PauseLane(t.Context(), "https://user:hunter2@shop.example/", "")
	require.NotContains(t, err.Error(), "hunter2")
	_, err = c.PauseLane(t.Context(), "https://%zzhunter2", "")
	require.NotContains(t, err.Error(), "hunter2")
	_, err = c.PauseLane(t.Context(), "u_1", "")
	require.ErrorContains(t, err, "pause u_1: ")

	for _, name := range []string{"", "..", "../lanes", "a/b", "\x00", "?x=1"} {
		_, err := c.Endpoint(t.Context(), name)
		var p *client.Problem
		require.True(t, errors.As(err, &p), name)
		require.Equal(t, http.StatusNotFound, p.Status, name)
	}
	require.NotContains(t, f.Calls, "endpoint")
	_, _, err = c.CreateEndpoint(t.Context(), &wire.Endpoint{URL: "http://a", Secret: "hunter2"})
	require.ErrorContains(t, err, "$.secret")
	require.NotContains(t, err.Error(), "hunter2")
}
