package app_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher/app"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/signer"
)

func TestAMessageWithoutAURLGoesToTheEndpointsThatMatch(t *testing.T) {
	r := newTestReceiver(t)
	p := start(t, newTestOptions(redistest.Start(t).URL()))
	for tenant, topic := range map[string]string{"shop": "a.*", "other": "*"} {
		_, _, err := p.client().CreateEndpoint(t.Context(), &wire.Endpoint{
			Tenant: tenant, URL: r.URL, Topics: []string{topic}, Secret: secret.Reveal(),
		})
		require.NoError(t, err)
	}
	m := message("one", "")
	m.Tenant = "shop"
	r.answer <- struct{}{}
	published, err := p.client().Publish(t.Context(), m)
	require.NoError(t, err)
	require.Equal(t, 1, published.Matched)
	require.Equal(t, "one", r.await(t))
	require.NoError(t, p.end())
}

func TestADryRunChangesNothing(t *testing.T) {
	p := start(t, newTestOptions(redistest.Start(t).URL()))
	c, e := p.client(), &wire.Endpoint{UID: "main", URL: "https://shop.example/", Headers: map[string]string{"x-token": "1"}}
	tried, created, err := c.TryCreateEndpoint(t.Context(), e)
	require.NoError(t, err)
	require.True(t, created)
	require.Equal(t, []any{"", "", "main", "active"}, []any{tried.ID, tried.Secret, tried.UID, tried.State})
	_, err = c.Endpoint(t.Context(), "main")
	require.ErrorIs(t, err, client.ErrNotFound)
	_, _, err = c.TryCreateEndpoint(t.Context(), &wire.Endpoint{URL: "https://10.1.2.3/"})
	require.ErrorContains(t, err, "$.url")

	made, _, err := c.CreateEndpoint(t.Context(), e)
	require.NoError(t, err)
	same, created, err := c.TryCreateEndpoint(t.Context(), e)
	require.NoError(t, err)
	require.Equal(t, []any{false, made.ID}, []any{created, same.ID})
	_, _, err = c.TryCreateEndpoint(t.Context(), &wire.Endpoint{UID: "main", URL: "https://other.example/"})
	require.ErrorIs(t, err, client.ErrConflict)

	_, err = c.TryPatchEndpoint(t.Context(), "main", map[string]any{"timeout": "1h"})
	require.ErrorContains(t, err, "$.timeout")
	_, err = c.TryPatchEndpoint(t.Context(), "other", map[string]any{})
	require.ErrorIs(t, err, client.ErrNotFound)
	patched, err := c.TryPatchEndpoint(t.Context(), "main", map[string]any{"description": "new", "disabled": true})
	require.NoError(t, err)
	require.Equal(t, []any{"new", "disabled", false}, []any{patched.Description, patched.State, patched.UpdatedAt.Equal(made.UpdatedAt.Time)})
	for _, patch := range []func(context.Context, string, any) (wire.EndpointView, error){c.TryPatchEndpoint, c.PatchEndpoint} {
		patched, err = patch(t.Context(), "main", map[string]any{"headers": map[string]string{"X-Token": "2", "x-token": "***"}})
		require.Error(t, err)
		patched, err = patch(t.Context(), "main", map[string]any{"url": e.URL, "headers": e.Headers})
		require.NoError(t, err)
		require.Equal(t, made.UpdatedAt, patched.UpdatedAt, "it is as it was")
	}
	now, err := c.Endpoint(t.Context(), "main")
	require.NoError(t, err)
	made.Secret = ""
	require.Equal(t, made, now)
	audit, err := c.Audit(t.Context(), client.AuditFilter{})
	require.NoError(t, err)
	require.Len(t, audit.Data, 1, "only the endpoint's creation")
	require.NoError(t, p.end())
}

func TestAnEncryptionKeyHidesSecretsInTheStore(t *testing.T) {
	const hidden = "whsec_SGlkZGVuSGlkZGVuSGlkZGVuSGlkZGVu"
	redisURL := redistest.Start(t).URL()
	o := newTestOptions(redisURL)
	var err error
	o.Seal, err = app.ParseEncryptionKeys("MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=")
	require.NoError(t, err)
	p := start(t, o)
	_, _, err = p.client().CreateEndpoint(t.Context(), &wire.Endpoint{
		UID: "main", URL: "http://127.0.0.1:1/", Secret: hidden, Headers: map[string]string{"x-token": "HiddenToo"},
	})
	require.NoError(t, err)
	secrets, err := p.client().EndpointSecret(t.Context(), "main")
	require.NoError(t, err)
	require.Equal(t, hidden, secrets.Secrets[0].Secret)

	opts, err := redis.ParseURL(redisURL)
	require.NoError(t, err)
	rdb := redis.NewClient(opts)
	defer rdb.Close() //nolint:errcheck // it was read
	stored, err := rdb.HGetAll(t.Context(), "{test}:endpoints").Result()
	require.NoError(t, err)
	require.Len(t, stored, 1)
	for _, text := range stored {
		require.Contains(t, text, "main")
		require.NotContains(t, text, "SGlkZGVu")
		require.NotContains(t, text, "HiddenToo")
	}
	require.NoError(t, p.end())
}

func TestALaneTakesNoMoreThanMayWait(t *testing.T) {
	o := newTestOptions(redistest.Start(t).URL())
	o.MaxWaiting = 1
	p := start(t, o)
	_, err := p.client().PauseLane(t.Context(), "http://127.0.0.1:1/", "")
	require.NoError(t, err)
	_, err = p.client().Publish(t.Context(), message("one", "http://127.0.0.1:1/"))
	require.NoError(t, err)
	_, err = p.client().Publish(t.Context(), message("two", "http://127.0.0.1:1/"))
	var full *client.Problem
	require.ErrorAs(t, err, &full)
	require.Equal(t, http.StatusTooManyRequests, full.Status)
	require.NoError(t, p.end())
}

func TestTheBreakerOpensAsAskedFor(t *testing.T) {
	o := newTestOptions(redistest.Start(t).URL())
	o.BreakerFailures, o.BreakerWait = 1, time.Hour
	p := start(t, o)
	_, err := p.client().Publish(t.Context(), message("one", "http://127.0.0.1:1/"))
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		lanes, err := p.client().Lanes(context.WithoutCancel(t.Context()), 0, "")
		return err == nil && len(lanes.Data) == 1 && lanes.Data[0].State == "open"
	}, patience, 10*time.Millisecond)
	require.NoError(t, p.end())
}

func TestATenantsBareURLsMayHaveASecretOfTheirOwn(t *testing.T) {
	v := &signer.Verifier{Secrets: []signer.Secret{secret.Derive("shop")}}
	genuine := make(chan error, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, err := v.VerifyRequest(r)
		genuine <- err
	}))
	t.Cleanup(server.Close)
	o := newTestOptions(redistest.Start(t).URL())
	o.Engine.DeriveTenant = true
	p := start(t, o)
	m := message("one", server.URL)
	m.Tenant = "shop"
	_, err := p.client().Publish(t.Context(), m)
	require.NoError(t, err)
	select {
	case err := <-genuine:
		require.NoError(t, err)
	case <-time.After(patience):
		require.FailNow(t, "nothing is delivered")
	}
	require.NoError(t, p.end())
}
