package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/callers"
	"github.com/hookladder/hookladder/dispatcher/internal/endpoints"
	"github.com/hookladder/hookladder/dispatcher/internal/outage"
)

// Message returns a message with its deliveries, or ErrNotFound.
func (e *Engine) Message(ctx context.Context, id string) (dispatcher.MessageView, error) {
	record, err := e.read(ctx, id)
	if a := record.Message.Apart; err == nil && a != nil && len(record.Deliveries) > 0 {
		record.Message.Body, err = e.deliveries.Body(ctx, record.Deliveries[0].ID, *a)
		if errors.Is(err, dispatcher.ErrNotFound) {
			err = nil // it is returned without a body
		}
	}
	return record, err
}

// read returns a message without its large body, and fills in the current URLs of its
// deliveries. If the store lost deliveries of a fan-out, it returns the others with an Emptied
// error.
func (e *Engine) read(ctx context.Context, id string) (dispatcher.MessageView, error) {
	record, err := e.reads.Read(ctx, id)
	var lost *dispatcher.Emptied
	if err != nil && !errors.As(err, &lost) {
		return dispatcher.MessageView{}, err
	}
	return record, errors.Join(err, e.Address(ctx, record.Deliveries))
}

// Deliveries returns a page of deliveries. It returns ErrListing if too many callers read
// lists now.
func (e *Engine) Deliveries(ctx context.Context, f dispatcher.Filter) (dispatcher.Page, error) {
	_, leave, err := e.lists.Enter(ctx)
	if err != nil {
		return dispatcher.Page{}, err
	}
	defer leave()
	page, err := e.reads.List(ctx, f)
	if err != nil {
		return dispatcher.Page{}, err
	}
	return page, e.Address(ctx, page.Deliveries)
}

// Show reads deliveries again from their messages. It leaves out deliveries that no longer
// exist.
func (e *Engine) Show(ctx context.Context, found []dispatcher.Delivery) (list []dispatcher.Delivery, err error) {
	for i := range found {
		record, err := e.read(ctx, found[i].ID.Message)
		if err != nil && !errors.Is(err, dispatcher.ErrNotFound) {
			return nil, err
		}
		list = append(list, only(record.Deliveries, found[i].ID.Lane)...)
	}
	return list, nil
}

// Ended returns a page of the finished deliveries of an endpoint, ordered by completion time.
// It returns ErrListing if too many callers read lists now.
func (e *Engine) Ended(ctx context.Context, name string, f dispatcher.EndedFilter) (dispatcher.EndedPage, error) {
	endpoint, err := e.endpoints.Stored(ctx, name)
	if err != nil {
		return dispatcher.EndedPage{}, err
	}
	_, leave, err := e.lists.Enter(ctx)
	if err != nil {
		return dispatcher.EndedPage{}, err
	}
	defer leave()
	f.Lane = endpoint.Lane()
	page, err := e.reads.Ended(ctx, f)
	if err != nil {
		return dispatcher.EndedPage{}, err
	}
	return page, e.Address(ctx, page.Deliveries)
}

// Instances returns a page of the instances, with the times at which this one last saw them.
func (e *Engine) Instances(ctx context.Context, limit int, cursor string) ([]dispatcher.InstanceState, string, error) {
	_, leave, err := e.lists.Enter(ctx)
	if err != nil {
		return nil, "", err
	}
	defer leave()
	list, next, err := e.reads.Instances(ctx, limit, cursor)
	e.seen.fill(list)
	return list, next, err
}

// Stats counts deliveries, lanes and instances. Its many calls share one timeout.
func (e *Engine) Stats(ctx context.Context) (dispatcher.Stats, error) {
	call, cancel := outage.Within(ctx)
	defer cancel()
	stats, err := e.reads.Stats(call)
	if err != nil {
		return dispatcher.Stats{}, err
	}
	return stats, e.endpoints.FillURLs(ctx, stats.Lanes)
}

// Cancel ends the unfinished deliveries of a message, or only the one in a lane. It returns
// all of these deliveries after the change.
func (e *Engine) Cancel(ctx context.Context, id string, lane dispatcher.Lane) ([]dispatcher.Delivery, error) {
	_, list, err := e.change(ctx, id, lane, func(ids []dispatcher.DeliveryID) ([]dispatcher.Change, error) {
		return e.deliveries.Cancel(ctx, e.name(), ids)
	})
	return list, err
}

// Retry attempts a message now, in all its lanes or in one. It returns these deliveries after
// the change. It resends delivered ones only if delivered is set.
func (e *Engine) Retry(ctx context.Context, id string, lane dispatcher.Lane, delivered bool) ([]dispatcher.Retried, error) {
	changes, list, err := e.change(ctx, id, lane, func(ids []dispatcher.DeliveryID) ([]dispatcher.Change, error) {
		return e.deliveries.Retry(ctx, e.name(), ids, delivered)
	})
	if err != nil {
		return nil, err
	}
	why := make(map[dispatcher.DeliveryID]dispatcher.Left, len(changes))
	for _, c := range changes {
		why[c.ID] = c.Left()
	}
	var out []dispatcher.Retried
	for _, one := range list {
		if left, asked := why[one.ID]; asked { // else a repeated publish added it in the meantime
			out = append(out, dispatcher.Retried{Delivery: one, Left: left})
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("message %s: %w", id, dispatcher.ErrNotFound) // trimmed in the meantime
	}
	return out, nil
}

// Reschedule lets the deliveries of a message be due at another time, and returns the changes.
func (e *Engine) Reschedule(ctx context.Context, id string, at time.Time) (changes []dispatcher.Change, err error) {
	_, _, err = e.change(ctx, id, "", func(ids []dispatcher.DeliveryID) ([]dispatcher.Change, error) {
		var err error
		changes, err = e.deliveries.Reschedule(ctx, e.name(), ids, at)
		return changes, err
	})
	return changes, err
}

// Replay attempts deliveries that have ended again. It attempts delivered ones only if delivered is
// set. It returns the changes that it knows, also with an error.
func (e *Engine) Replay(ctx context.Context, ids []dispatcher.DeliveryID, delivered bool) ([]dispatcher.Change, error) {
	changes, err := e.deliveries.Retry(ctx, e.name(), ids, delivered)
	e.Stirred()
	if err != nil {
		e.pollSoon()
	}
	return changes, err
}

// change changes the deliveries of a message, or only the one in a lane, and reads them again.
func (e *Engine) change(ctx context.Context, id string, lane dispatcher.Lane, call func([]dispatcher.DeliveryID) ([]dispatcher.Change, error)) ([]dispatcher.Change, []dispatcher.Delivery, error) {
	record, err := e.reads.Read(ctx, id)
	found := only(record.Deliveries, lane)
	if err = besideLoss(found, lane, err); err != nil {
		return nil, nil, err
	}
	var ids []dispatcher.DeliveryID
	for _, one := range found {
		ids = append(ids, one.ID)
	}
	if len(ids) == 0 {
		return nil, nil, fmt.Errorf("message %s to %s: %w", id, lane, dispatcher.ErrNoDelivery)
	}
	changes, err := call(ids)
	e.Stirred()
	if err != nil {
		e.pollSoon() // the change may be made and its response lost, so poll for ready deliveries
		return nil, nil, err
	}
	record, err = e.read(ctx, id)
	found = only(record.Deliveries, lane)
	if err = besideLoss(found, lane, err); err != nil {
		return nil, nil, err
	}
	return changes, found, nil
}

// besideLoss returns an error of reading a message. It returns nil if the delivery in the lane
// was found, and the store only lost other deliveries of the message.
func besideLoss(found []dispatcher.Delivery, lane dispatcher.Lane, err error) error {
	var lost *dispatcher.Emptied
	if lane != "" && len(found) > 0 && errors.As(err, &lost) {
		return nil
	}
	return err
}

// only returns the deliveries in one lane, or all if lane is empty.
func only(list []dispatcher.Delivery, lane dispatcher.Lane) []dispatcher.Delivery {
	return slices.DeleteFunc(slices.Clone(list), func(d dispatcher.Delivery) bool { return lane != "" && d.ID.Lane != lane })
}

// mostTests is the number of test messages that may run at once. They take no permit, because
// a person waits for each.
const mostTests = 8

// testsEach is the limit of running tests for each caller. A key leaves some places to others.
// All links of a tenant together have few.
var testsEach = map[callers.Rank]int{callers.Keyed: 6, callers.Linked: 2}

// TestEndpoint sends a message to an endpoint at once and returns the attempt. It ignores the
// state and the backlog of the endpoint, and stores nothing.
func (e *Engine) TestEndpoint(ctx context.Context, name string) (dispatcher.TestResult, error) {
	endpoint, err := e.endpoints.Stored(ctx, name)
	if err != nil {
		return dispatcher.TestResult{}, err
	}
	if endpoint.Pull {
		return dispatcher.TestResult{}, fmt.Errorf("test endpoint %s: %w", endpoint.ID, dispatcher.ErrPull)
	}
	_, leave, err := e.tests.Enter(ctx)
	if err != nil {
		return dispatcher.TestResult{}, fmt.Errorf("test endpoint %s: %w", endpoint.ID, err)
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
	a := deliveryAttempt{deliverer: d, claimed: &c, began: at, route: d.routeTo(dest, m, at)}
	r := &a.route
	header := d.headers(&c, at, r)
	call, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	answer := d.sender.Send(call, dispatcher.Call{URL: r.url, Header: header, Body: m.Body, Lane: c.ID.Lane, Linked: r.linked()})
	a.judge(answer)
	a.outcome.Attempt.Excerpt = dispatcher.Excerpt(answer.Body, d.excerpt, r.secrets)
	return a.outcome.Attempt
}
