package httpapi

import (
	"encoding/json"

	"github.com/hookladder/hookladder/dispatcher/wire"
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
