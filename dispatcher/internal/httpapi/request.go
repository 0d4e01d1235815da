package httpapi

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/access"
	"github.com/hookladder/hookladder/dispatcher/internal/callers"
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
		if o.audit != "" { // changes are stored with their caller
			ctx = dispatcher.WithCaller(ctx, w.by)
		}
		q := &request{r: r, w: w, of: &o, owner: k.Owner(), reads: k.Scope.Allows(apikey.Read), bodies: k.Scope.Allows(apikey.Bodies)}
		if !o.fastPath { // what is fast shares nothing else
			ctx = callers.With(ctx, w.caller)
		}
		c, _ := access.CallerOf(ctx)
		q.view = c.View
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
	owner  string // stands for the caller's key
	reads  bool   // the caller has the scope read
	bodies bool   // and bodies
	view   dispatcher.View
	query  url.Values // of known parameters only

	recorded *dispatcher.AuditEntry // what the audit has of the call; nil: nothing yet
	idle     bool                   // it changes nothing, so the audit gets no entry
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

// authorised finds the caller's key and refuses a call that needs a scope which
// the key lacks. The answer to a missing, a malformed and an unknown key is the
// same. A call that needs no scope is served without a key too.
func (s *server) authorised(w *responseWriter, r *http.Request, want apikey.Scope, operation string) (k apikey.Key, ok bool) {
	w.call = operation
	if c, inside := access.CallerOf(r.Context()); inside && c.Linked() { // what it may see was decided before
		w.who, w.by = c.By(), c.By()
		return apikey.Key{Scope: apikey.Admin, Name: c.By()}, s.admit(w, r, callers.Link(c.View.Tenant))
	}
	keys := s.keys.Keys()
	if keys.Empty() && !s.strangers { // only local callers get here
		w.who, w.by, w.caller = dispatcher.Local, dispatcher.Local, callers.Key(dispatcher.Local)
		return apikey.Key{Scope: apikey.Admin, Name: dispatcher.Local}, true
	}
	k, known := callerOf(r, keys)
	w.who, w.by = k.Name, "key:"+k.Name
	who := callers.Key(k.Owner())
	if !known {
		who = callers.Address(callers.AddressOf(r))
	} else {
		w.held.own = s.bodies.share(k.Name, keys.Len())
	}
	if !s.admit(w, r, who) {
		return apikey.Key{}, false
	}
	switch {
	case want == 0:
		return k, true
	case !known:
		w.refuse(&problem{kind: unauthorized, detail: "send a known key as Authorization: Bearer <key>"})
		return apikey.Key{}, false
	case !mayCall(k, r, want):
		w.refuse(&problem{kind: forbidden, detail: "this key lacks the scope " + want.String()})
		return apikey.Key{}, false
	}
	if s.log.Enabled(r.Context(), slog.LevelDebug) {
		s.log.DebugContext(r.Context(), "request allowed", "key", k.Name, "operation", operation)
	}
	return k, true
}

// identify notes whose request it is, for all that is shared out by caller.
func (s *server) identify(w *responseWriter, r *http.Request, who callers.Identity) error {
	w.caller = who
	return callers.Identify(w, r, who)
}

// admit is identify. It refuses a request beyond the caller's share.
func (s *server) admit(w *responseWriter, r *http.Request, who callers.Identity) bool {
	err := s.identify(w, r, who)
	if err != nil {
		w.refuse(s.problem(r.Context(), err))
	}
	return err == nil
}

// mayCall reports whether a key may make a call that needs a scope. A key may have the
// scope to take from some queues only.
func mayCall(k apikey.Key, r *http.Request, want apikey.Scope) bool {
	if want == apikey.Consume {
		return k.MayTake(r.PathValue(aQueue.name))
	}
	return k.Scope.Allows(want)
}

// stillAllowed reports whether the caller's key still has its scope: keys may be taken
// away while an answer lasts.
func (s *server) stillAllowed(q *request) bool {
	if c, inside := access.CallerOf(q.r.Context()); inside && c.Linked() {
		return true
	}
	keys := s.keys.Keys()
	if keys.Empty() {
		return true
	}
	k, known := callerOf(q.r, keys)
	return known && mayCall(k, q.r, q.of.scope) && (!q.bodies || k.Scope.Allows(apikey.Bodies))
}

// callerOf finds the key that a request carries, or that its browser signed in with.
func callerOf(r *http.Request, keys apikey.Keys) (apikey.Key, bool) {
	if c, inside := access.CallerOf(r.Context()); inside {
		return keys.Owned(c.Key)
	}
	given := r.Header["Authorization"]
	text := ""
	if len(given) == 1 {
		if scheme, rest, ok := strings.Cut(given[0], " "); ok && strings.EqualFold(scheme, "Bearer") {
			text = strings.TrimLeft(rest, " ")
		}
	}
	return keys.Find(text) // even an empty one, so that the time tells nothing
}

// local says why a request may not be served while there are no keys. A page in a
// browser on this host could call the API, by a name that leads here or from
// another site.
func local(r *http.Request) *problem {
	if !isLoopback(r.Host) {
		return &problem{kind: forbidden, detail: "without API_KEYS only requests to a loopback host (localhost, 127.0.0.1, ::1) are served"}
	}
	for name := range r.Header {
		if name == "Forwarded" || name == "Via" || name == "X-Real-Ip" || strings.HasPrefix(name, "X-Forwarded-") {
			return &problem{kind: forbidden, detail: "this came through a proxy (" + name + "), so others than this host may have sent it: set API_KEYS"}
		}
	}
	// A browser sends no Origin for what a page only loads, such as an image.
	for _, site := range r.Header["Sec-Fetch-Site"] {
		if site != "same-origin" && site != "none" {
			return &problem{kind: forbidden, detail: "without API_KEYS no requests of other sites are served"}
		}
	}
	for _, origin := range r.Header["Origin"] {
		if origin == "null" && r.Header.Get("Sec-Fetch-Site") == "same-origin" {
			continue // a form of a page that sends no referrer, which the console's are
		}
		if u, err := url.Parse(origin); err != nil || u.Host != r.Host {
			return &problem{kind: forbidden, detail: "without API_KEYS no requests of foreign origins are served"}
		}
	}
	return nil
}

// Local serves only requests of this host, as the API does without keys. It is for
// a handler without keys on a loopback address.
func Local(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p := local(r); p != nil {
			p.write(w)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// isLoopback reports whether a Host header names this host and nothing else.
func isLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	} else {
		host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}
