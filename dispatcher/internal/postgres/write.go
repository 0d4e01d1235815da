package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
)

// Write stores parts in one transaction. It returns ErrMoved unless the instance holds the
// partitions and each part begins where the archive's position is. If a row is invalid or
// exists already, it writes once more in careful mode, which skips such rows.
func (a *Archive) Write(ctx context.Context, by string, parts []archive.Part) (w archive.Written, err error) {
	for _, careful := range []bool{false, true} {
		err = a.in(ctx, "archive", func(ctx context.Context, s *session) error {
			c := &copier{archive: a, session: s, by: by, parts: parts, careful: careful}
			err := c.write(ctx)
			w = c.written
			return err
		})
		if err == nil {
			return w, nil
		}
		if !ofData(err) {
			break
		}
	}
	return archive.Written{}, err
}

// copier is the state of one Write or See.
type copier struct {
	archive *Archive
	session *session
	by      string
	parts   []archive.Part
	careful bool // a row failed: skip bad rows and rows that exist

	partitions map[string]int // by epoch
	known      map[dispatcher.DeliveryID]archive.Open
	folded     archive.Folded
	messages   []messageRow
	events     []eventRow
	written    archive.Written
}

func (c *copier) write(ctx context.Context) error {
	if c.careful { // a month may be gone
		if err := c.session.readMonths(ctx); err != nil {
			return err
		}
	}
	if err := c.move(ctx); err != nil {
		return err
	}
	var err error
	if c.known, err = c.session.open(ctx, archive.Touched(c.parts)); err != nil {
		return err
	}
	c.folded = archive.Fold(c.parts, c.known)
	if err := c.session.markRepeated(ctx, c.folded.MaybeArchived); err != nil {
		return err
	}
	if err := c.session.nameEnds(ctx, c.folded.Unnamed); err != nil {
		return err
	}
	c.eventRows()
	if err := c.messageRows(ctx); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{c.keepChanges, c.copyMessages, c.copyEvents, c.keepBodies, c.deleteEnded, c.keepOpen} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// movePositions moves partitions to new positions and records the newest gap in the log. If
// it changes fewer rows than there are partitions, another instance has written.
const movePositions = `
update hookladder.position p set
  ms = m.to_ms, seq = m.to_seq, last = greatest(p.last, m.last),
  gap_ms = case when (m.gap_ms, m.gap_seq) > (coalesce(p.gap_ms, 0), coalesce(p.gap_seq, 0)) then m.gap_ms else p.gap_ms end,
  gap_seq = case when (m.gap_ms, m.gap_seq) > (coalesce(p.gap_ms, 0), coalesce(p.gap_seq, 0)) then m.gap_seq else p.gap_seq end,
  dropped = greatest(p.dropped, m.dropped), until = clock_timestamp() + make_interval(secs => $8::float8)
from unnest($2::int[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[])
  as m (partition, epoch, from_ms, from_seq, to_ms, to_seq, last, gap_ms, gap_seq, dropped)
where p.partition = m.partition and p.holder = $1 and p.epoch = m.epoch and p.ms = m.from_ms and p.seq = m.from_seq`

// positionMove is the move of one partition's position over all its parts.
type positionMove struct {
	partition int
	epoch     string
	from, to  archive.Position
	gap       archive.Position
	last      int64
	dropped   int64
}

// move moves the positions of all partitions.
func (c *copier) move(ctx context.Context) error {
	moves, err := c.moves()
	if err != nil {
		return err
	}
	c.partitions = map[string]int{}
	var partitions []int32
	var epochs []string
	var fromMS, fromSeq, toMS, toSeq, last, gapMS, gapSeq, dropped []int64
	for _, w := range moves {
		c.partitions[w.epoch] = w.partition
		partitions, epochs, last = append(partitions, int32(w.partition)), append(epochs, w.epoch), append(last, w.last)
		fromMS, fromSeq = append(fromMS, w.from.MS), append(fromSeq, int64(w.from.Seq))
		toMS, toSeq = append(toMS, w.to.MS), append(toSeq, int64(w.to.Seq))
		gapMS, gapSeq = append(gapMS, w.gap.MS), append(gapSeq, int64(w.gap.Seq))
		dropped = append(dropped, w.dropped)
	}
	tag, err := c.session.conn.Exec(ctx, c.session.schema.sql(movePositions),
		c.by, partitions, epochs, fromMS, fromSeq, toMS, toSeq, archive.LeaseTime.Seconds(), last, gapMS, gapSeq, dropped)
	if err == nil && int(tag.RowsAffected()) != len(moves) {
		err = archive.ErrMoved
	}
	return err
}

// moves joins the parts of each partition and checks that they follow each other.
func (c *copier) moves() (moves []positionMove, err error) {
	at := map[int]int{}
	for i := range c.parts {
		p := &c.parts[i]
		k, seen := at[p.Partition]
		if !seen {
			k = len(moves)
			at[p.Partition] = k
			moves = append(moves, positionMove{partition: p.Partition, epoch: p.Epoch, from: p.From, to: p.From})
		}
		w := &moves[k]
		if w.to != p.From || w.epoch != p.Epoch {
			return nil, fmt.Errorf("partition %d: a part begins at %s, and the one before it ends at %s", p.Partition, p.From, w.to)
		}
		w.to, w.dropped = p.To, max(w.dropped, p.Dropped)
		if p.Gap.After(w.gap) {
			w.gap = p.Gap
		}
		if n := len(p.Accepted); n > 0 {
			w.last = max(w.last, p.Accepted[n-1].Pos)
		}
		if n := len(p.Events); n > 0 {
			w.last = max(w.last, p.Events[n-1].Pos)
		}
	}
	return moves, nil
}

// copyMessages writes the rows of messages.
func (c *copier) copyMessages(ctx context.Context) error {
	return c.copyRows(ctx, tableRows{
		table: "hookladder.message", columns: messageColumns, rows: len(c.messages),
		encode: func(b *rowBuffer, i int) { c.messages[i].encode(b) },
		name:   func(i int) string { return c.messages[i].id },
	}, &c.written.Messages)
}

// copyEvents writes the rows of events.
func (c *copier) copyEvents(ctx context.Context) error {
	return c.copyRows(ctx, tableRows{
		table: "hookladder.event", columns: eventColumns, rows: len(c.events),
		encode: func(b *rowBuffer, i int) { c.events[i].encode(b) },
		name:   func(i int) string { return c.events[i].ID.String() },
	}, &c.written.Events)
}

// tableRows are the rows to write to one table.
type tableRows struct {
	table, columns string
	rows           int
	encode         func(*rowBuffer, int)
	name           func(int) string // of a row, for the log
}

func (c *copier) copyRows(ctx context.Context, t tableRows, written *int) error {
	if t.rows == 0 {
		return nil
	}
	if c.careful {
		return c.insertRows(ctx, t, written)
	}
	err := c.archive.copyIn(ctx, c.session, t.table, t.columns, func(b *rowBuffer) {
		for i := range t.rows {
			t.encode(b, i)
			if b.changed {
				c.written.Changed++
			}
		}
	})
	*written += t.rows
	return err
}

// insertRows writes rows and skips those that exist or that the table rejects.
func (c *copier) insertRows(ctx context.Context, t tableRows, written *int) error {
	s := c.session
	if err := s.exec(ctx, "create temp table incoming on commit drop as select "+t.columns+" from "+t.table+" where false"); err != nil {
		return err
	}
	put := func(from, to int) error {
		changed := 0
		if err := c.archive.copyIn(ctx, s, "incoming", t.columns, func(b *rowBuffer) {
			for i := from; i < to; i++ {
				t.encode(b, i)
				if b.changed {
					changed++
				}
			}
		}); err != nil {
			return err
		}
		tag, err := s.conn.Exec(ctx, s.schema.sql("insert into "+t.table+" ("+t.columns+") select "+t.columns+" from incoming on conflict do nothing"))
		if err == nil {
			err = s.exec(ctx, "truncate incoming")
		}
		if err == nil {
			*written += int(tag.RowsAffected())
			c.written.Changed += changed
		}
		return err
	}
	if err := c.eachRow(ctx, t.table, t.rows, t.name, put); err != nil {
		return err
	}
	return s.exec(ctx, "drop table incoming")
}

// eachRow calls put for n rows of a table. In careful mode it skips rows that the table rejects, and
// logs them by their names.
func (c *copier) eachRow(ctx context.Context, table string, n int, name func(i int) string, put func(from, to int) error) error {
	switch {
	case n == 0:
		return nil
	case !c.careful:
		return put(0, n)
	}
	return c.halves(ctx, 0, n, put, func(i int, err error) {
		c.session.log.ErrorContext(ctx, "the archive rejected a row, which is skipped", "table", table, "id", name(i), "err", err)
	})
}

// halves calls put for a range of rows. If a row is invalid it splits the range in halves,
// until the bad row is alone and is skipped.
func (c *copier) halves(ctx context.Context, from, to int, put func(from, to int) error, pass func(int, error)) error {
	if from == to {
		return nil
	}
	if err := c.session.exec(ctx, "savepoint rows"); err != nil {
		return err
	}
	err := put(from, to)
	if err == nil {
		return c.session.exec(ctx, "release savepoint rows")
	}
	if !ofData(err) {
		return err
	}
	if back := c.session.exec(ctx, "rollback to savepoint rows; release savepoint rows"); back != nil {
		return errors.Join(err, back)
	}
	if to-from == 1 {
		pass(from, err)
		c.written.Passed++
		return nil
	}
	middle := (from + to) / 2
	if err := c.halves(ctx, from, middle, put, pass); err != nil {
		return err
	}
	return c.halves(ctx, middle, to, put, pass)
}
