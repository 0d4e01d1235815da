package e2e_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
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

// proxies start each proxy of the documents before a fleet, and return their URLs.
func (f *trio) proxies() map[string]string {
	f.w.t.Helper()
	urls := map[string]string{}
	for name, begin := range map[string]func(path, listen string) string{
		"nginx": func(path, listen string) string {
			return startNginx(f.w.t, path, listen, nginxBlock(f.w.t, listen, f.addresses))
		},
		"caddy": func(path, listen string) string {
			return startCaddy(f.w.t, path, caddyBlock(f.w.t, listen, f.addresses), listen)
		},
	} {
		path := proxy(f.w.t, name)
		if path == "" {
			continue
		}
		port, err := kit.FreePort()
		require.NoError(f.w.t, err)
		urls[name] = begin(path, kit.Loopback(port))
		eventually(f.w.t, "calls are led to the fleet", func() bool {
			res, err := http.Get(urls[name] + "/readyz")
			return err == nil && res.Body.Close() == nil && res.StatusCode == http.StatusOK
		})
	}
	return urls
}

// Wrong keys from one address behind a proxy keep no other address out, and no right key.
func TestBehindAProxyWrongKeysAreCountedByAddress(t *testing.T) {
	t.Parallel()
	redistest.Long(t)
	f := newTrio(newWorld(t), "PUBLIC_URL=http://console.test")
	other := 10
	for name, api := range f.proxies() {
		other += 2
		wrong, another := fmt.Sprint("127.0.0.", other), fmt.Sprint("127.0.0.", other+1)
		refused := map[string]int{}
		for range 60 { // ten at each instance
			refused[signInFrom(t, wrong, api, "wrong-wrong-wrong-wrong")]++
		}
		require.Equal(t, map[string]int{"key": 30, "many": 30}, refused, name)
		require.Equal(t, "key", signInFrom(t, another, api, "wrong-wrong-wrong-wrong"), "another address has its own count")
		for range 3 {
			require.Empty(t, signInFrom(t, wrong, api, e2eKey), "a right key is never refused")
		}
	}
}

// A stream passes each proxy at once: no event waits for the next one.
func TestAStreamPassesEachProxyAtOnce(t *testing.T) {
	t.Parallel()
	redistest.Long(t)
	w := newWorld(t)
	f := newTrio(w)
	for name, api := range f.proxies() {
		c, err := client.New(api, e2eKey, kit.Once)
		require.NoError(t, err)
		ctx, enough := context.WithCancel(t.Context())
		events, ended := make(chan client.Event, 10), make(chan error, 1)
		go func() {
			ended <- c.Follow(ctx, client.AttemptFilter{}, "", func(e client.Event) error {
				events <- e
				return nil
			})
		}()
		// next waits for an event that no other event follows.
		next := func() client.Event {
			select {
			case e := <-events:
				return e
			case err := <-ended:
				require.NoError(t, err, name)
			case <-time.After(kit.Patience):
				require.Fail(t, "no event passes "+name)
			}
			return client.Event{}
		}
		require.Nil(t, next().Attempt, "the stream begins")
		id := "streamed-" + name
		front := &instance{Instance: &kit.Instance{Client: c, URL: api}, t: t, receiver: w.receiver}
		_, err = front.Publish(t.Context(), &wire.Message{ID: id, Topic: "t", URL: w.receiver.URL(1), Body: []byte(`{}`)})
		require.NoError(t, err)
		e := next()
		require.NotNil(t, e.Attempt)
		require.Equal(t, id, e.Attempt.MessageID)
		enough()
		<-ended
	}
}
