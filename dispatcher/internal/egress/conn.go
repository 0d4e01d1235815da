package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"
)

// drainWait is how long an idle connection is read on a system that can't report pending
// bytes. It is enough to read a byte, and short compared to a call.
const drainWait = time.Millisecond

// past is a deadline that makes reads and writes return at once.
var past = time.Unix(1, 0)

var (
	errTooLong = fmt.Errorf("server response headers exceeded %d bytes", maxHeader)
	errTooMany = fmt.Errorf("server response headers exceeded %d lines", maxLines)
)

// conn is a connection to a receiver. Either one exchange or the pool owns it.
type conn struct {
	wire    net.Conn              // HTTP is written to it and read from it
	root    net.Conn              // the TCP connection below TLS; without TLS the same as wire
	raw     syscall.RawConn       // of root; nil: the system can't report pending bytes
	inspect func(fd uintptr)      // c.inspectFD, made once to save allocations
	ask     func(fd uintptr) bool // c.askFD, made once, as inspect is; nil in tests of the long way
	cut     func()                // interrupts every read and write; made once, as inspect is
	caller  context.Context       // its end interrupts the connection, see bind; nil: none
	unbind  func() bool           // ends that; false: it was too late
	limit   int64                 // bytes that may still be read
	head    head                  // the header of the response that is read now
	broke   bool                  // the last read failed
	asking  asking
	found   connState // the result of inspect
	one     [1]byte
	ahead   bool // one has the first byte of the response

	address string // of the receiver, see callState
	short   bool   // see callState

	place
}

// asking is the state of askFD.
type asking struct {
	out    *outgoing // the request; nil: it is written already
	reused bool      // the connection was idle
	sent   int       // bytes of the request that the system took
	err    error     // of the write
	waits  bool      // askFD waits for the response
}

func newConn(wire net.Conn, to target) *conn {
	c := &conn{wire: wire, root: wire}
	c.to = to
	for {
		over, ok := c.root.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		c.root = over.NetConn()
	}
	c.raw = rawOf(c.root)
	c.inspect, c.ask = c.inspectFD, c.askFD
	c.cut = func() { _ = c.root.SetDeadline(past) }
	return c
}

// asks reports whether askFD can write the request and wait for the response. It does so on
// a socket without TLS.
func (c *conn) asks() bool { return c.ask != nil && c.raw != nil && c.wire == c.root }

// close closes the connection without TLS's close_notify, because writing it may block.
// The receiver can't take a cut request for a whole one, because each states its length.
func (c *conn) close() {
	if c.unbind != nil {
		c.unbind()
	}
	_ = c.root.Close()
}

// bind makes a call interrupt the connection when it ends. Its deadline is the socket's. The
// attempts of an engine have one parent, which ends when the process stops. A connection stays
// bound to that parent while it is idle, so this costs nothing for each call. bind returns
// false if the call has ended, or if an earlier one may still interrupt the connection.
func (c *conn) bind(s *callState) bool {
	if c.caller == nil || c.caller != s.shared {
		if c.unbind != nil && !c.unbind() {
			return false
		}
		c.caller = s.shared
		over := s.shared
		if over == nil {
			over = s.Context
		}
		c.unbind = context.AfterFunc(over, c.cut)
	}
	end, _ := s.Deadline() // the zero time is no deadline
	if c.root.SetDeadline(end) != nil {
		return false
	}
	return !s.ended() // checked last, because cut may have been before SetDeadline
}

// release ends a call on the connection. It returns false if the end of the call may still
// interrupt it. The end of a shared parent may do that at any time; bind notices it.
func (c *conn) release() bool {
	if c.caller != nil {
		return true
	}
	uncut := c.unbind()
	c.unbind = nil
	return uncut
}

// Read reads at most the bytes that the limit allows.
func (c *conn) Read(p []byte) (n int, err error) {
	switch { // checked on each call, because net/http may ignore an error once
	case c.head.lines > maxLines:
		return 0, errTooMany
	case c.limit <= 0:
		return 0, errTooLong
	}
	p = p[:min(int64(len(p)), c.limit)]
	if c.ahead {
		c.ahead = false
		p[0], n = c.one[0], 1
	}
	more, err := c.wire.Read(p[n:])
	n += more
	c.limit -= int64(n)
	if !c.head.over && !c.head.scan(p[:n]) {
		return 0, errTooMany
	}
	c.broke = err != nil
	return n, err
}

// askFD writes a request to a socket and waits for the response. It returns false to wait,
// and is called again when the socket has bytes to read or has ended. So there is no read
// that finds nothing. The socket is ready only after a change that comes after this call, so
// the response can't be missed.
func (c *conn) askFD(fd uintptr) bool {
	a := &c.asking
	if a.waits {
		return true
	}
	c.inspectFD(fd)
	if a.out == nil {
		a.waits = true
		return c.found != stateQuiet
	}
	if c.found == stateSpoken || c.found == stateGone && a.reused {
		return true
	}
	a.sent, a.err = writeFD(fd, a.out.buf)
	if a.err != nil || a.sent < len(a.out.buf) {
		return true
	}
	a.out.free()
	a.out, a.waits = nil, true
	return false
}

// await waits for the first byte of the response. It needs no buffer, so a call that waits
// for long takes less memory.
func (c *conn) await() error {
	switch {
	case c.asks():
		c.asking = asking{}
		return c.raw.Read(c.ask)
	case c.wire != c.root:
		n, err := c.wire.Read(c.one[:])
		c.ahead = n > 0
		if c.ahead {
			return nil
		}
		return err
	default:
		return nil
	}
}

// connState is the state of an idle connection.
type connState int

const (
	stateQuiet  connState = iota
	stateSpoken           // bytes came that belong to no response
	stateGone             // closed or broken
)

// probe returns the state of an idle connection. No call reads from an idle connection,
// so probe is how a closed one is noticed. Bytes that a receiver sends without a request
// must never be taken for the response to the next one.
func (c *conn) probe() connState {
	if c.raw == nil {
		return c.drain(time.Now().Add(drainWait))
	}
	if found := c.peek(); found != stateQuiet || c.wire == c.root {
		return found
	}
	return c.drain(past) // reports the bytes that TLS has buffered, and reads no more
}

// spoke reports whether the bytes that wait on a connection, which is then closed, belong to HTTP.
// Below TLS they may also be the end of TLS, or a part of its own.
func (c *conn) spoke() bool {
	return c.wire == c.root || c.raw == nil || c.drain(time.Now().Add(drainWait)) == stateSpoken
}

// peek returns the state of the connection and leaves its bytes in the system's buffer.
func (c *conn) peek() connState {
	c.found = stateGone
	_ = c.raw.Control(c.inspect) // fails on a closed connection, and does not call inspect then
	return c.found
}

// drain reads one byte, and waits for it until a time.
func (c *conn) drain(until time.Time) connState {
	if c.wire.SetReadDeadline(until) != nil {
		return stateGone
	}
	n, err := c.wire.Read(c.one[:])
	switch {
	case n > 0:
		return stateSpoken
	case !errors.Is(err, os.ErrDeadlineExceeded) || c.wire.SetReadDeadline(time.Time{}) != nil:
		return stateGone
	default:
		return stateQuiet
	}
}
