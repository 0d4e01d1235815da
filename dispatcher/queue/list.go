package queue

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// Filter selects deliveries. Empty fields select all, and each list means any of its values.
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
	Topic         string
	Tenant        string
	Subject       string
	Status        dispatcher.Status
	Attempts      int                   // made and recorded
	LastError     string                // of the last attempt; empty after a success
	Reason        dispatcher.DeadReason // of a dead delivery
	CreatedAt     time.Time             // when it was published, by the clock of Redis
	NextAttemptAt time.Time             // zero: it waits for others of its ordering key, or it has ended
	EndedAt       time.Time             // zero: it has not ended
}

// pageSize is the number of deliveries in one call of List.
const pageSize = 100

// List returns the deliveries that a filter selects, the last published one first. It reads
// pages of 100 while the caller continues. An error ends it, with a zero Record.
func (q *Queue) List(ctx context.Context, f Filter) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		if err := q.usable(ctx, "list"); err != nil {
			yield(Record{}, err)
			return
		}
		inner := dispatcher.Filter{
			Statuses: f.Statuses, Topics: f.Topics, Tenants: f.Tenants, Subjects: f.Subjects, Since: f.Since, Until: f.Until, Limit: pageSize,
		}
		if f.Queue != "" {
			if !dispatcher.ValidQueue(f.Queue) {
				yield(Record{}, fmt.Errorf("list: %w", &InvalidError{Fields: []FieldError{{Field: "Queue", Detail: queueRule}}}))
				return
			}
			inner.Lanes = []dispatcher.Lane{dispatcher.QueueLane(f.Queue)}
		}
		for {
			page, err := q.engine.Deliveries(ctx, inner)
			if err != nil {
				yield(Record{}, q.failed(ctx, "list", err))
				return
			}
			for i := range page.Deliveries {
				if !yield(recordOf(&page.Deliveries[i]), nil) {
					return
				}
			}
			if inner.Cursor = page.Next; page.Next == "" {
				return
			}
		}
	}
}

func recordOf(d *dispatcher.Delivery) Record {
	return Record{
		ID: d.ID.String(), MessageID: d.ID.Message, Destination: string(d.ID.Lane), Topic: d.Topic, Tenant: d.Tenant, Subject: d.Subject,
		Status: d.Status, Attempts: d.Attempts, LastError: d.LastError, Reason: d.Reason, CreatedAt: d.Created, NextAttemptAt: d.Due, EndedAt: d.Ended,
	}
}
