package conn

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
	"unsafe"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/seal"
)

// A record is a message as it is stored in :messages. Its head has fixed
// places, so that scripts can read them without the rest:
//
//	digest 16 | created 6 | deliver-at 6 | expires-at 6 | key's hash 8 |
//	length of lane 1 | lane | length of meta 2 | meta | body
//
// Times are ms since 1970, big endian, 0 for none. The lane is empty for a
// message to more than one. Meta is a version byte and then fields: tag, length
// (uvarint), bytes. The body comes last and is never encoded. If the record
// would be larger than dispatcher.ApartAbove, its body lies in :bodies. Then
// meta's first field is the size of the body: scripts read no further.
const (
	atCreated  = dispatcher.DigestSize
	atDeliver  = atCreated + 6
	atExpires  = atDeliver + 6
	atKey      = atExpires + 6
	atLane     = atKey + keySize // its length, before the lane
	metaFormat = 1
)

const usualContentType = "application/json"

// ErrRecord reports that a record is incomplete.
var ErrRecord = errors.New("broken record")

// EncodeRecord encodes e as a record. The caller has estimated deliver. apart reports that the
// body is stored separately and is not in the record.
func EncodeRecord(e dispatcher.Entry, deliver time.Time, h Hiding) (record []byte, apart bool) {
	if a := e.Message.Apart; a != nil && e.Message.Body == nil {
		return encodeWith(e, deliver, a.Size, h), true
	}
	if len(e.Message.Body) <= dispatcher.ApartAbove {
		record = encodeWith(e, deliver, 0, h)
		if len(record) <= dispatcher.ApartAbove || len(e.Message.Body) == 0 {
			return record, false
		}
	}
	return encodeWith(e, deliver, len(e.Message.Body), h), true
}

// encodeWith encodes a record with its body. If apart is set, it is the size of a body that is
// stored separately.
func encodeWith(e dispatcher.Entry, deliver time.Time, apart int, h Hiding) []byte {
	m := e.Message
	size := 160 + len(m.URL)
	if apart == 0 {
		size += len(m.Body)
	}
	b := make([]byte, 0, size)
	b = append(b, e.Digest[:]...)
	b = appendTime(b, m.CreatedAt)
	b = appendTime(b, deliver)
	b = appendTime(b, m.ExpiresAt)
	b = appendKey(b, m)
	lane := ""
	if len(e.Lanes) == 1 {
		lane = string(e.Lanes[0])
	}
	b = append(b, byte(len(lane)))
	b = append(b, lane...)
	at := len(b)
	b = append(b, 0, 0)
	b = appendMeta(b, m, apart, h)
	binary.BigEndian.PutUint16(b[at:], uint16(len(b)-at-2))
	if apart > 0 {
		return b
	}
	return append(b, m.Body...)
}

// appendTime appends a time as 6 bytes of ms; the zero time is 0.
func appendTime(b []byte, t time.Time) []byte {
	var ms int64
	if !t.IsZero() {
		ms = max(t.UnixMilli(), 0)
	}
	return append(b, byte(ms>>40), byte(ms>>32), byte(ms>>24), byte(ms>>16), byte(ms>>8), byte(ms))
}

func readTime(s string) time.Time {
	var ms int64
	for i := range 6 {
		ms = ms<<8 | int64(s[i])
	}
	return FromMillis(ms)
}

// DecodeRecord decodes the record of message id. The message's texts and body share the
// record's memory and must not be changed.
func DecodeRecord(id, record string) (*dispatcher.Message, error) {
	end, err := headSize(record)
	if err != nil {
		return nil, fmt.Errorf("message %s: %w", id, err)
	}
	m := &dispatcher.Message{
		ID:          id,
		ContentType: usualContentType,
		CreatedAt:   readTime(record[atCreated:]),
		DeliverAt:   readTime(record[atDeliver:]),
		ExpiresAt:   readTime(record[atExpires:]),
	}
	meta := atLane + 1 + int(record[atLane]) + 3 // after its size and its version
	if err := readMeta(m, record[meta:end]); err != nil {
		return nil, fmt.Errorf("message %s: %w", id, err)
	}
	if body := record[end:]; body != "" {
		m.Body = BytesOf(body)
	}
	if m.Apart != nil {
		copy(m.Apart.Digest[:], record)
		if m.Body != nil {
			return nil, fmt.Errorf("message %s: %w", id, ErrRecord)
		}
	}
	return m, nil
}

// DecodeHead decodes the head of a record into its message: all but the body.
func DecodeHead(id string, head []byte) (*dispatcher.Message, error) {
	return DecodeRecord(id, string(head))
}

// BytesOf returns the bytes of a text, which must not be changed. A copy of each body would be
// the most expensive part of a claim.
func BytesOf(text string) []byte { return unsafe.Slice(unsafe.StringData(text), len(text)) }

// headSize returns the start of the body in a record.
func headSize(record string) (int, error) {
	if len(record) < atLane+1 {
		return 0, ErrRecord
	}
	at := atLane + 1 + int(record[atLane])
	if len(record) < at+2 {
		return 0, ErrRecord
	}
	end := at + 2 + int(record[at])<<8 + int(record[at+1])
	if len(record) < end || end < at+3 || record[at+2] != metaFormat {
		return 0, ErrRecord
	}
	return end, nil
}

// OnlyLane returns the only lane of a message, from the head of its record.
func OnlyLane(id, head string) (string, error) {
	if len(head) <= atLane || head[atLane] == 0 || len(head) < atLane+1+int(head[atLane]) {
		return "", fmt.Errorf("message %s: %w", id, ErrRecord)
	}
	return head[atLane+1 : atLane+1+int(head[atLane])], nil
}

// BodyField returns the field of a message in :bodies.
func BodyField(id string, digest dispatcher.Digest) string { return id + " " + string(digest[:]) }

// SplitRecord splits a record into head and body. The body is nil if it is stored separately.
func SplitRecord(id, record string) (head, body []byte, err error) {
	end, err := headSize(record)
	if err != nil {
		return nil, nil, fmt.Errorf("message %s: %w", id, err)
	}
	return BytesOf(record[:end]), BytesOf(record[end:]), nil
}

// Hiding configures how the secret parts of a message are hidden in its record.
type Hiding struct {
	Box   *seal.Box // encrypts the values of headers; nil: they are stored as plain text
	Token string    // Client.SubjectMark; empty: there is no subject
}

// RecordCreated returns the time of acceptance from a complete record.
func RecordCreated(record []byte) time.Time { return readTime(string(record[atCreated:atDeliver])) }

// RecordNamesLane reports whether a complete record names the only lane of its message.
func RecordNamesLane(record []byte) bool { return record[atLane] > 0 }
