//go:build unix

package egress

import (
	"net"
	"os"
	"syscall"
)

// rawOf returns the file descriptor below a connection, or nil if it has none.
func rawOf(c net.Conn) syscall.RawConn {
	s, ok := c.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return nil
	}
	return raw
}

// inspectFD reports the pending bytes of the connection. It never waits, because Go's
// sockets do not block.
func (c *conn) inspectFD(fd uintptr) {
	c.found = stateGone
	n, _, err := syscall.Recvfrom(int(fd), c.one[:], syscall.MSG_PEEK)
	for err == syscall.EINTR {
		n, _, err = syscall.Recvfrom(int(fd), c.one[:], syscall.MSG_PEEK)
	}
	switch {
	case err == syscall.EAGAIN:
		c.found = stateQuiet
	case err == nil && n > 0:
		c.found = stateSpoken
	}
}

// writeFD writes a request, as much of it as the system buffers at once.
func writeFD(fd uintptr, b []byte) (int, error) {
	for sent := 0; ; {
		n, err := syscall.Write(int(fd), b[sent:])
		if n > 0 {
			sent += n
		}
		switch {
		case sent == len(b), err == syscall.EAGAIN:
			return sent, nil
		case err != nil && err != syscall.EINTR:
			return sent, os.NewSyscallError("write", err)
		}
	}
}
