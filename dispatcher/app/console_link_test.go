package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// boss is a client of the API that may do all.
func (p *process) boss() *client.Client {
	p.t.Helper()
	c, err := client.New(p.api, peoplesKeys["boss"], client.WithRepeats(client.Repeats{Tries: 1}))
	require.NoError(p.t, err)
	return c
}

// mustLink makes a link, and answers its path.
func (p *process) mustLink(r wire.LinkRequest) (path, id string) {
	p.t.Helper()
	made, err := p.boss().CreateLink(p.t.Context(), r)
	require.NoError(p.t, err)
	u, err := url.Parse(made.URL)
	require.NoError(p.t, err)
	return u.Path, made.ID
}

// openedLink is somebody who opened a link.
func (p *process) openedLink(path string) *person {
	p.t.Helper()
	who := newPerson(p.t, p.api)
	got := who.post(path, nil)
	require.Equal(p.t, http.StatusSeeOther, got.StatusCode, got.text)
	return who
}

// newTestTaker is a receiver that takes everything.
func newTestTaker(t testing.TB) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	t.Cleanup(s.Close)
	return s.URL
}

// mustEndpoint registers an endpoint of a tenant.
func (p *process) mustEndpoint(tenant, at string) string {
	p.t.Helper()
	e, _, err := p.boss().CreateEndpoint(p.t.Context(), &wire.Endpoint{Tenant: tenant, URL: at, Description: "Till of " + tenant})
	require.NoError(p.t, err)
	return e.ID
}

// mustDeliver publishes a message to an endpoint of a tenant, and waits until it ended.
func (p *process) mustDeliver(id, tenant, endpoint string) {
	p.t.Helper()
	_, err := p.boss().Publish(p.t.Context(), &wire.Message{
		ID: id, Tenant: tenant, Topic: "payment.paid", Endpoint: endpoint, Subject: "order-of-" + tenant, Body: json.RawMessage(`{"secret_of":"` + tenant + `"}`),
	})
	require.NoError(p.t, err)
	require.Eventually(p.t, func() bool {
		m, err := p.boss().Message(p.t.Context(), id)
		return err == nil && len(m.Deliveries) == 1 && m.Deliveries[0].Status == "delivered"
	}, patience, time.Millisecond)
}

func TestALinkIsOpenedByAButton(t *testing.T) {
	p := start(t, peoplesOptions(t, redistest.Start(t).URL()))
	p.mustEndpoint("A", newTestTaker(t))
	path, id := p.mustLink(wire.LinkRequest{Tenant: "A", For: wire.Duration(time.Hour)})
	token := strings.TrimPrefix(path, "/link/")

	who := newPerson(t, p.api)
	require.Equal(t, http.StatusNotFound, who.get("/link/").StatusCode)
	got := who.get(path)
	require.Equal(t, http.StatusOK, got.StatusCode)
	require.Contains(t, got.text, `<form method="post" action="`+path+`">`)
	require.Empty(t, got.Cookies(), "a preview in a chat opens nothing")
	require.Equal(t, "none", got.Header.Get("X-Robots-Tag"))
	require.Equal(t, "no-referrer", got.Header.Get("Referrer-Policy"))
	require.Equal(t, http.StatusNotFound, who.get("/link/").StatusCode)

	got = who.post(path, nil)
	require.Equal(t, http.StatusSeeOther, got.StatusCode)
	require.Equal(t, "/link/", got.Header.Get("Location"), "the token is in no later address")
	cookie := got.Cookies()[0]
	require.Equal(t, "hookladder-link", cookie.Name)
	require.Equal(t, token, cookie.Value)
	require.Equal(t, "/link/", cookie.Path)
	require.True(t, cookie.HttpOnly)
	require.Equal(t, http.SameSiteStrictMode, cookie.SameSite)
	require.InDelta(t, 3600, cookie.MaxAge, 5)
	got = who.get("/link/")
	require.Equal(t, http.StatusOK, got.StatusCode)
	require.Contains(t, got.text, "Till of A")
	require.NotContains(t, got.text, token)

	colleague := p.openedLink(path)
	require.Equal(t, http.StatusOK, colleague.get("/link/").StatusCode, "a team shares it")

	got = colleague.post("/link/sign-out", nil)
	require.Equal(t, http.StatusSeeOther, got.StatusCode)
	require.Negative(t, got.Cookies()[0].MaxAge)
	require.Equal(t, "/link/", got.Cookies()[0].Path)
	require.Equal(t, http.StatusNotFound, colleague.get("/link/").StatusCode)
	require.Equal(t, http.StatusOK, who.get("/link/").StatusCode, "others go on")

	require.NoError(t, p.boss().RevokeLink(t.Context(), id))
	got = who.get("/link/")
	require.Equal(t, http.StatusNotFound, got.StatusCode, "revoked in all browsers at once")
	require.Contains(t, got.text, "This link opens nothing")
	who.header.Set("X-Refresh", "1")
	require.Equal(t, http.StatusUnauthorized, who.get("/link/").StatusCode, "an open page loads anew")
	who.header.Del("X-Refresh")
	pressed := who.act(path, nil)
	require.Equal(t, http.StatusSeeOther, pressed.StatusCode)
	require.Equal(t, path, pressed.Header.Get("Location"), "which says why")
	require.Empty(t, pressed.Cookies())
	got = who.get(path)
	require.Equal(t, http.StatusNotFound, got.StatusCode)
	require.Contains(t, got.text, "This link opens nothing")
	require.Empty(t, got.Cookies())
}

func TestAPageOfALinkFromAnotherSiteAsksOnceMore(t *testing.T) {
	p := start(t, peoplesOptions(t, redistest.Start(t).URL()))
	who := newPerson(t, p.api)
	who.header.Set("Sec-Fetch-Site", "cross-site")
	got := who.get("/link/messages/one")
	require.Equal(t, http.StatusOK, got.StatusCode)
	require.Contains(t, got.text, `content="0;url=/link/messages/one"`)
	path, _ := p.mustLink(wire.LinkRequest{Tenant: "A"})
	require.Contains(t, who.get(path).text, ">Open<", "the link itself needs no cookie")
	require.Equal(t, http.StatusForbidden, who.post(path, nil).StatusCode)
}

func TestALinkExpires(t *testing.T) {
	p := start(t, peoplesOptions(t, redistest.Start(t).URL()))
	path, _ := p.mustLink(wire.LinkRequest{Tenant: "A", For: wire.Duration(time.Second)})
	who := p.openedLink(path)
	require.Eventually(t, func() bool { return who.get("/link/").StatusCode == http.StatusNotFound }, patience, 10*time.Millisecond)
	require.Equal(t, http.StatusNotFound, who.get(path).StatusCode)
}

func TestWrongTokensKeepNoRightOneOut(t *testing.T) {
	p := start(t, peoplesOptions(t, redistest.Start(t).URL()))
	path, _ := p.mustLink(wire.LinkRequest{Tenant: "A"})
	who := newPerson(t, p.api)
	for i := range 30 {
		require.Equal(t, http.StatusNotFound, who.get(fmt.Sprintf("/link/%043d", i)).StatusCode, "no token is ever guessed")
	}
	require.Equal(t, http.StatusSeeOther, who.post(path, nil).StatusCode)
}

func TestALinkOpensItsPagesOnly(t *testing.T) {
	p := start(t, peoplesOptions(t, redistest.Start(t).URL()))
	path, _ := p.mustLink(wire.LinkRequest{Tenant: "A", Manage: true})
	who := p.openedLink(path)
	token := strings.TrimPrefix(path, "/link/")
	for _, header := range []http.Header{{}, {"Authorization": {"Bearer " + token}}, {"Cookie": {"hookladder=" + token}}, {"Cookie": {"hookladder-link=" + token}}} {
		who.header = header
		require.True(t, who.get("/console/").toSignIn())
		require.Equal(t, http.StatusUnauthorized, who.get("/v1/stats").StatusCode)
	}
	boss := p.signedIn("boss")
	require.Equal(t, http.StatusNotFound, boss.get("/link/").StatusCode, "an operator comes by no link")
	require.Equal(t, http.StatusUnauthorized, boss.get("/v1/stats").StatusCode, "a session is none of the API")
}

func TestTheCookieOfALinkByHTTPS(t *testing.T) {
	o := peoplesOptions(t, redistest.Start(t).URL())
	o.Console.PublicURL, _ = url.Parse("https://console.test")
	p := start(t, o)
	path, _ := p.mustLink(wire.LinkRequest{Tenant: "A"})
	got := newPerson(t, p.api).post(path, nil)
	require.Equal(t, "__Secure-hookladder-link", got.Cookies()[0].Name)
	require.True(t, got.Cookies()[0].Secure)
	require.Equal(t, "max-age=15552000", got.Header.Get("Strict-Transport-Security"))

	hidden := newPerson(t, p.api)
	require.Equal(t, "strict-origin", hidden.get(path).Header.Get("Referrer-Policy"), "it tells no token")
	hidden.header.Set("Origin", "null")
	require.Equal(t, http.StatusForbidden, hidden.post(path, nil).StatusCode)
	hidden.header.Set("Origin", "https://console.test")
	require.Equal(t, http.StatusSeeOther, hidden.post(path, nil).StatusCode)
}

// Over plain http browsers say nothing but the origin of a form, and after no-referrer not
// even that.
func TestPeopleComeByPlainHTTPToo(t *testing.T) {
	p := start(t, peoplesOptions(t, redistest.Start(t).URL()))
	path, _ := p.mustLink(wire.LinkRequest{Tenant: "A"})
	who := newPerson(t, p.api)
	who.header = http.Header{"Host": {"10.0.0.5:8080"}}
	require.Equal(t, "no-referrer", who.get(path).Header.Get("Referrer-Policy"), "it would tell the token")
	require.Empty(t, who.get(path).Header.Get("Strict-Transport-Security"))
	require.Equal(t, "same-origin", who.get("/console/sign-in").Header.Get("Referrer-Policy"))
	who.header.Set("Origin", "null")
	require.Equal(t, http.StatusSeeOther, who.post(path, nil).StatusCode)
	require.Equal(t, http.StatusForbidden, who.signIn(peoplesKeys["boss"]).StatusCode)
	who.header.Set("Origin", "http://10.0.0.5:8080")
	require.Equal(t, http.StatusSeeOther, who.signIn(peoplesKeys["boss"]).StatusCode)
}

func TestTheOperatorsNameLogoAndColour(t *testing.T) {
	o := peoplesOptions(t, redistest.Start(t).URL())
	o.Console.Name, o.Console.Logo, o.Console.Color = "Acme <Pay>", "https://cdn.acme.test/logo.png?v=1", "#ffe600"
	p := start(t, o)
	path, _ := p.mustLink(wire.LinkRequest{Tenant: "A"})
	who := p.openedLink(path)
	for _, at := range []string{path, "/link/"} {
		got := who.get(at)
		require.Contains(t, got.text, "Acme &lt;Pay&gt;")
		require.NotContains(t, got.text, "Hookladder")
		require.Contains(t, got.text, `src="https://cdn.acme.test/logo.png?v=1"`)
		require.Contains(t, got.Header.Get("Content-Security-Policy"), "img-src 'self' https://cdn.acme.test data:;")
		_, rest, ok := strings.Cut(got.text, `href="/link/static/brand.`)
		require.True(t, ok, got.text)
		name, _, _ := strings.Cut(rest, `"`)
		css := newPerson(t, p.api).get("/link/static/brand." + name)
		require.Equal(t, http.StatusOK, css.StatusCode)
		require.Contains(t, css.text, "--button: #ffe600; --on-button: #000000")
		require.Equal(t, "text/css; charset=utf-8", css.Header.Get("Content-Type"))
		require.NotContains(t, got.text, "/console/", "a proxy may let /link/ pass alone")
	}
	got := p.signedIn("boss").get("/console/")
	require.NotContains(t, got.text, "cdn.acme.test")
	require.NotContains(t, got.text, "brand.")
	require.NotContains(t, got.Header.Get("Content-Security-Policy"), "acme")
}

// A proxy may leave the path of PUBLIC_URL, or take it away.
func TestPeopleComeThroughAPathOfAProxy(t *testing.T) {
	o := peoplesOptions(t, redistest.Start(t).URL())
	o.Console.PublicURL, _ = url.Parse("https://hooks.test/pay/")
	p := start(t, o)
	p.mustEndpoint("A", newTestTaker(t))
	path, _ := p.mustLink(wire.LinkRequest{Tenant: "A"})
	require.True(t, strings.HasPrefix(path, "/pay/link/"), path)
	for _, taken := range []string{"", "/pay"} {
		arrives := func(path string) string { return strings.TrimPrefix(path, taken) }
		who := newPerson(t, p.api)
		got := who.get(arrives(path))
		require.Equal(t, http.StatusOK, got.StatusCode)
		require.Contains(t, got.text, `action="`+path+`"`)
		require.Equal(t, "strict-origin", got.Header.Get("Referrer-Policy"))
		got = who.post(arrives(path), nil)
		require.Equal(t, "/pay/link/", got.Header.Get("Location"))
		cookie := got.Cookies()[0]
		require.Equal(t, "/pay/link/", cookie.Path)
		who.header.Set("Cookie", cookie.Name+"="+cookie.Value)
		got = who.get(arrives("/pay/link/"))
		require.Equal(t, http.StatusOK, got.StatusCode)
		require.Contains(t, got.text, `href="/pay/link/endpoints"`)
		_, rest, _ := strings.Cut(got.text, `href="/pay/link/static/`)
		name, _, _ := strings.Cut(rest, `"`)
		require.Equal(t, http.StatusOK, who.get(arrives("/pay/link/static/"+name)).StatusCode)
		require.Equal(t, "/pay/console/sign-in", who.get(arrives("/pay/console/")).Header.Get("Location"))
		got = who.post(arrives("/pay/console/sign-in"), url.Values{"key": {peoplesKeys["boss"]}, "to": {"/pay/console/?a=b"}})
		require.Equal(t, "/pay/console/?a=b", got.Header.Get("Location"))
	}
	require.Equal(t, http.StatusNotFound, newPerson(t, p.api).get("/pay/v1/stats").StatusCode, "the API is where it was")
}

func TestALogoWithinTheSettings(t *testing.T) {
	o := peoplesOptions(t, redistest.Start(t).URL())
	o.Console.Logo = "data:image/png;base64,iVBORw0KGgo="
	p := start(t, o)
	path, _ := p.mustLink(wire.LinkRequest{Tenant: "A"})
	got := p.openedLink(path).get("/link/")
	require.Contains(t, got.text, `src="data:image/png;base64,iVBORw0KGgo="`)
	require.Contains(t, got.Header.Get("Content-Security-Policy"), "img-src 'self' data:;")
}

func TestRedisAwayIsNoRevokedLinkAndNoLogHasAToken(t *testing.T) {
	redis := redistest.Start(t)
	o := peoplesOptions(t, redis.URL())
	var log logged
	o.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	p := start(t, o)
	path, _ := p.mustLink(wire.LinkRequest{Tenant: "A"})
	who := p.openedLink(path)
	redis.Stop()
	who.away = true
	for _, at := range []string{path, "/link/"} {
		got := who.get(at)
		require.Equal(t, http.StatusServiceUnavailable, got.StatusCode, at)
		require.Empty(t, got.Cookies())
	}
	require.Equal(t, path+"?told=unknown", who.act(path, nil).Header.Get("Location"), "where it says so")
	redis.Restart()
	require.Eventually(t, func() bool { return who.get("/link/").StatusCode == http.StatusOK }, patience, 10*time.Millisecond)
	require.NotContains(t, log.String(), strings.TrimPrefix(path, "/link/"))
	require.Contains(t, log.String(), "/link/***")
	require.Equal(t, 1, strings.Count(log.String(), "page failed"), "one in a minute")
}

func TestWhatALinkDoesIsItsOwnInTheAudit(t *testing.T) {
	p := start(t, peoplesOptions(t, redistest.Start(t).URL()))
	e := p.mustEndpoint("A", newTestTaker(t))
	p.mustDeliver("one", "A", e)
	path, id := p.mustLink(wire.LinkRequest{Tenant: "A", Manage: true})
	require.Equal(t, http.StatusSeeOther, p.openedLink(path).post("/link/messages/one/retry", url.Values{"to": {e}}).StatusCode)
	require.Eventually(t, func() bool {
		page, err := p.boss().Audit(context.WithoutCancel(t.Context()), client.AuditFilter{})
		require.NoError(t, err)
		for _, entry := range page.Data {
			if entry.What == "message.retry" && entry.By == "link:"+id {
				return true
			}
		}
		return false
	}, patience, time.Millisecond)
}

func TestAllChangesOfALinkAreLimited(t *testing.T) {
	p := start(t, peoplesOptions(t, redistest.Start(t).URL()))
	e := p.mustEndpoint("A", newTestTaker(t))
	path, _ := p.mustLink(wire.LinkRequest{Tenant: "A", Manage: true})
	who := p.openedLink(path)
	got := who.post("/link/messages/none/retry", url.Values{"to": {e}})
	require.Equal(t, http.StatusNotFound, got.StatusCode)
	got = who.post("/link/endpoints/"+e, url.Values{"url": {"ftp://a.example"}, "was.url": {"x"}})
	require.Equal(t, http.StatusUnprocessableEntity, got.StatusCode, "what is refused costs nothing")
	for i := range dispatcher.LinkCalls {
		act := []string{"pause", "resume"}[i%2]
		got := who.post("/link/endpoints/"+e+"/"+act, nil)
		require.Equal(t, http.StatusSeeOther, got.StatusCode, "call %d: %s", i+1, got.text)
	}
	for _, act := range []string{"/pause", "/resume", "/test", "/rotate", ""} {
		refused := who.act("/link/endpoints/"+e+act, url.Values{"overlap": {"0s"}, "description": {"new"}})
		got = who.get(refused.Header.Get("Location"))
		require.Equal(t, http.StatusTooManyRequests, got.StatusCode, act)
		require.Contains(t, got.text, "Too many changes by this link: one more in ")
		wait, err := strconv.Atoi(refused.Header.Get("Retry-After"))
		require.NoError(t, err)
		require.InDelta(t, 1800, wait, 1800)
	}
	require.Equal(t, http.StatusTooManyRequests, who.post("/link/endpoints", url.Values{"url": {"https://a.example/"}, "topics": {"*"}}).StatusCode)
	other := p.openedLink(func() string { path, _ := p.mustLink(wire.LinkRequest{Tenant: "A", Manage: true}); return path }())
	require.Equal(t, http.StatusSeeOther, other.post("/link/endpoints/"+e+"/pause", nil).StatusCode, "each link has its own")
}

// A bound that is read before the change holds for one call after another alone.
func TestALinkAddsSoManyEndpointsAlsoAtOnce(t *testing.T) {
	redis := redistest.Start(t)
	instances := []*process{start(t, peoplesOptions(t, redis.URL())), start(t, peoplesOptions(t, redis.URL()))}
	const there = dispatcher.LinkEndpoints - 10
	for range there {
		instances[0].mustEndpoint("A", "https://a.example/")
	}
	path, _ := instances[0].mustLink(wire.LinkRequest{Tenant: "A", Manage: true})
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			who := newPerson(t, instances[i%2].api)
			who.act(path, nil)
			who.act("/link/endpoints", url.Values{"url": {"https://new.example/"}, "topics": {"*"}})
		})
	}
	all.Wait()
	page, err := instances[0].boss().Endpoints(t.Context(), client.EndpointFilter{Tenants: []string{"A"}, Limit: 500})
	require.NoError(t, err)
	require.Len(t, page.Data, dispatcher.LinkEndpoints)
	got := instances[0].openedLink(path).post("/link/endpoints", url.Values{"url": {"https://new.example/"}, "topics": {"*"}})
	require.Contains(t, got.text, "50 endpoints")
}

// An auditor asks by whom an order was resent, and what became of a job.
func TestTheAuditHasEachActByItsTarget(t *testing.T) {
	p := start(t, peoplesOptions(t, redistest.Start(t).URL()))
	e := p.mustEndpoint("A", newTestTaker(t))
	for _, id := range []string{"order_17", "order_18"} {
		p.mustDeliver(id, "A", e)
	}
	path, id := p.mustLink(wire.LinkRequest{Tenant: "A", Manage: true})
	merchant, boss := p.openedLink(path), p.signedIn("boss")
	for _, order := range []string{"order_17", "order_18"} {
		require.Equal(t, http.StatusSeeOther, merchant.post("/link/messages/"+order+"/retry", url.Values{"to": {e}}).StatusCode)
	}
	require.Equal(t, http.StatusSeeOther, boss.post("/console/endpoints/"+e+"/pause", nil).StatusCode)
	job, err := p.boss().StartJob(t.Context(), client.JobRetry, wire.JobRequest{Tenant: []string{"A"}})
	require.NoError(t, err)
	bys := func(target string) (all []string) {
		page, err := p.boss().Audit(t.Context(), client.AuditFilter{Targets: []string{target}})
		require.NoError(t, err)
		for _, entry := range page.Data {
			all = append(all, entry.By+" "+entry.What)
		}
		return all
	}
	require.Equal(t, []string{"link:" + id + " message.retry"}, bys("order_17"))
	require.Equal(t, []string{"key:boss endpoint.pause", "key:boss endpoint.create"}, bys(e))
	require.Equal(t, []string{"key:boss deliveries.retry"}, bys(job.ID))
	require.Equal(t, "key:boss", job.By)
	require.Equal(t, []string{"key:boss link.create"}, bys(id))
}

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
