package api

import (
	"log/slog"
	"net/http"
	"strconv"

	"github.com/hookladder/hookladder/dispatcher/trace"
)

// TraceParent returns the caller's span, by its header traceparent. It returns the zero Context
// if there is no valid one.
func (q *Request) TraceParent() trace.Context {
	given := q.HTTP.Header[trace.Header]
	if len(given) != 1 {
		return trace.Context{}
	}
	c, _ := trace.Parse(given[0])
	return c
}

// Span describes the span of a call. Its name and its parent are from the request. operation and kind
// are values of the attributes trace.Operation and trace.OperationType.
func (q *Request) Span(operation, kind string, more ...slog.Attr) trace.Start {
	return trace.Start{
		Name: q.Operation.Method + " " + q.Operation.Path, Kind: trace.Server, Parent: q.TraceParent(),
		Attrs: append([]slog.Attr{
			trace.Ours(), slog.String(trace.Operation, operation), slog.String(trace.OperationType, kind),
			slog.String(trace.Method, q.Operation.Method), slog.String(trace.Route, q.Operation.Path),
		}, more...),
	}
}

// SpanStatus returns the status of a response for its span, and the error of the span. Of a server's
// span, problems below 500 are errors of its caller, so failed is empty for them.
func SpanStatus(answer *Response, err error) (status int, failed string) {
	status = http.StatusOK
	switch {
	case err != nil:
		p, _ := ProblemFor(err)
		status = p.Kind.Status
	case answer != nil:
		status = answer.Status
	}
	if status >= http.StatusInternalServerError {
		failed = strconv.Itoa(status)
	}
	return status, failed
}
