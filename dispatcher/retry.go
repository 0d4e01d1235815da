package dispatcher

import (
	"context"
	"fmt"
	"slices"
)

// Retry has a message attempted now, everywhere or in one lane, and answers
// those deliveries as they are then. What was delivered is sent again only where
// that is meant too.
func (d *Dispatcher) Retry(ctx context.Context, id string, lane Lane, delivered bool) ([]Retried, error) {
	ids, err := d.deliveries(ctx, id, lane)
	if err != nil {
		return nil, err
	}
	changes, err := d.engine.queue.Retry(ctx, d.engine.name(), ids, delivered)
	if err != nil {
		d.engine.pollSoon() // it may be done, and nobody here was told what is ready now
		return nil, err
	}
	record, err := d.read(ctx, id)
	if err != nil {
		return nil, err
	}
	why := make(map[DeliveryID]Left, len(changes))
	for _, c := range changes {
		why[c.ID] = c.Left()
	}
	var out []Retried
	for _, one := range only(record.Deliveries, lane) {
		if left, asked := why[one.ID]; asked { // what a repeat of the message added meanwhile was not
			out = append(out, Retried{Delivery: one, Left: left})
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("message %s: %w", id, ErrNotFound) // trimmed meanwhile
	}
	return out, nil
}

// deliveries are those of a message, or its one in a lane.
func (d *Dispatcher) deliveries(ctx context.Context, id string, lane Lane) ([]DeliveryID, error) {
	record, err := d.engine.queue.Read(ctx, id)
	if err != nil {
		return nil, err
	}
	var ids []DeliveryID
	for _, delivery := range only(record.Deliveries, lane) {
		ids = append(ids, delivery.ID)
	}
	if len(ids) == 0 {
		return nil, fmt.Errorf("message %s to %s: %w", id, lane, ErrNoDelivery)
	}
	return ids, nil
}

// only are the deliveries of one lane; all where it is empty.
func only(list []Delivery, lane Lane) []Delivery {
	return slices.DeleteFunc(slices.Clone(list), func(d Delivery) bool { return lane != "" && d.ID.Lane != lane })
}
