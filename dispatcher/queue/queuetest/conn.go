package queuetest

import (
	"bytes"
	"net"
	"sync"
	"time"
)

// conn is an end of a net.Pipe that takes all that is written at once, as a socket does. A client
// writes a whole pipeline before it reads the first reply, so with a bare pipe both ends would wait
// for each other.
type conn struct {
	net.Conn
	wake chan struct{} // 1 deep; closed by Close

	mu     sync.Mutex // guards the fields below
	buffer bytes.Buffer
	closed bool
}

func newConn(c net.Conn) *conn {
	p := &conn{Conn: c, wake: make(chan struct{}, 1)}
	go p.pump()
	return p
}

// pump writes the buffer until the connection is closed.
func (c *conn) pump() {
	for range c.wake {
		c.mu.Lock()
		b := bytes.Clone(c.buffer.Bytes())
		c.buffer.Reset()
		c.mu.Unlock()
		if len(b) == 0 {
			continue // the wake before had it; a pipe would wait for a reader of nothing
		}
		if _, err := c.Conn.Write(b); err != nil {
			return // the other end is closed, so no reply comes either
		}
	}
}

func (c *conn) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return 0, net.ErrClosed
	}
	c.buffer.Write(b)
	select {
	case c.wake <- struct{}{}:
	default:
	}
	return len(b), nil
}

// A write never waits, so deadlines are for reads.
func (c *conn) SetDeadline(t time.Time) error    { return c.Conn.SetReadDeadline(t) }
func (c *conn) SetWriteDeadline(time.Time) error { return nil }

func (c *conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	c.closed = true
	close(c.wake)
	return c.Conn.Close()
}
