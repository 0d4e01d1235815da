package egress

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"

	"github.com/hookladder/hookladder/dispatcher"
)

// exhaustionErrors are the system's errors for a resource that this host has run out of.
// EMFILE is the process' own limit of file descriptors, ENFILE the system's limit.
// ENOBUFS and ENOMEM are its memory for sockets.
var exhaustionErrors = []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM}

// exhaustedError says that a connection was not tried because this host has run out of a
// resource.
type exhaustedError struct{ err error }

func (e *exhaustedError) Error() string {
	return dispatcher.ErrExhausted.Error() + ": " + e.err.Error()
}

func (e *exhaustedError) Unwrap() []error { return []error{dispatcher.ErrExhausted, e.err} }

// exhausted reports whether an error is caused by this host, not by the receiver.
func exhausted(err error) bool { return errors.Is(err, dispatcher.ErrExhausted) }

// markExhausted wraps the error of a connection to an address in exhaustedError if this
// host is exhausted. datagram connects a datagram socket.
func markExhausted(err error, to netip.AddrPort, datagram func(netip.AddrPort) error) error {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return err
	}
	// EADDRNOTAVAIL means that no port is left, or that this host has no address of that
	// family at all. UDP has its own ports, so if it finds a source address, only TCP's
	// ports are missing.
	noPort := errno == syscall.EADDRNOTAVAIL && to.IsValid() && datagram(to) == nil
	if noPort || slices.Contains(exhaustionErrors, errno) {
		return &exhaustedError{errno}
	}
	return err
}

// markDial is markExhausted for a connection to a name, if the error has the address.
func markDial(err error) error {
	var op *net.OpError
	if !errors.As(err, &op) {
		return markLookup(err)
	}
	to, _ := op.Addr.(*net.TCPAddr)
	return markExhausted(err, to.AddrPort(), datagramTo)
}

// markLookup is markExhausted for a lookup. It compares texts, because the resolver keeps
// only the text of a cause.
func markLookup(err error) error {
	var dns *net.DNSError
	if !errors.As(err, &dns) {
		return err
	}
	for _, errno := range exhaustionErrors {
		if strings.HasSuffix(dns.Err, errno.Error()) {
			return &exhaustedError{errno}
		}
	}
	return err
}
