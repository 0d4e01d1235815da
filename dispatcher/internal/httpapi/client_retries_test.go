package httpapi_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/client"
)

// requireClientRetries asks for attempts by the client.
func requireClientRetries(t *testing.T, c *client.Client, f *Fake) {
	t.Helper()
	f.Left = []dispatcher.Left{"in_flight"}
	got, err := c.Retry(t.Context(), "a", "")
	require.NoError(t, err)
	require.Len(t, got, 3)
	require.Equal(t, "in_flight", got[0].Why)
	require.True(t, got[1].Retried)
	require.False(t, f.Delivered)
	_, err = c.Retry(t.Context(), "a", "u_1")
	require.NoError(t, err)
	require.EqualValues(t, "u_1", f.InLane)
	f.InLane = ""
	_, err = c.Resend(t.Context(), "a")
	require.NoError(t, err)
	require.True(t, f.Delivered)
	require.Empty(t, f.InLane)

	f.Left = []dispatcher.Left{"order", "expired", "delivered"}
	_, err = c.Retry(t.Context(), "a", "")
	var p *client.Problem
	require.True(t, errors.As(err, &p))
	require.Len(t, p.Deliveries, 3)
	require.Equal(t, "order", p.Deliveries[0].Why)
}
