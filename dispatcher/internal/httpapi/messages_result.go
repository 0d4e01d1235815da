package httpapi

import (
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/api"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// appendPublished appends the members of wire.Published without the braces. Without reads it
// omits URLs and times. It is written by hand because each publish calls it. Ids, topics and
// lanes were checked, so they need no escapes.
func appendPublished(b []byte, m *dispatcher.Message, r *dispatcher.Published, reads bool) []byte {
	b = appendPlain(append(b, `"id":`...), m.ID)
	b = appendPlain(append(b, `,"topic":`...), m.Topic)
	repeat := r.Result == dispatcher.Duplicate
	known := !repeat || !r.CreatedAt.IsZero()
	if known {
		b = appendTime(append(b, `,"created_at":`...), r.CreatedAt)
	}
	b = strconv.AppendBool(append(b, `,"duplicate":`...), repeat)
	if known {
		b = strconv.AppendInt(append(b, `,"matched":`...), int64(len(r.Deliveries)), 10)
	}
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
		if d.URL != "" && reads {
			b = appendText(append(b, `,"url":`...), d.URL)
		}
		b = appendPlain(append(b, `,"status":`...), string(d.Status))
		if reads {
			b = appendTime(append(b, `,"next_attempt_at":`...), d.Due)
			if !d.Ended.IsZero() {
				b = appendTime(append(b, `,"ended_at":`...), d.Ended)
			}
		}
		b = append(b, '}')
	}
	return append(b, ']')
}

// appendResult appends the start of a batch result.
func appendResult(b []byte, status int) []byte {
	b = strconv.AppendInt(append(b, `{"status":`...), int64(status), 10)
	return append(b, ',')
}

// appendProblem appends the result of a message that was not accepted.
func appendProblem(b []byte, p *api.Problem) []byte {
	b = append(appendResult(b, p.Kind.Status), `"problem":`...)
	b = append(b, p.Body()...)
	return append(b, '}')
}

// appendPlain appends a quoted text that needs no escapes.
func appendPlain(b []byte, s string) []byte {
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// appendText appends any text as a quoted string, and replaces bytes that are not UTF-8.
func appendText(b []byte, s string) []byte {
	b, _ = jsontext.AppendQuote(b, s) // the error only reports a replacement
	return b
}

func appendTime(b []byte, t time.Time) []byte {
	return wire.Time{Time: t}.AppendTo(b)
}
