package redisqtest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/signer"
)

// Endpoint returns an endpoint with one secret and one header.
func Endpoint(id string) *dispatcher.Endpoint {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	return &dispatcher.Endpoint{
		ID: id, Version: 1, UID: "uid of " + id, Tenant: "shop", URL: "https://example.com/hook", Topics: []string{"*"},
		Signature: signer.Standard, Secrets: []dispatcher.EndpointSecret{{Secret: signer.NewSecret()}},
		Headers:   []dispatcher.Header{{Name: "X-Token", Value: "token-of-" + id}},
		CreatedAt: at, UpdatedAt: at,
	}
}

// MustCreate creates endpoints.
func MustCreate(t testing.TB, store dispatcher.EndpointStore, all ...*dispatcher.Endpoint) {
	t.Helper()
	for _, e := range all {
		_, err := store.CreateEndpoint(t.Context(), e)
		require.NoError(t, err)
	}
}

// MustDelete deletes one.
func MustDelete(t testing.TB, store dispatcher.EndpointStore, id string) {
	t.Helper()
	_, err := store.DeleteEndpoint(t.Context(), id)
	require.NoError(t, err)
}

// NextVersion returns a new version of an endpoint, which may follow it.
func NextVersion(e *dispatcher.Endpoint) *dispatcher.Endpoint {
	c := *e
	c.Version++
	return &c
}
