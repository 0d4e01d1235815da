package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/oklog/ulid/v2"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
)

// mostOfADelivery is how many events of one delivery Find reads, the newest ones. It is
// several times the length of a ladder. Successes are read besides.
const mostOfADelivery = 64

// Find reads a message and all its events.
func (r *Reader) Find(ctx context.Context, id string) (*archive.Found, error) {
	f := &finding{id: id, found: &archive.Found{Message: dispatcher.Message{ID: id}}}
	err := r.query(ctx, "find message "+id, func(ctx context.Context, s *session) error {
		err := f.message(ctx, s)
		if err == nil {
			err = f.events(ctx, s)
		}
		if err == nil {
			err = f.open(ctx, s)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if !f.known {
		return nil, fmt.Errorf("find message %s: %w", id, dispatcher.ErrNotFound)
	}
	slices.SortFunc(f.found.Deliveries, func(a, b archive.FoundDelivery) int { return cmp.Compare(a.ID.Lane, b.ID.Lane) })
	return f.found, nil
}

// finding is the state of one Find.
type finding struct {
	id    string
	found *archive.Found
	known bool
	since time.Time // earlier events belong to an earlier message with the same id; zero: none
}

// message reads the message itself. An id made by Hookladder contains its time, so most
// queries read three months only.
func (f *finding) message(ctx context.Context, s *session) error {
	if made, err := ulid.ParseStrict(strings.TrimPrefix(f.id, "msg_")); err == nil {
		this := monthOf(made.Timestamp())
		if err := f.messageIn(ctx, s, this-1, this+1); err != nil || f.known {
			return err
		}
	}
	return f.messageIn(ctx, s, 0, lastMonth)
}

// lastMonth is after all months.
const lastMonth = month(9999 * 12)

// messageIn reads the message from some months. A fan-out may have a row for each
// partition. If two messages had the same id, the newer one is returned.
func (f *finding) messageIn(ctx context.Context, s *session, from, to month) error {
	rows, err := s.conn.Query(ctx, s.schema.sql("select "+messageColumns+
		" from hookladder.message where id = $1 and month between $2 and $3 order by created desc"), f.id, from.first(), to.first())
	if err != nil {
		return err
	}
	defer rows.Close()
	m, got := &f.found.Message, f.found
	for rows.Next() {
		var next archive.Found
		var of time.Time
		var id string
		var tenant, subject *string
		n := &next.Message
		if err := rows.Scan(&of, &n.CreatedAt, &id, &tenant, &subject, &n.Topic, &next.Size, &next.Head, &n.Body); err != nil {
			return err
		}
		switch {
		case !f.known:
			*got = next
			m.ID, m.Tenant, m.Subject, got.HasBody, f.known = id, value(tenant), value(subject), m.Body != nil, true
		case digestOf(next.Head) != digestOf(got.Head):
			f.since = m.CreatedAt.Add(-time.Minute) // the clocks of the partitions differ a little
			return nil
		}
		m.CreatedAt = n.CreatedAt.UTC()
	}
	return rows.Err()
}

// digestOf returns the digest of a message's content.
func digestOf(head []byte) string {
	return string(head[:min(len(head), dispatcher.DigestSize)])
}

// events reads the events of the message's deliveries.
func (f *finding) events(ctx context.Context, s *session) error {
	rows, err := s.conn.Query(ctx, s.schema.sql("select "+eventColumns+` from (
			select *, row_number() over (partition by lane order by pos desc) as back
			from hookladder.event where id = $1 and at >= $2) e
		where back <= $3 or kind = 'd' order by lane, pos`), f.id, f.since, mostOfADelivery)
	if err != nil {
		return err
	}
	events, err := pgx.CollectRows(rows, scanEvent)
	for i := range events {
		f.delivery(events[i].ID).Events = append(f.delivery(events[i].ID).Events, events[i])
		f.fill(events[i].Topic, events[i].Tenant, events[i].Subject)
	}
	return err
}

// open reads the unfinished deliveries, and the fields of the message that only they still
// have.
func (f *finding) open(ctx context.Context, s *session) error {
	rows, err := s.conn.Query(ctx, s.schema.sql("select "+openColumns+" from hookladder.open where id = $1 order by lane"), f.id)
	if err != nil {
		return err
	}
	list, err := pgx.CollectRows(rows, scanOpen)
	if err != nil || len(list) == 0 {
		return err
	}
	m := &f.found.Message
	for i := range list {
		f.delivery(list[i].ID).Open = &list[i]
		f.fill(list[i].Topic, list[i].Tenant, list[i].Subject)
		if m.CreatedAt.IsZero() {
			m.CreatedAt = list[i].Created
		}
	}
	if f.found.Head != nil && f.found.HasBody {
		return nil
	}
	var head, body []byte
	err = s.conn.QueryRow(ctx, s.schema.sql("select head, body from hookladder.open where id = $1 and head is not null limit 1"), f.id).Scan(&head, &body)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case err != nil:
		return err
	}
	if f.found.Head == nil {
		f.found.Head = head
	}
	if body != nil {
		m.Body, f.found.HasBody, f.found.Size = body, true, len(body)
	}
	return nil
}

// fill sets the message's fields that are still empty.
func (f *finding) fill(topic, tenant, subject string) {
	m := &f.found.Message
	m.Topic, m.Tenant, m.Subject = cmp.Or(m.Topic, topic), cmp.Or(m.Tenant, tenant), cmp.Or(m.Subject, subject)
	f.known = true
}

func (f *finding) delivery(id dispatcher.DeliveryID) *archive.FoundDelivery {
	list := &f.found.Deliveries
	for i := len(*list) - 1; i >= 0; i-- { // usually the last one, because rows are ordered by lane
		if (*list)[i].ID == id {
			return &(*list)[i]
		}
	}
	*list = append(*list, archive.FoundDelivery{ID: id})
	return &(*list)[len(*list)-1]
}

// scanEvent scans a row of eventColumns.
func scanEvent(row pgx.CollectableRow) (e archive.Event, err error) {
	var month time.Time
	var partition, status int16
	var kind byte
	var lane string
	var number, took int32
	var wait int64
	var began, accepted *time.Time
	var class, reason, addr, url, by, mark, topic, tenant, subject, token *string
	var fault []byte
	a := &e.Attempt
	err = row.Scan(&month, &e.At, &e.Pos, &partition, &kind, &e.ID.Message, &lane, &number, &status, &took, &wait, &began,
		&class, &reason, &addr, &url, &by, &mark, &topic, &tenant, &subject, &fault, &a.Excerpt, &accepted, &token)
	if err != nil {
		return e, err
	}
	e.Kind, e.ID.Lane, e.At = archive.Kind(kind), dispatcher.Lane(lane), e.At.UTC()
	e.Wait, e.Reason, e.By = time.Duration(wait)*time.Millisecond, dispatcher.DeadReason(value(reason)), value(by)
	e.Topic, e.Tenant, e.Subject, e.Accepted = value(topic), value(tenant), value(subject), value(accepted).UTC()
	a.Number, a.Status, a.Duration = int(number), int(status), time.Duration(took)*time.Millisecond
	a.Class, a.Error, a.URL, a.Address = dispatcher.Class(value(class)), string(fault), value(url), value(addr)
	a.At = value(began).UTC()
	switch text := value(mark); {
	case text == markResend, text == markShort, text == markBoth:
		a.Resend, a.ShortHello = text != markShort, text != markResend
	case text == markAnew:
		e.Anew = true
	case text != "":
		if ms, err := strconv.ParseInt(text, 10, 64); err == nil {
			e.Due = time.UnixMilli(ms).UTC()
		}
	}
	return e, nil
}
