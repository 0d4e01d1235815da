package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
)

// Eraser takes messages out of an archive for good, for one command. It has a connection
// of its own. Of each page that it chooses, the store forgets the messages first. What
// happens to them by that has to be archived before Erase, or it comes behind.
type Eraser struct {
	session *session
}

// OpenEraser connects to an archive.
func OpenEraser(ctx context.Context, o Options) (*Eraser, error) {
	a, err := Open(o)
	if err != nil {
		return nil, err
	}
	s, err := a.dial(ctx)
	if err != nil {
		return nil, fault("open the archive", err)
	}
	version, err := s.version(ctx)
	if err == nil && version != len(texts()) {
		err = fmt.Errorf("%w: they are of version %d, this program has %d", archive.ErrVersion, version, len(texts()))
	}
	if err != nil {
		s.close()
		return nil, fault("open the archive", err)
	}
	return &Eraser{session: s}, nil
}

// Close ends the connection.
func (e *Eraser) Close() { e.session.close() }

// mostErased is how many messages go in one transaction.
const mostErased = 1000

// eraseEvents takes the events of messages. Of several messages that had one id an event
// is of the last one before it, or of the first one.
const eraseEvents = `
delete from hookladder.event e using unnest($1::text[], $2::timestamptz[]) as gone (id, created)
where e.id = gone.id and e.month >= $3::text::date and not exists (
  select from hookladder.message m where m.id = e.id
  and (m.created > gone.created and m.created <= e.at or m.created < gone.created and e.at < gone.created))`

const eraseOpen = `
delete from hookladder.open o using unnest($1::text[], $2::timestamptz[]) as gone (id, created)
where o.id = gone.id and o.created = gone.created`

const eraseMessages = `
delete from hookladder.message m using unnest($1::text[], $2::timestamptz[]) as gone (id, created)
where m.id = gone.id and m.created = gone.created and m.month >= $3::text::date`

// Erase takes out chosen messages with all that is known of them, but for the rows in
// months that Finish drops. It may be repeated.
func (e *Eraser) Erase(ctx context.Context, s archive.Selection, page []archive.Chosen) (all archive.Erased, err error) {
	whole, err := e.whole(ctx, s)
	if err != nil {
		return all, fault("forget", err)
	}
	from := monthOf(time.Time{})
	if len(whole) > 0 {
		from = whole[len(whole)-1].month + 1
	}
	for some := range slices.Chunk(page, mostErased) {
		err := e.session.transaction(ctx, func(ctx context.Context, s *session) error { return s.erase(ctx, some, from, &all) })
		if err != nil {
			return all, fault("forget", errors.Join(err, e.session.rollback(ctx)))
		}
		all.Messages += int64(len(some))
	}
	return all, nil
}

func (s *session) erase(ctx context.Context, some []archive.Chosen, from month, all *archive.Erased) error {
	ids, created := make([]string, len(some)), make([]time.Time, len(some))
	for i, c := range some {
		ids[i], created[i] = c.ID, c.Created
	}
	if err := s.exec(ctx, "set local statement_timeout = 0"); err != nil {
		return err
	}
	events, err := s.conn.Exec(ctx, s.schema.sql(eraseEvents), ids, created, from.String())
	if err != nil {
		return err
	}
	open, err := s.conn.Exec(ctx, s.schema.sql(eraseOpen), ids, created)
	if err != nil {
		return err
	}
	all.Events, all.Open = all.Events+events.RowsAffected(), all.Open+open.RowsAffected()
	return s.exec(ctx, eraseMessages, ids, created, from.String())
}

// whole are the tables of months of which all is selected, in order. Rows of a later
// time may be in the last month there is, see clamp: it stays.
func (e *Eraser) whole(ctx context.Context, s archive.Selection) (whole []monthTable, err error) {
	if s.Tenant != "" || s.Subject != "" || !s.Since.IsZero() || s.Before.IsZero() {
		return nil, nil
	}
	parts, err := e.session.parts(ctx)
	if err != nil {
		return nil, err
	}
	last := month(0)
	for _, p := range parts {
		last = max(last, p.month)
	}
	for _, p := range parts {
		if p.month < last && !(p.month + 1).first().After(s.Before) {
			whole = append(whole, p)
		}
	}
	slices.SortStableFunc(whole, func(a, b monthTable) int { return int(a.month - b.month) })
	return whole, nil
}

// Finish drops whole months, and notes the fact, with counts and an HMAC of the arguments.
// all is what Erase counted.
func (e *Eraser) Finish(ctx context.Context, s archive.Selection, arguments string, all archive.Erased) (archive.Erased, error) {
	whole, err := e.whole(ctx, s)
	if err != nil {
		return all, fault("forget", err)
	}
	for _, p := range whole {
		if err := e.session.detach(ctx, p); err != nil {
			return all, fault("forget "+p.name, err)
		}
		if err := e.session.exec(ctx, "drop table hookladder."+p.name); err != nil {
			return all, fault("forget "+p.name, err)
		}
		all.Months++
	}
	detail, err := json.Marshal(noted{
		Arguments: arguments, Since: nullTime(s.Since), Before: nullTime(s.Before), Erased: all,
	})
	if err != nil {
		return all, fmt.Errorf("forget: %w", err)
	}
	err = e.session.exec(ctx, "insert into hookladder.audit (by, what, detail) values ($1, 'forget', $2::text::jsonb)", dispatcher.System, string(detail))
	if err != nil {
		return all, fault("note that it was forgotten", err)
	}
	return all, nil
}

// noted is what stays of what was forgotten.
type noted struct {
	Arguments string         `json:"arguments_hmac"`
	Since     *time.Time     `json:"since,omitempty"`
	Before    *time.Time     `json:"before,omitempty"`
	Erased    archive.Erased `json:"erased"`
}
