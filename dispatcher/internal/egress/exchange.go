package egress

import (
	"bufio"
	"context"
	"io"
	"math"
	"net/http"
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
	conn    *conn // nil: closed
	home    *pool // returned to when the exchange is over; nil: closed instead
	read    *bufio.Reader
	stop    func() bool // stops the context's AfterFunc; false: it has already cut the connection
	written chan error  // result of the goroutine that writes the request; nil: the request is written
	early   bool        // the response began before the whole request was written
	body    io.Reader
	reuse   bool // the response allows another request on the connection
	ended   bool // the body was read to its end
}

// readers is the pool of read buffers, so that an idle connection has no buffer. Trailers
// and the lines of chunks must fit into one.
var readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 4<<10) }}

// do sends a request and reads the header of its response. The body of the response is x.
// If it fails, it closes the connection.
func (x *exchange) do(r *http.Request, out *outgoing) (*http.Response, error) {
	x.stop = context.AfterFunc(x.state.Context, x.conn.cut)
	x.conn.limit, x.conn.head = maxHeader, head{} // the limit is for all headers together
	x.read = readers.Get().(*bufio.Reader)
	x.read.Reset(x.conn)
	err := x.write(out)
	var resp *http.Response
	if err == nil {
		resp, err = x.answer(r)
	}
	if err != nil {
		err = x.cause(err)
		_ = x.Close()
		return nil, err
	}
	both := x.conn.head.hasLength && x.conn.head.hasEncoding
	x.conn.limit, x.conn.head.over = math.MaxInt64, true
	x.body, resp.Body = resp.Body, x
	x.ended = x.body == http.NoBody
	x.reuse = !resp.Close && resp.StatusCode >= 200 && !x.early && !both
	return resp, nil
}

// write writes a request. A request that the system may not buffer at once is written by
// another goroutine, because the receiver may respond before it has read everything, or
// never read it. Otherwise both sides would wait for each other.
func (x *exchange) write(out *outgoing) error {
	if len(out.buf)+len(out.rest) <= atOnce {
		defer out.free()
		_, err := x.conn.wire.Write(out.buf)
		return err
	}
	x.written = make(chan error, 1)
	wire, written := x.conn.wire, x.written
	go func() { // Close waits for it
		_, err := wire.Write(out.buf)
		if err == nil && len(out.rest) > 0 {
			_, err = wire.Write(out.rest)
		}
		out.free()
		written <- err // the reader of the response reports a fault, because a response may have come before
	}()
	return nil
}

// answer reads the header of the response, and the informational responses (1xx) before
// it.
func (x *exchange) answer(r *http.Request) (*http.Response, error) {
	if _, err := x.read.Peek(1); err != nil {
		return nil, err
	}
	x.state.answered = true
	x.early = !x.out()
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

// cause returns the reason why there is no response. If the deadline or the limit cuts a
// line, net/http parses the rest as a whole line and reports that instead.
func (x *exchange) cause(err error) error {
	switch {
	case x.state.Err() != nil:
		return context.Cause(x.state)
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
	uncut := x.stop()
	fit := uncut && x.reuse && x.ended && x.read.Buffered() == 0
	x.read.Reset(nil)
	readers.Put(x.read)
	if fit && x.home != nil && x.home.put(c) {
		return nil
	}
	c.close()
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
