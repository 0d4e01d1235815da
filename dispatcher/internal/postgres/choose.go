package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
)

// blocks is how much of a table of a month is read at once: 1 MiB.
const blocks = 128

// bookmark is where a page ended, as a cursor has it.
type bookmark struct {
	Month     month     `json:"m,omitempty"` // that is read next, of a selection by time
	Block     int64     `json:"b,omitempty"` // of it
	At        time.Time `json:"t,omitzero"`  // of the last end read, of a selection by tenant or subject
	Partition int       `json:"p,omitempty"`
	Pos       int64     `json:"n,omitempty"`
	Messages  bool      `json:"a,omitempty"` // a selection by tenant or subject reads messages by now
	Open      bool      `json:"o,omitempty"` // what has not finished is read next, behind
	ID        string    `json:"i,omitempty"`
	Lane      string    `json:"l,omitempty"`
}

// Choose reads a page of what a selection has. By tenant or subject it first goes through
// what has ended, by the index. Then it goes through the messages of each month, as they lie on
// the disk: an end may be lost, or may lack its names, and its message must not stay. At
// last comes what has not finished. A page may be short, or empty; next is empty at the end.
func (e *Eraser) Choose(ctx context.Context, s archive.Selection, after string) (page []archive.Chosen, next string, err error) {
	var at bookmark
	if after != "" {
		if err := json.Unmarshal([]byte(after), &at); err != nil {
			return nil, "", fmt.Errorf("choose what to forget: cursor: %w", err)
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
		return nil, "", fault("choose what to forget", err)
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

// collect reads rows of an id, when it was created, and where that stands.
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

// ended reads messages by the ends of their deliveries. An end of which no message is
// known stands for it. The clocks of partitions may differ.
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

// scanned reads the messages of some blocks. Rows that stay longer than their month are
// of what has not finished, or had not when its month went.
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
		// The first and the last month have what was accepted before and after all others too.
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

// unfinished reads what has not finished.
func (e *Eraser) unfinished(ctx context.Context, s *archive.Selection, at *bookmark) ([]archive.Chosen, bool, error) {
	rows, err := e.session.conn.Query(ctx, e.session.schema.sql(`
		select id, created, id, lane from hookladder.open
		where ($1 = '' or tenant = $1) and ($2 = '' or subject = $2) and created >= $3 and created < $4 and (id, lane) > ($5, $6)
		order by id, lane limit $7`), s.Tenant, s.Subject, s.Since, s.Before, at.ID, at.Lane, mostErased)
	page, n, err := collect(rows, err, &at.ID, &at.Lane)
	return page, n >= mostErased, err
}
