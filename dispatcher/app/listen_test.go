package app_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher/app"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
)

// Without keys the API takes a call from this host for the operator's.
func TestAMessageNeverCallsOurOwnListeners(t *testing.T) {
	newTestResolver(t) // knows 127.0.0.1 by every name
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, ln.Close())
	o := newTestOptions(redistest.Start(t).URL())
	o.MetricsListen = ln.Addr().String()
	p := start(t, o)
	for name, url := range map[string]string{"api": p.api, "metrics": "http://" + o.MetricsListen} {
		_, err := p.client().Publish(t.Context(), message(name, url+"/v1/lanes/*/pause"))
		require.ErrorContains(t, err, "127.0.0.1 is our own listener, which is never called")
		_, err = p.client().Publish(t.Context(), message(name, strings.Replace(url, "127.0.0.1", "shop.example", 1)+"/v1/lanes/*/pause"))
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			m, err := p.client().Message(t.Context(), name)
			return err == nil && m.Deliveries[0].DeadReason == "refused" && strings.Contains(m.Deliveries[0].LastError, "our own listener")
		}, patience, 10*time.Millisecond, name)
	}
	require.NoError(t, p.end())
}

// An instance publishes its listeners, so that another one of this host does not call them either.
func TestAMessageNeverCallsAnotherInstance(t *testing.T) {
	newTestResolver(t) // knows 127.0.0.1 by every name
	redis := redistest.Start(t)
	one := newTestOptions(redis.URL())
	one.Engine.MaxInFlight = 0 // the other one delivers
	p, other := start(t, one), start(t, newTestOptions(redis.URL()))
	tries := 0
	require.Eventually(t, func() bool {
		tries++
		_, err := other.client().Publish(t.Context(), message(fmt.Sprint("known", tries), p.api+"/none"))
		return err != nil && strings.Contains(err.Error(), "127.0.0.1 is our own listener")
	}, patience, 10*time.Millisecond, "it knows the listeners of the other one after the next beat")
	_, err := other.client().Publish(t.Context(), message("m", strings.Replace(p.api, "127.0.0.1", "shop.example", 1)+"/v1/lanes/*/pause"))
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		m, err := other.client().Message(t.Context(), "m")
		return err == nil && m.Deliveries[0].DeadReason == "refused" && strings.Contains(m.Deliveries[0].LastError, "our own listener")
	}, patience, 10*time.Millisecond)
	require.NoError(t, p.end())
	require.NoError(t, other.end())
}

func TestALoopbackListenerIsOfItsHost(t *testing.T) {
	loop, lan := netip.MustParseAddrPort("127.0.0.1:8080"), netip.MustParseAddrPort("10.1.2.3:8080")
	here := redisq.InstanceName()
	for name, want := range map[string][]netip.AddrPort{
		here: {loop, lan}, here + "-2": {loop, lan}, "elsewhere-01JZZZZZZZZZZZZZZZZZZZZZZZ": {lan}, "x" + here: {lan}, here + "-x": {lan}, here + "x": {lan}, "": {lan},
	} {
		require.Equal(t, want, app.Reached(map[string][]netip.AddrPort{name: {loop, lan}}), name)
	}
}

// A firewall that was made for the IPv4 address named may leave IPv6 open.
func TestAnIPv4AddressIsListenedOnInIPv4Only(t *testing.T) {
	ln, err := app.Listen(t.Context(), "0.0.0.0:0")
	require.NoError(t, err)
	defer ln.Close() //nolint:errcheck // the test is over
	require.NotNil(t, ln.Addr().(*net.TCPAddr).IP.To4(), "%s", ln.Addr())
	all, err := app.Listen(t.Context(), ":0")
	require.NoError(t, err)
	require.NoError(t, all.Close())
}

func TestWhatIsOpenOnALoopbackAddressAnswersNoPageOfAnotherSite(t *testing.T) {
	h := httpapi.Local(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	for host, want := range map[string]int{"127.0.0.1:9100": http.StatusTeapot, "localhost": http.StatusTeapot, "rebound.example": http.StatusForbidden} {
		r := httptest.NewRequest("GET", "/metrics", nil)
		r.Host = host
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.Equal(t, want, w.Code, host)
	}
}
