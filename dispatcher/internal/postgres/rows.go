package postgres

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
)

// messageRow is a row of the table message.
type messageRow struct {
	messageKey
	tenant, subject, topic string
	size                   int
	head, body             []byte
}

// messageKey is the key of a message's row.
type messageKey struct {
	id      string
	created int64 // µs
	month   month
}

// encode writes the columns of messageColumns.
func (r *messageRow) encode(b *rowBuffer) {
	b.row(9)
	b.date(r.month)
	b.time(time.UnixMicro(r.created))
	b.text(r.id)
	b.textIf(r.tenant)
	b.textIf(r.subject)
	b.text(r.topic)
	b.int4(r.size)
	b.blobIf(r.head)
	b.blobIf(r.body)
}

// messageOf returns the row of an accepted message. It omits the body unless all bodies are
// kept.
func (a *Archive) messageOf(m *archive.Accepted, ms months) messageRow {
	created := m.At
	r := messageRow{size: len(m.Body), head: m.Head}
	if m.Message != nil {
		r.tenant, r.subject, r.topic = m.Message.Tenant, m.Message.Subject, m.Message.Topic
		created = m.Message.CreatedAt
	}
	r.messageKey = keyOf(m.ID, created, ms)
	if a.bodies == bodiesAll {
		r.body = m.Body
	}
	return r
}

func keyOf(id string, created time.Time, ms months) messageKey {
	created = within(created)
	return messageKey{id: id, created: created.UnixMicro(), month: ms.clamp(created)}
}

// messageRows makes the rows of messages. A row may exist already, because another
// partition, an earlier attempt or a running walk wrote it. Such rows are queried first.
func (c *copier) messageRows(ctx context.Context) error {
	maybe := map[messageKey]*archive.Accepted{}
	var keys []messageKey
	dead := c.dead()
	for i := range c.parts {
		walking := c.archive.walks[c.parts[i].Epoch] != 0
		for k := range c.parts[i].Accepted {
			m := &c.parts[i].Accepted[k]
			if m.Message == nil && m.Again {
				continue // its row exists, or its record is gone
			}
			row := c.archive.messageOf(m, c.session.months)
			if dead[m.ID] {
				row.body = m.Body
			}
			if !m.Again && !walking && !fansOut(m.Message) {
				c.messages = append(c.messages, row)
			} else if maybe[row.messageKey] == nil {
				maybe[row.messageKey] = m
				keys = append(keys, row.messageKey)
			}
		}
	}
	there, err := c.session.messagesThere(ctx, keys)
	if err != nil {
		return err
	}
	for _, key := range keys {
		if !there[key] {
			row := c.archive.messageOf(maybe[key], c.session.months)
			if dead[key.id] {
				row.body = maybe[key].Body
			}
			c.messages = append(c.messages, row)
		}
	}
	return nil
}

// dead returns the messages with a dead delivery, if only their bodies are kept.
func (c *copier) dead() map[string]bool {
	if c.archive.bodies != bodiesFailed {
		return nil
	}
	dead := map[string]bool{}
	for _, e := range c.events {
		if e.Kind == archive.Dead {
			dead[e.ID.Message] = true
		}
	}
	return dead
}

// fansOut reports whether a message goes to all matching endpoints, which may be in several
// partitions.
func fansOut(m *dispatcher.Message) bool {
	return m != nil && m.URL == "" && m.Endpoint == "" && m.Queue == ""
}

// messagesThere returns the keys whose rows exist.
func (s *session) messagesThere(ctx context.Context, keys []messageKey) (map[messageKey]bool, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	ids, created, of := keyArrays(keys)
	rows, err := s.conn.Query(ctx, s.schema.sql(`
		select m.id, m.created, m.month
		from unnest($1::text[], $2::timestamptz[], $3::text[]) as k (id, created, month)
		join hookladder.message m on m.id = k.id and m.created = k.created and m.month = k.month::date`), ids, created, of)
	if err != nil {
		return nil, err
	}
	there := make(map[messageKey]bool, len(keys))
	var id string
	var at, first time.Time
	_, err = pgx.ForEachRow(rows, []any{&id, &at, &first}, func() error {
		there[messageKey{id: id, created: at.UnixMicro(), month: monthOf(first)}] = true
		return nil
	})
	return there, err
}

// markRepeated marks the events of attempts and ends that the archive has already. So that a long
// archive costs no more, it reads only the months from a day before the first of the attempts on. After
// an end of an earlier month, another attempt ends its delivery again.
func (s *session) markRepeated(ctx context.Context, events []*archive.Event) error {
	if len(events) == 0 {
		return nil
	}
	ids, lanes, kinds := make([]string, len(events)), make([]string, len(events)), make([]string, len(events))
	numbers, statuses, began := make([]int32, len(events)), make([]int32, len(events)), make([]time.Time, len(events))
	first := events[0].Attempt.At
	for i, e := range events {
		if e.Attempt.At.Before(first) {
			first = e.Attempt.At
		}
		ids[i], lanes[i], kinds[i] = mended(e.ID.Message), mended(string(e.ID.Lane)), string(rune(e.Kind))
		numbers[i], statuses[i], began[i] = int32(e.Attempt.Number), int32(e.Attempt.Status), within(e.Attempt.At)
	}
	rows, err := s.conn.Query(ctx, s.schema.sql(`
		select a.k, coalesce(bool_or(e.n = a.n and e.status = a.status and e.began = a.began), false), bool_or(e.kind::text = a.kind)
		from unnest($1::text[], $2::text[], $3::text[], $4::int[], $5::int[], $6::timestamptz[]) with ordinality as a (id, lane, kind, n, status, began, k)
		join hookladder.event e on e.id = a.id and e.lane = a.lane and e.month >= $7::text::date group by a.k`),
		ids, lanes, kinds, numbers, statuses, began, s.months.clamp(first.Add(-24*time.Hour)).String())
	if err != nil {
		return err
	}
	var k int
	var same, ended bool
	_, err = pgx.ForEachRow(rows, []any{&k, &same, &ended}, func() error {
		events[k-1].MarkRepeated(same, ended)
		return nil
	})
	return err
}

// nameEnds fills in the topic, tenant and subject of ends that lack them. Their messages
// were accepted in earlier parts, and their deliveries died at once, so table open never
// had them. If several messages had the same id, the last one before the end is used.
func (s *session) nameEnds(ctx context.Context, ends []*archive.Event) error {
	if len(ends) == 0 {
		return nil
	}
	ids, at := make([]string, len(ends)), make([]time.Time, len(ends))
	for i, e := range ends {
		ids[i], at[i] = mended(e.ID.Message), within(e.At)
	}
	rows, err := s.conn.Query(ctx, s.schema.sql(`
		select distinct on (e.n) e.n, m.topic, m.tenant, m.subject, m.created
		from unnest($1::text[], $2::timestamptz[]) with ordinality as e (id, at, n)
		join hookladder.message m on m.id = e.id order by e.n, m.created > e.at, m.created desc`), ids, at)
	if err != nil {
		return err
	}
	var n int
	var topic string
	var tenant, subject *string
	var created time.Time
	_, err = pgx.ForEachRow(rows, []any{&n, &topic, &tenant, &subject, &created}, func() error {
		e := ends[n-1]
		e.Topic, e.Tenant, e.Subject, e.Accepted = topic, value(tenant), value(subject), created.UTC()
		return nil
	})
	return err
}

func keyArrays(keys []messageKey) (ids []string, created []time.Time, months []string) {
	for _, k := range keys {
		ids, created, months = append(ids, mended(k.id)), append(created, time.UnixMicro(k.created)), append(months, k.month.String())
	}
	return ids, created, months
}

// eventRow is a row of the table event.
type eventRow struct {
	*archive.Event
	partition int
	month     month
}

// eventRows makes the rows of events.
func (c *copier) eventRows() {
	for i := range c.parts {
		p := &c.parts[i]
		for k := range p.Events {
			e := &p.Events[k]
			if e.Kind == 0 {
				continue
			}
			c.events = append(c.events, eventRow{Event: e, partition: p.Partition, month: c.session.months.clamp(e.At)})
		}
	}
}

// encode writes the columns of eventColumns.
func (r *eventRow) encode(b *rowBuffer) {
	at := &r.Attempt
	b.row(25)
	b.date(r.month)
	b.time(r.At)
	b.int8(r.Pos)
	b.int2(r.partition)
	b.char(byte(r.Kind))
	b.text(r.ID.Message)
	b.text(string(r.ID.Lane))
	b.int4(at.Number)
	b.int2(at.Status)
	b.int4(int(at.Duration.Milliseconds()))
	b.int8(r.Wait.Milliseconds())
	b.timeIf(at.At)
	b.textIf(string(at.Class))
	b.textIf(string(r.Reason))
	b.textIf(at.Address)
	b.textIf(at.URL)
	b.textIf(r.By)
	b.textIf(r.mark())
	b.textIf(r.Topic)
	b.textIf(r.Tenant)
	b.textIf(r.Subject)
	if at.Error == "" {
		b.null()
	} else {
		b.blob([]byte(at.Error))
	}
	b.blobIf(at.Excerpt)
	b.timeIf(r.accepted())
	b.textIf(r.token())
}

// token returns the column token, by which ends are queried.
func (r *eventRow) token() string {
	if !r.Kind.Ends() {
		return ""
	}
	return dispatcher.SubjectToken(r.Subject)
}

// accepted returns the column accepted: the time when the message of an end was accepted.
// If that is unknown it is the time of the end, so that each list has the end.
func (r *eventRow) accepted() time.Time {
	if !r.Kind.Ends() {
		return time.Time{}
	}
	return cmp.Or(r.Accepted, r.At)
}

// mark returns the column mark.
func (r *eventRow) mark() string {
	switch {
	case r.Attempt.Resend && r.Attempt.ShortHello:
		return markBoth
	case r.Attempt.Resend:
		return markResend
	case r.Attempt.ShortHello:
		return markShort
	case r.Anew:
		return markAnew
	case r.Kind == archive.Resent && !r.Due.IsZero():
		return strconv.FormatInt(r.Due.UnixMilli(), 10)
	}
	return ""
}

// The binary format of COPY: a header, rows of fields with their lengths, and a trailer.
const (
	copyHead = "PGCOPY\n\xff\r\n\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	copyEnd  = "\xff\xff"
)

// epoch2000 is the zero time of PostgreSQL.
var epoch2000 = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// rowBuffer encodes rows for COPY.
type rowBuffer struct {
	bytes   []byte
	changed bool // a text of the row had to be replaced
}

func (b *rowBuffer) row(columns int) {
	b.bytes = binary.BigEndian.AppendUint16(b.bytes, uint16(columns))
	b.changed = false
}

func (b *rowBuffer) null() { b.bytes = append(b.bytes, 0xff, 0xff, 0xff, 0xff) }

func (b *rowBuffer) length(n int) { b.bytes = binary.BigEndian.AppendUint32(b.bytes, uint32(n)) }

func (b *rowBuffer) int8(n int64) {
	b.length(8)
	b.bytes = binary.BigEndian.AppendUint64(b.bytes, uint64(n))
}

// int4 and int2 clamp a number that does not fit, which is not expected.
func (b *rowBuffer) int4(n int) {
	b.length(4)
	b.bytes = binary.BigEndian.AppendUint32(b.bytes, uint32(min(max(n, -1<<31), 1<<31-1)))
}

func (b *rowBuffer) int2(n int) {
	b.length(2)
	b.bytes = binary.BigEndian.AppendUint16(b.bytes, uint16(min(max(n, -1<<15), 1<<15-1)))
}

func (b *rowBuffer) char(c byte) {
	b.length(1)
	b.bytes = append(b.bytes, c)
}

func (b *rowBuffer) date(m month) {
	b.length(4)
	b.bytes = binary.BigEndian.AppendUint32(b.bytes, uint32(m.first().Sub(epoch2000)/(24*time.Hour)))
}

func (b *rowBuffer) time(t time.Time) { b.int8(within(t).UnixMicro() - epoch2000.UnixMicro()) }

// The range of times that are stored. A time outside comes from a wrong clock.
var firstTime, lastTime = time.Time{}, time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)

// within clamps a time to that range.
func within(t time.Time) time.Time {
	switch {
	case t.Before(firstTime):
		return firstTime
	case t.After(lastTime):
		return lastTime
	}
	return t
}

// timeIf writes null for the zero time.
func (b *rowBuffer) timeIf(t time.Time) {
	if t.IsZero() {
		b.null()
		return
	}
	b.time(t)
}

func (b *rowBuffer) text(s string) {
	if !valid(s) {
		s, b.changed = mend(s), true
	}
	b.length(len(s))
	b.bytes = append(b.bytes, s...)
}

// textIf writes null for an empty text.
func (b *rowBuffer) textIf(s string) {
	if s == "" {
		b.null()
		return
	}
	b.text(s)
}

func (b *rowBuffer) blob(s []byte) {
	b.length(len(s))
	b.bytes = append(b.bytes, s...)
}

func (b *rowBuffer) blobIf(s []byte) {
	if s == nil {
		b.null()
		return
	}
	b.blob(s)
}

// valid reports whether a text column accepts s. It rejects NUL and invalid UTF-8.
func valid(s string) bool { return strings.IndexByte(s, 0) < 0 && utf8.ValidString(s) }

// mend replaces the characters that a text column rejects.
func mend(s string) string { return strings.ReplaceAll(strings.ToValidUTF8(s, "?"), "\x00", "?") }

// mended returns s, mended if it is not valid.
func mended(s string) string {
	if valid(s) {
		return s
	}
	return mend(s)
}

// copyIn sends rows to a table by COPY. It reuses the archive's buffer.
func (a *Archive) copyIn(ctx context.Context, s *session, table, columns string, rows func(*rowBuffer)) error {
	b := rowBuffer{bytes: append(a.buffer[:0], copyHead...)}
	rows(&b)
	b.bytes = append(b.bytes, copyEnd...)
	if cap(b.bytes) <= keepBuffer {
		a.buffer = b.bytes
	}
	_, err := s.conn.PgConn().CopyFrom(ctx, bytes.NewReader(b.bytes), s.schema.sql("copy "+table+" ("+columns+") from stdin binary"))
	return err
}

// keepBuffer is the largest buffer that is reused. A batch has 8 MiB of bodies.
const keepBuffer = 16 << 20

// The columns of the tables, for writing and reading. Each list is written here only.
const (
	messageColumns = "month, created, id, tenant, subject, topic, size, head, body"

	eventColumns = "month, at, pos, partition, kind, id, lane, n, status, took, wait, began, " +
		"class, reason, addr, url, by, mark, topic, tenant, subject, error, answer, accepted, token"

	// openColumns does not have head and body, because only some rows have them and few queries need them.
	openColumns = "id, lane, partition, epoch, created, pos, due, attempts, base, beside, asked, topic, tenant, subject"
)

// foundBy is the indexed expression for ends: the token of the subject, or the subject of
// an event from before there were tokens.
const foundBy = "coalesce(token, subject)"

// The values of the column mark of an event.
const (
	markResend = "resend" // of an attempt that a person requested
	markShort  = "short"  // of an attempt with a short ClientHello
	markBoth   = "resend short"
	markAnew   = "anew" // of Resent: a new ladder begins; otherwise the column has the interrupted due time in ms
)
