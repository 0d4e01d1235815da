package egress

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"
)

// moment is how long an idle connection is listened to where the system can't
// say what has come: long enough for that to be read, and short beside a call.
const moment = time.Millisecond

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
	raw   syscall.RawConn // of root; nil: it can't be peeked at
	look  func(fd uintptr) bool
	cut   func() // ends all that waits for the connection; made once, as look is
	limit int64  // what may still be read
	head  head   // of the answer that is read
	found state  // look's answer
	one   [1]byte

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

// state is what an idle connection is found in.
type state int

const (
	stateQuiet  state = iota
	stateSpoken       // something came unasked: it is nobody's answer
	stateGone         // closed or broken
)

// listen finds the state of a connection that is idle. Nobody reads from it
// then, so that this is where an end is noticed; and what a receiver says while
// it is not asked must never be taken for the answer to the next request.
func (c *conn) listen() state {
	if c.raw == nil {
		return c.hear(time.Now().Add(moment))
	}
	if found := c.peek(); found != stateQuiet || c.wire == c.root {
		return found
	}
	return c.hear(past) // what TLS has read ahead: it reads nothing more
}

// peek finds what the system has for us, without taking it.
func (c *conn) peek() state {
	c.found = stateGone
	_ = c.raw.Read(c.look) // fails where it is closed, and calls nothing then
	return c.found
}

// hear reads until a time.
func (c *conn) hear(until time.Time) state {
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
