package httpapi

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/fields"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/apikey"
)

// handle routes to an operation. It checks the key and the request, and answers with
// what the operation returns, or with a problem.
func (s *server) handle(o operation) {
	pattern := o.method + " " + o.path
	h := func(rw http.ResponseWriter, r *http.Request) {
		w := rw.(*responseWriter)
		r.Pattern = pattern
		k, ok := s.authorised(w, r, o.scope, o.id)
		if !ok {
			return
		}
		ctx := r.Context()
		if o.scope == apikey.Admin { // changes are stored with the caller's name
			ctx = dispatcher.WithCaller(ctx, k.Name)
		}
		q := &request{r: r, w: w, of: &o, reads: k.Scope.Allows(apikey.Read), bodies: k.Scope.Allows(apikey.Bodies)}
		var answer *response
		err := q.check()
		if err == nil {
			s.recordNamed(ctx, q)
			answer, err = o.do(ctx, q)
			s.recordResult(ctx, q, answer, err)
		}
		switch {
		case err != nil:
			w.refuse(s.problem(ctx, err).of(r.Method))
		case answer != nil:
			answer.write(w)
		}
	}
	s.mux.HandleFunc(pattern, h)
	if o.fastPath {
		s.fastPath[o.path] = h
	}
}

// request is a request on its way to its handler. The framework only documents
// the operations, and the handlers read what they need: a filter may be repeated,
// an unknown one is refused, and a body must be decoded once and strictly.
type request struct {
	r      *http.Request
	w      *responseWriter
	of     *operation
	reads  bool       // the caller has the scope read
	bodies bool       // and bodies
	query  url.Values // of known parameters only

	recorded *dispatcher.AuditEntry // what the audit has of the call; nil: nothing yet
}

// id is what the path names.
func (q *request) id() string { return q.r.PathValue(q.of.subject.name) }

// check refuses what no handler need look at: a body where none is taken, a name
// that can't be one, unknown parameters and those with a wrong value.
func (q *request) check() error {
	if q.of.body == nil && q.of.method != http.MethodGet {
		if err := q.refuseBody(); err != nil {
			return err
		}
	}
	if q.of.subject != nil {
		if err := q.of.subject.check(q.id()); err != nil {
			return err
		}
	}
	return q.parseQuery()
}

// refuseBody refuses any body but an empty object. To ignore its fields would let a
// caller think that they count.
func (q *request) refuseBody() error {
	if q.r.ContentLength == 0 {
		return nil
	}
	var first [64]byte // more than an empty object needs
	n, err := io.ReadFull(q.r.Body, first[:])
	text := bytes.Join(bytes.Fields(first[:n]), nil)
	switch {
	case err == nil, len(text) > 0 && string(text) != "{}":
		return wrongField("$", "this call takes no body: leave it out")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return nil
	}
	return errCutShort
}

var errCutShort = &problem{kind: malformed, detail: "the body ended too early or is badly framed"}

// receive reads the body into a buffer, which the caller gives back with release.
func (q *request) receive() (*bytes.Buffer, error) {
	if err := checkMedia(q.r.Header, q.of.media); err != nil {
		return nil, err
	}
	body, most := q.r.Body, q.r.ContentLength
	switch {
	case most > q.of.limit:
		return nil, q.tooLarge()
	case most < 0: // else the server gives no more than was announced
		most = q.of.limit
		body = http.MaxBytesReader(q.w, body, most)
	}
	buf, err := receive(body, &q.w.held, most)
	if err == nil {
		_ = body.Close() // so that the server need not look whether something is left
		return buf, nil
	}
	release(buf)
	var tooMany *http.MaxBytesError
	var network net.Error
	switch {
	case err == errNoRoom:
		return nil, &problem{kind: crowded, detail: "nothing was changed; send it again in a moment, or in smaller batches"}
	case errors.As(err, &tooMany):
		return nil, q.tooLarge()
	case errors.As(err, &network) && network.Timeout():
		return nil, &problem{kind: tooSlow}
	default:
		return nil, errCutShort
	}
}

// prefers reports whether the caller would rather be answered in a media type than in
// JSON, which is the usual one.
func (q *request) prefers(media string) bool {
	best, prefers := 0.0, false
	for text := range strings.SplitSeq(strings.Join(q.r.Header["Accept"], ","), ",") {
		accepted, params, err := mime.ParseMediaType(text)
		weight, noWeight := strconv.ParseFloat(params["q"], 64)
		if noWeight != nil {
			weight = 1
		}
		general, _, _ := strings.Cut(media, "/")
		asked := accepted == media || accepted == general+"/*"
		usual := accepted == mediaJSON || accepted == "application/*" || accepted == "*/*"
		if err == nil && (asked || usual) && weight > best {
			best, prefers = weight, asked
		}
	}
	return prefers
}

func (q *request) tooLarge() *problem {
	return &problem{kind: tooLarge, detail: "the request has more than " + strconv.FormatInt(q.of.limit, 10) + " bytes" + q.of.cure}
}

const sendJSON = "Content-Type: " + mediaJSON

// checkMedia takes JSON in UTF-8 that is not compressed, under its media type or
// under another one that is taken for it.
func checkMedia(h http.Header, other string) error {
	if e := h.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		return &problem{kind: badMedia, detail: "a content encoding is not accepted: send the body uncompressed"}
	}
	given := h["Content-Type"]
	if len(given) == 1 && given[0] == mediaJSON {
		return nil
	}
	if len(given) != 1 {
		return &problem{kind: badMedia, detail: "send one header: " + sendJSON}
	}
	media, params, err := mime.ParseMediaType(given[0])
	if err != nil || media != mediaJSON && media != other {
		return &problem{kind: badMedia, detail: "it is " + fields.Clip(given[0]) + "; send the header " + sendJSON}
	}
	if charset := params["charset"]; charset != "" && !strings.EqualFold(charset, "utf-8") {
		return &problem{kind: badMedia, detail: "JSON is UTF-8: no other charset is accepted"}
	}
	return nil
}

// lastEventID is the header in which a caller that lost its event stream says how far
// it came.
const lastEventID = "Last-Event-ID"
