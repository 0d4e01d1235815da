package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
)

// open reads which of some deliveries are unfinished.
func (s *session) open(ctx context.Context, ids []dispatcher.DeliveryID) (map[dispatcher.DeliveryID]archive.Open, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	messages, lanes := idArrays(ids)
	rows, err := s.conn.Query(ctx, s.schema.sql(`
		select `+openColumns+` from unnest($1::text[], $2::text[]) as wanted (message, at_lane)
		join hookladder.open on id = message and lane = at_lane`), messages, lanes)
	if err != nil {
		return nil, err
	}
	known := make(map[dispatcher.DeliveryID]archive.Open, len(ids))
	open, err := pgx.CollectRows(rows, scanOpen)
	for _, o := range open {
		known[o.ID] = o
	}
	return known, err
}

// scanOpen scans a row of openColumns.
func scanOpen(row pgx.CollectableRow) (archive.Open, error) { return scanOpenAnd(row) }

// scanOpenAnd scans such a row with more columns at its end.
func scanOpenAnd(row pgx.CollectableRow, more ...any) (o archive.Open, err error) {
	var partition int
	var due, asked *time.Time
	var topic, tenant, subject *string
	err = row.Scan(append([]any{&o.ID.Message, &o.ID.Lane, &partition, &o.Epoch, &o.Created, &o.Pos, &due, &o.Attempts, &o.Base, &o.Beside, &asked,
		&topic, &tenant, &subject}, more...)...)
	o.Created, o.Due, o.Asked = o.Created.UTC(), value(due).UTC(), value(asked).UTC()
	o.Topic, o.Tenant, o.Subject = value(topic), value(tenant), value(subject)
	return o, err
}

// value returns *p, or the zero value if p is nil.
func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// nullText and nullTime return nil for the zero value.
func nullText(s string) *string {
	if s == "" {
		return nil
	}
	s = mended(s)
	return &s
}

func nullTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = within(t)
	return &t
}

func idArrays(ids []dispatcher.DeliveryID) (messages, lanes []string) {
	messages, lanes = make([]string, len(ids)), make([]string, len(ids))
	for i, id := range ids {
		messages[i], lanes[i] = mended(id.Message), mended(string(id.Lane))
	}
	return messages, lanes
}

// openArrays are rows of the table open, as one array for each column.
type openArrays struct {
	ids, lanes, epochs      []string
	partitions              []int32
	created                 []time.Time
	pos, walks              []int64
	due, asked              []*time.Time
	attempts, base, beside  []int32
	topic, tenant, subjects []*string
	bodies                  [][]byte
}

func (r *openArrays) add(o *archive.Open, partition int, walk int64) {
	r.ids, r.lanes, r.epochs = append(r.ids, mended(o.ID.Message)), append(r.lanes, mended(string(o.ID.Lane))), append(r.epochs, o.Epoch)
	r.partitions, r.created, r.pos = append(r.partitions, int32(partition)), append(r.created, within(o.Created)), append(r.pos, o.Pos)
	r.due, r.asked = append(r.due, nullTime(o.Due)), append(r.asked, nullTime(o.Asked))
	r.attempts, r.base, r.beside = append(r.attempts, int32(o.Attempts)), append(r.base, int32(o.Base)), append(r.beside, int32(o.Beside))
	r.topic, r.tenant, r.subjects = append(r.topic, nullText(o.Topic)), append(r.tenant, nullText(o.Tenant)), append(r.subjects, nullText(o.Subject))
	r.walks, r.bodies = append(r.walks, walk), append(r.bodies, o.Body)
}

// fromArrays selects rows for the table open from arrays. A page of a walk may have a delivery twice.
// Its head is left out, because the message has it.
const fromArrays = `
insert into hookladder.open (` + openColumns + `, seen, body)
select distinct on (id, lane) ` + openColumns + `, seen, body from unnest($1::text[], $2::text[], $3::int[], $4::text[], $5::timestamptz[], $6::bigint[],
  $7::timestamptz[], $8::int[], $9::int[], $10::int[], $11::timestamptz[], $12::text[], $13::text[], $14::text[], $15::bigint[],
  $16::bytea[]) as new (` + openColumns + `, seen, body)
`

// putOpen writes n deliveries into the table open. row returns one of them, with its partition and
// with the walk that has seen it. conflict is what happens to a delivery that is there.
func (c *copier) putOpen(ctx context.Context, n int, row func(i int) (o archive.Open, partition int, walk int64), conflict string) error {
	name := func(i int) string { o, _, _ := row(i); return o.ID.String() }
	return c.eachRow(ctx, "hookladder.open", n, name, func(from, to int) error {
		var r openArrays
		for i := from; i < to; i++ {
			o, partition, walk := row(i)
			if c.archive.bodies == bodiesAll {
				o.Body = nil
			}
			r.add(&o, partition, walk)
		}
		return c.session.exec(ctx, fromArrays+conflict, r.ids, r.lanes, r.partitions, r.epochs, r.created, r.pos,
			r.due, r.attempts, r.base, r.beside, r.asked, r.topic, r.tenant, r.subjects, r.walks, r.bodies)
	})
}

// changeOpen updates the columns that the log changes.
const changeOpen = `
on conflict (id, lane) do update set
  partition = excluded.partition, epoch = excluded.epoch, created = excluded.created, pos = excluded.pos, due = excluded.due, attempts = excluded.attempts,
  base = excluded.base, beside = excluded.beside, asked = excluded.asked, seen = greatest(open.seen, excluded.seen),
  body = coalesce(open.body, excluded.body)`

// keepOpen writes the deliveries that began or changed and have not finished.
func (c *copier) keepOpen(ctx context.Context) error {
	open := c.folded.Open
	return c.putOpen(ctx, len(open), func(i int) (archive.Open, int, int64) {
		epoch := open[i].Epoch
		return open[i], c.partitions[epoch], c.archive.walks[epoch]
	}, changeOpen)
}

// keepBodies copies the bodies of messages with a dead delivery to table message, if only
// those are kept. Until then table open has the body.
func (c *copier) keepBodies(ctx context.Context) error {
	if c.archive.bodies != bodiesFailed {
		return nil
	}
	var keys []messageKey
	var lanes []string
	for _, e := range c.events {
		if o, was := c.known[e.ID]; was && e.Kind == archive.Dead {
			keys = append(keys, keyOf(e.ID.Message, o.Created, c.session.months))
			lanes = append(lanes, string(e.ID.Lane))
		}
	}
	if len(keys) == 0 {
		return nil
	}
	ids, created, months := keyArrays(keys)
	return c.session.exec(ctx, `
		update hookladder.message m set body = o.body
		from unnest($1::text[], $2::timestamptz[], $3::text[], $4::text[]) as k (id, created, month, lane)
		join hookladder.open o on o.id = k.id and o.lane = k.lane
		where m.id = k.id and m.created = k.created and m.month = k.month::date and m.body is null and o.body is not null`,
		ids, created, months, lanes)
}

// deleteEnded deletes finished deliveries from table open. It also deletes deliveries that
// began and ended in these parts, because a store that lost its newest data may take a
// message twice. keepOpen runs later and writes deliveries that began again.
func (c *copier) deleteEnded(ctx context.Context) error {
	gone := make([]dispatcher.DeliveryID, 0, len(c.events))
	for _, e := range c.events {
		if e.Kind.Ends() {
			gone = append(gone, e.ID)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	messages, lanes := idArrays(gone)
	return c.session.exec(ctx, `
		delete from hookladder.open o using unnest($1::text[], $2::text[]) as ended (id, lane)
		where o.id = ended.id and o.lane = ended.lane`, messages, lanes)
}
