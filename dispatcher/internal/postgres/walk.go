package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hookladder/hookladder/dispatcher/archive"
)

// See takes in a page of a walk through what a partition has not finished. What the
// archive lacks is added, messages too. What a later part of the log changes is seen as
// well: it may have gone from one place to another between two pages.
func (a *Archive) See(ctx context.Context, by string, walk int64, page []archive.Open) (err error) {
	if len(page) == 0 {
		return nil
	}
	for _, care := range []bool{false, true} {
		err = a.in(ctx, "see what has not finished", func(ctx context.Context, s *session) error {
			c := &cargo{archive: a, session: s, by: by, care: care}
			return c.see(ctx, walk, page)
		})
		if err == nil || !ofData(err) {
			return err
		}
	}
	return err
}

// sawOpen marks what was known. It is of the store's present epoch by that.
const sawOpen = `
on conflict (id, lane) do update set
  partition = excluded.partition, epoch = excluded.epoch, seen = excluded.seen`

func (c *cargo) see(ctx context.Context, walk int64, page []archive.Open) error {
	if c.care {
		if err := c.session.readMonths(ctx); err != nil {
			return err
		}
	}
	if err := c.held(ctx, page); err != nil {
		return err
	}
	for epoch := range c.partitions {
		c.archive.walks[epoch] = walk
	}
	var keys []messageKey
	of := map[messageKey]*archive.Open{}
	for i := range page {
		key := keyOf(page[i].ID.Message, page[i].Created, c.session.months)
		if of[key] == nil {
			of[key] = &page[i]
			keys = append(keys, key)
		}
	}
	there, err := c.session.messagesThere(ctx, keys)
	if err != nil {
		return err
	}
	for _, key := range keys {
		if o := of[key]; !there[key] && o.Head != nil {
			row := messageRow{messageKey: key, tenant: o.Tenant, subject: o.Subject, topic: o.Topic, size: len(o.Body), head: o.Head}
			if c.archive.bodies == bodiesAll {
				row.body = o.Body
			}
			c.messages = append(c.messages, row)
		}
	}
	if err := c.copyMessages(ctx); err != nil {
		return err
	}
	var rows openArrays
	for _, o := range page {
		o.Head = nil
		if c.archive.bodies == bodiesAll {
			o.Body = nil
		}
		rows.add(&o, c.partitions[o.Epoch], walk)
	}
	return c.session.putOpen(ctx, &rows, sawOpen)
}

// held finds the partitions of a page's epochs. The instance has to hold them.
func (c *cargo) held(ctx context.Context, page []archive.Open) error {
	c.partitions = map[string]int{}
	var epochs []string
	for _, o := range page {
		if _, met := c.partitions[o.Epoch]; !met {
			c.partitions[o.Epoch] = -1
			epochs = append(epochs, o.Epoch)
		}
	}
	rows, err := c.session.conn.Query(ctx, c.session.schema.sql(
		"select partition, epoch from hookladder.position where holder = $1 and epoch = any ($2::text[]) for share"), c.by, epochs)
	if err != nil {
		return err
	}
	var partition int
	var epoch string
	tag, err := pgx.ForEachRow(rows, []any{&partition, &epoch}, func() error {
		c.partitions[epoch] = partition
		return nil
	})
	if err == nil && int(tag.RowsAffected()) != len(epochs) {
		err = archive.ErrMoved
	}
	return err
}

// missed ends what a walk did not see: it goes, and an event says that it has ended.
const missed = `
with gone as (
  delete from hookladder.open
  where partition = $1 and epoch = $2 and pos <= $3 and seen <> $4
  returning id, lane, attempts, topic, tenant, subject
)
insert into hookladder.event (month, at, pos, partition, kind, id, lane, n, status, took, wait, topic, tenant, subject)
select $6::text::date, now(), $5::bigint + row_number() over (), $1, '?', id, lane, attempts, 0, 0, 0, topic, tenant, subject from gone`

// Miss ends a walk: what it did not see has ended as Lost.
func (a *Archive) Miss(ctx context.Context, by string, m archive.Missed) (lost int, err error) {
	err = a.in(ctx, "miss what has not finished", func(ctx context.Context, s *session) error {
		var now time.Time
		var last int64
		err := s.conn.QueryRow(ctx, s.schema.sql(
			"select now(), last from hookladder.position where partition = $1 and epoch = $2 and holder = $3 for update"),
			m.Partition, m.Epoch, by).Scan(&now, &last)
		if err == pgx.ErrNoRows {
			return archive.ErrMoved
		}
		if err != nil {
			return err
		}
		last = max(last, m.Last)
		if err := s.exec(ctx, "set local statement_timeout = 0"); err != nil { // the call's own time bounds it
			return err
		}
		tag, err := s.conn.Exec(ctx, s.schema.sql(missed), m.Partition, m.Epoch, m.Until, m.Walk, last, s.months.clamp(now).String())
		if err != nil {
			return err
		}
		lost = int(tag.RowsAffected())
		return s.exec(ctx, "update hookladder.position set last = $2, walk_ms = $3, walk_seq = $4 where partition = $1",
			m.Partition, last+int64(lost), m.Gap.MS, int64(m.Gap.Seq))
	})
	return lost, err
}
