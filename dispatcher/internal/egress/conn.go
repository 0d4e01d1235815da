package egress

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"
)

// drainWait is how long an idle connection is read where the system can't say
// what has come: long enough to read it, and short beside a call.
const drainWait = time.Millisecond

// past is a deadline for what must end now.
var past = time.Unix(1, 0)

var (
	errTooLong = fmt.Errorf("server response headers exceeded %d bytes", maxHeader)
	errTooMany = fmt.Errorf("server response headers exceeded %d lines", maxLines)
)

// conn is a connection to a receiver. It belongs to one exchange, or to the pool.
type conn struct {
	wire  net.Conn        // what is spoken on
	root  net.Conn        // what is under it, where that is TLS; else the same
	raw   syscall.RawConn // of root; nil: the system can't be asked what has come
	look  func(fd uintptr) bool
	cut   func()    // ends all that waits for the connection; made once, as look is
	limit int64     // what may still be read
	head  head      // of the answer that is read
	found connState // look's answer
	one   [1]byte

	address string // of the receiver, as callState has it

	place // in the pool
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
	c.look = c.lookAt
	c.cut = func() { _ = c.root.SetDeadline(past) }
	return c
}

// close closes the connection without the goodbye of TLS, which may block. Each
// request says how long it is, so none is mistaken for another if it breaks off.
func (c *conn) close() { _ = c.root.Close() }

// Read reads what the limit allows.
func (c *conn) Read(p []byte) (int, error) {
	switch { // again and again: net/http may pass over an error once
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

// connState is how an idle connection is found.
type connState int

const (
	stateQuiet  connState = iota
	stateSpoken           // bytes came that answer no request
	stateGone             // closed or broken
)

// probe finds the state of an idle connection. No call reads from it, so that its
// end is noticed here. What a receiver sends without a request must never be
// taken for the answer to the next one.
func (c *conn) probe() connState {
	if c.raw == nil {
		return c.drain(time.Now().Add(drainWait))
	}
	if found := c.peek(); found != stateQuiet || c.wire == c.root {
		return found
	}
	return c.drain(past) // what TLS has read ahead: it reads nothing more
}

// peek finds what the system has for us, without taking it.
func (c *conn) peek() connState {
	c.found = stateGone
	_ = c.raw.Read(c.look) // fails where it is closed, and calls nothing then
	return c.found
}

// drain reads one byte, if it comes before a time.
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
