package api

import (
	"bytes"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/hookladder/hookladder/dispatcher/internal/callers"
)

const (
	MediaJSON    = "application/json"
	MediaCSV     = "text/csv"
	MediaProblem = "application/problem+json"
	MediaEvents  = "text/event-stream"
)

// ResponseWriter records whether a response was begun, and the facts for the metrics and the
// log.
type ResponseWriter struct {
	http.ResponseWriter
	Began    time.Time // when the call began
	Begun    bool
	Status   int         // 0: none was written
	Reserved Reservation // of the budget for bodies

	Caller callers.Identity // whose shares it uses

	Call    string   // one of Calls
	Who     string   // name of its key; empty: it had no known key
	By      string   // the same, as the audit names it
	Refusal *Problem // why the call, or one of its messages, was refused; nil: neither was
	Handed  bool     // the engine got its messages, and counts them
	Refused int      // messages that the engine did not get
}

// WriteHeader begins the response.
func (w *ResponseWriter) WriteHeader(status int) {
	w.Begun, w.Status = true, status
	w.ResponseWriter.WriteHeader(status)
}

// Write continues the response.
func (w *ResponseWriter) Write(b []byte) (int, error) {
	w.Begun = true
	return w.ResponseWriter.Write(b)
}

// Refuse sends a problem as the response, and keeps it for the log.
func (w *ResponseWriter) Refuse(p *Problem) {
	w.Refusal = p
	p.Write(w)
}

// Unwrap is for http.ResponseController.
func (w *ResponseWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// TypeJSON is shared by all responses, and never changed.
var TypeJSON = []string{MediaJSON}

// Response is a whole response. Operations return it.
type Response struct {
	Status       int
	ContentType  string
	retryAfter   string
	CacheControl string // empty: no-store
	Headers      map[string]string
	Body         []byte
	Borrowed     *bytes.Buffer // holds the body, to be released; nil: no buffer does
}

// JSON returns a response with a value of package wire.
func JSON(status int, v any) (*Response, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return &Response{Status: status, ContentType: MediaJSON, Body: b}, nil
}

// answerMost is the maximum number of bytes of a page. Only pages with some of the longest
// URLs, errors and subjects exceed it.
const answerMost = 1 << 20

// Fitting returns a page of limit entries, or of fewer if the response would have too many
// bytes.
func Fitting(limit int, answer func(limit int) (*Response, error)) (*Response, error) {
	for {
		r, err := answer(limit)
		if err != nil || len(r.Body) <= answerMost || limit == 1 {
			return r, err
		}
		limit = max(1, int(float64(limit)*0.9*answerMost/float64(len(r.Body))))
	}
}

// Convert converts each entry of a list. The result is never null.
func Convert[T, W any](all []T, to func(*T) W) []W {
	out := make([]W, len(all))
	for i := range all {
		out[i] = to(&all[i])
	}
	return out
}

// Write sends the response. It may be called once.
func (r *Response) Write(w http.ResponseWriter) {
	h := w.Header()
	switch r.ContentType {
	case MediaJSON:
		h["Content-Type"] = TypeJSON
	case "":
	default:
		h.Set("Content-Type", r.ContentType)
	}
	if r.retryAfter != "" {
		h.Set("Retry-After", r.retryAfter)
	}
	if r.CacheControl != "" {
		h.Set("Cache-Control", r.CacheControl)
	}
	for name, value := range r.Headers {
		h.Set(name, value)
	}
	if len(r.Body) > countedBody {
		h.Set("Content-Length", strconv.Itoa(len(r.Body)))
	}
	w.WriteHeader(r.Status)
	_, _ = w.Write(r.Body) // fails if the caller is gone
	if r.Borrowed != nil {
		Release(r.Borrowed)
	}
}

// countedBody is the longest body whose length net/http sets itself. It would send a longer
// one in chunks.
const countedBody = 2048
