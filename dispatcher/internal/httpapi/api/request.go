package api

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/callers"
	"github.com/hookladder/hookladder/dispatcher/internal/input"
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

// receive reads the body into a buffer. The caller returns it with release.
func (q *Request) receive() (*bytes.Buffer, error) {
	if err := checkMedia(q.HTTP.Header, q.Operation.Media); err != nil {
		return nil, err
	}
	body, most := q.HTTP.Body, q.HTTP.ContentLength
	switch {
	case most > q.Operation.Limit:
		return nil, q.tooLarge()
	case most < 0: // else the server gives no more than was announced
		most = q.Operation.Limit
		body = http.MaxBytesReader(q.Writer, body, most)
	}
	buf, err := receive(body, &q.Writer.Reserved, most)
	if err == nil {
		_ = body.Close() // so that the server need not look whether something is left
		return buf, nil
	}
	Release(buf)
	var tooMany *http.MaxBytesError
	var network net.Error
	switch {
	case err == ErrNoRoom:
		return nil, &Problem{Kind: Crowded, Detail: "nothing was changed; send it again in a moment, or in smaller batches"}
	case errors.As(err, &tooMany):
		return nil, q.tooLarge()
	case errors.As(err, &network) && network.Timeout():
		return nil, &Problem{Kind: tooSlow}
	default:
		return nil, errCutShort
	}
}

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

func (q *Request) tooLarge() *Problem {
	return &Problem{Kind: TooLarge, Detail: "the request has more than " + strconv.FormatInt(q.Operation.Limit, 10) + " bytes" + q.Operation.Cure}
}

const sendJSON = "Content-Type: " + MediaJSON

// checkMedia accepts uncompressed JSON in UTF-8, with its media type or with another one that
// is accepted for it.
func checkMedia(h http.Header, other string) error {
	if e := h.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		return &Problem{Kind: BadMedia, Detail: "a content encoding is not accepted: send the body uncompressed"}
	}
	given := h["Content-Type"]
	if len(given) == 1 && given[0] == MediaJSON {
		return nil
	}
	if len(given) != 1 {
		return &Problem{Kind: BadMedia, Detail: "send one header: " + sendJSON}
	}
	media, params, err := mime.ParseMediaType(given[0])
	if err != nil || media != MediaJSON && media != other {
		return &Problem{Kind: BadMedia, Detail: "it is " + input.Clip(given[0]) + "; send the header " + sendJSON}
	}
	if charset := params["charset"]; charset != "" && !strings.EqualFold(charset, "utf-8") && !strings.EqualFold(charset, "utf8") {
		return &Problem{Kind: BadMedia, Detail: "JSON is UTF-8: no other charset is accepted"}
	}
	return nil
}
