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

// lastByte is how long an answer waits to learn that its request is written: the
// goroutine that writes it may not have run since.
const lastByte = time.Millisecond

// exchange is one request and its answer on a connection, and the body of the
// answer. It belongs to the goroutine that made the request.
type exchange struct {
	state   *callState
	conn    *conn // nil: closed
	home    *pool // where the connection may go when it is over; nil: nowhere
	read    *bufio.Reader
	stop    func() bool // keeps the end of the call from cutting the connection
	written chan error  // of a request that another goroutine writes; nil: it is written
	early   bool        // the answer began before the request was out
	body    io.Reader
	reuse   bool // the answer leaves the connection fit to be used again
	ended   bool // the answer was read to its end
}

// readers are kept from one exchange to the next, so that an idle connection
// has no buffer. Trailers and the lines of chunks must fit into it.
var readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 4<<10) }}

// do sends a request and reads the header of its answer, whose body is x. If it
// fails, the connection is closed.
func (x *exchange) do(r *http.Request, out *outgoing) (*http.Response, error) {
	x.stop = context.AfterFunc(x.state.Context, x.conn.cut)
	x.conn.limit, x.conn.head = maxHeader, head{} // of all headers together
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
	both := x.conn.head.sized && x.conn.head.coded
	x.conn.limit, x.conn.head.over = math.MaxInt64, true
	x.body, resp.Body = resp.Body, x
	x.ended = x.body == http.NoBody
	x.reuse = !resp.Close && resp.StatusCode >= 200 && !x.early && !both
	return resp, nil
}

// write writes a request. One that the system may not take at once is written by
// another goroutine. The receiver may answer before it has read all of it, or
// never read it: then both sides would wait for each other.
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
		written <- err // the reader finds out: an answer may have come before
	}()
	return nil
}

// answer reads the header of the answer, and those of announcements before it.
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

// speaksHTTP2 reports whether an answer begins with the frame that a server has
// to begin with in HTTP/2: SETTINGS of at most 64 KiB, for the whole connection.
func speaksHTTP2(ahead []byte) bool {
	return len(ahead) >= 9 && ahead[0] == 0 && ahead[3] == 4 && string(ahead[5:9]) == "\x00\x00\x00\x00"
}

// cause is why there is no answer. When the time is over or the limit is reached
// in the middle of a line, net/http takes it for a whole one and complains of that.
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

// Read reads the body of the answer.
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

// Close ends the exchange. The connection goes back to the pool if it is fit for
// another request, and is closed at once if not.
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
		<-x.written // it ends with the connection; then the caller may use the body again
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
