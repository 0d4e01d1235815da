package egress_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/egress"
)

// networksOf lets an operator's URLs call some networks, and a link's URLs others.
func networksOf(t testing.TB, operator, link []string) func(*egress.Options) {
	return func(o *egress.Options) {
		o.Guard = egress.NewGuard(mustPrefixes(t, operator...))
		o.LinkGuard = egress.NewLinkGuard(mustPrefixes(t, link...))
		o.Resolver = names{"loop.example": {"127.0.0.1"}, "inside.test": {"10.1.2.3"}}
	}
}

func TestAURLThatALinkSetHasNetworksOfItsOwn(t *testing.T) {
	r := newTestReceiver(t, serve(plainOK))
	port, loop := r.url(t).Port(), []string{"127.0.0.1/32"}
	for name, c := range map[string]struct {
		operator, link []string
		open           map[bool]bool // by whether a link set the URL
	}{
		"only the operator's": {loop, nil, map[bool]bool{false: true, true: false}},
		"only the link's":     {nil, loop, map[bool]bool{false: false, true: true}},
		"both":                {loop, loop, map[bool]bool{false: true, true: true}},
		"neither":             {nil, nil, map[bool]bool{false: false, true: false}},
	} {
		client := newTestClient(t, networksOf(t, c.operator, c.link))
		for _, host := range []string{"127.0.0.1", "loop.example", "0x7f.1"} {
			for linked, open := range c.open {
				call := newTestCall(mustURL(t, "http://"+host+":"+port+"/"))
				call.Linked = linked
				a := send(t, client, call)
				require.Equal(t, open, a.Status == 200, "%s, %s, by a link: %t: %v", name, host, linked, a.Err)
				if open {
					continue
				}
				setting := map[bool]string{false: "with ALLOW_NETS=127.0.0.1/32", true: "with LINK_ALLOW_NETS=127.0.0.1/32"}[linked]
				require.Equal(t, dispatcher.ClassRefused, a.Class)
				require.ErrorContains(t, a.Err, setting)
			}
		}
	}
}

func TestWhereNothingIsSetALinkReachesOnlyTheInternet(t *testing.T) {
	r := newTestReceiver(t, serve(plainOK))
	call := newTestCall(r.url(t))
	call.Linked = true
	require.Equal(t, dispatcher.ClassRefused, send(t, newTestClient(t), call).Class)
	require.Zero(t, r.accepted.Load())
}

func TestAProxyIsNotAskedForWhatALinkMayNotReach(t *testing.T) {
	p, _ := newTestTunnel(t, nil)
	c := through(t, p.url(t), networksOf(t, []string{"0.0.0.0/0", "::/0"}, nil))
	for _, host := range []string{"inside.test", "127.0.0.1"} {
		for _, scheme := range []string{"http", "https"} {
			call := newTestCall(mustURL(t, scheme+"://"+host+"/ok"))
			call.Linked = true
			require.ErrorContains(t, send(t, c, call).Err, "LINK_ALLOW_NETS=")
		}
	}
	require.Empty(t, p.targets())
}

// Each connection was judged by the rules of the person who set its URL.
func TestALinksURLSharesNoConnectionWithAnOperators(t *testing.T) {
	loop := []string{"127.0.0.1/32"}
	r := newTestReceiver(t, serve(plainOK))
	c := newTestClient(t, networksOf(t, loop, loop))
	for range 2 {
		for n, linked := range []bool{false, true} {
			call := newTestCall(r.url(t))
			call.Linked = linked
			require.Equal(t, 200, send(t, c, call).Status)
			require.GreaterOrEqual(t, int(r.accepted.Load()), n+1)
		}
	}
	require.EqualValues(t, 2, r.accepted.Load(), "each of them is used again by its own kind")

	closed := newTestClient(t, networksOf(t, loop, nil))
	call := newTestCall(r.url(t))
	require.Equal(t, 200, send(t, closed, call).Status)
	call.Linked = true
	require.Equal(t, dispatcher.ClassRefused, send(t, closed, call).Class, "an idle connection is no way around")
}

func TestALinkGuardNamesItsSetting(t *testing.T) {
	g := egress.NewLinkGuard(mustPrefixes(t, "10.1.0.0/16"))
	require.NoError(t, g.Addr(at("10.1.2.3")))
	require.EqualError(t, g.Addr(at("10.2.0.1")), "10.2.0.1 is private; allow it with LINK_ALLOW_NETS=10.2.0.1/32")
	require.ErrorContains(t, g.URL(mustURL(t, "http://localhost/")), "LINK_ALLOW_NETS=127.0.0.1/32")
}
