package egress

import (
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
	inspect func(fd uintptr) bool // c.inspectFD, made once to save allocations
	cut     func()                // interrupts every read and write; made once, as inspect is
	limit   int64                 // bytes that may still be read
	head    head                  // the header of the response that is read now
	found   connState             // the result of inspect
	one     [1]byte

	address string // of the receiver, see callState

	place
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
	c.inspect = c.inspectFD
	c.cut = func() { _ = c.root.SetDeadline(past) }
	return c
}

// close closes the connection without TLS's close_notify, because writing it may block.
// The receiver can't take a cut request for a whole one, because each states its length.
func (c *conn) close() { _ = c.root.Close() }

// Read reads at most the bytes that the limit allows.
func (c *conn) Read(p []byte) (int, error) {
	switch { // checked on each call, because net/http may ignore an error once
	case c.head.lines > maxLines:
		return 0, errTooMany
	case c.limit <= 0:
		return 0, errTooLong
	}
	n, err := c.wire.Read(p[:min(int64(len(p)), c.limit)])
	c.limit -= int64(n)
	if !c.head.over && !c.head.scan(p[:n]) {
		return 0, errTooMany
	}
	return n, err
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

// peek returns the state of the connection and leaves its bytes in the system's buffer.
func (c *conn) peek() connState {
	c.found = stateGone
	_ = c.raw.Read(c.inspect) // fails on a closed connection, and does not call inspect then
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
