package egress

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"os"
	"sync"
	"time"
)

// lastByte is how long a response waits for the report that its request is written. The
// goroutine that writes it may not have been scheduled since.
const lastByte = time.Millisecond

// exchange is one request and its response on a connection. It is also the body of the
// response. It belongs to the goroutine that made the request.
type exchange struct {
	state   *callState
	conn    *conn         // nil: closed
	home    *pool         // returned to when the exchange is over; nil: closed instead
	read    *bufio.Reader // nil: no response has begun
	written chan error    // result of the goroutine that writes the request; nil: the request is written
	early   bool          // the response began before the whole request was written
	body    io.Reader
	reuse   bool // the response allows another request on the connection
	ended   bool // the body was read to its end
}

// readers is the pool of read buffers, so that an idle connection has no buffer, nor a call
// that waits. Trailers and the lines of chunks must fit into one.
var readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 4<<10) }}

var (
	// errUnasked is the error for a receiver that responds before the request.
	errUnasked = errors.New("it came before the request")
	// errStale is the error for an idle connection that ended, or that has bytes of no response.
	// Nothing was written to it.
	errStale = errors.New("the idle connection ended")
)

// begin sends a request and waits for the first bytes of its response. If it fails, it closes
// the connection. It frees the request, unless it returns errStale.
func (x *exchange) begin(out *outgoing) error {
	x.conn.limit, x.conn.head, x.conn.broke = maxHeader, head{}, false // the limit is for all headers together
	err := x.write(out)
	if err == errStale { //nolint:errorlint // not wrapped
		_ = x.Close()
		return err
	}
	if err == nil {
		x.read = readers.Get().(*bufio.Reader)
		x.read.Reset(x.conn)
		if _, err = x.read.Peek(1); err == errTooMany { //nolint:errorlint // not wrapped
			err = nil // header gets it again, when the status line was read
		}
	}
	if err != nil {
		return x.fail(err)
	}
	x.state.answered = true
	x.early = !x.out()
	return nil
}

// fail closes the connection, and returns the reason why there is no response.
func (x *exchange) fail(err error) error {
	err = x.cause(err)
	_ = x.Close()
	return err
}

// answer reads the header of the response, and the informational responses (1xx) before it. The
// body of the response is x. If it fails, it closes the connection.
func (x *exchange) answer(r *http.Request) (*http.Response, error) {
	resp, err := x.header(r)
	if err != nil {
		if resp = x.statusAlone(r, err); resp != nil {
			return resp, nil
		}
		return nil, x.fail(err)
	}
	if resp.StatusCode/100 == 3 {
		// http.Client would parse it although it does not follow it, and return an error
		// if it is not a URL.
		if to := resp.Header["Location"]; len(to) > 0 && len(to[0]) <= maxURL {
			x.state.location = to[0]
		}
		delete(resp.Header, "Location")
	}
	both := x.conn.head.hasLength && x.conn.head.hasEncoding
	x.conn.limit, x.conn.head.over = math.MaxInt64, true
	x.body, resp.Body = resp.Body, x
	x.ended = x.body == http.NoBody
	x.reuse = !resp.Close && resp.StatusCode >= 200 && !x.early && !both
	return resp, nil
}

// statusAlone returns a response without a header and without a body, if only the status line
// could be read. It returns nil if there is no whole status line, or if the connection ended
// within the header: the receiver may have died then.
func (x *exchange) statusAlone(r *http.Request, err error) *http.Response {
	status := x.conn.head.status
	if status < 200 || x.conn.broke && !x.conn.head.over {
		return nil
	}
	x.state.unread = "the header could not be read (" + withoutQuotes(x.limited(err)) + "), so neither was the body"
	x.body = lost{}
	return &http.Response{StatusCode: status, Header: http.Header{}, ContentLength: -1, Body: x, Request: r}
}

// lost is a body that could not be read.
type lost struct{}

func (lost) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// write writes a request, and waits for the response if that needs no buffer. A request that
// the system may not buffer at once is written by another goroutine, because the receiver may
// respond before it has read everything, or never read it. Otherwise both sides would wait for
// each other.
func (x *exchange) write(out *outgoing) error {
	c := x.conn
	switch {
	case !out.small():
		x.written = make(chan error, 1)
		wire, written := c.wire, x.written
		go func() { // Close waits for it
			_, err := wire.Write(out.buf)
			if err == nil && len(out.rest) > 0 {
				_, err = wire.Write(out.rest)
			}
			out.free()
			written <- err // the reader of the response reports a fault, because a response may have come before
		}()
	case c.asks():
		return x.ask(out)
	default:
		_, err := c.wire.Write(out.buf)
		out.free()
		if err != nil {
			return err
		}
	}
	return c.await()
}

// ask writes a small request to a socket and waits for the response.
func (x *exchange) ask(out *outgoing) error {
	c := x.conn
	c.asking = asking{out: out, reused: x.state.reused}
	err := c.raw.Read(c.ask)
	a := c.asking
	c.asking = asking{}
	switch {
	case a.out == nil: // it was written, and err is the deadline's
		return err
	case err == nil && a.err == nil && c.found != stateQuiet && a.reused:
		return errStale
	}
	defer out.free()
	switch {
	case err != nil:
		return err
	case a.err != nil:
		return a.err
	case c.found == stateSpoken:
		return errUnasked
	}
	if _, err := c.wire.Write(out.buf[a.sent:]); err != nil { // the system's buffer was full
		return err
	}
	return c.await()
}

// plain sets the answer and ends the exchange, if the whole response is read and in the usual
// form. It reports whether it did so.
func (x *exchange) plain() bool {
	if x.early {
		return false
	}
	ahead, _ := x.read.Peek(x.read.Buffered())
	status, body, ok := plainResponse(ahead)
	if !ok {
		return false
	}
	x.state.answer.Status = status
	if len(body) > 0 {
		x.state.answer.Body = bytes.Clone(body)
	}
	_, _ = x.read.Discard(len(ahead))
	x.reuse, x.ended = true, true
	_ = x.Close()
	return true
}

// header reads the header of the response, and the informational responses before it.
func (x *exchange) header(r *http.Request) (*http.Response, error) {
	if ahead, _ := x.read.Peek(x.read.Buffered()); speaksHTTP2(ahead) {
		return nil, errHTTP2
	}
	for {
		resp, err := http.ReadResponse(x.read, r)
		if err != nil || resp.StatusCode/100 != 1 || resp.StatusCode == http.StatusSwitchingProtocols {
			return resp, err
		}
		ahead, _ := x.read.Peek(x.read.Buffered())
		if !x.conn.head.next(ahead) {
			return nil, errTooMany
		}
	}
}

// speaksHTTP2 reports whether a response begins with the frame that starts each HTTP/2
// connection: SETTINGS of at most 64 KiB, on stream 0.
func speaksHTTP2(ahead []byte) bool {
	return len(ahead) >= 9 && ahead[0] == 0 && ahead[3] == 4 && string(ahead[5:9]) == "\x00\x00\x00\x00"
}

// cause returns the reason why there is no response. If the deadline cuts a line, net/http parses
// the rest as a whole line and reports that instead.
func (x *exchange) cause(err error) error {
	switch {
	case x.state.Err() != nil:
		return context.Cause(x.state)
	case x.state.expired() || errors.Is(err, os.ErrDeadlineExceeded): // the socket's timer was faster than the context's
		return context.DeadlineExceeded
	default:
		return x.limited(err)
	}
}

// limited returns the limit that the header exceeds, or err. If the limit cuts a line, net/http
// parses the rest as a whole line.
func (x *exchange) limited(err error) error {
	switch {
	case x.conn.head.lines > maxLines:
		return errTooMany
	case x.conn.limit <= 0:
		return errTooLong
	default:
		return err
	}
}

// Read reads the body of the response.
func (x *exchange) Read(p []byte) (int, error) {
	if x.conn == nil {
		return 0, http.ErrBodyReadAfterClose
	}
	n, err := x.body.Read(p)
	if err == io.EOF {
		x.ended = true
	}
	return n, err
}

// Close ends the exchange. It returns the connection to the pool if it can carry another
// request, and closes it if not.
func (x *exchange) Close() error {
	c := x.conn
	if c == nil {
		return nil
	}
	x.conn = nil
	uncut := c.release()
	more := x.read != nil && x.ended && x.reuse && x.read.Buffered() > 0
	fit := uncut && x.reuse && x.ended && !more
	if x.read != nil {
		x.read.Reset(nil)
		readers.Put(x.read)
	}
	if fit && x.home != nil && x.home.put(c) {
		return nil
	}
	c.close()
	if more && x.home != nil {
		x.home.distrust(c.to) // the rest is a response to no request
	}
	if x.written != nil {
		<-x.written // it returns because the connection is closed; then the caller may reuse the body
	}
	return nil
}

// out reports whether the whole request was written.
func (x *exchange) out() bool {
	if x.written == nil {
		return true
	}
	late := time.NewTimer(lastByte)
	defer late.Stop()
	select {
	case err := <-x.written:
		x.written = nil
		return err == nil
	case <-late.C:
		return false
	}
}
