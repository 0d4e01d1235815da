//go:build unix

package egress

import (
	"net"
	"syscall"
)

// rawOf is what lies under a connection, nil if that is nothing of the system's.
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

// lookAt asks the system what has come. It never waits, since Go's sockets don't block.
func (c *conn) lookAt(fd uintptr) bool {
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
