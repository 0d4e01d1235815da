package httpapi

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/hookladder/hookladder/dispatcher"
)

// request is a request on its way to its handler. The framework only documents
// the operations; the handlers read what they need themselves, since a filter
// may be repeated, an unknown one is refused, and a body must be decoded once
// and strictly.
type request struct {
	r     *http.Request
	w     http.ResponseWriter
	reads bool // the caller has the scope read
}

// id is the message that the path names. One that can't be an id names none.
func (c *request) id() (string, error) {
	id := c.r.PathValue("id")
	if !dispatcher.ValidID(id) {
		return "", dispatcher.ErrNotFound
	}
	return id, nil
}

// query reads the parameters of a request that takes only known ones.
func (c *request) query(known ...string) (url.Values, error) {
	q, err := url.ParseQuery(c.r.URL.RawQuery)
	if err != nil {
		return nil, &problem{kind: malformed, detail: "the query is not properly encoded"}
	}
	var wrong []dispatcher.FieldError
	for name := range q {
		if !slices.Contains(known, name) {
			wrong = append(wrong, dispatcher.FieldError{
				Path: "query" + member(name), Detail: "is unknown; known are " + list(known),
			})
		}
	}
	slices.SortFunc(wrong, func(a, b dispatcher.FieldError) int { return strings.Compare(a.Path, b.Path) })
	if p := wrongFields(wrong); p != nil {
		return nil, p
	}
	return q, nil
}

func list(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// only is the value of a parameter that may stand once.
func only(q url.Values, name string) (string, error) {
	switch values := q[name]; {
	case len(values) == 0:
		return "", nil
	case len(values) > 1:
		return "", wrongField("query."+name, "may be given once")
	case values[0] == "":
		return "", wrongField("query."+name, "is empty")
	default:
		return values[0], nil
	}
}

// name is the endpoint that the path names. One that can't be a name is
// nobody's.
func (c *request) name() (string, error) {
	name := c.r.PathValue("id")
	if !dispatcher.ValidName(name) {
		return "", dispatcher.ErrNoEndpoint
	}
	return name, nil
}

// json reads a body of JSON of at most limit bytes, in a media type that is
// JSON or one of also. The caller gives the buffer back with release when
// nothing refers to it any more.
func (c *request) json(limit int64, also ...string) (*bytes.Buffer, error) {
	if c.r.URL.RawQuery != "" {
		if _, err := c.query(); err != nil {
			return nil, err
		}
	}
	if err := checkMedia(c.r.Header, also); err != nil {
		return nil, err
	}
	if c.r.ContentLength > limit {
		return nil, over(limit)
	}
	body, most := c.r.Body, c.r.ContentLength
	if most < 0 { // else the server gives no more than was announced
		body, most = http.MaxBytesReader(c.w, body, limit), limit
	}
	buf, err := receive(body, c.held(), most)
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
		return nil, over(limit)
	case errors.As(err, &network) && network.Timeout():
		return nil, &problem{kind: tooSlow}
	default:
		return nil, &problem{kind: malformed, detail: "the body ended too early or is badly framed"}
	}
}

func over(limit int64) *problem {
	return &problem{kind: tooLarge, detail: "the request has more than " + strconv.FormatInt(limit, 10) + " bytes"}
}

// noBody makes sure that a call which takes none has no body, or an empty object:
// a field that is passed over would seem to be obeyed.
func (c *request) noBody() error {
	if c.r.ContentLength == 0 {
		return nil
	}
	var first [64]byte // more than an empty object needs
	n, err := io.ReadFull(c.r.Body, first[:])
	text := bytes.Join(bytes.Fields(first[:n]), nil)
	switch {
	case err == nil, len(text) > 0 && string(text) != "{}":
		return wrongField("$", "this call takes no body: leave it out")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return nil
	}
	return &problem{kind: malformed, detail: "the body ended too early or is badly framed"}
}

// held is what the request has of the budget for bodies, until it ends.
func (c *request) held() *held {
	a, ok := c.w.(*responseWriter)
	if !ok {
		return &held{}
	}
	if g := guestOf(c.r.Context()); g != nil {
		a.held.own = g.share
	}
	return &a.held
}

const sendJSON = "Content-Type: " + mediaJSON

// checkMedia takes JSON in UTF-8 as it is, nothing packed.
func checkMedia(h http.Header, also []string) error {
	if e := h.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		return &problem{kind: badMedia, detail: "a content encoding is not taken: send the body as it is"}
	}
	given := h["Content-Type"]
	if len(given) == 1 && given[0] == "application/json" {
		return nil
	}
	if len(given) != 1 {
		return &problem{kind: badMedia, detail: "send one header: " + sendJSON}
	}
	media, params, err := mime.ParseMediaType(given[0])
	if err != nil || media != mediaJSON && !slices.Contains(also, media) {
		return &problem{kind: badMedia, detail: "it is " + clip(given[0]) + "; send the header " + sendJSON}
	}
	if charset := params["charset"]; charset != "" && !strings.EqualFold(charset, "utf-8") {
		return &problem{kind: badMedia, detail: "JSON is UTF-8, no other charset is taken"}
	}
	return nil
}

// member is the step of a JSON path to a member of an object.
func member(name string) string {
	if dispatcher.ValidID(name) {
		return "." + name
	}
	return "[" + clip(name) + "]"
}

// clip quotes a text of the caller's for an answer, and not all of a long one.
func clip(s string) string {
	const most = 64 // enough to find it again
	if len(s) > most {
		return strconv.QuoteToASCII(s[:most]) + "…"
	}
	return strconv.QuoteToASCII(s)
}
