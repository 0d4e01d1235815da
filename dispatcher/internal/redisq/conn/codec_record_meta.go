package conn

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/success"
	"github.com/hookladder/hookladder/dispatcher/trace"
	"github.com/hookladder/hookladder/ladder"
)

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
