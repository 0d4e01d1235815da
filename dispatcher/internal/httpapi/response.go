package httpapi

import (
	"bytes"
	"net/http"
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

// responseWriter remembers whether an answer was begun, and what is told of it at its end.
type responseWriter struct {
	http.ResponseWriter
	begun  bool
	status int  // 0: none was written
	held   held // of the budget for bodies

	call    string   // one of Calls
	who     string   // name of its key; empty: it had none that is known
	refusal *problem // why it, or a message of it, was refused; nil: it was not
	handed  bool     // the engine saw its messages, and counts them
	refused int      // messages that it did not see
}

// WriteHeader begins the answer.
func (w *responseWriter) WriteHeader(status int) {
	w.begun, w.status = true, status
	w.ResponseWriter.WriteHeader(status)
}

// Write goes on with the answer.
func (w *responseWriter) Write(b []byte) (int, error) {
	w.begun = true
	return w.ResponseWriter.Write(b)
}

// refuse answers with a problem, and notes it.
func (w *responseWriter) refuse(p *problem) {
	w.refusal = p
	p.write(w)
}

// Unwrap is for http.ResponseController.
func (w *responseWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// typeJSON is shared by all answers: nobody changes it.
var typeJSON = []string{mediaJSON}

// response is a whole answer, as handlers make them.
type response struct {
	status       int
	contentType  string
	retryAfter   string
	cacheControl string // empty: nobody may keep it
	body         []byte
	borrowed     *bytes.Buffer // that body lies in; nil: in none
}

// write answers. It may be done once.
func (r *response) write(w http.ResponseWriter) {
	h := w.Header()
	switch r.contentType {
	case mediaJSON:
		h["Content-Type"] = typeJSON
	case "":
	default:
		h.Set("Content-Type", r.contentType)
	}
	if r.retryAfter != "" {
		h.Set("Retry-After", r.retryAfter)
	}
	if r.cacheControl != "" {
		h.Set("Cache-Control", r.cacheControl)
	}
	if len(r.body) > countedBody {
		h.Set("Content-Length", strconv.Itoa(len(r.body)))
	}
	w.WriteHeader(r.status)
	_, _ = w.Write(r.body) // a caller who is gone needs no answer
	if r.borrowed != nil {
		release(r.borrowed)
	}
}

// countedBody is the longest body whose length net/http finds out itself; a
// longer one would go in chunks.
const countedBody = 2048

// appendPublished writes the members of wire.Published, without the braces. It is written by hand since each publish pays for it. Ids, topics and
// lanes were checked to need no quoting.
// Without reads it leaves out where a delivery goes, and when.
func appendPublished(b []byte, m *dispatcher.Message, r *dispatcher.Published, reads bool) []byte {
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
