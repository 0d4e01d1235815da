package egress

import (
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/hookladder/hookladder/dispatcher"
)

const (
	// firstRead is the most memory allocated because of a Content-Length alone. More is
	// allocated only as bytes arrive.
	firstRead = 4 << 10
	// unknownRead is the first allocation for a response without a length, which usually
	// has a word or two.
	unknownRead = 512
	// maxDrain bounds the bytes of a body that are read beyond the limit to keep the
	// connection. A new connection costs about as much as some packets.
	maxDrain = 4 << 10
)

// read returns the Answer for a response, and returns the connection to the pool or
// closes it. After a valid header an error in the body does not matter, because the
// status decides.
func read(resp *http.Response) dispatcher.Answer {
	a := dispatcher.Answer{Status: resp.StatusCode, RetryAfter: short(resp.Header, "Retry-After")}
	a.Rejected = strings.EqualFold(strings.TrimSpace(short(resp.Header, "Webhook-Delivery")), "abort-message")
	if a.RetryAfter != "" {
		a.Date = short(resp.Header, "Date")
	}
	coding := contentCoding(resp.Header)
	resp.Header = nil // a header may be large, and reading the body may take long
	if resp.StatusCode < 100 {
		_ = resp.Body.Close()
		return dispatcher.Answer{Class: dispatcher.ClassProtocol, Err: errors.New("malformed HTTP status")}
	}
	// The body of a 101 is the raw connection, and no context ends a read on it.
	if resp.StatusCode != http.StatusSwitchingProtocols {
		a.Body, a.Cut = readBody(resp.Body, resp.ContentLength)
	}
	_ = resp.Body.Close() // closes the connection if the body was not read to its end
	if coding != "" && len(a.Body) > 0 {
		decode(&a, coding)
	}
	return a
}

// short returns the header of this name if it has at most 64 bytes. A longer one is
// neither a date nor a number of seconds.
func short(h http.Header, name string) string {
	const longest = 64
	if v := h.Get(name); len(v) <= longest {
		return v
	}
	return ""
}

// readBody reads at most dispatcher.AnswerLimit bytes. cut reports that the body is
// longer, or that it broke off.
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

// more reports whether the body is longer than the limit. It reads a little further if
// the length is known, so that the connection can be used again.
func more(r io.Reader, length int64) bool {
	rest := int64(1)
	if length > 0 {
		rest = min(length-dispatcher.AnswerLimit, maxDrain) + 1 // one more, to read the end
	}
	n, err := io.CopyN(io.Discard, r, rest)
	return n > 0 || err != io.EOF
}
