package chaos_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
)

// network is a proxy for each slot between it and the store.
type network struct {
	t       testing.TB
	proxies map[string]*toxiproxy.Proxy // by slot
}

func newNetwork(t testing.TB, upstream string, slots ...string) *network {
	t.Helper()
	n := &network{t: t, proxies: map[string]*toxiproxy.Proxy{}}
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop())
	for _, slot := range slots {
		addr := fmt.Sprintf("127.0.0.1:%d", redistest.FreePort(t))
		p := toxiproxy.NewProxy(server, slot, addr, upstream)
		require.NoError(t, p.Start())
		t.Cleanup(p.Stop)
		n.proxies[slot] = p
	}
	return n
}

func (n *network) url(slot string) string { return "redis://" + n.proxies[slot].Listen + "/0" }

// cut closes all connections of a slot, and refuses new ones until mended.
func (n *network) cut(slot string) (mend func()) {
	n.proxies[slot].Stop()
	return func() { require.NoError(n.t, n.proxies[slot].Start()) }
}

// poison makes a slot's connections bad in both directions until mended.
func (n *network) poison(slot, toxic, attributes string) (mend func()) {
	toxics := n.proxies[slot].Toxics
	var names []string
	for _, stream := range []string{"upstream", "downstream"} {
		t, err := toxics.AddToxicJson(strings.NewReader(
			fmt.Sprintf(`{"type": %q, "stream": %q, "attributes": {%s}}`, toxic, stream, attributes)))
		require.NoError(n.t, err)
		names = append(names, t.Name)
	}
	return func() {
		for _, name := range names {
			require.NoError(n.t, toxics.RemoveToxic(context.Background(), name))
		}
	}
}
