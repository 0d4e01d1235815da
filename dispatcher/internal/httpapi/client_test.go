package httpapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/ladder"
	"github.com/hookladder/hookladder/signer"
)

func TestTheClientSendsWhatTheServerReads(t *testing.T) {
	f := &Fake{}
	c := newTestClient(t, f)
	l, err := ladder.Parse("1s/2s")
	require.NoError(t, err)
	text := "a=1"
	messages := []wire.Message{
		{
			ID: "a", Topic: "t", Tenant: "m", URL: "http://a/?<&>", Body: json.RawMessage("{ \"n\":12345678901234567890,\n\"h\":\"<&>\u2028\" }"),
			Delay: wire.Duration(90 * time.Second), ExpiresAt: wire.Time{Time: Now.Add(time.Hour)}, Headers: map[string]string{"x": "<y>"},
			Ladder: &l, MaxAttempts: 3, Timeout: wire.Duration(2 * time.Second),
			Success: &wire.Success{Status: []string{"*"}, Body: json.RawMessage(`"success"`)},
		},
		{ID: "b", Topic: "t", URL: "http://a", RawBody: &text, DeliverAt: wire.Time{Time: Now.Add(time.Minute)}},
		{ID: "c", Topic: "t", URL: "http://a", RawBodyBase64: []byte{0, 255}, ContentType: "text/xml; charset=GBK"},
		{ID: "d", Topic: "t", URL: "http://a", RawBodyBase64: []byte{}, Ladder: &ladder.Ladder{}},
		{ID: "e", Topic: "t", URL: "http://a", Body: json.RawMessage(`null`)},
	}
	for i := range messages {
		got, err := c.Publish(t.Context(), &messages[i])
		require.NoError(t, err)
		require.Equal(t, messages[i].ID, got.ID)
		require.Equal(t, 1, got.Matched)
	}
	results, err := c.PublishBatch(t.Context(), append(messages, wire.Message{Topic: "bad topic"}))
	require.NoError(t, err)
	require.Len(t, results, 6)
	require.Equal(t, 422, results[5].Status)
	require.Len(t, f.Published, 10)
	for i := range 5 {
		require.Equal(t, *f.Published[i], *f.Published[i+5], "one by one and in a batch is the same")
	}
	m := f.Published[0]
	require.Equal(t, string(messages[0].Body), string(m.Body))
	require.Equal(t, "http://a/?<&>", m.URL)
	require.Equal(t, 90*time.Second, m.Delay)
	require.Equal(t, 2, m.Ladder.Len())
	require.Equal(t, []dispatcher.Header{{Name: "x", Value: "<y>"}}, m.Headers)
	require.True(t, m.Success.Status(404))
	require.False(t, m.Success.Body([]byte("no")))
	require.Equal(t, "a=1", string(f.Published[1].Body))
	require.Equal(t, []byte{0, 255}, f.Published[2].Body)
	require.Empty(t, f.Published[3].Body)
	require.NotNil(t, f.Published[3].Ladder)
	require.Equal(t, "null", string(f.Published[4].Body))
}

func TestTheClientReadsWhatTheServerWrites(t *testing.T) {
	f := &Fake{View: Record(t), Page: dispatcher.Page{Deliveries: Record(t).Deliveries, Next: "next"}}
	c := newTestClient(t, f)
	rec, err := c.Message(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, string(Record(t).Message.Body), string(rec.Body))
	require.Equal(t, wire.Duration(90*time.Second), rec.Delay)
	require.Len(t, rec.Deliveries, 3)
	require.Equal(t, "retry", rec.Deliveries[0].History[0].Outcome)
	cancelled, err := c.Cancel(t.Context(), "a", "u_1")
	require.NoError(t, err)
	require.Len(t, cancelled, 3)
	require.EqualValues(t, "u_1", f.InLane)
	requireClientRetries(t, c, f)
	page, err := c.Deliveries(t.Context(), client.Filter{
		Statuses: []string{"dead", "delivered"}, Topics: []string{"a.b"}, Tenants: []string{"m"}, Destinations: []string{"http://a/?x=1"},
		Reasons: []string{"gone"}, Since: Now, Until: Now.Add(1), Limit: 7, Cursor: "c",
	})
	require.NoError(t, err)
	require.Equal(t, "next", *page.NextCursor)
	require.True(t, f.Filter.Since.Equal(Now))
	require.True(t, f.Filter.Until.Equal(Now.Add(1)))
	require.Len(t, f.Filter.Statuses, 2)
	require.Equal(t, 7, f.Filter.Limit)
	dead, err := c.Dead(t.Context(), client.DeadFilter{
		Tenants: []string{"m"}, Destinations: []string{"http://a/?x=1", "u_1"}, Reasons: []string{"gone"}, Limit: 7, Cursor: "c",
	})
	require.NoError(t, err)
	require.Empty(t, dead.Data)
	require.Len(t, f.DeadOf.Lanes, 2)
	require.Equal(t, "c", f.DeadOf.Cursor)
	stats, err := c.Stats(t.Context())
	require.NoError(t, err)
	require.Contains(t, stats.Counts, "dead")
	ready, err := c.Ready(t.Context())
	require.NoError(t, err)
	require.Equal(t, "ready", ready.Status)
}

func TestTheClientTellsProblems(t *testing.T) {
	f := &Fake{Err: dispatcher.ErrNotFound}
	c := newTestClient(t, f)
	_, err := c.Message(t.Context(), "a")
	var p *client.Problem
	require.True(t, errors.As(err, &p))
	require.Equal(t, http.StatusNotFound, p.Status)
	require.NotErrorIs(t, err, client.ErrUnreachable)
	_, err = c.Message(t.Context(), "../stats")
	require.True(t, errors.As(err, &p))
	require.Equal(t, http.StatusNotFound, p.Status)

	f.Err = dispatcher.ErrFull
	_, err = c.Stats(t.Context())
	require.True(t, errors.As(err, &p))
	require.Equal(t, "/problems/full", p.Type)
	require.Positive(t, p.RetryAfter)

	_, err = c.Publish(t.Context(), &wire.Message{Topic: "t", URL: "ftp://a", Body: json.RawMessage("1")})
	require.ErrorContains(t, err, "$.url")
	_, err = c.Publish(t.Context(), &wire.Message{Topic: "t", URL: "http://a", Body: json.RawMessage("{")})
	require.ErrorContains(t, err, "not JSON")
}

// notInTheClient are the operations that the Go client has no method for, and why.
var notInTheClient = map[string]string{
	"healthz": "for orchestrators: Ready tells a program more",
	"metrics": "for Prometheus",
}

// notInQueries are parameters that the Go client does not send, and why.
var notInQueries = map[string]string{
	"publish Idempotency-Key":     "the message has its ID",
	"publish traceparent":         "the context has it",
	"publish-batch traceparent":   "the context has it",
	"list-attempts Last-Event-ID": "Follow sends it",
}

const aCursor = "c1"

// clientCalls call each operation, with every parameter that it has.
var clientCalls = map[string][]func(context.Context, *client.Client) error{
	"publish": {func(ctx context.Context, c *client.Client) error { return second(c.Publish(ctx, &wire.Message{})) }},
	"publish-batch": {func(ctx context.Context, c *client.Client) error {
		return second(c.PublishBatch(ctx, make([]wire.Message, 1)))
	}},
	"get-message": {func(ctx context.Context, c *client.Client) error { return second(c.Message(ctx, "a")) }},
	"cancel-message": {func(ctx context.Context, c *client.Client) error {
		return second(c.Cancel(ctx, "a", "u_1"))
	}},
	"retry-message": {
		func(ctx context.Context, c *client.Client) error { return second(c.Retry(ctx, "a", "u_1")) },
		func(ctx context.Context, c *client.Client) error { return second(c.Resend(ctx, "a")) },
	},
	"list-deliveries": {func(ctx context.Context, c *client.Client) error {
		return second(c.Deliveries(ctx, client.Filter{
			Statuses: []string{"dead"}, Topics: []string{"a"}, Tenants: []string{"m"}, Subjects: []string{"s"}, SubjectLike: []string{"s"}, SubjectEnds: []string{"4711"}, Failed: true, Order: "accepted", Destinations: []string{"u_1"},
			Reasons: []string{"gone"}, Since: Now, Until: Now, Limit: 1, Cursor: aCursor,
		}))
	}},
	"list-dead": {func(ctx context.Context, c *client.Client) error {
		return second(c.Dead(ctx, client.DeadFilter{Tenants: []string{"m"}, Destinations: []string{"u_1"}, Reasons: []string{"gone"}, Limit: 1, Cursor: aCursor}))
	}},
	"list-attempts": {func(ctx context.Context, c *client.Client) error {
		return second(c.Attempts(ctx, client.AttemptFilter{
			Destinations: []string{"u_1"}, Tenants: []string{"m"}, Messages: []string{"a"}, Outcomes: []string{"dead"},
			Topics: []string{"a.*"}, Subjects: []string{"b"}, StatusCodes: []int{503}, Jobs: []string{"job_1"},
			Since: Now, Until: Now, Limit: 1, Cursor: aCursor,
		}))
	}},
	"retry-deliveries": {func(ctx context.Context, c *client.Client) error {
		return second(c.StartJob(ctx, client.JobRetry, wire.JobRequest{All: true}))
	}},
	"cancel-deliveries": {func(ctx context.Context, c *client.Client) error {
		return second(c.StartJob(ctx, client.JobCancel, wire.JobRequest{All: true}))
	}},
	"purge-deliveries": {func(ctx context.Context, c *client.Client) error {
		return second(c.SurveyJob(ctx, client.JobPurge, wire.JobRequest{All: true}))
	}},
	"list-jobs":  {func(ctx context.Context, c *client.Client) error { return second(c.Jobs(ctx, 1, aCursor)) }},
	"get-job":    {func(ctx context.Context, c *client.Client) error { return second(c.Job(ctx, "job_1")) }},
	"stop-job":   {func(ctx context.Context, c *client.Client) error { return second(c.StopJob(ctx, "job_1")) }},
	"resume-job": {func(ctx context.Context, c *client.Client) error { return second(c.ResumeJob(ctx, "job_1")) }},
	"create-endpoint": {func(ctx context.Context, c *client.Client) error {
		_, _, err := c.CreateEndpoint(ctx, &wire.Endpoint{})
		return err
	}, func(ctx context.Context, c *client.Client) error {
		_, _, err := c.TryCreateEndpoint(ctx, &wire.Endpoint{})
		return err
	}},
	"list-endpoints": {func(ctx context.Context, c *client.Client) error {
		return second(c.Endpoints(ctx, client.EndpointFilter{Tenants: []string{"m"}, States: []string{"open"}, Like: "shop", Limit: 1, Cursor: aCursor}))
	}},
	"get-endpoint": {func(ctx context.Context, c *client.Client) error { return second(c.Endpoint(ctx, "a")) }},
	"patch-endpoint": {func(ctx context.Context, c *client.Client) error {
		return second(c.PatchEndpoint(ctx, "a", map[string]any{}))
	}, func(ctx context.Context, c *client.Client) error {
		return second(c.TryPatchEndpoint(ctx, "a", map[string]any{}))
	}},
	"delete-endpoint": {func(ctx context.Context, c *client.Client) error { return second(c.DeleteEndpoint(ctx, "a")) }},
	"list-endpoint-deliveries": {func(ctx context.Context, c *client.Client) error {
		return second(c.EndpointDeliveries(ctx, "a", client.EndedFilter{Statuses: []string{"dead"}, Since: Now, Until: Now, Limit: 1, Cursor: aCursor}))
	}},
	"pause-endpoint":  {func(ctx context.Context, c *client.Client) error { return second(c.PauseEndpoint(ctx, "a")) }},
	"resume-endpoint": {func(ctx context.Context, c *client.Client) error { return second(c.ResumeEndpoint(ctx, "a")) }},
	"retry-endpoint":  {func(ctx context.Context, c *client.Client) error { return second(c.RetryEndpoint(ctx, "a")) }},
	"confirm-endpoint": {func(ctx context.Context, c *client.Client) error {
		return second(c.ConfirmEndpoint(ctx, "a", "https://a.example/"))
	}},
	"get-secret": {func(ctx context.Context, c *client.Client) error { return second(c.EndpointSecret(ctx, "a")) }},
	"rotate-secret": {func(ctx context.Context, c *client.Client) error {
		return second(c.RotateSecret(ctx, "a", wire.Rotation{}))
	}},
	"test-endpoint": {func(ctx context.Context, c *client.Client) error { return second(c.TestEndpoint(ctx, "a")) }},
	"webhook-keys":  {func(ctx context.Context, c *client.Client) error { return second(c.WebhookKeys(ctx, "a", 1, aCursor)) }},
	"list-lanes": {
		func(ctx context.Context, c *client.Client) error { return second(c.Lanes(ctx, 1, aCursor)) },
		func(ctx context.Context, c *client.Client) error { return second(c.FailingLanes(ctx, 1)) },
		func(ctx context.Context, c *client.Client) error { return second(c.LanesOf(ctx, "m", "http://a")) },
	},
	"pause-lane": {
		func(ctx context.Context, c *client.Client) error { return second(c.PauseLane(ctx, "http://a", "m")) },
		func(ctx context.Context, c *client.Client) error {
			return second(c.PauseTenants(ctx, "http://a", aCursor))
		},
	},
	"resume-lane": {
		func(ctx context.Context, c *client.Client) error { return second(c.ResumeLane(ctx, "http://a", "m")) },
		func(ctx context.Context, c *client.Client) error {
			return second(c.ResumeTenants(ctx, "http://a", aCursor))
		},
	},
	"list-audit": {func(ctx context.Context, c *client.Client) error {
		return second(c.Audit(ctx, client.AuditFilter{
			By: []string{"system"}, What: []string{"job.stop"}, Targets: []string{"a"}, Tenants: []string{"m"}, Since: Now, Until: Now, Limit: 1, Cursor: aCursor,
		}))
	}},
	"create-link": {func(ctx context.Context, c *client.Client) error {
		return second(c.CreateLink(ctx, wire.LinkRequest{}))
	}},
	"list-links":  {func(ctx context.Context, c *client.Client) error { return second(c.Links(ctx, 1, aCursor)) }},
	"revoke-link": {func(ctx context.Context, c *client.Client) error { return c.RevokeLink(ctx, "a") }},
	"take":        {func(ctx context.Context, c *client.Client) error { return second(c.Take(ctx, "orders", wire.Take{})) }},
	"settle": {func(ctx context.Context, c *client.Client) error {
		return second(c.Settle(ctx, "orders", []wire.Settlement{{ID: "q_orders:a", Outcome: "delivered"}}))
	}},
	"stats":          {func(ctx context.Context, c *client.Client) error { return second(c.Stats(ctx)) }},
	"tick":           {func(ctx context.Context, c *client.Client) error { return second(c.Tick(ctx, time.Second)) }},
	"list-instances": {func(ctx context.Context, c *client.Client) error { return second(c.Instances(ctx, 1, aCursor)) }},
	"readyz":         {func(ctx context.Context, c *client.Client) error { return second(c.Ready(ctx)) }},
}

func second[T any](_ T, err error) error { return err }

// parametersOf are those of each operation in the document, but what the path names.
func parametersOf(t testing.TB, h http.Handler) map[string][]string {
	t.Helper()
	var d struct {
		Paths map[string]map[string]struct {
			OperationID string
			Parameters  []struct{ Name, In string }
		}
	}
	require.NoError(t, json.Unmarshal(Get(h, "/openapi.json").Body.Bytes(), &d))
	all := map[string][]string{}
	for _, methods := range d.Paths {
		for _, o := range methods {
			all[o.OperationID] = []string{}
			for _, p := range o.Parameters {
				if p.In != "path" && notInQueries[o.OperationID+" "+p.Name] == "" {
					all[o.OperationID] = append(all[o.OperationID], p.Name)
				}
			}
		}
	}
	return all
}

// inProcess makes calls without a network, so that a call is counted when it returns.
type inProcess struct {
	http.Handler
	names map[string]bool // of the parameters that came
}

func (p *inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	for name := range r.URL.Query() {
		p.names[name] = true
	}
	server := httptest.NewRequestWithContext(r.Context(), r.Method, r.URL.String(), r.Body)
	server.Header = r.Header
	return Serve(p, server).Result(), nil
}

// TestEachOperationIsInTheGoClient holds the client to the API: a call that is added to
// the one is added to the other.
func TestEachOperationIsInTheGoClient(t *testing.T) {
	counter := &fakeCounter{}
	h := newTestAPI(t, &Fake{Err: dispatcher.ErrNotFound}, func(o *httpapi.Options) {
		o.Counter, o.Metrics = counter, http.NotFoundHandler()
	})
	want := parametersOf(t, h)
	api := &inProcess{Handler: h, names: map[string]bool{}}
	c, err := client.New("http://localhost:8080", "", client.WithHTTPClient(&http.Client{Transport: api}))
	require.NoError(t, err)
	for _, id := range slices.Sorted(maps.Keys(want)) {
		if notInTheClient[id] != "" {
			require.Empty(t, clientCalls[id], id)
			continue
		}
		require.NotEmpty(t, clientCalls[id], "%s: add a method to dispatcher/client, and call it here with all of its parameters", id)
		counter.asked = nil
		clear(api.names)
		for _, do := range clientCalls[id] {
			_ = do(t.Context(), c) // the service has nothing: what was asked for counts
		}
		for call := range counter.asked {
			require.Equal(t, id, strings.Fields(call)[0])
		}
		require.NotEmpty(t, counter.asked, id)
		require.ElementsMatch(t, want[id], slices.Collect(maps.Keys(api.names)), "the parameters of %s", id)
	}
	for _, id := range slices.Concat(slices.Collect(maps.Keys(clientCalls)), slices.Collect(maps.Keys(notInTheClient))) {
		require.Contains(t, want, id, "it is no operation any more")
	}
}

// TestTheGoClientAsksForPagesThatTheServerGives holds the size of its pages to the most
// that each list allows.
func TestTheGoClientAsksForPagesThatTheServerGives(t *testing.T) {
	c := newTestClient(t, &Fake{FakeEndpoints: FakeEndpoints{There: Endpoint(t)}})
	ctx := t.Context()
	for list, err := range map[string]error{
		"deliveries": ended(c.EachDelivery(ctx, client.Filter{})),
		"attempts":   ended(c.EachAttempt(ctx, client.AttemptFilter{})),
		"dead":       ended(c.EachDead(ctx, client.DeadFilter{})),
		"endpoints":  ended(c.EachEndpoint(ctx, client.EndpointFilter{})),
		"ended":      ended(c.EachEnded(ctx, "merchant:7", client.EndedFilter{})),
		"lanes":      ended(c.EachLane(ctx)),
		"jobs":       ended(c.EachJob(ctx)),
		"instances":  ended(c.EachInstance(ctx)),
		"links":      ended(c.EachLink(ctx)),
		"audit":      ended(c.EachAuditEntry(ctx, client.AuditFilter{})),
		"keys":       ended(c.EachWebhookKey(ctx, "")),
	} {
		require.NoError(t, err, list)
	}
}

// ended is the error that ends a list, or nil.
func ended[T any](all iter.Seq2[T, error]) (last error) {
	for _, err := range all {
		last = err
	}
	return last
}

func TestTheClientKeepsEndpoints(t *testing.T) {
	f := &Fake{FakeEndpoints: FakeEndpoints{Secret: MustSecret(t, signer.Standard, SecretNew), Next: "c2"}}
	c := newTestClient(t, f)
	l, err := ladder.Parse("1s/2s")
	require.NoError(t, err)
	view, created, err := c.CreateEndpoint(t.Context(), &wire.Endpoint{
		UID: "a:b@c", Tenant: "m7", URL: "http://a/?<&>", Topics: []string{}, Description: "<x>", Metadata: map[string]string{"a": "b"},
		Secret: SecretOld, Signature: "stripe", Ladder: &l, Timeout: wire.Duration(2 * time.Second), MaxInFlight: 3, Rate: "5/s",
		Headers: map[string]string{"x": "hunter2"}, Success: &wire.Success{Body: json.RawMessage(`"ok"`)}, Ordered: true,
	})
	require.NoError(t, err)
	require.True(t, created)
	require.Equal(t, SecretOld, view.Secret)
	require.Equal(t, "http://a/?<&>", f.There.URL)
	require.Empty(t, f.There.Topics)
	require.Equal(t, 2, f.There.Ladder.Len())
	require.Equal(t, map[string]string{"x": "***"}, view.Headers)
	f.Equal = true
	_, created, err = c.CreateEndpoint(t.Context(), &wire.Endpoint{URL: "http://a"})
	require.NoError(t, err)
	require.False(t, created)
	require.Equal(t, []string{"*"}, f.There.Topics)

	f.There.UID = "a:b@c"
	m7 := "m7"
	page, err := c.Endpoints(t.Context(), client.EndpointFilter{Tenants: []string{m7}, Limit: 3, Cursor: "c1"})
	require.NoError(t, err)
	require.Len(t, page.Data, 1)
	require.Equal(t, "c2", *page.NextCursor)
	require.Equal(t, dispatcher.EndpointFilter{Tenants: []string{m7}, Limit: 3, Cursor: "c1"}, f.FilterOf)
	_, err = c.Endpoints(t.Context(), client.EndpointFilter{})
	require.NoError(t, err)
	require.Nil(t, f.FilterOf.Tenants)

	view, err = c.PatchEndpoint(t.Context(), "a:b@c", map[string]any{"description": "new", "topics": nil})
	require.NoError(t, err)
	require.Equal(t, "new", view.Description)
	view, err = c.PatchEndpoint(t.Context(), "a:b@c", json.RawMessage(`{"description":null}`))
	require.NoError(t, err)
	require.Empty(t, view.Description)
	_, err = c.PatchEndpoint(t.Context(), "a", json.RawMessage(`{`))
	require.Error(t, err)
	n, err := c.DeleteEndpoint(t.Context(), "a:b@c")
	require.NoError(t, err)
	require.Equal(t, 3, n)
}

func TestTheClientCallsEndpointsAndLanes(t *testing.T) {
	f := &Fake{FakeEndpoints: FakeEndpoints{
		There: Endpoint(t), State: dispatcher.LaneState{Lane: "u_1"}, Next: "c2", Overlap: -1,
		Test: dispatcher.TestResult{MessageID: "msg_1", Attempt: dispatcher.Attempt{Verdict: dispatcher.Delivered}},
	}}
	c := newTestClient(t, f)
	for _, call := range []func() (wire.EndpointView, error){
		func() (wire.EndpointView, error) { return c.Endpoint(t.Context(), "merchant:7") },
		func() (wire.EndpointView, error) { return c.PauseEndpoint(t.Context(), "merchant:7") },
		func() (wire.EndpointView, error) { return c.ResumeEndpoint(t.Context(), "merchant:7") },
		func() (wire.EndpointView, error) {
			rotated, err := c.RotateSecret(t.Context(), "merchant:7", wire.Rotation{})
			return rotated.EndpointView, err
		},
	} {
		view, err := call()
		require.NoError(t, err)
		require.Equal(t, "ep_123456789", view.ID)
		require.Equal(t, "merchant:7", f.Asked)
	}
	require.Equal(t, 24*time.Hour, f.Overlap)
	none := wire.Duration(0)
	_, err := c.RotateSecret(t.Context(), "merchant:7", wire.Rotation{Overlap: &none, Secret: SecretOld})
	require.NoError(t, err)
	require.Zero(t, f.Overlap)
	require.Equal(t, SecretOld, f.Rotated.Reveal())
	secrets, err := c.EndpointSecret(t.Context(), "merchant:7")
	require.NoError(t, err)
	require.Equal(t, SecretNew, secrets.Secrets[0].Secret)
	require.True(t, secrets.Secrets[0].Until.IsZero())
	said, err := c.TestEndpoint(t.Context(), "merchant:7")
	require.NoError(t, err)
	require.Equal(t, "delivered", said.Outcome)
	keys, err := c.WebhookKeys(t.Context(), "", 2, "c1")
	require.NoError(t, err)
	require.Empty(t, keys.Data)
	require.Equal(t, dispatcher.PublicKeyFilter{Limit: 2, Cursor: "c1"}, f.KeysOf)
	_, err = c.WebhookKeys(t.Context(), "merchant:7", 0, "")
	require.NoError(t, err)

	lanes, err := c.Lanes(t.Context(), 5, "c1")
	require.NoError(t, err)
	require.Equal(t, "u_1", lanes.Data[0].Lane)
	require.Equal(t, "c2", *lanes.NextCursor)
	for _, destination := range []string{"u_1", "merchant:7", client.AllLanes, "https://shop.example/a/../b//c?x=%2F&y"} {
		for _, call := range []func() (wire.LaneState, error){
			func() (wire.LaneState, error) { return c.PauseLane(t.Context(), destination, "") },
			func() (wire.LaneState, error) { return c.ResumeLane(t.Context(), destination, "") },
		} {
			got, err := call()
			require.NoError(t, err)
			require.Equal(t, "u_1", got.Lane)
			require.Equal(t, destination, f.Asked)
		}
	}
}

func TestAClientPausesAndResumesAllTenants(t *testing.T) {
	f := &Fake{FakeEndpoints: FakeEndpoints{State: dispatcher.LaneState{Lane: "u_1"}, Others: dispatcher.OtherTenants{Lanes: 3, Changed: 3, Next: "0-7"}}}
	c := newTestClient(t, f)
	for _, call := range []func(context.Context, string, string) (wire.LaneState, error){c.PauseTenants, c.ResumeTenants} {
		for _, cursor := range []string{"", "0-7"} {
			got, err := call(t.Context(), "https://shop.example/x", cursor)
			require.NoError(t, err)
			require.Equal(t, 3, got.OtherTenants.Changed)
			require.Equal(t, "0-7", *got.OtherTenants.NextCursor)
			require.Equal(t, cursor, f.Cursor)
		}
	}
}

func TestAClientsErrorsHoldNoSecretOfADestination(t *testing.T) {
	f := &Fake{Err: dispatcher.ErrUnavailable}
	c := newTestClient(t, f)
	_, err := c.PauseLane(t.Context(), "https://shop.example/hooks?token=hunter2", "")
	require.ErrorContains(t, err, "pause https://shop.example: ")
	require.NotContains(t, err.Error(), "hunter2")
	_, err = c.PauseLane(t.Context(), "https://user:hunter2@shop.example/", "")
	require.NotContains(t, err.Error(), "hunter2")
	_, err = c.PauseLane(t.Context(), "https://%zzhunter2", "")
	require.NotContains(t, err.Error(), "hunter2")
	_, err = c.PauseLane(t.Context(), "u_1", "")
	require.ErrorContains(t, err, "pause u_1: ")

	for _, name := range []string{"", "..", "../lanes", "a/b", "\x00", "?x=1"} {
		_, err := c.Endpoint(t.Context(), name)
		var p *client.Problem
		require.True(t, errors.As(err, &p), name)
		require.Equal(t, http.StatusNotFound, p.Status, name)
	}
	require.NotContains(t, f.Calls, "endpoint")
	_, _, err = c.CreateEndpoint(t.Context(), &wire.Endpoint{URL: "http://a", Secret: "hunter2"})
	require.ErrorContains(t, err, "$.secret")
	require.NotContains(t, err.Error(), "hunter2")
}

// requireClientRetries asks for attempts by the client.
func requireClientRetries(t *testing.T, c *client.Client, f *Fake) {
	t.Helper()
	f.Left = []dispatcher.Left{"in_flight"}
	got, err := c.Retry(t.Context(), "a", "")
	require.NoError(t, err)
	require.Len(t, got, 3)
	require.Equal(t, "in_flight", got[0].Why)
	require.True(t, got[1].Retried)
	require.False(t, f.Delivered)
	_, err = c.Retry(t.Context(), "a", "u_1")
	require.NoError(t, err)
	require.EqualValues(t, "u_1", f.InLane)
	f.InLane = ""
	_, err = c.Resend(t.Context(), "a")
	require.NoError(t, err)
	require.True(t, f.Delivered)
	require.Empty(t, f.InLane)

	f.Left = []dispatcher.Left{"order", "expired", "delivered"}
	_, err = c.Retry(t.Context(), "a", "")
	var p *client.Problem
	require.True(t, errors.As(err, &p))
	require.Len(t, p.Deliveries, 3)
	require.Equal(t, "order", p.Deliveries[0].Why)
}
