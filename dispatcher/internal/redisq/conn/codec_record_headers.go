package conn

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/seal"
)

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
