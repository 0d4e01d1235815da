package egress_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/egress"
)

func TestReceiverThatIsNotThereIsNoConnection(t *testing.T) {
	at := "127.0.0.1:" + freePort(t)
	u := mustURL(t, "http://user:pass@"+at+"/path?token=secret")
	a := send(t, newTestClient(t, quickRetries(1)), newTestCall(u))
	require.Equal(t, dispatcher.ClassConnect, a.Class)
	require.EqualError(t, a.Err, "connect to "+at+": connection refused")
}

func TestCallThatIsCalledOffSaysSo(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	r := newTestReceiver(t, func(_ *receiver, c *net.TCPConn, _ int) {
		stop()
		_, _ = io.Copy(io.Discard, c)
	})
	a := newTestClient(t, quickRetries(1)).Send(ctx, newTestCall(r.url(t)))
	require.ErrorIs(t, a.Err, context.Canceled)
	require.EqualError(t, a.Err, "the attempt was cancelled")
	require.Zero(t, a.Status)
}

func TestCallThatCannotBeMadeIsOurOwnFault(t *testing.T) {
	c := newTestClient(t)
	call := newTestCall(mustURL(t, "http://127.0.0.1:1/"))
	call.Header = http.Header{"X-Bad": {"line\r\nbreak"}}
	a := send(t, c, call)
	require.Equal(t, dispatcher.ClassInternal, a.Class)
	require.ErrorContains(t, a.Err, "X-Bad")
	require.NotContains(t, a.Err.Error(), "break")

	for _, u := range []string{"ftp://127.0.0.1/", "http:///x", "127.0.0.1"} {
		a := send(t, c, newTestCall(mustURL(t, u)))
		require.Equal(t, dispatcher.ClassInternal, a.Class, u)
		require.Error(t, a.Err, u)
	}
}

func TestNameThatIsNotResolved(t *testing.T) {
	t.Parallel()
	c := newTestClient(t, known(names{"empty.example": nil}))
	a := send(t, c, newTestCall(mustURL(t, "http://nobody.example/")))
	require.Equal(t, dispatcher.ClassDNS, a.Class)
	require.EqualError(t, a.Err, "lookup nobody.example: no such host")

	a = send(t, c, newTestCall(mustURL(t, "http://empty.example/")))
	require.Equal(t, dispatcher.ClassDNS, a.Class)
	require.EqualError(t, a.Err, "lookup empty.example: no addresses")

	a = sendWithin(t, c, newTestCall(mustURL(t, "http://slow.example/")), brief)
	require.Equal(t, dispatcher.ClassDNS, a.Class)
	require.ErrorContains(t, a.Err, "lookup")
}

func TestAddressThatMayNotBeCalledIsRefused(t *testing.T) {
	r := newTestReceiver(t, serve(plainOK))
	port := r.url(t).Port()
	c := egress.New(egress.Options{QuickRetries: 2, Resolver: names{
		"inside.example": {"10.1.2.3", "fd00::1"},
		"loop.example":   {"127.0.0.1"},
		"mapped.example": {"::ffff:127.0.0.1"},
	}})
	defer c.Close()
	for host, want := range map[string]string{
		"127.0.0.1":              "127.0.0.1 is loopback; allow it with ALLOW_NETS=127.0.0.1/32",
		"2130706433":             "127.0.0.1 is loopback; allow it with ALLOW_NETS=127.0.0.1/32",
		"0x7f.1":                 "127.0.0.1 is loopback; allow it with ALLOW_NETS=127.0.0.1/32",
		"[::ffff:127.0.0.1]":     "127.0.0.1 is loopback; allow it with ALLOW_NETS=127.0.0.1/32",
		"loop.example":           "127.0.0.1 is loopback; allow it with ALLOW_NETS=127.0.0.1/32",
		"mapped.example":         "127.0.0.1 is loopback; allow it with ALLOW_NETS=127.0.0.1/32",
		"inside.example":         "10.1.2.3 is private; allow it with ALLOW_NETS=10.1.2.3/32",
		"[64:ff9b::169.254.1.1]": "64:ff9b::a9fe:101 (169.254.1.1) is link-local; allow it with ALLOW_NETS=169.254.1.1/32",
	} {
		a := send(t, c, newTestCall(mustURL(t, "http://"+host+":"+port+"/")))
		require.Equal(t, dispatcher.ClassRefused, a.Class, host)
		require.EqualError(t, a.Err, want, host)
		var refused *egress.RefusedError
		require.True(t, errors.As(a.Err, &refused))
	}
	require.Zero(t, r.accepted.Load())
}

func TestNameWithSomeAddressesRefusedUsesTheOthers(t *testing.T) {
	r := newTestReceiver(t, serve(plainOK))
	port := r.url(t).Port()
	c := newTestClient(t, known(names{
		"mixed.example": {"10.1.2.3", "::1", "127.0.0.1"},
		"twice.example": {"127.0.0.2", "127.0.0.1"},
		"dead.example":  {"10.1.2.3", "127.0.0.2", "127.0.0.3"},
	}), allowed(t, "127.0.0.0/8"))
	for _, host := range []string{"mixed.example", "twice.example"} {
		a := send(t, c, newTestCall(mustURL(t, "http://"+host+":"+port+"/")))
		require.NoError(t, a.Err, host)
		require.Equal(t, 200, a.Status, host)
	}
	a := send(t, c, newTestCall(mustURL(t, "http://dead.example:"+port+"/")))
	require.Equal(t, dispatcher.ClassConnect, a.Class, "a refused address beside one that is down does not end the delivery")
	require.EqualError(t, a.Err, "connect to 127.0.0.2:"+port+": connection refused")
}

func TestHTTPIsRefusedWhereOnlyHTTPSMay(t *testing.T) {
	c := newTestClient(t, func(o *egress.Options) { o.HTTPSOnly = true })
	a := send(t, c, newTestCall(mustURL(t, "http://127.0.0.1:1/")))
	require.Equal(t, dispatcher.ClassRefused, a.Class)
	require.ErrorContains(t, a.Err, "HTTPS_ONLY")
}

// TestNameThatIsNotInASCIIIsNotLookedUp, wherever it may point.
func TestNameThatIsNotInASCIIIsNotLookedUp(t *testing.T) {
	lookups := &counting{}
	c := newTestClient(t, func(o *egress.Options) { o.Resolver = lookups })
	a := send(t, c, newTestCall(mustURL(t, "http://bücher.example/")))
	require.Equal(t, dispatcher.ClassRefused, a.Class)
	require.ErrorContains(t, a.Err, "write it in punycode")
	require.Zero(t, lookups.n.Load())
}
