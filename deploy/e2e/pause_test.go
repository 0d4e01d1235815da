package e2e_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

func TestAURLIsPausedForOneTenantOrForAll(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.serve("PARTITIONS=4")
	url, tenants := w.receiver.URL(0)+"/hooks", []string{"", "t1", "t2", "t3", "t4", "t5"}
	send := func(round string) {
		for n, tenant := range tenants {
			i.publish(wire.Message{ID: fmt.Sprint(round, n), Tenant: tenant, URL: url})
		}
	}
	send("first")
	for n := range tenants {
		i.until(fmt.Sprint("first", n), "delivered")
	}
	state, err := i.PauseLane(t.Context(), url, "t1")
	require.NoError(t, err)
	require.Equal(t, &wire.OtherTenants{Lanes: 5}, state.OtherTenants)
	send("second")
	for n, tenant := range tenants {
		if tenant != "t1" {
			i.until(fmt.Sprint("second", n), "delivered")
		}
	}
	require.Equal(t, "paused", i.until("second1", "ready").WaitingFor)

	state, err = i.PauseTenants(t.Context(), url, "")
	require.NoError(t, err)
	require.Equal(t, &wire.OtherTenants{Lanes: 5, Changed: 5}, state.OtherTenants)
	send("third")
	for n := range tenants {
		require.Equal(t, "paused", i.until(fmt.Sprint("third", n), "ready").WaitingFor)
	}
	state, err = i.ResumeTenants(t.Context(), url, "")
	require.NoError(t, err)
	require.Equal(t, &wire.OtherTenants{Lanes: 5, Changed: 5}, state.OtherTenants)
	for n := range tenants {
		i.until(fmt.Sprint("third", n), "delivered")
	}
	i.until("second1", "delivered")

	_, err = i.PauseLane(t.Context(), "u_AbCdEfGhIj", "")
	var p *client.Problem
	require.ErrorAs(t, err, &p)
	require.Equal(t, 404, p.Status, "such a lane is not there")
}
