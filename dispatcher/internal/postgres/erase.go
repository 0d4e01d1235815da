package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
)

// Eraser deletes messages from an archive. One command uses it, with its own connection.
// For each page of Choose, the store must forget the messages first, and the events of that
// must be archived before Erase. Otherwise they would be written after it.
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
	if err == nil {
		err = usable(ctx, s.conn.QueryRow, s.schema, version)
	}
	if err == nil && version < len(texts()) {
		err = fmt.Errorf("%w: they have version %d, this program has %d", archive.ErrVersion, version, len(texts()))
	}
	if err != nil {
		s.close()
		return nil, fault("open the archive", err)
	}
	return &Eraser{session: s}, nil
}

// Close closes the connection.
func (e *Eraser) Close() { e.session.close() }

// mostErased is how many messages one transaction deletes.
const mostErased = 1000

// eraseEvents deletes the events of messages. If several messages had the same id, an event
// belongs to the last one before it, or else to the first one.
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

// Erase deletes messages and their events, except rows in months that Finish drops. It may
// be repeated.
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

// whole returns the tables of months that are selected completely, in order. The last
// existing month is never one of them, because it may have rows of later times; see clamp.
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

// Finish drops the months that are selected completely. It records the act with counts and
// an HMAC of the arguments. all is the result of Erase.
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
	detail, err := json.Marshal(erasureRecord{
		Arguments: arguments, Since: nullTime(s.Since), Before: nullTime(s.Before), Erased: all,
	})
	if err != nil {
		return all, fmt.Errorf("forget: %w", err)
	}
	err = e.session.exec(ctx, "insert into hookladder.audit (by, what, detail) values ($1, 'forget', $2::text::jsonb)", dispatcher.System, string(detail))
	if err != nil {
		return all, fault("record the erasure", err)
	}
	return all, nil
}

// erasureRecord is the record of an erasure.
type erasureRecord struct {
	Arguments string         `json:"arguments_hmac"`
	Since     *time.Time     `json:"since,omitempty"`
	Before    *time.Time     `json:"before,omitempty"`
	Erased    archive.Erased `json:"erased"`
}

// blocks is how many blocks of a month's table one query reads: 1 MiB.
const blocks = 128

// bookmark is the end of a page. It is encoded in the cursor.
type bookmark struct {
	Month     month     `json:"m,omitempty"` // the month to read next, of a selection by time
	Block     int64     `json:"b,omitempty"` // the next block of that month
	At        time.Time `json:"t,omitzero"`  // of the last end that was read, of a selection by tenant or subject
	Partition int       `json:"p,omitempty"`
	Pos       int64     `json:"n,omitempty"`
	Messages  bool      `json:"a,omitempty"` // the ends are read, the messages are next
	Open      bool      `json:"o,omitempty"` // the unfinished deliveries are next, after ID and Lane
	ID        string    `json:"i,omitempty"`
	Lane      string    `json:"l,omitempty"`
}

// Choose reads a page of the messages in a selection. With a tenant or subject it first
// reads the finished deliveries by their index. Then it scans the messages of each month,
// because an end may be lost or may lack its tenant, and its message must be erased too.
// The unfinished deliveries are last. A page may be short or empty; next is empty after the
// last page.
func (e *Eraser) Choose(ctx context.Context, s archive.Selection, after string) (page []archive.Chosen, next string, err error) {
	var at bookmark
	if after != "" {
		if err := json.Unmarshal([]byte(after), &at); err != nil {
			return nil, "", fmt.Errorf("choose messages: cursor: %w", err)
		}
	}
	if s.Before.IsZero() {
		s.Before = lastTime
	}
	var more bool
	switch {
	case at.Open:
		page, more, err = e.unfinished(ctx, &s, &at)
	case !at.Messages && (s.Tenant != "" || s.Subject != ""):
		page, more, err = e.ended(ctx, &s, &at)
		if err == nil && !more {
			at, more = bookmark{Messages: true}, true
		}
	default:
		page, more, err = e.scanned(ctx, &s, &at)
	}
	if err != nil {
		return nil, "", fault("choose messages", err)
	}
	if !more {
		if at.Open {
			return page, "", nil
		}
		at = bookmark{Open: true}
	}
	text, err := json.Marshal(at)
	return page, string(text), err
}

// collect reads rows of an id, its creation time and the columns of place. It skips
// repeated rows.
func collect(rows pgx.Rows, err error, place ...any) (page []archive.Chosen, n int, _ error) {
	if err != nil {
		return nil, 0, err
	}
	var c archive.Chosen
	seen := map[archive.Chosen]bool{}
	tag, err := pgx.ForEachRow(rows, append([]any{&c.ID, &c.Created}, place...), func() error {
		if c.Created = c.Created.UTC(); !seen[c] {
			seen[c] = true
			page = append(page, c)
		}
		return nil
	})
	return page, int(tag.RowsAffected()), err
}

// ended reads messages by the ends of their deliveries. If the message of an end is
// unknown, the time of the end is used. The extra hour allows for partitions whose clocks
// differ.
func (e *Eraser) ended(ctx context.Context, s *archive.Selection, at *bookmark) ([]archive.Chosen, bool, error) {
	column, of, indexed := "tenant", s.Tenant, "$9 = ''"
	if s.Subject != "" {
		column, of, indexed = "subject", s.Subject, foundBy+" in ($9, $1)"
	}
	rows, err := e.session.conn.Query(ctx, e.session.schema.sql(`
		with ends as (
			select id, at, partition, pos from hookladder.event
			where `+indexed+` and `+column+` = $1 and ($2 = '' or tenant = $2) and kind in ('d', 'x', 'c', '?') and at >= $3::timestamptz - interval '1 hour'
			and (at, partition, pos) > ($5::timestamptz, $6::int, $7::bigint)
			order by at, partition, pos limit $8
		)
		select ends.id, coalesce(m.created, ends.at), coalesce(m.created, ends.at) >= $3 and coalesce(m.created, ends.at) < $4, ends.at, ends.partition, ends.pos
		from ends left join hookladder.message m on m.id = ends.id and m.`+column+` = $1
		order by ends.at, ends.partition, ends.pos`),
		of, s.Tenant, s.Since, s.Before, at.At, at.Partition, at.Pos, mostErased, dispatcher.SubjectToken(s.Subject))
	if err != nil {
		return nil, false, err
	}
	var c archive.Chosen
	var in bool
	var page []archive.Chosen
	seen := map[archive.Chosen]bool{}
	n := 0
	_, err = pgx.ForEachRow(rows, []any{&c.ID, &c.Created, &in, &at.At, &at.Partition, &at.Pos}, func() error {
		n++
		if c.Created = c.Created.UTC(); in && !seen[c] {
			seen[c] = true
			page = append(page, c)
		}
		return nil
	})
	return page, n >= mostErased, err
}

// scanned reads the messages of some blocks. A row may be in a later month than its own, if
// it was unfinished when its month was dropped.
func (e *Eraser) scanned(ctx context.Context, s *archive.Selection, at *bookmark) ([]archive.Chosen, bool, error) {
	if err := e.session.readMonths(ctx); err != nil {
		return nil, false, err
	}
	ms := e.session.months
	first, last := ms[0], ms[len(ms)-1]
	if at.Month > last {
		return nil, false, nil
	}
	of := last
	for _, m := range ms {
		// The first and the last month also have the messages of all earlier and later times.
		within := m == first || m == last || m.first().Before(s.Before) && s.Since.Before((m+1).first())
		if m >= at.Month && within {
			of = m
			break
		}
	}
	if of != at.Month {
		at.Month, at.Block = of, 0
	}
	table := "hookladder." + of.of("message")
	var size int64
	err := e.session.conn.QueryRow(ctx, e.session.schema.sql("select pg_relation_size('"+table+"') / current_setting('block_size')::bigint")).Scan(&size)
	if err != nil {
		return nil, false, err
	}
	text := fmt.Sprintf("select id, created from %s where ctid >= '(%d,0)' and ctid < '(%d,0)' and created >= $1 and created < $2 and ($3 = '' or tenant = $3) and ($4 = '' or subject = $4)", table, at.Block, at.Block+blocks)
	rows, err := e.session.conn.Query(ctx, e.session.schema.sql(text), pgx.QueryExecModeExec, s.Since, s.Before, s.Tenant, s.Subject)
	page, _, err := collect(rows, err)
	if at.Block += blocks; at.Block >= size {
		at.Month, at.Block = of+1, 0
	}
	return page, true, err
}

// unfinished reads the messages of unfinished deliveries.
func (e *Eraser) unfinished(ctx context.Context, s *archive.Selection, at *bookmark) ([]archive.Chosen, bool, error) {
	rows, err := e.session.conn.Query(ctx, e.session.schema.sql(`
		select id, created, id, lane from hookladder.open
		where ($1 = '' or tenant = $1) and ($2 = '' or subject = $2) and created >= $3 and created < $4 and (id, lane) > ($5, $6)
		order by id, lane limit $7`), s.Tenant, s.Subject, s.Since, s.Before, at.ID, at.Lane, mostErased)
	page, n, err := collect(rows, err, &at.ID, &at.Lane)
	return page, n >= mostErased, err
}
