package httpapi_test

import (
	"context"
	"encoding/json"
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
)

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
