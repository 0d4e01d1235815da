package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
)

// See stores a page of a walk. It adds the deliveries and messages that the archive lacks,
// and marks all as seen. It also marks rows that a later part of the log changed, because a
// delivery may have moved between two pages.
func (a *Archive) See(ctx context.Context, by string, w archive.Walk, page []archive.Open) (err error) {
	if len(page) == 0 {
		return nil
	}
	for _, careful := range []bool{false, true} {
		err = a.in(ctx, "compare unfinished deliveries", func(ctx context.Context, s *session) error {
			c := &copier{archive: a, session: s, by: by, careful: careful}
			return c.see(ctx, w, page)
		})
		if err == nil || !ofData(err) {
			return err
		}
	}
	return err
}

// sawOpen marks known rows as seen. The epoch is updated too, because the present store has
// them.
const sawOpen = `
on conflict (id, lane) do update set
  partition = excluded.partition, epoch = excluded.epoch, seen = excluded.seen`

func (c *copier) see(ctx context.Context, w archive.Walk, page []archive.Open) error {
	if c.careful {
		if err := c.session.readMonths(ctx); err != nil {
			return err
		}
	}
	if err := c.session.saveWalk(ctx, c.by, w); err != nil {
		return err
	}
	c.archive.walks[w.Epoch] = w.Name
	if err := c.seeMessages(ctx, page); err != nil {
		return err
	}
	return c.putOpen(ctx, len(page), func(i int) (archive.Open, int, int64) { return page[i], w.Partition, w.Name }, sawOpen)
}

// saveWalk checks that the instance owns the walk's partition, and stores the walk's
// progress. Its row lock keeps other writers of the partition out until the transaction
// ends.
func (s *session) saveWalk(ctx context.Context, by string, w archive.Walk) error {
	tag, err := s.conn.Exec(ctx, s.schema.sql("update hookladder.position set walk_left = $4 where partition = $1 and epoch = $2 and holder = $3"),
		w.Partition, w.Epoch, by, float32(w.Left))
	if err == nil && tag.RowsAffected() == 0 {
		err = archive.ErrMoved
	}
	return err
}

// seeMessages writes the messages of a page that the archive lacks.
func (c *copier) seeMessages(ctx context.Context, page []archive.Open) error {
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
	return c.copyMessages(ctx)
}

// ofStore selects rows that the walked store has or had: rows of its epoch, and rows of
// lost data after they were restored. A restored row keeps its old epoch if the log was cut
// before its lines were read. While a loss is not resolved, left_last is set.
const ofStore = "(o.epoch = $2 or exists (select from hookladder.position p where p.partition = $1 and p.left_last is null))"

// Unseen returns deliveries that a walk has not seen and that may have ended in its gap.
func (a *Archive) Unseen(ctx context.Context, by string, w archive.Walk) (ids []dispatcher.DeliveryID, err error) {
	err = a.in(ctx, "read unseen deliveries", func(ctx context.Context, s *session) error {
		if err := s.saveWalk(ctx, by, w); err != nil {
			return err
		}
		rows, err := s.conn.Query(ctx, s.schema.sql(`
			select id, lane from hookladder.open o where partition = $1 and pos <= $3 and seen <> $4 and `+ofStore+` limit $5`),
			w.Partition, w.Epoch, w.Until(), w.Name, archive.UnseenMost)
		if err != nil {
			return err
		}
		ids, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (id dispatcher.DeliveryID, err error) {
			err = row.Scan(&id.Message, &id.Lane)
			return id, err
		})
		return err
	})
	return ids, err
}

// missed deletes unseen deliveries from table open and inserts an event of kind Lost for
// each.
const missed = `
with gone as (
  delete from hookladder.open o using unnest($7::text[], $8::text[]) as lost (id, lane)
  where o.id = lost.id and o.lane = lost.lane and partition = $1 and pos <= $3 and seen <> $4 and ` + ofStore + `
  returning o.id, o.lane, attempts, topic, tenant, subject
)
insert into hookladder.event (month, at, pos, partition, kind, id, lane, n, status, took, wait, topic, tenant, subject)
select $6::text::date, now(), $5::bigint + row_number() over (), $1, '?', id, lane, attempts, 0, 0, 0, topic, tenant, subject from gone`

// EndLost ends deliveries as Lost if a walk still has not seen them.
func (a *Archive) EndLost(ctx context.Context, by string, w archive.Walk, last int64, ids []dispatcher.DeliveryID) (lost int, err error) {
	err = a.in(ctx, "end unseen deliveries", func(ctx context.Context, s *session) error {
		if err := s.saveWalk(ctx, by, w); err != nil {
			return err
		}
		var now time.Time
		var known int64
		if err := s.conn.QueryRow(ctx, s.schema.sql("select now(), last from hookladder.position where partition = $1"), w.Partition).Scan(&now, &known); err != nil {
			return err
		}
		last = max(last, known)
		messages, lanes := idArrays(ids)
		tag, err := s.conn.Exec(ctx, s.schema.sql(missed), w.Partition, w.Epoch, w.Until(), w.Name, last, s.months.clamp(now).String(), messages, lanes)
		if err != nil {
			return err
		}
		lost = int(tag.RowsAffected())
		return s.exec(ctx, "update hookladder.position set last = $2 where partition = $1", w.Partition, last+int64(lost))
	})
	return lost, err
}

// EndWalk ends a walk and marks its gap as closed.
func (a *Archive) EndWalk(ctx context.Context, by string, w archive.Walk) error {
	return a.in(ctx, "end a comparison", func(ctx context.Context, s *session) error {
		if err := s.saveWalk(ctx, by, w); err != nil {
			return err
		}
		delete(a.walks, w.Epoch)
		return s.exec(ctx, "update hookladder.position set walk_ms = $2, walk_seq = $3, walk_left = null where partition = $1",
			w.Partition, w.Gap.MS, int64(w.Gap.Seq))
	})
}

// Comparisons reads how far each partition is compared with the store.
func (r *Reader) Comparisons(ctx context.Context) (all []archive.Comparison, err error) {
	err = r.query(ctx, "read the comparisons", func(ctx context.Context, s *session) error {
		rows, err := s.conn.Query(ctx, r.schema.sql(`
			select partition, epoch, ms, seq, last, walk_ms, walk_seq, gap_ms, gap_seq, dropped, coalesce(walk_left, 1)::float8
			from hookladder.position where partition >= 0`))
		if err != nil {
			return err
		}
		all, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (c archive.Comparison, err error) {
			c.PartitionLease, err = scanLeaseAnd(row, &c.Left)
			return c, err
		})
		return err
	})
	return all, err
}
