package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/callers"
	"github.com/hookladder/hookladder/dispatcher/internal/endpoints"
)

// mostTests is how many test messages may be under way at once. They take no permit,
// since a person waits for each.
const mostTests = 8

// testsEach is how many of these one caller may have: a key leaves some to others, and all
// links of a tenant have few.
var testsEach = map[callers.Rank]int{callers.Keyed: 6, callers.Linked: 2}

// TestEndpoint sends a message to an endpoint at once, whatever its state and however
// much waits for it, and answers the attempt. Nothing of it is kept.
func (e *Engine) TestEndpoint(ctx context.Context, name string) (dispatcher.TestResult, error) {
	endpoint, err := e.endpoints.Stored(ctx, name)
	if err != nil {
		return dispatcher.TestResult{}, err
	}
	if endpoint.Pull {
		return dispatcher.TestResult{}, fmt.Errorf("test endpoint %s: %w", endpoint.ID, dispatcher.ErrPull)
	}
	leave, ok := e.tests.Enter(callers.Of(ctx))
	if !ok {
		return dispatcher.TestResult{}, fmt.Errorf("test endpoint %s: %w", endpoint.ID, dispatcher.ErrBusy)
	}
	defer leave()
	dest := endpoints.NewDestination(endpoint)
	if dest.Fault != nil {
		return dispatcher.TestResult{}, fmt.Errorf("test endpoint %s: %w", endpoint.ID, dest.Fault)
	}
	if endpoint.Success.Check() != nil {
		return dispatcher.TestResult{}, fmt.Errorf("test endpoint %s: %w", endpoint.ID, errSuccess)
	}
	at := e.store.Now()
	m, err := testMessage(endpoint, at)
	if err != nil {
		return dispatcher.TestResult{}, fmt.Errorf("test endpoint %s: %w", endpoint.ID, err)
	}
	result := dispatcher.TestResult{MessageID: m.ID, Attempt: e.deliverer.testAttempt(ctx, dest, m, at)}
	if result.Attempt.Verdict == dispatcher.Delivered {
		if err := e.endpoints.Works(ctx, endpoint); err != nil {
			return dispatcher.TestResult{}, fmt.Errorf("test endpoint %s: it succeeded: %w", endpoint.ID, err)
		}
	}
	return result, nil
}

func testMessage(e *dispatcher.Endpoint, at time.Time) (*dispatcher.Message, error) {
	body, err := json.Marshal(struct {
		Type      string    `json:"type"`
		Endpoint  string    `json:"endpoint"`
		Timestamp time.Time `json:"timestamp"`
	}{dispatcher.TestTopic, e.ID, at.UTC().Truncate(time.Millisecond)})
	if err != nil {
		return nil, err
	}
	return &dispatcher.Message{
		ID: "msg_" + ulid.Make().String(), Topic: dispatcher.TestTopic, Tenant: e.Tenant, Endpoint: e.ID,
		Body: body, ContentType: "application/json", CreatedAt: at,
	}, nil
}

// testAttempt makes one attempt outside the queue.
func (d *deliverer) testAttempt(ctx context.Context, dest *endpoints.Destination, m *dispatcher.Message, at time.Time) dispatcher.Attempt {
	c := dispatcher.Claimed{ID: dispatcher.DeliveryID{Lane: dest.Endpoint.Lane(), Message: m.ID}, Message: m, Attempt: 1, Rung: 1}
	a := deliveryAttempt{deliverer: d, claimed: c, began: at, route: d.routeTo(dest, m, at)}
	r := &a.route
	header := d.headers(&c, at, r)
	call, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	answer := d.sender.Send(call, dispatcher.Call{URL: r.url, Header: header, Body: m.Body, Lane: c.ID.Lane, Linked: r.linked()})
	a.judge(answer)
	a.outcome.Attempt.Excerpt = dispatcher.Excerpt(answer.Body, d.excerpt, r.secrets)
	return a.outcome.Attempt
}
