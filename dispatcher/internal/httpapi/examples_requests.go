package httpapi

import (
	"encoding/json"
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
