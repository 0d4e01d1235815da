package app_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/app"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/ladder"
	"github.com/hookladder/hookladder/signer"
)

// sentNotice is a notice that arrived, and was genuine.
type sentNotice struct {
	path, id, topic, text string
	body                  map[string]any
}

// newTestOps makes a server that gets notices, at any path.
func newTestOps(t *testing.T) (url string, came chan sentNotice) {
	t.Helper()
	came = make(chan sentNotice, 64)
	v := &signer.Verifier{Secrets: []signer.Secret{secret}}
	server := httptest.NewServer(v.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		n := sentNotice{r.URL.Path, r.Header.Get(signer.HeaderID), r.Header.Get("hookladder-topic"), string(text), map[string]any{}}
		assert.NoError(t, json.Unmarshal(text, &n.body))
		came <- n
	})))
	t.Cleanup(server.Close)
	return server.URL, came
}

// newTestFailing answers everything with that status.
func newTestFailing(t *testing.T, status int) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	t.Cleanup(server.Close)
	return server.URL
}

func awaitNotices(t *testing.T, came chan sentNotice, n int) map[string]sentNotice {
	t.Helper()
	all := map[string]sentNotice{}
	for range n {
		select {
		case one := <-came:
			all[one.path+" "+one.topic] = one
		case <-time.After(patience):
			require.FailNow(t, "no notice", "%v came", all)
		}
	}
	require.Len(t, all, n)
	return all
}

// noticesKept are the topics of all notices that the store has.
func noticesKept(t *testing.T, c *client.Client) (topics []string) {
	t.Helper()
	page, err := c.Deliveries(t.Context(), client.Filter{Topics: []string{"hookladder.*"}, Limit: 500})
	require.NoError(t, err)
	for _, d := range page.Data {
		topics = append(topics, d.Topic)
	}
	return topics
}

func TestANoticeArrivesSignedAtTheOperatorAndATenantGetsItsOwn(t *testing.T) {
	ops, came := newTestOps(t)
	o := newTestOptions(redistest.Start(t).URL())
	o.OpsURL = ops + "/ops?token=1"
	o.BreakerFailures, o.BreakerWait = 1, time.Hour
	p := start(t, o)
	for tenant, path := range map[string]string{"shop": "/shop", "other": "/other"} {
		_, _, err := p.client().CreateEndpoint(t.Context(), &wire.Endpoint{
			Tenant: tenant, URL: ops + path, Topics: []string{"hookladder.*", string(dispatcher.NoticeDead)}, Secret: secret.Reveal(),
		})
		require.NoError(t, err)
	}
	bad := newTestFailing(t, http.StatusInternalServerError) + "/secret/path?token=2"
	m := message("one", bad)
	m.Tenant, m.MaxAttempts = "shop", 1
	_, err := p.client().Publish(t.Context(), m)
	require.NoError(t, err)
	all := awaitNotices(t, came, 3)
	opened, own, dead := all["/ops hookladder.lane.opened"], all["/shop hookladder.lane.opened"], all["/shop hookladder.delivery.dead"]
	origin := strings.TrimSuffix(bad, "/secret/path?token=2")
	for _, n := range []sentNotice{opened, own, dead} {
		require.Equal(t, n.topic, n.body["type"])
		require.Equal(t, "shop", n.body["tenant"])
		require.Equal(t, origin, n.body["origin"])
		require.Equal(t, 500.0, n.body["last_status_code"])
		require.NotContains(t, n.text, "secret")
		require.NotContains(t, n.text, "token")
		require.NotContains(t, n.text, "detail")
	}
	require.Equal(t, "open", own.body["state"])
	require.Equal(t, "exhausted", dead.body["reason"])
	require.Equal(t, 1.0, dead.body["count"])
	require.NoError(t, p.end())
	require.Empty(t, came, "nothing went to the other tenant")
}

func TestAnOperatorThatFailsIsToldNothingOfItself(t *testing.T) {
	listens, came := newTestOps(t)
	o := newTestOptions(redistest.Start(t).URL())
	o.OpsURL = newTestFailing(t, http.StatusInternalServerError) + "/ops"
	o.BreakerFailures, o.BreakerWait = 1, time.Millisecond
	var err error
	o.Engine.Ladder, err = ladder.Parse("0s")
	require.NoError(t, err)
	p := start(t, o)
	for _, url := range []string{listens, newTestFailing(t, http.StatusServiceUnavailable)} { // the second one's notices die too
		_, _, err = p.client().CreateEndpoint(t.Context(), &wire.Endpoint{URL: url, Topics: []string{string(dispatcher.NoticeDead)}, Secret: secret.Reveal()})
		require.NoError(t, err)
	}
	for _, id := range []string{"one", "two"} {
		_, err := p.client().Publish(t.Context(), message(id, newTestFailing(t, http.StatusBadGateway)))
		require.NoError(t, err)
	}
	for range 2 {
		require.Equal(t, 502.0, awaitNotices(t, came, 1)["/ hookladder.delivery.dead"].body["last_status_code"])
	}
	require.EventuallyWithT(t, func(a *assert.CollectT) {
		dead, err := p.client().Deliveries(t.Context(), client.Filter{Topics: []string{"hookladder.*"}, Statuses: []string{"dead"}})
		require.NoError(a, err)
		require.Len(a, dead.Data, 3+2)
	}, patience, 10*time.Millisecond, "those to the operator died, and those to the second endpoint")
	require.NoError(t, p.end())
	again := start(t, newTestOptions(o.RedisURL))
	opened, dead := string(dispatcher.NoticeOpened), string(dispatcher.NoticeDead)
	require.ElementsMatch(t, []string{opened, opened, opened, dead, dead, dead, dead}, noticesKept(t, again.client()), "of no such death there is another")
	require.Empty(t, came)
	require.NoError(t, again.end())
}

func TestWhatSeveralInstancesTellIsToldOnce(t *testing.T) {
	ops, came := newTestOps(t)
	o := newTestOptions(redistest.Start(t).URL())
	o.OpsURL = ops + "/ops"
	o.Engine.PollEvery = 10 * time.Millisecond // they look for what others may not have told
	first, second := start(t, o), start(t, o)
	e, _, err := first.client().CreateEndpoint(t.Context(), &wire.Endpoint{UID: "main", Tenant: "shop", URL: newTestFailing(t, http.StatusGone) + "/in", Secret: secret.Reveal()})
	require.NoError(t, err)
	m := message("one", "")
	m.Tenant, m.Endpoint = "shop", e.ID
	_, err = second.client().Publish(t.Context(), m)
	require.NoError(t, err)
	n := awaitNotices(t, came, 1)["/ops hookladder.endpoint.disabled"]
	require.Equal(t, []any{"disabled", "gone", "main", e.ID}, []any{n.body["state"], n.body["reason"], n.body["uid"], n.body["endpoint"]})
	require.NotContains(t, n.text, "/in")

	job, err := first.client().StartJob(t.Context(), "retry", wire.JobRequest{Tenant: []string{"nobody"}})
	require.NoError(t, err)
	n = awaitNotices(t, came, 1)["/ops hookladder.job.ended"]
	require.Equal(t, []any{"done", job.ID, "retry", 0.0, 0.0, 0.0}, []any{n.body["state"], n.body["job"], n.body["kind"], n.body["done"], n.body["failed"], n.body["left"]})
	require.NoError(t, first.end())
	third := start(t, o)
	require.EventuallyWithT(t, func(a *assert.CollectT) {
		instances, err := third.client().Instances(t.Context(), 0, "")
		require.NoError(a, err)
		require.Len(a, instances.Data, 2)
	}, patience, 10*time.Millisecond)
	require.NoError(t, third.end(), "its first look is over")
	require.Len(t, noticesKept(t, second.client()), 2)
	require.NoError(t, second.end())
	require.Empty(t, came)
}

// The instance that disabled an endpoint died before its notice was stored.
func TestANoticeThatIsMissingIsToldByAnotherInstance(t *testing.T) {
	ops, came := newTestOps(t)
	o := newTestOptions(redistest.Start(t).URL())
	o.Engine.PollEvery = 10 * time.Millisecond
	accepts := o
	accepts.Engine.MaxInFlight = 0
	first := start(t, accepts)
	e, _, err := first.client().CreateEndpoint(t.Context(), &wire.Endpoint{UID: "main", URL: newTestFailing(t, http.StatusOK), Secret: secret.Reveal()})
	require.NoError(t, err)
	_, err = first.client().Publish(t.Context(), message("one", ""))
	require.NoError(t, err)
	require.NoError(t, first.end())

	store, err := redisq.Open(t.Context(), redisq.Options{URL: o.RedisURL, Project: o.Project, LaneMaxInFlight: 16, Permits: 64, Log: o.Log})
	require.NoError(t, err)
	there, err := store.Endpoints.Endpoints(t.Context(), []string{e.ID})
	require.NoError(t, err)
	at := time.Now().Truncate(time.Millisecond)
	require.NoError(t, changed(func(e *dispatcher.Endpoint) { e.Disabled, e.StoppedBy, e.StoppedAt = true, "night", at })(t.Context(), store, there[0]))
	require.NoError(t, store.Close())

	o.OpsURL = ops + "/ops"
	second := start(t, o)
	n := awaitNotices(t, came, 1)["/ops hookladder.endpoint.disabled"]
	require.Equal(t, []any{"operator", "by night", at.UTC().Format("2006-01-02T15:04:05.000Z")}, []any{n.body["reason"], n.body["detail"], n.body["since"]})
	require.NoError(t, second.end())
}

func TestAReceiverThatFailsIsToldAsFailingAndAsDisabled(t *testing.T) {
	ops, came := newTestOps(t)
	o := newTestOptions(redistest.Start(t).URL())
	o.OpsURL = ops + "/ops"
	o.Engine.FailingAfter, o.Engine.DisableAfter = time.Millisecond, 2*time.Second
	var err error
	o.Engine.Ladder, err = ladder.Parse(strings.Repeat("1s ", 20))
	require.NoError(t, err)
	p := start(t, o)
	bad := newTestFailing(t, http.StatusNotFound)
	_, _, err = p.client().CreateEndpoint(t.Context(), &wire.Endpoint{UID: "main", Tenant: "shop", URL: bad + "/in", Secret: secret.Reveal()})
	require.NoError(t, err)
	m := message("one", "")
	m.Tenant = "shop"
	_, err = p.client().Publish(t.Context(), m)
	require.NoError(t, err)
	all := awaitNotices(t, came, 2)
	failing, disabled := all["/ops hookladder.endpoint.failing"], all["/ops hookladder.endpoint.disabled"]
	require.Equal(t, []any{"failing", "failing", 404.0, "main"}, []any{failing.body["state"], failing.body["reason"], failing.body["last_status_code"], failing.body["uid"]})
	require.Equal(t, []any{"disabled", "failing"}, []any{disabled.body["state"], disabled.body["reason"]})

	m = message("two", bad)
	_, err = p.client().Publish(t.Context(), m)
	require.NoError(t, err)
	all = awaitNotices(t, came, 2)
	disabled = all["/ops hookladder.endpoint.disabled"]
	require.Equal(t, []any{"active", "failing", bad}, []any{disabled.body["state"], disabled.body["reason"], disabled.body["origin"]}, "what comes to a bare URL is attempted")
	require.Equal(t, all["/ops hookladder.endpoint.failing"].body["since"], disabled.body["since"])
	require.NoError(t, p.end())
	require.Empty(t, came)
}

func TestAnOperatorThatCouldNotBeToldIsRefused(t *testing.T) {
	for url, want := range map[string]string{
		"https://ops.example/": "SIGNING_SECRET", "ops.example": "must be absolute", "http://10.1.2.3/": "ALLOW_NETS=10.1.2.3/32",
	} {
		o := newTestOptions(redistest.Start(t).URL())
		o.OpsURL = url
		if strings.HasPrefix(url, "https") {
			o.Engine.Secrets = nil
		}
		err := app.Run(t.Context(), o)
		require.ErrorContains(t, err, "OPS_URL: ")
		require.ErrorContains(t, err, want)
	}
}
