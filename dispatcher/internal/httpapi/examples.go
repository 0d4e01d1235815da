package httpapi

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/ladder"
)

// Names in the examples.
const (
	tenant   = "m7"
	uid      = "merchant-7"
	endpoint = "ep_k3v9x2m4q"
	address  = "https://shop.example/hooks"
	topic    = "payment.paid"
	message  = "order-4711-paid"
	subject  = "order-4711"
	delivery = endpoint + ":" + message
	queue    = "order_cancel"
	by       = "key:ops"
	rate     = "100/s"
	secret   = "whsec_bmV3bmV3bmV3bmV3bmV3bmV3bmV3bmV3bmV3bmU="
)

// at returns a time of the story, so many seconds after its beginning.
func at(seconds float64) wire.Time {
	return wire.Time{Time: time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC).Add(time.Duration(seconds * float64(time.Second)))}
}

func waits(text string) *ladder.Ladder {
	l, err := ladder.Parse(text)
	if err != nil {
		panic(err) // a test draws the document
	}
	return &l
}

func duration(d time.Duration) *wire.Duration { return new(wire.Duration(d)) }

// Bodies of requests.
var (
	exampleMessage = wire.Message{
		ID: message, Topic: topic, Tenant: tenant, Subject: subject,
		Body: json.RawMessage(`{"order":4711,"amount":"12.50","currency":"EUR"}`),
	}
	exampleBatch = wire.Batch{Messages: []wire.Message{
		{ID: "order-4712-paid", Topic: topic, Tenant: tenant, URL: address, Body: json.RawMessage(`{"order":4712}`)},
		{ID: "order-4713-unpaid", Topic: "order.unpaid", Queue: queue, Delay: wire.Duration(30 * time.Minute), Body: json.RawMessage(`{"order":4713}`)},
	}}
	exampleEndpoint = wire.Endpoint{
		UID: uid, Tenant: tenant, URL: address, Topics: []string{"payment.*"}, Description: "The shop of merchant 7",
		Metadata: map[string]string{"plan": "gold"}, Ladder: waits("15s/3m/10m"), Timeout: wire.Duration(10 * time.Second),
		MaxInFlight: 10, Rate: rate, Headers: map[string]string{"authorization": "Bearer 5d41402abc4b2a76"},
		Success: &wire.Success{Status: []string{"2xx"}, Body: json.RawMessage(`{"path":"code","equals":"SUCCESS"}`)},
	}
	examplePatch        = map[string]any{"topics": []string{"payment.*", "refund.*"}, "rate": "50/s", "description": nil, "headers": map[string]any{"authorization": "***"}}
	exampleConfirmation = wire.Confirmation{URL: address}
	exampleRotation     = wire.Rotation{Overlap: duration(48 * time.Hour)}

	exampleRetryRequest  = map[string]any{"tenant": tenant, "dead_reason": []string{"exhausted", "gone"}, "since": "2026-01-31T00:00:00Z", "rate": 100, "probe": true}
	exampleCancelRequest = map[string]any{"topic": "payment.*", "tenant": []string{tenant}, "dry_run": true}
	examplePurgeRequest  = map[string]any{"dead_reason": "expired", "until": "2026-01-01T00:00:00Z"}

	exampleTake   = wire.Take{Max: 10, Lease: wire.Duration(30 * time.Second), Wait: wire.Duration(time.Second)}
	exampleSettle = wire.Settle{Results: []wire.Settlement{
		{ID: "q_order_cancel:order-4713-unpaid", Lease: "9f2c41d0", Outcome: "delivered"},
		{ID: "q_order_cancel:order-4714-unpaid", Lease: "b07ae512", Outcome: "retry", After: duration(5 * time.Second), Error: "the database is locked"},
	}}
	exampleLinkRequest = wire.LinkRequest{Tenant: tenant, For: wire.Duration(24 * time.Hour), Manage: true, Name: "Anna of merchant 7"}
)

// cursor is an example of next_cursor.
var cursor = new("bGFzdCBvbmUgb2YgdGhpcyBwYWdl")

var (
	ref = wire.DeliveryRef{ID: delivery, Destination: endpoint, URL: address, Status: "retrying", NextAttemptAt: at(15.32)}

	failed = wire.Attempt{
		Attempt: 1, At: at(0.01), DurationMS: 310, StatusCode: 500, Outcome: "retry", Class: "status", URL: address, Address: "192.0.2.7:443",
		Error: "status 500", ResponseExcerpt: "try again later", NextAttemptAt: at(15.32),
	}

	retrying = wire.Delivery{
		DeliveryRef: ref, MessageID: message, CreatedAt: at(0), Topic: topic, Tenant: tenant, Subject: subject, Attempts: 1, Rung: 1, LadderFrom: 1,
		LastStatusCode: 500, LastError: "status 500", WaitingFor: "rung", WaitingUntil: at(15.32), Ladder: waits("15s/3m/10m"),
	}

	dead = wire.Delivery{
		DeliveryRef: wire.DeliveryRef{ID: delivery, Destination: endpoint, URL: address, Status: "dead", EndedAt: at(800)},
		MessageID:   message, CreatedAt: at(0), Topic: topic, Tenant: tenant, Subject: subject, Attempts: 4, Rung: 3, LadderFrom: 1,
		LastStatusCode: 500, LastError: "status 500", DeadReason: "exhausted", Ladder: waits("15s/3m/10m"),
	}

	// exampleDuplicate is the response to a repeat of a publish.
	exampleDuplicate = wire.Published{ID: message, Topic: topic, CreatedAt: at(0), Duplicate: true, Matched: 1, Deliveries: []wire.DeliveryRef{ref}}
)

// Responses about messages and deliveries.
var (
	examplePublished = wire.Published{
		ID: message, Topic: topic, CreatedAt: at(0), Matched: 1,
		Deliveries: []wire.DeliveryRef{{ID: delivery, Destination: endpoint, URL: address, Status: "ready", NextAttemptAt: at(0)}},
	}
	exampleResults = wire.Results{Results: []wire.Result{
		{Status: 202, Published: &wire.Published{ID: "order-4712-paid", Topic: topic, CreatedAt: at(0), Matched: 1, Deliveries: []wire.DeliveryRef{
			{ID: "u_sD6fcyYqsA:order-4712-paid", Destination: "u_sD6fcyYqsA", URL: address, Status: "ready", NextAttemptAt: at(0)},
		}}},
	}}
	exampleRecord = wire.MessageView{
		Message: wire.Message{
			ID: message, Topic: topic, Tenant: tenant, Subject: subject, ContentType: "application/json",
			Body: json.RawMessage(`{"order":4711,"amount":"12.50","currency":"EUR"}`),
		},
		CreatedAt:  at(0),
		Deliveries: []wire.Delivery{withHistory(retrying, failed)},
	}
	exampleDeliveries = wire.Deliveries{ID: message, Deliveries: []wire.Delivery{{
		DeliveryRef: wire.DeliveryRef{ID: delivery, Destination: endpoint, URL: address, Status: "cancelled", EndedAt: at(9)},
		MessageID:   message, CreatedAt: at(0), Topic: topic, Tenant: tenant, Subject: subject, Attempts: 1,
	}}}
	exampleRetried = wire.Retried{ID: message, Deliveries: []wire.RetriedDelivery{{Delivery: retrying, Retried: true}}}

	examplePage      = wire.Page{Data: []wire.Delivery{retrying}, NextCursor: cursor, LookedAt: 50}
	exampleEndedPage = wire.EndedPage{Data: []wire.Delivery{dead}, ResumeCursor: "aGVyZSBpdCBnb2VzIG9u", LookedAt: 1}
	exampleDeadPage  = wire.DeadPage{Data: []wire.DeadGroup{{
		Destination: endpoint, URL: "https://shop.example", Endpoint: endpoint, UID: uid, Reason: "exhausted", Count: 17, Newest: at(800), LastStatusCode: 500, LastError: "status 500",
	}}}
	exampleLoggedPage = wire.LoggedPage{
		Data: []wire.LoggedAttempt{{
			ID: delivery, MessageID: message, Destination: endpoint, URL: address, Address: "192.0.2.7:443", Topic: topic, Tenant: tenant, Subject: subject,
			Attempt: 1, At: at(0.01), DurationMS: 310, StatusCode: 500, Class: "status", Outcome: "retry", Error: "status 500", ResponseExcerpt: "try again later", NextAttemptAt: at(15.32),
		}},
		NextCursor: cursor, LookedAt: 50, CompleteSince: at(-86400),
	}

	// exampleEvents is a stream of attempts.
	exampleEvents = "id: 1769860800010-0-0-0\nevent: attempt\ndata: {\"id\":\"" + delivery + "\",\"message_id\":\"" + message + "\",\"destination\":\"" + endpoint +
		"\",\"attempt\":1,\"at\":\"2026-01-31T12:00:00.010Z\",\"duration_ms\":310,\"status_code\":500,\"outcome\":\"retry\",\"next_attempt_at\":\"2026-01-31T12:00:15.320Z\"}\n\n"
)

func withHistory(d wire.Delivery, attempts ...wire.Attempt) wire.Delivery {
	d.History = attempts
	return d
}

// Responses about jobs.
var (
	exampleJob = wire.Job{
		ID: "job_1", Kind: "retry", State: "running", Expected: new(17), Matched: 17, Done: 9, Left: 1, Reasons: wire.LeftReasons{"in_flight": 1},
		Filter:   wire.JobFilter{Tenant: []string{tenant}, DeadReason: []string{"exhausted", "gone"}, Since: at(-43200)},
		Outcomes: &wire.JobOutcomes{Delivered: 6, Dead: 1}, Retrying: new(2), TakenOver: new(0), Rate: rate, Probe: true, StartedAt: at(900), By: by,
	}
	exampleJobPage = wire.JobPage{Data: []wire.Job{exampleJob}}
	exampleSurvey  = wire.Survey{Matched: 17, Complete: true, ByReason: map[string]int{"exhausted": 17}, Oldest: at(100), Newest: at(800), Sample: []wire.Delivery{dead}}
)

// Responses to takers.
var (
	exampleTaken = wire.Taken{Data: []wire.TakenDelivery{{
		ID: "q_order_cancel:order-4713-unpaid", Lease: "9f2c41d0", LeaseUntil: at(1830), Attempt: 1,
		Message: wire.TakenMessage{ID: "order-4713-unpaid", Topic: "order.unpaid", ContentType: "application/json", CreatedAt: at(0)},
		Headers: map[string]string{"content-type": "application/json", "hookladder-attempt": "1", "hookladder-topic": "order.unpaid", "webhook-id": "order-4713-unpaid", "webhook-timestamp": "1769862600"},
		Body:    json.RawMessage(`{"order":4713}`),
	}}}
	exampleSettled = wire.Settled{Results: []wire.SettledDelivery{
		{ID: "q_order_cancel:order-4713-unpaid", Result: "ok", Status: "delivered"},
		{ID: "q_order_cancel:order-4714-unpaid", Result: "ok", Status: "retrying"},
	}}
	exampleTick = wire.Tick{Attempted: 12, Delivered: 11, Dead: 0, NextDueAt: new(at(15.32))}
)

// view returns the endpoint as a response has it.
func view(change ...func(*wire.EndpointView)) wire.EndpointView {
	v := wire.EndpointView{ID: endpoint, Endpoint: exampleEndpoint, State: "active", InFlight: 1, Waiting: 4, CreatedAt: at(-86400), UpdatedAt: at(-3600)}
	v.Kind, v.Signature, v.Headers = "push", "standard", map[string]string{"authorization": wire.Hidden}
	for _, c := range change {
		c(&v)
	}
	return v
}

func withSecret(v *wire.EndpointView) { v.Secret = secret }

// Responses about endpoints.
var (
	exampleEndpointView    = view()
	exampleEndpointCreated = view(withSecret, func(v *wire.EndpointView) { v.InFlight, v.Waiting, v.UpdatedAt = 0, 0, v.CreatedAt })
	exampleEndpointPage    = wire.EndpointPage{Data: []wire.EndpointView{view()}}

	exampleEndpointDeleted = wire.EndpointDeleted{Cancelled: 4}
	exampleEndpointTest    = wire.EndpointTest{MessageID: "test_01KG8ZB6T4", At: at(0), DurationMS: 120, StatusCode: 200, Outcome: "delivered", ResponseExcerpt: "ok"}
	exampleEndpointSecrets = wire.EndpointSecrets{ID: endpoint, Signature: "standard", Secrets: []wire.EndpointSecret{{Secret: secret}}}
	exampleRotated         = wire.Rotated{EndpointView: view(withSecret), PreviousUntil: at(172800)}
	examplePublicKeyPage   = wire.PublicKeyPage{Data: []wire.PublicKey{{Endpoint: endpoint, PublicKey: "whpk_A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg="}}}
)

// Responses about lanes, links and the process.
var (
	exampleLaneState = wire.LaneState{
		Lane: endpoint, URL: "https://shop.example", Tenant: tenant, Endpoint: endpoint, UID: uid, State: "paused", Why: "paused", Since: at(60), By: by,
		InFlight: 1, Waiting: 4, Window: 8, MaxInFlight: 10, Rate: rate, LastFailure: exampleLaneFailure,
	}
	exampleLaneFailure = &wire.LaneFailure{MessageID: "order_104711", At: at(0.01), StatusCode: 500, Class: "status", Error: "status 500", ResponseExcerpt: "try again later"}

	exampleLanePage = wire.LanePage{Data: []wire.LaneState{exampleLaneState}}

	exampleNewLink  = wire.NewLink{ID: "lnk_mfrggzdf", URL: "https://hooks.example/link/mfrggzdfmztwq2lknnwg23tpoa", ExpiresAt: at(86400)}
	exampleLinkPage = wire.LinkPage{Data: []wire.Link{{ID: "lnk_mfrggzdf", Tenant: tenant, Manage: true, Name: "Anna of merchant 7", By: by, CreatedAt: at(0), ExpiresAt: at(86400)}}}

	exampleAuditPage = wire.AuditPage{Data: []wire.AuditEntry{{At: at(60), By: by, What: "endpoint.pause", Target: endpoint, Tenant: tenant}}}

	store = wire.Store{
		Kind: "redis", Version: "7.2.5", Mode: "single", Nodes: 1, UsedBytes: new(int64(52428800)), MaxBytes: new(int64(1073741824)), AppendOnly: new(true),
		Fsync: "everysec", Eviction: "noeviction", Durability: "none", Durable: "yes", WouldLose: "last_second",
		Checks: []wire.Check{{Name: "eviction", Holds: "yes", Needed: true, Detail: "maxmemory-policy is noeviction"}},
	}
	exampleStats = wire.Stats{
		Counts: map[string]int64{"scheduled": 1, "ready": 0, "in_flight": 1, "retrying": 3, "delivered": 4210, "dead": 17, "cancelled": 2},
		Dead:   map[string]int64{"exhausted": 17}, Ends: wire.Ends{Dead: map[string]int64{"exhausted": 21}, Cancelled: 2}, InFlight: 1,
		OldestDueAt: at(15.32), Now: at(1), Instances: 2, Retention: 86400, Store: store,
		PausedLanes: 1, Paused: []wire.LaneState{exampleLaneState}, Lanes: []wire.LaneState{exampleLaneState},
	}
	exampleInstancePage = wire.InstancePage{Data: []wire.Instance{{Name: "web-1-3f9a", Version: "1.0.0", StartedAt: at(-7200), SeenAt: at(0), Permits: 4096, InFlight: 1, Holding: 1}}}
	exampleHealth       = wire.Health{Status: "ok"}
	exampleReady        = wire.Ready{Status: "ready"}

	// exampleMetrics is a page for Prometheus.
	exampleMetrics = "# HELP hookladder_in_flight Deliveries that this instance has in flight.\n# TYPE hookladder_in_flight gauge\nhookladder_in_flight 1\n"
)

// exampleCallbackBody is the body of a callback.
var exampleCallbackBody = map[string]any{"order": 4711, "amount": "12.50", "currency": "EUR"}

// exampleCSV returns a page of deliveries as CSV.
func exampleCSV() string {
	var b strings.Builder
	if err := wire.WriteDeliveries(&b, []wire.Delivery{dead}); err != nil {
		panic(err) // a strings.Builder can't fail
	}
	return b.String()
}

// exampleNotice returns the body of a notice.
func exampleNotice(topic string) wire.Notice {
	n := wire.Notice{Type: topic, At: at(800)}
	switch word := strings.TrimPrefix(topic, "hookladder."); word {
	case "store.unhealthy", "egress.unhealthy":
		n.State, n.Since, n.Reason = "unhealthy", at(790), map[string]string{"store.unhealthy": "unreachable", "egress.unhealthy": "resolver"}[word]
	case "store.healthy", "egress.healthy":
		n.State, n.Since = "healthy", at(790)
	case "instance.lost":
		n.State, n.Count = "lost", 12
	case "job.ended":
		n.State, n.Job, n.Kind, n.Done, n.Failed, n.Left = "done", "job_1", "retry", new(16), new(0), new(1)
	default:
		n.Tenant, n.Endpoint, n.UID, n.Destination, n.Origin, n.Waiting = tenant, endpoint, uid, endpoint, "https://shop.example", new(4)
		switch word {
		case "endpoint.failing":
			n.State, n.Since, n.LastStatusCode = "failing", at(-21600), 500
		case "endpoint.recovered":
			n.State, n.Reason = "active", "changed"
		case "endpoint.disabled":
			n.State, n.Reason, n.LastStatusCode = "disabled", "gone", 410
		case "lane.opened":
			n.State, n.Since, n.Reason, n.LastStatusCode = "open", at(780), "breaker", 500
		case "lane.closed":
			n.State, n.Since = "active", at(780)
		case "delivery.dead":
			n.Reason, n.Count, n.LastStatusCode = "exhausted", 1, 500
		}
	}
	return n
}
