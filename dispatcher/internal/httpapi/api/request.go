package api

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/callers"
)

// ErrKeyGone reports that the caller's key was removed from API_KEYS.
var ErrKeyGone = errors.New("the key is not known any more")

// Request is a request for a handler. The framework only documents the operations, and the
// handlers read the rest. A filter may be repeated, an unknown one is refused, and a body must
// be decoded once and strictly.
type Request struct {
	HTTP      *http.Request
	Writer    *ResponseWriter
	Operation *Operation
	Owner     string          // identifies the caller's key
	Reads     bool            // the caller has the scope read
	Bodies    bool            // and bodies
	View      dispatcher.View // of a link; a key sees everything
	Query     url.Values      // of known parameters only

	Audit    dispatcher.Audit
	Waiting  *callers.Shares        // the places of calls that wait
	Allowed  func(*Request) bool    // whether its key still has its scope
	recorded *dispatcher.AuditEntry // the call's entry in the audit; nil: none yet
	Idle     bool                   // it changes nothing, so the audit gets no entry
}

// Linked reports whether the caller has a link.
func (q *Request) Linked() bool { return q.View.Tenant != "" }

// Owns reports whether the caller may see what a tenant has in a lane. Queues belong to the
// operator only.
func (q *Request) Owns(tenant string, lane dispatcher.Lane) bool {
	v := q.View
	return !q.Linked() || tenant == v.Tenant && !lane.IsQueue() && (v.Endpoint == "" || string(lane) == v.Endpoint)
}

// Wait takes a place among the waiting calls. ctx ends if another caller needs the place. ok
// is false if there is no place.
func (q *Request) Wait(ctx context.Context) (waits context.Context, leave func(), ok bool) {
	waits, leave, err := q.Waiting.Enter(callers.With(ctx, q.Writer.Caller))
	return waits, leave, err == nil
}

// StillAllowed reports whether the caller's key still has its scope, because a key may be
// revoked during a long response.
func (q *Request) StillAllowed() bool { return q.Allowed(q) }

// ID returns the name in the path.
func (q *Request) ID() string { return q.HTTP.PathValue(q.Operation.Subject.Name) }

// Check refuses requests that no handler needs to see. They have an unexpected body, an
// invalid name, an unknown parameter, or a parameter with a wrong value.
func (q *Request) Check() error {
	if q.Operation.Body == nil && q.Operation.Method != http.MethodGet {
		if err := q.refuseBody(); err != nil {
			return err
		}
	}
	if q.Operation.Subject != nil {
		if err := q.Operation.Subject.Check(q.ID()); err != nil {
			return err
		}
	}
	return q.parseQuery()
}

// refuseBody refuses any body but an empty object. If it ignored the fields, a caller could
// think that they have an effect.
func (q *Request) refuseBody() error {
	if q.HTTP.ContentLength == 0 {
		return nil
	}
	var first [64]byte // more than an empty object needs
	n, err := io.ReadFull(q.HTTP.Body, first[:])
	text := bytes.Join(bytes.Fields(first[:n]), nil)
	switch {
	case err == nil, len(text) > 0 && string(text) != "{}":
		return WrongField("$", "this call takes no body: leave it out")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return nil
	}
	return errCutShort
}

var errCutShort = &Problem{Kind: Malformed, Detail: "the body ended too early or is badly framed"}

// Prefers reports whether the caller prefers a media type to JSON, which is the default.
func (q *Request) Prefers(media string) bool {
	best, prefers := 0.0, false
	for text := range strings.SplitSeq(strings.Join(q.HTTP.Header["Accept"], ","), ",") {
		accepted, params, err := mime.ParseMediaType(text)
		weight, noWeight := strconv.ParseFloat(params["q"], 64)
		if noWeight != nil {
			weight = 1
		}
		general, _, _ := strings.Cut(media, "/")
		asked := accepted == media || accepted == general+"/*"
		usual := accepted == MediaJSON || accepted == "application/*" || accepted == "*/*"
		if err == nil && (asked || usual) && weight > best {
			best, prefers = weight, asked
		}
	}
	return prefers
}
