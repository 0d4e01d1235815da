//go:build unix

package egress

import (
	"net"
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
func (c *conn) inspectFD(fd uintptr) bool {
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
	return true
}
