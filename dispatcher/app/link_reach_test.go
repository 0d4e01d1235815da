package app_test

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher/app"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

const shopToken = "Bearer SHOP-TOKEN"

// tokenTaker is a receiver that keeps the tokens that it was sent, and may redirect.
type tokenTaker struct {
	*httptest.Server
	mu     sync.Mutex // guards tokens
	tokens []string
}

func newTokenTaker(t testing.TB, redirect string) *tokenTaker {
	t.Helper()
	r := &tokenTaker{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.mu.Lock()
		r.tokens = append(r.tokens, q.Header.Get("Authorization"))
		r.mu.Unlock()
		if redirect != "" {
			http.Redirect(w, q, redirect, http.StatusTemporaryRedirect)
			return
		}
		_, _ = w.Write([]byte(q.Header.Get("Authorization"))) // an echo
	}))
	t.Cleanup(r.Close)
	return r
}

// took are the tokens that came since the last call.
func (r *tokenTaker) took() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.tokens
	r.tokens = nil
	return all
}

// landed is the page that an action leads to.
func (p *person) landed(got page) page {
	p.t.Helper()
	if to := got.Header.Get("Location"); to != "" {
		return p.get(to)
	}
	return got
}

// A link moves an endpoint at one instance; at none do the operator's headers follow.
func TestALinkThatMovesAnEndpointGetsNoneOfItsHeaders(t *testing.T) {
	for name, sealed := range map[string]bool{"plain": false, "sealed": true} {
		t.Run(name, func(t *testing.T) {
			redis := redistest.Start(t)
			instance := func() *process {
				o := peoplesOptions(t, redis.URL())
				if sealed {
					var err error
					o.Seal, err = app.ParseEncryptionKeys("MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=")
					require.NoError(t, err)
				}
				return start(t, o)
			}
			all := []*process{instance(), instance()}
			boss := all[0].boss()
			own, merchants := newTokenTaker(t, ""), newTokenTaker(t, "")
			leads := newTokenTaker(t, merchants.URL+"/behind")
			e, _, err := boss.CreateEndpoint(t.Context(), &wire.Endpoint{Tenant: "A", URL: own.URL, Headers: map[string]string{"Authorization": shopToken}})
			require.NoError(t, err)
			path, _ := all[0].mustLink(wire.LinkRequest{Tenant: "A", Endpoint: e.ID, Manage: true})
			var who []*person
			for i, p := range all { // each keeps the endpoint as it is now
				who = append(who, p.openedLink(path))
				p.mustDeliver([]string{"m1", "m2"}[i], "A", e.ID)
			}
			require.Equal(t, []string{shopToken, shopToken}, own.took())

			at := "/link/endpoints/" + e.ID
			move := func(from *person, was, to string) {
				t.Helper()
				got := from.post(at, url.Values{"url": {to}, "was.url": {was}})
				require.Equal(t, http.StatusSeeOther, got.StatusCode, got.text)
			}
			for _, to := range []string{merchants.URL, own.URL + "/other", leads.URL} {
				move(who[0], own.URL, to)
				for _, one := range who {
					got := one.landed(one.post(at+"/test", nil))
					require.NotContains(t, got.text, "SHOP-TOKEN")
					require.Contains(t, one.get(at).text, "Extra headers are held")
					require.NotContains(t, one.get(at).text, "Authorization", "not even their names")
				}
				require.Contains(t, who[0].get("/link/endpoints").text, "headers held")
				require.Equal(t, []string{"", ""}, append(append(merchants.took(), own.took()...), leads.took()...), to)
				move(who[0], to, own.URL)
			}
			got := who[1].landed(who[1].post(at+"/test", nil))
			require.Equal(t, http.StatusOK, got.StatusCode)
			require.Equal(t, []string{shopToken}, own.took(), "they are for this URL")
			require.NotContains(t, who[1].get(at).text, "Extra headers are held")

			move(who[0], own.URL, merchants.URL)
			for i, p := range all {
				require.Equal(t, http.StatusOK, who[i].landed(who[i].post(at+"/test", nil)).StatusCode)
				p.mustDeliver([]string{"m3", "m4"}[i], "A", e.ID)
				_, err := p.boss().Resend(t.Context(), []string{"m1", "m2"}[i])
				require.NoError(t, err)
			}
			var tokens []string
			require.Eventually(t, func() bool { tokens = append(tokens, merchants.took()...); return len(tokens) == 6 }, patience, time.Millisecond)
			require.Equal(t, make([]string, 6), tokens)

			view, err := boss.PatchEndpoint(t.Context(), e.ID, map[string]any{"headers": map[string]string{"X-Version": "2"}})
			require.NoError(t, err)
			require.Equal(t, []string{"Authorization", "X-Version"}, view.HeldHeaders, "the operator may not have seen the URL")
			view, err = boss.PatchEndpoint(t.Context(), e.ID, map[string]any{"url": merchants.URL, "headers": map[string]string{"X-Version": "3"}})
			require.NoError(t, err)
			require.Equal(t, []string{"X-Version"}, view.ReleasedHeaders)
			view, err = boss.ResumeEndpoint(t.Context(), e.ID)
			require.NoError(t, err)
			require.Equal(t, []string{"Authorization"}, view.HeldHeaders)
			for i, p := range all {
				p.mustDeliver([]string{"m7", "m8"}[i], "A", e.ID)
			}
			require.Equal(t, []string{"", ""}, merchants.took(), "no other change confirms the URL")
			_, err = boss.ConfirmEndpoint(t.Context(), e.ID, own.URL)
			require.ErrorIs(t, err, client.ErrConflict)
			admin := all[1].signedIn("boss")
			form := admin.get("/console/endpoints/" + e.ID).text
			require.Contains(t, form, `<input type="hidden" name="url" value="`+merchants.URL+`">`)
			require.NotContains(t, all[1].signedIn("support").get("/console/endpoints/"+e.ID).text, "Confirm this URL")
			moved := admin.post("/console/endpoints/"+e.ID+"/confirm", url.Values{"url": {own.URL}})
			require.Equal(t, http.StatusConflict, moved.StatusCode, "another page showed that one")
			confirmed := admin.landed(admin.post("/console/endpoints/"+e.ID+"/confirm", url.Values{"url": {merchants.URL}}))
			require.Contains(t, confirmed.text, "Confirmed.")
			require.NotContains(t, confirmed.text, "Confirm this URL")
			for i, p := range all {
				p.mustDeliver([]string{"m5", "m6"}[i], "A", e.ID)
			}
			require.Equal(t, []string{shopToken, shopToken}, merchants.took())
			audit, err := boss.Audit(t.Context(), client.AuditFilter{What: []string{"endpoint.confirm"}})
			require.NoError(t, err)
			require.Equal(t, []string{"key:boss", e.ID, "url " + merchants.URL + ", releases Authorization"}, []string{audit.Data[0].By, audit.Data[0].Target, audit.Data[0].Detail})
			audit, err = boss.Audit(t.Context(), client.AuditFilter{What: []string{"endpoint.update"}})
			require.NoError(t, err)
			require.Equal(t, "headers, url, releases X-Version, holds Authorization", audit.Data[0].Detail)
			require.Equal(t, "headers, holds Authorization X-Version", audit.Data[1].Detail)
		})
	}
}

// ALLOW_NETS is for the operator's receivers. A link reaches only what LINK_ALLOW_NETS names,
// and its pages name no address.
func TestALinkDoesNotReachTheOperatorsNetworks(t *testing.T) {
	o := peoplesOptions(t, redistest.Start(t).URL())
	o.LinkNets = nil
	p := start(t, o)
	inside := newTokenTaker(t, "")
	e := p.mustEndpoint("A", inside.URL)
	p.mustDeliver("m1", "A", e)
	require.Len(t, inside.took(), 1, "the operator's own URL is called")
	path, _ := p.mustLink(wire.LinkRequest{Tenant: "A", Manage: true})
	who, at := p.openedLink(path), "/link/endpoints/"+e
	requireNoAddress := func(got page) {
		t.Helper()
		require.Contains(t, got.text, "its address may not be called")
		for _, word := range []string{"loopback", "ALLOW_NETS", "10.0.0.7"} {
			require.NotContains(t, got.text, word)
		}
	}
	for _, to := range []string{"http://127.0.0.1:1/", "http://localhost:1/", "http://10.0.0.7/"} {
		got := who.post(at, url.Values{"url": {to}, "was.url": {inside.URL}})
		require.Equal(t, http.StatusUnprocessableEntity, got.StatusCode)
		require.Contains(t, got.text, "its address may not be called")
		got = who.post("/link/endpoints", url.Values{"url": {to}})
		require.Equal(t, http.StatusUnprocessableEntity, got.StatusCode)
	}

	// A name may lead inside, which shows only when it is called.
	host, err := os.Hostname()
	require.NoError(t, err)
	if !resolves(t, host) {
		t.Log("this host's name does not lead to itself: not tested")
		return
	}
	name := strings.Replace(inside.URL, "127.0.0.1", host, 1)
	got := who.post(at, url.Values{"url": {name}, "was.url": {inside.URL}})
	require.Equal(t, http.StatusSeeOther, got.StatusCode, got.text)
	requireNoAddress(who.landed(who.post(at+"/test", nil)))
	boss := p.boss()
	_, err = boss.ResumeEndpoint(t.Context(), e)
	require.NoError(t, err)
	_, err = boss.Publish(t.Context(), &wire.Message{ID: "m2", Tenant: "A", Topic: "a.b", Endpoint: e, Body: json.RawMessage(`1`)})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		m, err := boss.Message(t.Context(), "m2")
		return err == nil && m.Deliveries[0].Status == "dead"
	}, patience, time.Millisecond)
	requireNoAddress(who.get(at))
	requireNoAddress(who.get("/link/messages/m2"))
	require.Empty(t, inside.took())
	m, err := boss.Message(t.Context(), "m2")
	require.NoError(t, err)
	require.Contains(t, m.Deliveries[0].LastError, "LINK_ALLOW_NETS=", "the operator reads the cure")

	_, err = boss.ConfirmEndpoint(t.Context(), e, name)
	require.NoError(t, err)
	p.mustDeliver("m3", "A", e)
	require.Len(t, inside.took(), 1, "a URL that the operator confirmed is the operator's")
}

func resolves(t testing.TB, name string) bool {
	found, err := net.DefaultResolver.LookupHost(t.Context(), name)
	return err == nil && slices.Equal(found, []string{"127.0.0.1"})
}
