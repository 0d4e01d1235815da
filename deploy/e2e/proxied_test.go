package e2e_test

import (
	"net"
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/deploy/kit/redistest"
)

// signInFrom signs in at the console, from an address of this host. It returns why that was
// refused; empty: it was not.
func signInFrom(t testing.TB, address, api, key string) (wrong string) {
	t.Helper()
	dial := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	c := http.Client{
		Transport:     &http.Transport{DialContext: dial.DialContext, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	res, err := c.PostForm(api+"/console/sign-in", url.Values{"key": {key}})
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusSeeOther, res.StatusCode)
	to, err := res.Location()
	require.NoError(t, err)
	return to.Query().Get("wrong")
}

// Wrong keys from one address behind a proxy keep no other address out, and no right key.
func TestBehindNginxWrongKeysAreCountedByAddress(t *testing.T) {
	t.Parallel()
	redistest.Long(t)
	path := nginx(t)
	if path == "" {
		t.Log("nginx is not here and can't be installed: not tested")
		return
	}
	w := newWorld(t)
	f := newTrio(w, "PUBLIC_URL=http://console.test")
	port, err := kit.FreePort()
	require.NoError(t, err)
	listen := kit.Loopback(port)
	api := startNginx(t, path, listen, nginxBlock(t, listen, f.addresses))
	eventually(t, "calls are led to the fleet", func() bool {
		res, err := http.Get(api + "/readyz")
		return err == nil && res.Body.Close() == nil && res.StatusCode == http.StatusOK
	})
	refused := map[string]int{}
	for range 60 { // ten at each instance
		refused[signInFrom(t, "127.0.0.2", api, "wrong-wrong-wrong-wrong")]++
	}
	require.Equal(t, map[string]int{"key": 30, "many": 30}, refused)
	require.Equal(t, "key", signInFrom(t, "127.0.0.3", api, "wrong-wrong-wrong-wrong"), "another address has its own count")
	for range 3 {
		require.Empty(t, signInFrom(t, "127.0.0.2", api, e2eKey), "a right key is never refused")
	}
}
