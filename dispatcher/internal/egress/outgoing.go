package egress

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/hookladder/hookladder/dispatcher"
)

// atOnce is the size of a request that the system buffers before the receiver reads. It
// is the smallest send buffer of a TCP connection on the systems we run on.
const atOnce = 16 << 10

// outgoing is a request as it is written to the connection.
type outgoing struct {
	buf   []byte   // the header, and the part of the body that is sent with it
	rest  []byte   // the rest of the body
	names []string // of the header, to be sorted
}

// small reports whether the system buffers the whole request at once.
func (o *outgoing) small() bool { return len(o.buf)+len(o.rest) <= atOnce }

var outgoings = sync.Pool{New: func() any { return &outgoing{} }}

// free returns the request to its pool.
func (o *outgoing) free() {
	clear(o.names)
	*o = outgoing{buf: o.buf[:0], names: o.names[:0]}
	outgoings.Put(o)
}

// newOutgoing builds the request of a call. With last it asks the receiver to close the
// connection after the response.
func newOutgoing(call dispatcher.Call, last bool) (*outgoing, error) {
	o := outgoings.Get().(*outgoing)
	err := o.line(call.URL)
	if err == nil {
		err = o.fields(call.Header)
	}
	if err != nil {
		o.free()
		return nil, err
	}
	if user := call.URL.User; user != nil && call.Header.Get("Authorization") == "" {
		o.field("Authorization", "Basic "+basic(user))
	}
	if last {
		o.field("Connection", "close")
	}
	o.buf = append(o.buf, "Content-Length: "...)
	o.buf = strconv.AppendInt(o.buf, int64(len(call.Body)), 10)
	o.buf = append(o.buf, "\r\n\r\n"...)
	// One piece with the header saves a packet.
	n := min(len(call.Body), max(atOnce-len(o.buf), 0))
	o.buf = append(o.buf, call.Body[:n]...)
	o.rest = call.Body[n:]
	return o, nil
}

// line writes the request line and the headers that all requests have.
func (o *outgoing) line(u *url.URL) error {
	what, host := u.RequestURI(), undotted(unzoned(u.Host))
	if strings.ContainsFunc(what, breaks) || strings.ContainsFunc(host, breaks) {
		return errors.New("the URL holds a space or a control character")
	}
	o.buf = append(o.buf, "POST "...)
	o.buf = append(o.buf, what...)
	o.buf = append(o.buf, " HTTP/1.1\r\n"...)
	o.field("Host", host)
	// Without it any coding is acceptable: RFC 9110, section 12.5.3.
	o.buf = append(o.buf, "Accept-Encoding: identity\r\n"...)
	return nil
}

// unzoned returns a host without the zone of its address, which only this host
// understands.
func unzoned(host string) string {
	zone, end := strings.IndexByte(host, '%'), strings.LastIndexByte(host, ']')
	if zone < 0 || end < zone {
		return host
	}
	return host[:zone] + host[end:]
}

// undotted returns a host, which may have a port, without the dot of a complete name. The dot
// is for resolvers, and receivers and their certificates don't know it.
func undotted(host string) string {
	return strings.TrimSuffix(strings.Replace(host, ".:", ":", 1), ".")
}

// breaks reports whether a character would end the request line or the Host header.
func breaks(c rune) bool { return c <= ' ' || c == 0x7f }

func basic(user *url.Userinfo) string {
	password, _ := user.Password()
	return base64.StdEncoding.EncodeToString([]byte(user.Username() + ":" + password))
}

// field writes one header.
func (o *outgoing) field(name, value string) {
	o.buf = append(o.buf, name...)
	o.buf = append(o.buf, ": "...)
	o.buf = append(o.buf, value...)
	o.buf = append(o.buf, "\r\n"...)
}

// fields writes the caller's headers, sorted by name.
func (o *outgoing) fields(h http.Header) error {
	for name := range h {
		if !framing(name) {
			o.names = append(o.names, name)
		}
	}
	slices.Sort(o.names)
	for _, name := range o.names {
		if !token(name) {
			return fmt.Errorf("header %.80q: not a name", name)
		}
		for _, value := range h[name] {
			if !printable(value) {
				return fmt.Errorf("header %.80q: its value holds a control character", name)
			}
			o.field(name, strings.Trim(value, " \t"))
		}
	}
	return nil
}

// framing reports whether a header controls where a request goes or ends, or how the response is
// coded, in any spelling. The caller may not set such a header.
func framing(name string) bool {
	switch len(name) {
	case len("Host"):
		return strings.EqualFold(name, "Host")
	case len("Trailer"):
		return strings.EqualFold(name, "Trailer")
	case len("Content-Length"):
		return strings.EqualFold(name, "Content-Length")
	case len("Accept-Encoding"):
		return strings.EqualFold(name, "Accept-Encoding")
	case len("Transfer-Encoding"):
		return strings.EqualFold(name, "Transfer-Encoding")
	default:
		return false
	}
}

// token reports whether a header may have that name: RFC 9110, section 5.6.2.
func token(s string) bool {
	for i := range len(s) {
		if !tokens[s[i]] {
			return false
		}
	}
	return s != ""
}

var tokens = func() (set [256]bool) {
	for _, c := range []byte("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") {
		set[c] = true
	}
	return set
}()

// printable reports whether a header may have that value: RFC 9110, section 5.5.
func printable(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}
