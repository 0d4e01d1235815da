package httpapi_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/signer"
)

// Links of tenants A and B.
var (
	viewA   = dispatcher.Browser{Name: "lnk_view", View: dispatcher.View{Tenant: "A"}}
	manageA = dispatcher.Browser{Name: "lnk_manage", View: dispatcher.View{Tenant: "A"}, Manage: true}
	singleA = dispatcher.Browser{Name: "lnk_single", View: dispatcher.View{Tenant: "A", Endpoint: ofA}, Manage: true}
	manageB = dispatcher.Browser{Name: "lnk_b", View: dispatcher.View{Tenant: "B"}, Manage: true}
	anAdmin = dispatcher.Browser{Name: "boss", Key: "local", Read: true, Bodies: true, Admin: true}
)

const ofA = "ep_aaaaaaaaa"

// tenants is a process with data of several tenants. Its lists have more than was asked for,
// because the API must not rely on their filters.
type tenants struct {
	*Fake
	endpoints []*dispatcher.Endpoint
	messages  []dispatcher.MessageView
	changed   []string // calls that changed something, and of what
	err       error    // of everything
}

func newTenants(t *testing.T) *tenants {
	const refused = "10.1.2.3 is private; allow it with ALLOW_NETS=10.1.2.3/32"
	endpoint := func(id, tenant string) *dispatcher.Endpoint {
		e := Endpoint(t)
		e.ID, e.UID, e.Tenant, e.TopicsAllowed = id, "uid-"+id, tenant, []string{"risk.*"}
		e.Metadata, e.Headers = map[string]string{"risk": "high"}, []dispatcher.Header{{Name: "x-inner", Value: "1"}}
		return e
	}
	message := func(id, tenant string, to ...dispatcher.Lane) dispatcher.MessageView {
		v := dispatcher.MessageView{Message: dispatcher.Message{ID: id, Tenant: tenant, Body: []byte("1"), ContentType: "application/json"}}
		for _, lane := range to {
			v.Deliveries = append(v.Deliveries, dispatcher.Delivery{
				ID: dispatcher.DeliveryID{Lane: lane, Message: id}, Tenant: tenant, Status: dispatcher.StatusRetrying, WaitingFor: "permits", LastError: refused,
				History: []dispatcher.Attempt{{Number: 1, At: Now, Address: "10.0.0.9:3128", Error: "proxy 10.0.0.9:3128: refused"}},
			})
		}
		return v
	}
	f := &tenants{
		Fake:      &Fake{FakeEndpoints: FakeEndpoints{Test: dispatcher.TestResult{Attempt: dispatcher.Attempt{Error: refused, At: Now}}, Secret: MustSecret(t, signer.Standard, SecretNew)}},
		endpoints: []*dispatcher.Endpoint{endpoint(ofA, "A"), endpoint("ep_bbbbbbbbb", "A"), endpoint("ep_ccccccccc", "B"), endpoint("ep_ddddddddd", "")},
		messages: []dispatcher.MessageView{
			message("of_a", "A", ofA, "ep_bbbbbbbbb", "u_0123456789", "q_orders"), message("queued", "A", "q_orders"),
			message("of_b", "B", "ep_ccccccccc"), message("of_none", "", ofA), message("second", "A", "ep_bbbbbbbbb"),
		},
	}
	f.LogPage = dispatcher.LogPage{LookedAt: 9, Lines: []dispatcher.Logged{
		{ID: dispatcher.DeliveryID{Lane: ofA, Message: "m"}, Tenant: "A", Attempt: dispatcher.Attempt{At: Now, Address: "10.0.0.9:1", Error: "set EGRESS_PROXY"}},
		{ID: dispatcher.DeliveryID{Lane: "q_orders", Message: "m"}, Tenant: "A"}, {ID: dispatcher.DeliveryID{Lane: "ep_ccccccccc", Message: "m"}, Tenant: "B"},
	}}
	return f
}

// as returns a client whose calls are those of a browser.
func (f *tenants) as(t *testing.T, who dispatcher.Browser) *client.Client {
	t.Helper()
	h := newTestAPI(t, f.Fake, func(o *httpapi.Options) {
		o.Policy.CheckLinkURL = o.Policy.CheckURL
		o.Messages, o.MessageLanes, o.Lists, o.Endpoints, o.Tester, o.Lanes = f, f, f, f, f, f
	})
	c, err := client.New("http://localhost", "", client.WithRepeats(client.Repeats{Tries: 1}), client.WithHTTPClient(&http.Client{Transport: roundTrip(
		func(r *http.Request) (*http.Response, error) {
			r = r.Clone(dispatcher.WithBrowser(r.Context(), who))
			r.RequestURI = r.URL.RequestURI()
			if r.Body == nil {
				r.Body = http.NoBody
			}
			return Serve(h, r).Result(), nil
		})}))
	require.NoError(t, err)
	return c
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (f *tenants) there(name string) (*dispatcher.Endpoint, error) {
	at := slices.IndexFunc(f.endpoints, func(e *dispatcher.Endpoint) bool { return e.ID == name || e.UID == name })
	if at < 0 || f.err != nil {
		return nil, anyOf(f.err, dispatcher.ErrNoEndpoint)
	}
	return f.endpoints[at], nil
}

func anyOf(err, usual error) error {
	if err != nil {
		return err
	}
	return usual
}

func (f *tenants) Endpoint(_ context.Context, name string) (v dispatcher.EndpointView, err error) {
	v.Endpoint, err = f.there(name)
	return v, err
}

func (f *tenants) Endpoints(_ context.Context, filter dispatcher.EndpointFilter) (all []dispatcher.EndpointView, next string, err error) {
	f.FilterOf = filter
	for _, e := range f.endpoints {
		all = append(all, dispatcher.EndpointView{Endpoint: e})
	}
	return all, "", f.err
}

func (f *tenants) ChangeEndpoint(ctx context.Context, name string, change func(*dispatcher.Endpoint) error) (v dispatcher.EndpointView, err error) {
	f.changed = append(f.changed, "change "+name)
	if v, err = f.Endpoint(ctx, name); err == nil {
		v.Endpoint = v.Clone()
		err = change(v.Endpoint)
	}
	return v, err
}

func (f *tenants) RotateSecret(ctx context.Context, name string, _ signer.Secret, _ time.Duration) (dispatcher.EndpointView, error) {
	f.changed = append(f.changed, "rotate "+name)
	return f.Endpoint(ctx, name)
}

func (f *tenants) TestEndpoint(_ context.Context, name string) (dispatcher.TestResult, error) {
	f.changed = append(f.changed, "test "+name)
	return f.Test, f.err
}

func (f *tenants) Pause(_ context.Context, name, _ string) (dispatcher.LaneState, error) {
	f.changed = append(f.changed, "pause "+name)
	return dispatcher.LaneState{}, f.err
}

func (f *tenants) Resume(_ context.Context, name, _ string) (dispatcher.LaneState, error) {
	f.changed = append(f.changed, "resume "+name)
	return dispatcher.LaneState{}, f.err
}

func (f *tenants) message(id string) (dispatcher.MessageView, error) {
	at := slices.IndexFunc(f.messages, func(m dispatcher.MessageView) bool { return m.Message.ID == id })
	if at < 0 || f.err != nil {
		return dispatcher.MessageView{}, anyOf(f.err, dispatcher.ErrNotFound)
	}
	m := f.messages[at]
	m.Deliveries = slices.Clone(m.Deliveries)
	return m, nil
}

func (f *tenants) Message(_ context.Context, id string) (dispatcher.MessageView, error) {
	return f.message(id)
}

func (f *tenants) MessageTenant(_ context.Context, id string) (string, error) {
	m, err := f.message(id)
	return m.Message.Tenant, err
}

func (f *tenants) MessageLane(ctx context.Context, _, destination string) (dispatcher.Lane, error) {
	return f.Lane(ctx, destination, "")
}

func (f *tenants) Retry(_ context.Context, id string, lane dispatcher.Lane, _ bool) (all []dispatcher.Retried, err error) {
	m, err := f.message(id)
	for _, d := range m.Deliveries {
		if lane == "" || d.ID.Lane == lane {
			all = append(all, dispatcher.Retried{Delivery: d})
		}
	}
	if err != nil || len(all) == 0 {
		return nil, anyOf(err, dispatcher.ErrNoDelivery)
	}
	f.changed = append(f.changed, "retry "+id+" to "+string(lane))
	return all, nil
}

func (f *tenants) Deliveries(_ context.Context, filter dispatcher.Filter) (page dispatcher.Page, err error) {
	f.Filter = filter
	for _, m := range f.messages {
		page.Deliveries = append(page.Deliveries, m.Deliveries...)
	}
	page.LookedAt = 9
	return page, f.err
}

func (f *tenants) Lane(ctx context.Context, destination, tenant string) (dispatcher.Lane, error) {
	if e, err := f.there(destination); err == nil {
		return e.Lane(), nil
	}
	return f.Fake.Lane(ctx, destination, tenant)
}

func (f *tenants) LaneStates(_ context.Context, lanes []dispatcher.Lane) ([]dispatcher.LaneState, error) {
	f.AskedLanes = lanes
	return []dispatcher.LaneState{{Lane: ofA, Tenant: "A", By: "boss", UID: "uid"}, {Lane: "ep_ccccccccc", Tenant: "B"}, {Lane: "q_orders"}}, f.err
}

func failed[T any](_ T, err error) error { return err }

func TestALinkSeesItsOwnOnly(t *testing.T) {
	f := newTenants(t)
	c := f.as(t, manageA)

	page, err := c.Deliveries(t.Context(), client.Filter{Tenants: []string{"B"}})
	require.NoError(t, err)
	require.Equal(t, []string{"A"}, f.Filter.Tenants, "whatever tenant it asks for")
	for _, one := range page.Data {
		require.Equal(t, "A", one.Tenant)
		require.NotEqual(t, "q_orders", one.Destination)
	}
	require.Len(t, page.Data, 4)
	require.Zero(t, page.LookedAt, "it also counts others'")

	endpoints, err := c.Endpoints(t.Context(), client.EndpointFilter{Tenants: []string{"B"}})
	require.NoError(t, err)
	require.Equal(t, []string{"A"}, f.FilterOf.Tenants)
	require.Len(t, endpoints.Data, 2)
	attempts, err := c.Attempts(t.Context(), client.AttemptFilter{Tenants: []string{"B"}})
	require.NoError(t, err)
	require.Equal(t, []string{"A"}, f.LogFilter.Tenants)
	require.Len(t, attempts.Data, 1)
	require.Zero(t, attempts.LookedAt)
	lanes, err := c.LanesOf(t.Context(), "B", ofA, "ep_ccccccccc", "q_orders")
	require.NoError(t, err)
	require.Len(t, lanes.Data, 1)
	require.Error(t, failed(c.Lanes(t.Context(), 0, "")), "it names the lanes that it knows")

	m, err := c.Message(t.Context(), "of_a")
	require.NoError(t, err)
	require.Len(t, m.Deliveries, 3, "without the operator's queue")

	missing := failed(c.Message(t.Context(), "nothing"))
	require.ErrorIs(t, missing, client.ErrNotFound)
	var same, p *client.Problem
	require.ErrorAs(t, missing, &same)
	for _, id := range []string{"of_b", "of_none", "queued", "nothing"} {
		require.ErrorAs(t, failed(c.Message(t.Context(), id)), &p)
		require.Equal(t, same.Problem, p.Problem, "%s: a foreign one and a missing one get the same error", id)
		require.ErrorIs(t, failed(c.Retry(t.Context(), id, "ep_ccccccccc")), client.ErrNotFound, id)
	}
	for _, name := range []string{"ep_ccccccccc", "uid-ep_ccccccccc", "ep_ddddddddd", "ep_nothing00", "nothing"} {
		for _, err := range []error{
			failed(c.Endpoint(t.Context(), name)), failed(c.PauseEndpoint(t.Context(), name)), failed(c.TestEndpoint(t.Context(), name)),
			failed(c.PatchEndpoint(t.Context(), name, map[string]any{"description": "x"})), failed(c.RotateSecret(t.Context(), name, wire.Rotation{})),
			failed(c.Deliveries(t.Context(), client.Filter{Destinations: []string{name}})), failed(c.Attempts(t.Context(), client.AttemptFilter{Destinations: []string{name}})),
		} {
			require.ErrorAs(t, err, &p, name)
			require.Equal(t, same.Problem, p.Problem, name)
		}
	}
	require.ErrorIs(t, failed(c.Retry(t.Context(), "of_a", "q_orders")), client.ErrNotFound, "a queue is the operator's")
	require.ErrorIs(t, failed(c.Retry(t.Context(), "of_a", "")), client.ErrNotFound, "it names one")
	require.ErrorIs(t, failed(c.Resend(t.Context(), "of_a")), client.ErrNotFound)
	require.Empty(t, f.changed, "nothing was changed")
	for _, e := range f.Recorded { // as of every caller that fails
		require.True(t, e.Failed && e.Tenant == "A" && (e.Target == "of_a" || e.Target == "queued"), "of its own messages only: %+v", e)
	}

	for _, err := range []error{
		failed(f.as(t, manageB).Message(t.Context(), "of_a")), failed(f.as(t, manageB).Endpoint(t.Context(), ofA)), failed(f.as(t, manageB).Retry(t.Context(), "of_a", ofA)),
	} {
		require.ErrorIs(t, err, client.ErrNotFound)
	}
	require.NoError(t, failed(c.Retry(t.Context(), "of_a", ofA)))
	require.NoError(t, failed(c.Retry(t.Context(), "of_a", "u_0123456789")))
	require.NoError(t, failed(c.PauseEndpoint(t.Context(), "uid-"+ofA)))
	require.Equal(t, []string{"retry of_a to " + ofA, "retry of_a to u_0123456789", "pause uid-" + ofA}, f.changed)
}

func TestALinkOfOneEndpointSeesNoOther(t *testing.T) {
	f := newTenants(t)
	c := f.as(t, singleA)
	page, err := c.Deliveries(t.Context(), client.Filter{Destinations: []string{"ep_bbbbbbbbb"}})
	require.NoError(t, err)
	require.Equal(t, []dispatcher.Lane{ofA}, f.Filter.Lanes)
	require.Len(t, page.Data, 1)
	attempts, err := c.Attempts(t.Context(), client.AttemptFilter{Destinations: []string{"ep_bbbbbbbbb"}})
	require.NoError(t, err)
	require.Equal(t, []dispatcher.Lane{ofA}, f.LogFilter.Lanes)
	require.Len(t, attempts.Data, 1)
	m, err := c.Message(t.Context(), "of_a")
	require.NoError(t, err)
	require.Len(t, m.Deliveries, 1)
	list, err := c.Endpoints(t.Context(), client.EndpointFilter{})
	require.NoError(t, err)
	require.Len(t, list.Data, 1)
	require.Equal(t, ofA, list.Data[0].ID)
	for name, err := range map[string]error{
		"of the same tenant, but to another endpoint": failed(c.Message(t.Context(), "second")),
		"another endpoint":                            failed(c.Endpoint(t.Context(), "ep_bbbbbbbbb")),
		"a pause of another":                          failed(c.PauseEndpoint(t.Context(), "ep_bbbbbbbbb")),
		"a retry to another":                          failed(c.Retry(t.Context(), "of_a", "ep_bbbbbbbbb")),
		"a retry to a bare URL":                       failed(c.Retry(t.Context(), "of_a", "u_0123456789")),
		"all of them":                                 failed(c.Retry(t.Context(), "of_a", "")),
	} {
		require.ErrorIs(t, err, client.ErrNotFound, name)
	}
	_, _, err = c.CreateEndpoint(t.Context(), &wire.Endpoint{URL: "https://x.example"})
	require.ErrorIs(t, err, client.ErrNotFound, "it adds none")
	require.Empty(t, f.changed)
}

func TestWhatALinkMayAddAndEdit(t *testing.T) {
	f := newTenants(t)
	c := f.as(t, manageA)
	_, _, err := c.CreateEndpoint(t.Context(), &wire.Endpoint{
		Tenant: "B", UID: "mine", URL: "https://x.example/", Topics: []string{"payment.*"}, Description: "ours", TopicsAllowed: []string{"*"},
		MaxInFlight: 9000, Rate: "1000/s", Metadata: map[string]string{"a": "b"}, Headers: map[string]string{"a": "b"}, Secret: SecretOld, Ordered: true, Trace: true,
	})
	require.NoError(t, err)
	made := f.There.Clone()
	made.ID, made.Version, made.CreatedAt, made.UpdatedAt = "", 0, time.Time{}, time.Time{}
	require.Equal(t, &dispatcher.Endpoint{
		Tenant: "A", URL: "https://x.example/", Topics: []string{"payment.*"}, Description: "ours", Signature: signer.Standard,
		Secrets: []dispatcher.EndpointSecret{{Secret: MustSecret(t, signer.Standard, SecretNew)}},
	}, made)

	for _, field := range []string{"ladder", "rate", "max_in_flight", "headers", "success", "disabled", "metadata", "timeout", "disable_after", "ordered", "topics_allowed", "trace", "tenant", "uid", "secret", "anything"} {
		require.ErrorIs(t, failed(c.PatchEndpoint(t.Context(), ofA, map[string]any{"url": "https://x.example/", field: nil})), client.ErrNotFound, field)
	}
	require.Empty(t, f.changed)
	require.NoError(t, failed(c.PatchEndpoint(t.Context(), "uid-"+ofA, map[string]any{"url": "https://x.example/", "topics": []string{"payment.*"}, "description": "new"})))
	require.Equal(t, []string{"change uid-" + ofA}, f.changed)

	f.Err = dispatcher.ErrTenantEndpoints
	_, _, err = c.CreateEndpoint(t.Context(), &wire.Endpoint{URL: "https://x.example/"})
	var p *client.Problem
	require.ErrorAs(t, err, &p)
	require.Equal(t, "/problems/endpoint-limit", p.Type, "the console's page says it in other words")
}

func TestALinkIsToldNothingOfTheInside(t *testing.T) {
	f := newTenants(t)
	all := map[string]any{}
	read := func(c *client.Client) (m wire.MessageView) {
		note := func(name string, v any, err error) {
			require.NoError(t, err, name)
			all[name] = v
		}
		m, err := c.Message(t.Context(), "of_a")
		note("message", m, err)
		deliveries, err := c.Deliveries(t.Context(), client.Filter{})
		note("deliveries", deliveries, err)
		attempts, err := c.Attempts(t.Context(), client.AttemptFilter{})
		note("attempts", attempts, err)
		lanes, err := c.LanesOf(t.Context(), "", ofA)
		note("lanes", lanes, err)
		e, err := c.Endpoint(t.Context(), ofA)
		note("endpoint", e, err)
		list, err := c.Endpoints(t.Context(), client.EndpointFilter{})
		note("endpoints", list, err)
		rotated, err := c.RotateSecret(t.Context(), ofA, wire.Rotation{})
		note("rotated", rotated, err)
		paused, err := c.PauseEndpoint(t.Context(), ofA)
		note("paused", paused, err)
		patched, err := c.PatchEndpoint(t.Context(), ofA, map[string]any{"description": "new"})
		note("patched", patched, err)
		created, _, err := c.CreateEndpoint(t.Context(), &wire.Endpoint{URL: "https://x.example/"})
		note("created", created, err)
		tested, err := c.TestEndpoint(t.Context(), ofA)
		note("tested", tested, err)
		retried, err := c.Retry(t.Context(), "of_a", ofA)
		note("retried", retried, err)
		return m
	}
	m := read(f.as(t, manageA))
	for name, v := range all {
		text, err := json.Marshal(v)
		require.NoError(t, err)
		for _, inner := range []string{"ALLOW_NETS", "EGRESS", "10.0.0.9", "10.1.2.3", "proxy", "permits", "risk", "x-inner", "uid", "boss"} {
			require.NotContains(t, string(text), inner, name)
		}
	}
	require.Equal(t, "its address may not be called", m.Deliveries[0].LastError)
	_, _, err := f.as(t, manageA).CreateEndpoint(t.Context(), &wire.Endpoint{URL: "http://10.1.2.3/"})
	require.ErrorContains(t, err, "its address may not be called")
	require.NotContains(t, err.Error(), "ALLOW_NETS")

	require.Contains(t, read(f.as(t, anAdmin)).Deliveries[0].LastError, "ALLOW_NETS", "the operator needs the cure")
}

func TestAStoreThatIsAwayIsNoMissingThing(t *testing.T) {
	f := newTenants(t)
	f.err = dispatcher.ErrUnavailable
	c := f.as(t, manageA)
	for _, err := range []error{failed(c.Message(t.Context(), "of_a")), failed(c.PauseEndpoint(t.Context(), ofA)), failed(c.Deliveries(t.Context(), client.Filter{Destinations: []string{ofA}}))} {
		var p *client.Problem
		require.ErrorAs(t, err, &p)
		require.Equal(t, http.StatusServiceUnavailable, p.Status)
	}
	require.ErrorIs(t, failed(f.as(t, viewA).PauseEndpoint(t.Context(), ofA)), client.ErrNotFound, "it may not, whatever the store says")
}

// A job is a link's own if it is about one endpoint of its tenant alone. Then it has no names of the operator's.
func TestALinkReadsJobsAboutItsEndpointsAlone(t *testing.T) {
	for name, c := range map[string]struct {
		lanes []dispatcher.Lane
		by    dispatcher.Browser
		want  int
	}{
		"its endpoint":            {[]dispatcher.Lane{ofA}, viewA, http.StatusOK},
		"another tenant's":        {[]dispatcher.Lane{ofA}, manageB, http.StatusNotFound},
		"its own and another one": {[]dispatcher.Lane{ofA, "ep_bbbbbbbbb"}, viewA, http.StatusNotFound},
		"a bare URL":              {[]dispatcher.Lane{"u_0123456789"}, viewA, http.StatusNotFound},
		"everything":              {nil, viewA, http.StatusNotFound},
	} {
		f := &Fake{FakeEndpoints: FakeEndpoints{There: Endpoint(t)}}
		f.There.ID, f.There.Tenant = ofA, "A"
		f.OneJob = dispatcher.Job{Kind: dispatcher.JobRetry, Filter: dispatcher.Filter{Lanes: c.lanes}, By: "key:boss", Error: "10.0.0.9:6379: refused"}
		r := newTestRequest(http.MethodGet, "/v1/jobs/job_7", "")
		w := Serve(newTestAPI(t, f), r.WithContext(dispatcher.WithBrowser(r.Context(), c.by)))
		require.Equal(t, c.want, w.Code, "%s: %s", name, w.Body)
		require.NotContains(t, w.Body.String(), "boss", name)
		require.NotContains(t, w.Body.String(), "10.0.0.9", name)
	}
}

func TestALinksErrorsHaveNoAddress(t *testing.T) {
	const refused = "its address may not be called"
	for text, want := range map[string]string{
		"127.0.0.1 is loopback; allow it with ALLOW_NETS=127.0.0.1/32":                           refused,
		"10.1.2.3 is private; allow it with LINK_ALLOW_NETS=10.1.2.3/32":                         refused,
		"127.0.0.1 is our own listener, which is never called":                                   refused,
		"machine-7 (127.0.0.1) is loopback; allow it with LINK_ALLOW_NETS=127.0.0.1/32":          refused,
		"64:ff9b::a9fe:101 (169.254.1.1) is link-local; allow it with ALLOW_NETS=169.254.1.1/32": refused,
		"connect to 10.0.0.9:443: connection refused":                                            "connect to its address: connection refused",
		"connect to [fd00::1]:443: no route to host":                                             "connect to its address: no route to host",
		"connect to [fe80::1%eth0]:80: timed out":                                                "connect to its address: timed out",
		"dial ::1: refused":          "dial its address: refused",
		"from ::ffff:10.1.2.3 to it": "from its address to it",
		"x509: certificate is valid for 10.0.0.1, fd00::7, not shop.example": "x509: certificate is valid for its address, its address, not shop.example",
		"status 302 to http://10.0.0.1:8080/a: redirects are not followed":   "status 302 to http://its address/a: redirects are not followed",
		"status 302 to http://[fd00::1]/a: redirects are not followed":       "status 302 to http://its address/a: redirects are not followed",
		"lookup shop.example: no such host":                                  "lookup shop.example: no such host",
		"lookup shop.example on 127.0.0.53:53: server misbehaving":           "lookup shop.example on its address: server misbehaving",
		"timed out waiting for the answer":                                   "timed out waiting for the answer",
		"it expired at 11:00:00, and at 2026-01-31T11:00:00.123Z":            "it expired at 11:00:00, and at 2026-01-31T11:00:00.123Z",
		"std::vector, face: bad":                                             "std::vector, face: bad",
		"proxy http://10.0.0.9:3128: status 403: it does not allow CONNECT":  "it could not be called; ask the operator",
		"": "",
	} {
		require.Equal(t, want, httpapi.Outward(text))
	}
}
