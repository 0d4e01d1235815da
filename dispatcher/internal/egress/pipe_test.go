package egress_test

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"

	"github.com/hookladder/hookladder/dispatcher/internal/egress"
)

// pipes dials the receiver in memory: no buffer holds what it writes, so the
// bytes can be counted.
func pipes(serve func(net.Conn), running *sync.WaitGroup) egress.DialFunc {
	return func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		c := &buffered{Conn: theirs, ahead: make(chan []byte, 16), closed: make(chan struct{})}
		running.Go(c.pump)
		running.Go(func() { serve(c) })
		return piped{ours}, nil
	}
}

// piped is the client's end. It fails as a TCP connection does.
type piped struct{ net.Conn }

func (p piped) Write(b []byte) (int, error) {
	n, err := p.Conn.Write(b)
	if errors.Is(err, io.ErrClosedPipe) {
		err = syscall.EPIPE
	}
	return n, err
}

// buffered is the receiver's end. It takes a little before it is read, as a
// system does: else no side could say something last.
type buffered struct {
	net.Conn
	ahead  chan []byte
	rest   []byte // of what was taken from ahead; the reader's
	closed chan struct{}
	once   sync.Once // guards closed
}

// pump reads ahead until the connection ends.
func (c *buffered) pump() {
	defer close(c.ahead)
	for {
		b := make([]byte, 4096)
		n, err := c.Conn.Read(b)
		if err != nil {
			return
		}
		select {
		case c.ahead <- b[:n]:
		case <-c.closed:
			return
		}
	}
}

func (c *buffered) Read(b []byte) (int, error) {
	if len(c.rest) == 0 {
		var ok bool
		if c.rest, ok = <-c.ahead; !ok {
			return 0, io.EOF
		}
	}
	n := copy(b, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

func (c *buffered) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}
