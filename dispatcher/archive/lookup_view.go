package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// mostHistory is the number of attempts that are returned of a delivery, the newest, same as
// in the store.
const mostHistory = 32

// Message returns a message with its deliveries. If the archive does not respond, it returns
// dispatcher.ErrArchiveAway for a message that only the archive may have, and an incomplete view
// for one of which the archive may have a part.
func (l *Lookup) Message(ctx context.Context, id string) (dispatcher.MessageView, error) {
	view, err := l.live.Message(ctx, id)
	var lost *dispatcher.Emptied
	if errors.As(err, &lost) {
		view.Message.ID = id
		return l.lostMessage(ctx, view, err)
	}
	gone := errors.Is(err, dispatcher.ErrNotFound)
	if err != nil && !gone || err == nil && whole(&view) {
		return view, err
	}
	found, err := l.find(ctx, id)
	switch {
	case err == nil && gone:
		return l.gone(ctx, found)
	case err == nil:
		return l.complete(ctx, view, found)
	case gone:
		return dispatcher.MessageView{}, err
	}
	view.Incomplete = errors.Is(err, dispatcher.ErrArchiveAway) // what the store has is its newest state
	return view, nil
}

// gone returns a message that only the archive has. If the archive has a delivery as
// unfinished, its end is in a gap of the log, or the store lost its last moments.
func (l *Lookup) gone(ctx context.Context, found *Found) (v dispatcher.MessageView, err error) {
	if v, err = l.view(ctx, found); err != nil || allEnded(&v) {
		return v, err
	}
	id := found.Message.ID
	due, err := l.comparing(ctx)
	switch {
	case err != nil:
		l.logAway(ctx, err)
		return dispatcher.MessageView{}, fmt.Errorf("message %s: %w", id, dispatcher.ErrArchiveAway)
	case due:
		return dispatcher.MessageView{}, fmt.Errorf("message %s: %w", id, dispatcher.ErrComparing)
	}
	if found, err = l.find(ctx, id); err != nil { // the comparison may have finished after that query
		return dispatcher.MessageView{}, err
	}
	return l.view(ctx, found)
}

// allEnded reports whether all deliveries of a view have ended.
func allEnded(v *dispatcher.MessageView) bool {
	return !slices.ContainsFunc(v.Deliveries, func(d dispatcher.Delivery) bool { return !d.Status.Ended() })
}

// whole reports whether a view is complete. A fan-out may have deliveries that were deleted.
// An attempt, and a large body, may be deleted before their delivery.
func whole(v *dispatcher.MessageView) bool {
	m := &v.Message
	return !(m.Apart != nil && m.Body == nil) && (m.URL != "" || m.Endpoint != "" || m.Queue != "") &&
		!slices.ContainsFunc(v.Deliveries, func(d dispatcher.Delivery) bool { return d.Attempts > 0 && len(d.History) == 0 })
}

// view returns a message that only the archive has.
func (l *Lookup) view(ctx context.Context, found *Found) (dispatcher.MessageView, error) {
	v := dispatcher.MessageView{Message: MessageOf(found, l.head(ctx, found.Message.ID, found.Head))}
	for i := range found.Deliveries {
		v.Deliveries = append(v.Deliveries, deliveryOf(&v.Message, &found.Deliveries[i]))
	}
	return v, l.live.Address(ctx, v.Deliveries)
}

// complete adds the deleted deliveries and attempts of a message to the store's view.
func (l *Lookup) complete(ctx context.Context, v dispatcher.MessageView, found *Found) (dispatcher.MessageView, error) {
	if v.Message.Body == nil && found.HasBody {
		v.Message.Body, v.Message.Apart = found.Message.Body, nil
	}
	var more []dispatcher.Delivery
	for i := range found.Deliveries {
		d := deliveryOf(&v.Message, &found.Deliveries[i])
		k := slices.IndexFunc(v.Deliveries, func(live dispatcher.Delivery) bool { return live.ID == d.ID })
		switch {
		case k < 0 && d.Status.Ended(): // if it were unfinished, the store would have it
			more = append(more, d)
		case k >= 0 && len(v.Deliveries[k].History) == 0:
			v.Deliveries[k].History = d.History
		}
	}
	if err := l.live.Address(ctx, more); err != nil {
		return dispatcher.MessageView{}, err
	}
	v.Deliveries = append(v.Deliveries, more...)
	return v, nil
}

// MessageOf builds a message from its record's head and the archive's columns. If a body is not
// kept, it sets only the size. head may be nil: unknown.
func MessageOf(found *Found, head *dispatcher.Message) dispatcher.Message {
	m := dispatcher.Message{ID: found.Message.ID}
	if head != nil {
		m = *head
	}
	m.Topic, m.Tenant, m.Subject = cmp.Or(m.Topic, found.Message.Topic), cmp.Or(m.Tenant, found.Message.Tenant), cmp.Or(m.Subject, found.Message.Subject)
	if !found.Message.CreatedAt.IsZero() {
		m.CreatedAt = found.Message.CreatedAt
	}
	m.Body, m.Apart = found.Message.Body, nil
	if !found.HasBody {
		m.Apart = &dispatcher.Apart{Size: found.Size}
	}
	return m
}

// head decodes the head of a record; nil: there is none, or it can't be read.
func (l *Lookup) head(ctx context.Context, id string, head []byte) *dispatcher.Message {
	if head == nil {
		return nil
	}
	m, err := l.decode(id, head)
	if err != nil {
		l.log.ErrorContext(ctx, "archived message can't be read", "message_id", id, "err", err)
		return nil
	}
	return m
}

// deliveryOf builds a delivery from its events.
func deliveryOf(m *dispatcher.Message, f *FoundDelivery) dispatcher.Delivery {
	l := life{d: named(f.ID, m)}
	for i := range f.Events {
		l.event(&f.Events[i])
	}
	d := &l.d
	switch {
	case d.Status.Ended():
	case f.Open != nil:
		l.unfinished(f.Open)
	default:
		l.unknown(f.Events)
	}
	d.Climbed, d.LadderFrom = max(d.Attempts-l.base-l.beside, 0), l.base+1
	if n := len(d.History); n > 0 {
		last := d.History[n-1]
		d.LastStatus, d.LastError = last.Status, cmp.Or(d.LastError, last.Error)
		d.History = d.History[max(0, n-mostHistory):]
	}
	return *d
}

// named returns a delivery of a message with nothing but its names.
func named(id dispatcher.DeliveryID, m *dispatcher.Message) dispatcher.Delivery {
	return dispatcher.Delivery{
		ID: id, Topic: m.Topic, Tenant: m.Tenant, Subject: m.Subject, URL: m.URL, Created: m.CreatedAt,
		MaxAttempts: m.MaxAttempts, Ladder: m.Ladder,
	}
}

// life builds a delivery from events, one after the other.
type life struct {
	d            dispatcher.Delivery
	base, beside int
}

// unknownEnd is reported for a delivery whose end was not archived.
const unknownEnd = "it ended, and the part of the log with its result was cut before it was archived"

func (l *life) event(e *Event) {
	d := &l.d
	if e.Kind != Late && e.Kind != Restored {
		d.Attempts = max(d.Attempts, e.Attempt.Number)
	}
	if a, made := e.Made(d.URL); made {
		d.History = append(d.History, a)
	}
	switch e.Kind {
	case Resent:
		d.Status, d.Ended, d.Reason, d.LastError = "", time.Time{}, "", ""
		if e.Anew {
			l.base = e.Attempt.Number
		}
	case Retry:
		d.Status, d.Due = dispatcher.StatusRetrying, e.At.Add(e.Wait)
	case Forgotten:
		if !d.Status.Ended() { // it was unfinished: nothing more is sent
			l.end(e, dispatcher.StatusCancelled)
		}
	default:
		if status := e.Kind.Status(); status != "" {
			l.end(e, status)
		}
	}
}

func (l *life) end(e *Event, status dispatcher.Status) {
	d := &l.d
	d.Status, d.Ended, d.Due, d.Reason, d.LastError = status, e.At, time.Time{}, e.Reason, ""
	if status == dispatcher.StatusDelivered && d.Delivered.IsZero() {
		d.Delivered = e.At
	}
	if e.Kind == Lost {
		d.LastError = unknownEnd
	}
}

// unknownFate is reported for a delivery that neither the store nor the archive has as unfinished.
const unknownFate = "it is not known how it ended: part of its log was cut before it was archived, and the store has it no more"

// unknown handles a delivery whose acceptance was cut from the log. The archive has no row of
// it that a comparison could end.
func (l *life) unknown(events []Event) {
	d := &l.d
	d.Due = time.Time{}
	if !d.Delivered.IsZero() { // and attempted again, by a store that lost its last moments
		d.Status, d.Ended, d.LastError = dispatcher.StatusDelivered, d.Delivered, ""
		return
	}
	d.Status, d.LastError = dispatcher.StatusDead, unknownFate
	if n := len(events); n > 0 {
		d.Ended = events[n-1].At // not before
	}
}

// unfinished sets the status of a delivery that the store should have.
func (l *life) unfinished(o *Open) {
	d := &l.d
	d.Attempts, l.base, l.beside = max(d.Attempts, o.Attempts), o.Base, o.Beside
	d.Due = o.Due
	switch {
	case o.Due.IsZero():
		d.Status = dispatcher.StatusReady
	case d.Attempts > o.Base:
		d.Status = dispatcher.StatusRetrying
	default:
		d.Status = dispatcher.StatusScheduled
	}
}
