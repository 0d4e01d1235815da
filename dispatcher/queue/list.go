package queue

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// Filter selects deliveries. Empty fields select all, and each list means any of its values, at most
// 100.
type Filter struct {
	Queue    string              // only the deliveries of this queue
	Statuses []dispatcher.Status // such as dispatcher.StatusDead
	Topics   []string            // topics, or patterns such as order.*
	Tenants  []string
	Subjects []string
	Since    time.Time // published at this time or later
	Until    time.Time // published before this time
}

// Record is what Redis has of one delivery.
type Record struct {
	ID            string // <destination>:<message id>
	MessageID     string
	Destination   string // q_ and the name of the queue; a long name is shortened to a hash
	Queue         string // empty: it is a callback, or a list of all queues found it and its name is long
	Topic         string
	Tenant        string
	Subject       string
	Status        dispatcher.Status
	Attempts      int                   // made and recorded
	MaxAttempts   int                   // the number of its last attempt, as far as its ladder says
	LastError     string                // of the last attempt; empty after a success
	Reason        dispatcher.DeadReason // of a dead delivery
	CreatedAt     time.Time             // when it was published, by the clock of Redis
	NextAttemptAt time.Time             // zero: it waits for others of its ordering key, or it has ended
	EndedAt       time.Time             // zero: it has not ended
}

// pageSize is the number of deliveries in one call of List and Replay.
const pageSize = 100

// valuesMost bounds each list of a Filter, because every delivery is compared with all values. It is
// that of the API.
const valuesMost = 100

// inner converts the filter for the engine, or returns its mistakes.
func (f Filter) inner() (dispatcher.Filter, *InvalidError) {
	wrong := &InvalidError{}
	inner := dispatcher.Filter{Statuses: f.Statuses, Topics: f.Topics, Tenants: f.Tenants, Subjects: f.Subjects, Limit: pageSize}
	if f.Queue != "" {
		wrong.checkQueue("Queue", f.Queue)
		inner.Lanes = []dispatcher.Lane{dispatcher.QueueLane(f.Queue)}
	}
	for _, list := range []struct {
		name string
		n    int
	}{{"Statuses", len(f.Statuses)}, {"Topics", len(f.Topics)}, {"Tenants", len(f.Tenants)}, {"Subjects", len(f.Subjects)}} {
		if list.n > valuesMost {
			wrong.add(list.name, fmt.Sprintf("has %d values, at most %d are taken", list.n, valuesMost))
			return inner, wrong
		}
	}
	for _, s := range f.Statuses {
		if !slices.Contains(dispatcher.Statuses(), s) {
			wrong.add("Statuses", fmt.Sprintf("has %q, which is no status", string(s)))
		}
	}
	for _, pattern := range f.Topics {
		if !dispatcher.ValidPattern(pattern) {
			wrong.add("Topics", fmt.Sprintf("has %q, which is no topic or pattern such as order.*", pattern))
		}
	}
	for _, tenant := range f.Tenants {
		if !dispatcher.ValidTenant(tenant) {
			wrong.add("Tenants", fmt.Sprintf("has %q, which no tenant can be", tenant))
		}
	}
	for _, subject := range f.Subjects {
		if !dispatcher.ValidSubject(subject) {
			wrong.add("Subjects", fmt.Sprintf("has %q, which no subject can be", subject))
		}
	}
	return inner, wrong
}

// published reports whether a delivery was published in the time of the filter.
func (f Filter) published(d *dispatcher.Delivery) bool {
	return !d.Created.Before(f.Since) && (f.Until.IsZero() || d.Created.Before(f.Until))
}

// List returns the deliveries that a filter selects. With a Queue, Tenants or Subjects, the last
// published one is first; otherwise those that ended are, and then those that wait. It reads pages of
// 100 while the caller continues. An error ends it, with a zero Record.
func (q *Queue) List(ctx context.Context, f Filter) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		inner, wrong := f.inner()
		if inner.OfSome() {
			inner.Order, inner.Since, inner.Until = dispatcher.OrderAccepted, f.Since, f.Until
		}
		for d, err := range q.pages(ctx, "list", inner, wrong) {
			switch {
			case err != nil:
				yield(Record{}, err)
				return
			case f.published(d) && !yield(recordOf(d, f.Queue), nil):
				return
			}
		}
	}
}

// pages returns the deliveries of all pages of a list.
func (q *Queue) pages(ctx context.Context, doing string, f dispatcher.Filter, wrong *InvalidError) iter.Seq2[*dispatcher.Delivery, error] {
	return func(yield func(*dispatcher.Delivery, error) bool) {
		err := q.usable(ctx, doing)
		if err == nil && len(wrong.Fields) > 0 {
			err = fmt.Errorf("%s: %w", doing, wrong)
		}
		for err == nil {
			var page dispatcher.Page
			if page, err = q.engine.Deliveries(ctx, f); err != nil {
				err = q.failed(ctx, doing, err)
				break
			}
			for i := range page.Deliveries {
				if !yield(&page.Deliveries[i], nil) {
					return
				}
			}
			if f.Cursor = page.Next; page.Next == "" {
				return
			}
		}
		yield(nil, err)
	}
}

// Get returns the delivery of a message, or the delivery with this id. It returns ErrNotFound if
// Redis has none. A message to several destinations has several deliveries, so its own id says too
// little.
func (q *Queue) Get(ctx context.Context, id string) (Record, error) {
	if err := q.usable(ctx, "get"); err != nil {
		return Record{}, err
	}
	named, whole := dispatcher.ParseDeliveryID(id)
	if !whole {
		named.Message = id
	}
	if !dispatcher.ValidID(named.Message) {
		return Record{}, fmt.Errorf("get: %w", &InvalidError{Fields: []FieldError{{Field: "id", Detail: idRule}}})
	}
	view, err := q.engine.Message(ctx, named.Message)
	if err != nil {
		return Record{}, q.failed(ctx, "get "+id, err)
	}
	found := slices.DeleteFunc(view.Deliveries, func(d dispatcher.Delivery) bool { return whole && d.ID != named })
	switch len(found) {
	case 0:
		return Record{}, fmt.Errorf("get %s: %w", id, ErrNotFound)
	case 1:
		return recordOf(&found[0], view.Message.Queue), nil
	}
	return Record{}, fmt.Errorf("get: %w", &InvalidError{Fields: []FieldError{{Field: "id", Detail: fmt.Sprintf("is of a message with %d deliveries: give the id of one, such as %s", len(found), found[0].ID)}}})
}

// recordOf returns the record of a delivery, whose queue may have this name.
func recordOf(d *dispatcher.Delivery, queue string) Record {
	r := Record{
		ID: d.ID.String(), MessageID: d.ID.Message, Destination: string(d.ID.Lane), Topic: d.Topic, Tenant: d.Tenant, Subject: d.Subject,
		Status: d.Status, Attempts: d.Attempts, LastError: d.LastError, Reason: d.Reason, CreatedAt: d.Created, NextAttemptAt: d.Due, EndedAt: d.Ended,
	}
	if d.ID.Lane.IsQueue() {
		r.Queue = dispatcher.QueueOf(d.ID.Lane, queue)
	}
	if d.Ladder != nil {
		r.MaxAttempts = max(d.Attempts-d.Climbed+d.Ladder.Len()+1, d.Attempts)
	}
	return r
}
