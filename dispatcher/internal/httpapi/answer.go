package httpapi

import (
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

const (
	mediaJSON    = "application/json"
	mediaProblem = "application/problem+json"
)

// appendPublished writes the members of wire.Published, without the braces. It is written by hand since each publish pays for it. Ids, topics and
// lanes were checked to need no quoting.
func appendPublished(b []byte, m *dispatcher.Message, r dispatcher.Published) []byte {
	b = appendPlain(append(b, `"id":`...), m.ID)
	b = appendPlain(append(b, `,"topic":`...), m.Topic)
	b = appendTime(append(b, `,"created_at":`...), r.CreatedAt)
	b = strconv.AppendBool(append(b, `,"duplicate":`...), r.Result == dispatcher.Duplicate)
	b = strconv.AppendInt(append(b, `,"matched":`...), int64(len(r.Deliveries)), 10)
	b = append(b, `,"deliveries":[`...)
	for i := range r.Deliveries {
		d := &r.Deliveries[i]
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"id":"`...)
		b = append(b, d.ID.Lane...)
		b = append(b, ':')
		b = append(b, d.ID.Message...)
		b = appendPlain(append(b, `","destination":`...), string(d.ID.Lane))
		if d.URL != "" {
			b = appendText(append(b, `,"url":`...), d.URL)
		}
		b = appendPlain(append(b, `,"status":`...), string(d.Status))
		b = appendTime(append(b, `,"next_attempt_at":`...), d.Due)
		b = append(b, '}')
	}
	return append(b, ']')
}

// appendResult begins the result of a batch.
func appendResult(b []byte, status int) []byte {
	b = strconv.AppendInt(append(b, `{"status":`...), int64(status), 10)
	return append(b, ',')
}

// appendProblem writes the result of a message that was not taken.
func appendProblem(b []byte, p *problem) []byte {
	b = append(appendResult(b, p.kind.status), `"problem":`...)
	b = append(b, p.body()...)
	return append(b, '}')
}

// appendPlain quotes what is known to have nothing to escape.
func appendPlain(b []byte, s string) []byte {
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// appendText quotes any text; what is not UTF-8 in it is replaced.
func appendText(b []byte, s string) []byte {
	b, _ = jsontext.AppendQuote(b, s) // its error says that it replaced something
	return b
}

func appendTime(b []byte, t time.Time) []byte {
	return wire.Time{Time: t}.AppendTo(b)
}
