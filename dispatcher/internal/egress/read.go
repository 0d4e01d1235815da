package egress

import (
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/hookladder/hookladder/dispatcher"
)

const (
	// firstRead is the most memory that is set aside on a Content-Length alone;
	// more follows only as bytes arrive.
	firstRead = 4 << 10
	// unknownRead is for answers without a length, mostly a word or two.
	unknownRead = 512
	// maxDrain is what is read of a body beyond the limit to keep the
	// connection. A new one costs about as much as some packets.
	maxDrain = 4 << 10
)

// read makes an Answer of a response and lets go of its connection. After a
// good header an error in the body is no fault: the status decides.
func read(resp *http.Response) dispatcher.Answer {
	a := dispatcher.Answer{Status: resp.StatusCode, RetryAfter: short(resp.Header, "Retry-After")}
	a.Rejected = strings.EqualFold(strings.TrimSpace(short(resp.Header, "Webhook-Delivery")), "abort-message")
	if a.RetryAfter != "" {
		a.Date = short(resp.Header, "Date")
	}
	resp.Header = nil // a header may be large, and the body may take its time
	if resp.StatusCode < 100 {
		_ = resp.Body.Close()
		return dispatcher.Answer{Class: dispatcher.ClassProtocol, Err: errors.New("malformed HTTP status")}
	}
	// The body of a 101 is the bare connection: a read on it ends with no context.
	if resp.StatusCode != http.StatusSwitchingProtocols {
		a.Body, a.Cut = readBody(resp.Body, resp.ContentLength)
	}
	_ = resp.Body.Close() // what was not read to its end closes its connection
	return a
}

// short is the header of this name. A longer one is neither a date nor a number
// of seconds.
func short(h http.Header, name string) string {
	const longest = 64
	if v := h.Get(name); len(v) <= longest {
		return v
	}
	return ""
}

// readBody reads at most dispatcher.AnswerLimit bytes. cut tells that there was
// more, or that the body broke off.
func readBody(r io.Reader, length int64) (body []byte, cut bool) {
	if length == 0 {
		return nil, false
	}
	size := int64(unknownRead)
	if length > 0 {
		size = min(length, firstRead)
	}
	body = make([]byte, 0, size)
	for len(body) < dispatcher.AnswerLimit {
		if len(body) == cap(body) {
			body = append(body, 0)[:len(body)]
		}
		n, err := r.Read(body[len(body):min(cap(body), dispatcher.AnswerLimit)])
		body = body[:len(body)+n]
		if err != nil {
			return body, err != io.EOF
		}
	}
	return body, more(r, length)
}

// more reports whether there is something after the limit. A little is read
// away where its length is known, so that the connection can be used again.
func more(r io.Reader, length int64) bool {
	rest := int64(1)
	if length > 0 {
		rest = min(length-dispatcher.AnswerLimit, maxDrain) + 1 // one more, to meet the end
	}
	n, err := io.CopyN(io.Discard, r, rest)
	return n > 0 || err != io.EOF
}
