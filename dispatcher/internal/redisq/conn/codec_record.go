package conn

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unsafe"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/seal"
	"github.com/hookladder/hookladder/dispatcher/success"
	"github.com/hookladder/hookladder/dispatcher/trace"
	"github.com/hookladder/hookladder/ladder"
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

// Tags of meta's fields. An empty field and a default value are left out. So the head of a
// plain message fits into the memory class of its body.
const (
	metaTopic = iota + 1
	metaTenant
	metaURL
	metaContentType
	metaHeader // one for each header: name, 0, value (no value if encrypted)
	metaLadder
	metaMaxAttempts
	metaTimeout // ms
	metaSuccess
	metaEndpoint
	metaOrderingKey
	metaBody // size of a body that is stored separately
	metaSubject
	metaSealed // the values of all headers, encrypted together
	metaQueue
	metaToken // Client.SubjectMark to find the subject: the first field except metaBody, so that scripts find it
	metaTrace // the ids and flags of a traceparent
)

func appendMeta(b []byte, m *dispatcher.Message, apart int, h Hiding) []byte {
	b = append(b, metaFormat)
	b = appendNumber(b, metaBody, int64(apart))
	b = appendField(b, metaToken, h.Token)
	b = appendField(b, metaTopic, m.Topic)
	b = appendField(b, metaTenant, m.Tenant)
	b = appendField(b, metaURL, m.URL)
	if m.ContentType != usualContentType {
		b = append(b, metaContentType)
		b = binary.AppendUvarint(b, uint64(len(m.ContentType)))
		b = append(b, m.ContentType...)
	}
	if len(m.Headers) > 0 {
		b = appendHeaders(b, m, h.Box)
	}
	if m.Ladder != nil {
		text := m.Ladder.String()
		b = append(b, metaLadder) // also without a rung, because that is not the default ladder
		b = binary.AppendUvarint(b, uint64(len(text)))
		b = append(b, text...)
	}
	b = appendNumber(b, metaMaxAttempts, int64(m.MaxAttempts))
	b = appendNumber(b, metaTimeout, m.Timeout.Milliseconds())
	if m.Success != nil {
		b = appendField(b, metaSuccess, m.Success.String())
	}
	b = appendField(b, metaEndpoint, m.Endpoint)
	b = appendField(b, metaOrderingKey, m.OrderingKey)
	b = appendField(b, metaSubject, m.Subject)
	b = appendField(b, metaQueue, m.Queue)
	if m.Trace != nil {
		b = appendField(b, metaTrace, string(m.Trace.Bytes()))
	}
	return b
}

func appendField(b []byte, tag byte, text string) []byte {
	if text == "" {
		return b
	}
	b = append(b, tag)
	b = binary.AppendUvarint(b, uint64(len(text)))
	return append(b, text...)
}

func appendNumber(b []byte, tag byte, n int64) []byte {
	if n == 0 {
		return b
	}
	digits := binary.AppendUvarint(nil, uint64(n))
	b = append(b, tag, byte(len(digits)))
	return append(b, digits...)
}

func readMeta(m *dispatcher.Message, meta string) error {
	for meta != "" {
		tag := meta[0]
		n, size := uvarint(meta[1:])
		if size <= 0 || uint64(len(meta)-1-size) < n {
			return ErrRecord
		}
		text := meta[1+size : 1+size+int(n)]
		meta = meta[1+size+int(n):]
		if err := readField(m, tag, text); err != nil {
			return err
		}
	}
	return nil
}

func readField(m *dispatcher.Message, tag byte, text string) error {
	switch tag {
	case metaTopic:
		m.Topic = text
	case metaTenant:
		m.Tenant = text
	case metaURL:
		m.URL = text
	case metaContentType:
		m.ContentType = text
	case metaHeader:
		name, value, _ := strings.Cut(text, "\x00")
		m.Headers = append(m.Headers, dispatcher.Header{Name: name, Value: value})
	case metaLadder:
		l, err := ladder.Parse(text)
		if err != nil {
			return fmt.Errorf("ladder: %w", ErrRecord)
		}
		m.Ladder = &l
	case metaMaxAttempts:
		n, _ := uvarint(text)
		m.MaxAttempts = int(n)
	case metaTimeout:
		n, _ := uvarint(text)
		m.Timeout = time.Duration(n) * time.Millisecond
	case metaSuccess:
		m.Success = success.Stored(text) // parsed when a response is evaluated
	case metaEndpoint:
		m.Endpoint = text
	case metaOrderingKey:
		m.OrderingKey = text
	case metaSubject:
		m.Subject = text
	case metaQueue:
		m.Queue = text
	case metaTrace:
		if c := trace.FromBytes(text); !c.IsZero() { // a context with an error is none: no delivery fails for it
			m.Trace = &c
		}
	case metaSealed:
		m.Sealed = text
	case metaBody:
		n, _ := uvarint(text)
		if n == 0 || n > math.MaxInt32 {
			return fmt.Errorf("size of its body: %w", ErrRecord)
		}
		m.Apart = &dispatcher.Apart{Size: int(n)}
	}
	return nil // a tag of a later version is skipped
}

// uvarint is binary.Uvarint on a string.
func uvarint(s string) (n uint64, size int) {
	var head [binary.MaxVarintLen64]byte
	return binary.Uvarint(head[:copy(head[:], s)])
}

// WithToken sets the mark of the subject in a record or its head, because a record of another
// store has its hash by that store's key. Without a subject it returns a copy.
func WithToken(record []byte, token string) []byte {
	meta := atLane + 1 + int(record[atLane])
	at := meta + 3 // after the size and the version
	size := int(binary.BigEndian.Uint16(record[meta:]))
	if size > 2 && record[at] == metaBody {
		at += 2 + int(record[at+1])
	}
	out, old := slices.Clone(record), 0
	if at < meta+2+size && record[at] == metaToken {
		old = 2 + int(record[at+1])
	}
	fresh := appendField(nil, metaToken, token)
	out = slices.Replace(out, at, at+old, fresh...)
	binary.BigEndian.PutUint16(out[meta:], uint16(size+len(fresh)-old))
	return out
}

// keySize is the length of an ordering key's hash in a record.
const keySize = 8

// appendKey appends the hash of the ordering key: the first bytes of its SHA-256, or zeros for
// no key.
func appendKey(b []byte, m *dispatcher.Message) []byte {
	key := m.OrderingKey
	if key == "" {
		return append(b, make([]byte, keySize)...)
	}
	sum := sha256.Sum256([]byte(key))
	return append(b, sum[:keySize]...)
}

// appendHeaders appends the headers of a message. All values are encrypted together, because
// that costs no more than one value.
func appendHeaders(b []byte, m *dispatcher.Message, box *seal.Box) []byte {
	var values []byte
	for _, h := range m.Headers {
		value := h.Value
		if box != nil {
			values = append(binary.AppendUvarint(values, uint64(len(value))), value...)
			value = ""
		}
		b = appendField(b, metaHeader, h.Name+"\x00"+value)
	}
	if box == nil {
		return b
	}
	return appendField(b, metaSealed, box.Seal(string(values), headersPlace(m)))
}

// headersPlace binds values to their message, its destination and the names of the headers. So
// a person with write access to Redis can't redirect them to another address.
func headersPlace(m *dispatcher.Message) seal.Place {
	field := "headers"
	for _, h := range m.Headers {
		field += " " + h.Name
	}
	return seal.Place{Owner: m.ID, Field: strings.Join([]string{field, m.Tenant, m.URL, m.Endpoint, m.Queue}, "\n")}
}

// openHeaders decrypts the values of a message's headers, if they are encrypted.
func openHeaders(m *dispatcher.Message, box *seal.Box) error {
	if m.Sealed == "" {
		return nil
	}
	values, err := box.Open(m.Sealed, headersPlace(m))
	if err != nil {
		return fmt.Errorf("headers of message %s: %w: %w", m.ID, dispatcher.ErrSealed, err)
	}
	for i := range m.Headers {
		n, size := uvarint(values)
		if size <= 0 || uint64(len(values)-size) < n {
			return fmt.Errorf("headers of message %s: %w", m.ID, ErrRecord)
		}
		m.Headers[i].Value, values = values[size:size+int(n)], values[size+int(n):]
	}
	m.Sealed = ""
	return nil
}

// CheckHeaders returns an error if no key decrypts the headers of a message, whose record may lack
// its body.
func CheckHeaders(id, record string, box *seal.Box) error {
	m, err := DecodeRecord(id, record)
	if err != nil {
		return err
	}
	return openHeaders(m, box)
}

// SealRecord encrypts the values of a record's headers with the first key. It returns the
// record unchanged if it has no values or they are already encrypted with that key.
func SealRecord(id, record string, box *seal.Box) (string, error) {
	if len(record) <= dispatcher.DigestSize {
		return record, nil
	}
	m, err := DecodeRecord(id, record)
	if err != nil || len(m.Headers) == 0 || box.Seals(m.Sealed) {
		return record, err
	}
	if err := openHeaders(m, box); err != nil {
		return record, err
	}
	at := atLane + 1 + int(record[atLane])
	body := at + 2 + int(record[at])<<8 + int(record[at+1])
	meta := []byte{metaFormat}
	for rest := record[at+3 : body]; rest != ""; { // DecodeRecord has read it before
		n, size := uvarint(rest[1:])
		field := rest[:1+size+int(n)]
		if rest = rest[len(field):]; field[0] != metaHeader && field[0] != metaSealed {
			meta = append(meta, field...)
		}
	}
	meta = appendHeaders(meta, m, box)
	head := binary.BigEndian.AppendUint16([]byte(record[:at]), uint16(len(meta)))
	return string(append(head, meta...)) + record[body:], nil
}

// OpenHeaders decrypts the headers of a message for a delivery of a lane. A person with write
// access to Redis can move a message to another queue, so a queue decrypts only its own
// messages.
func OpenHeaders(lane dispatcher.Lane, m *dispatcher.Message, box *seal.Box) error {
	if m.Sealed != "" && lane.IsQueue() && dispatcher.QueueLane(m.Queue) != lane {
		return fmt.Errorf("headers of message %s: %w: it is not of this queue", m.ID, dispatcher.ErrSealed)
	}
	return openHeaders(m, box)
}
