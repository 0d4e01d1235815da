package httpapi

import (
	"bytes"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/callers"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

const (
	mediaJSON    = "application/json"
	mediaCSV     = "text/csv"
	mediaProblem = "application/problem+json"
	mediaEvents  = "text/event-stream"
)

// responseWriter remembers whether a response was begun, and what the metrics and
// the log need of it.
type responseWriter struct {
	http.ResponseWriter
	begun  bool
	status int  // 0: none was written
	held   held // of the budget for bodies

	caller callers.Identity // whose shares it uses

	call    string   // one of Calls
	who     string   // name of its key; empty: it had no known key
	by      string   // the same, as the audit names it
	refusal *problem // why the call, or one of its messages, was refused; nil: neither was
	handed  bool     // the engine got its messages, and counts them
	refused int      // messages that the engine did not get
}

// WriteHeader begins the response.
func (w *responseWriter) WriteHeader(status int) {
	w.begun, w.status = true, status
	w.ResponseWriter.WriteHeader(status)
}

// Write continues the response.
func (w *responseWriter) Write(b []byte) (int, error) {
	w.begun = true
	return w.ResponseWriter.Write(b)
}

// refuse answers with a problem, and keeps it for the log.
func (w *responseWriter) refuse(p *problem) {
	w.refusal = p
	p.write(w)
}

// Unwrap is for http.ResponseController.
func (w *responseWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// typeJSON is shared by all answers, and never changed.
var typeJSON = []string{mediaJSON}

// response is a whole response, as operations return it.
type response struct {
	status       int
	contentType  string
	retryAfter   string
	cacheControl string // empty: no-store
	headers      map[string]string
	body         []byte
	borrowed     *bytes.Buffer // holds the body, to be released; nil: no buffer does
}

// answerJSON makes a response of a value of package wire.
func answerJSON(status int, v any) (*response, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return &response{status: status, contentType: mediaJSON, body: b}, nil
}

// answerMost is the most bytes of a page. More entries than fit would be some of the
// longest URLs, errors and subjects.
const answerMost = 1 << 20

// fitting has a page of so many entries answered, and of fewer where the answer would
// have too many bytes.
func fitting(limit int, answer func(limit int) (*response, error)) (*response, error) {
	for {
		r, err := answer(limit)
		if err != nil || len(r.body) <= answerMost || limit == 1 {
			return r, err
		}
		limit = max(1, int(float64(limit)*0.9*answerMost/float64(len(r.body))))
	}
}

// convert makes what is answered of each entry of a list, which is never null.
func convert[T, W any](all []T, to func(*T) W) []W {
	out := make([]W, len(all))
	for i := range all {
		out[i] = to(&all[i])
	}
	return out
}

// write sends the response. It may be called once.
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
	for name, value := range r.headers {
		h.Set(name, value)
	}
	if len(r.body) > countedBody {
		h.Set("Content-Length", strconv.Itoa(len(r.body)))
	}
	w.WriteHeader(r.status)
	_, _ = w.Write(r.body) // fails where the caller is gone
	if r.borrowed != nil {
		release(r.borrowed)
	}
}

// countedBody is the longest body whose length net/http sets itself. A longer one
// would be sent in chunks.
const countedBody = 2048

// appendPublished writes the members of wire.Published without the braces, and
// without reads neither URLs nor times. Each publish pays for it, so it is written by
// hand. Ids, topics and lanes were checked to need no quoting.
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

// appendPlain quotes a text that has nothing to escape.
func appendPlain(b []byte, s string) []byte {
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// appendText quotes any text, and replaces what is not UTF-8 in it.
func appendText(b []byte, s string) []byte {
	b, _ = jsontext.AppendQuote(b, s) // its error says that it replaced something
	return b
}

func appendTime(b []byte, t time.Time) []byte {
	return wire.Time{Time: t}.AppendTo(b)
}
