package postgres

import (
	"bytes"
	"context"
	"encoding/binary"
	"strings"
	"time"
	"unicode/utf8"
)

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
