package app_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

func TestAMerchantAddsAnEndpointAndTestsIt(t *testing.T) {
	p := start(t, peoplesOptions(t, redistest.Start(t).URL()))
	path, _ := p.mustLink(wire.LinkRequest{Tenant: "A", Manage: true})
	who := p.openedLink(path)
	got := who.post("/link/endpoints", url.Values{"url": {newTestTaker(t)}, "description": {"Our till"}, "tenant": {"B"}, "rate": {"1000/s"}})
	require.Equal(t, http.StatusOK, got.StatusCode, got.text)
	require.Contains(t, got.text, "whsec_", "its secret, this once")
	require.Equal(t, "no-store", got.Header.Get("Cache-Control"))
	list, err := p.boss().Endpoints(t.Context(), client.EndpointFilter{Tenants: []string{"A"}})
	require.NoError(t, err)
	require.Len(t, list.Data, 1)
	e := list.Data[0]
	require.Equal(t, "unverified", e.State)
	require.Empty(t, e.Rate, "limits are the operator's")
	require.Contains(t, who.get("/link/").text, "nothing is sent to it yet: run a test")
	require.NotContains(t, who.get("/link/endpoints/"+e.ID).text, "whsec_")

	got = who.post("/link/endpoints/"+e.ID+"/test", nil)
	require.Equal(t, http.StatusOK, got.StatusCode)
	require.Contains(t, got.text, "The test was taken")
	e, err = p.boss().Endpoint(t.Context(), e.ID)
	require.NoError(t, err)
	require.Equal(t, "active", e.State)

	_, err = p.boss().PatchEndpoint(t.Context(), e.ID, map[string]any{"disabled": true})
	require.NoError(t, err)
	require.Contains(t, who.get("/link/").text, "Switched off by the operator")
	got = who.post("/link/endpoints/"+e.ID+"/resume", nil)
	require.Equal(t, http.StatusConflict, got.StatusCode)
	require.Contains(t, got.text, "The operator switched this endpoint off")
}

func TestTheConsoleMakesAndRevokesALink(t *testing.T) {
	p := start(t, peoplesOptions(t, redistest.Start(t).URL()))
	boss := p.signedIn("boss")
	e := p.mustEndpoint("A", newTestTaker(t))
	require.Contains(t, boss.get("/console/endpoints/"+e).text, `href="/console/links?tenant=A&amp;endpoint=`+e+`"`)
	require.Contains(t, boss.get("/console/endpoints?tenant=A").text, `href="/console/links?tenant=A"`)
	got := boss.post("/console/links", url.Values{"tenant": {"B"}, "endpoint": {e}, "for": {"1h"}})
	require.Equal(t, http.StatusUnprocessableEntity, got.StatusCode)
	require.Contains(t, got.text, `id="w-endpoint"`)
	require.Contains(t, got.text, `value="B"`, "what was typed stays")

	got = boss.post("/console/links", url.Values{"tenant": {"A"}, "endpoint": {e}, "for": {"1h"}, "name": {"their <team>"}})
	require.Equal(t, http.StatusOK, got.StatusCode, got.text)
	require.Equal(t, "no-store", got.Header.Get("Cache-Control"))
	_, rest, ok := strings.Cut(got.text, "<code>http://console.test/link/")
	require.True(t, ok, "its URL, this once: %s", got.text)
	token, _, _ := strings.Cut(rest, "<")
	who := p.openedLink("/link/" + token)
	require.Contains(t, who.get("/link/").text, "Till of A")
	list := boss.get("/console/links")
	require.NotContains(t, list.text, token)
	require.Contains(t, list.text, "their &lt;team&gt;")
	_, rest, _ = strings.Cut(list.text, `action="/console/links/lnk_`)
	id, _, _ := strings.Cut(rest, "/")
	got = boss.post("/console/links/lnk_"+id+"/revoke", nil)
	require.Equal(t, "/console/links?told=revoked", got.Header.Get("Location"))
	require.Equal(t, http.StatusNotFound, who.get("/link/").StatusCode)
}
