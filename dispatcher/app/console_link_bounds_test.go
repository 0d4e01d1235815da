package app_test

import (
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

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
