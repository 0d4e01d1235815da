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

// scarce are the system's errors for what this host has run out of. EMFILE is
// the process' own limit of file descriptors, ENFILE the system's, ENOBUFS and
// ENOMEM its memory for sockets.
var scarce = []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM}

// exhaustedError says that a connection was not tried, since this host has run
// out of something.
type exhaustedError struct{ err error }

func (e *exhaustedError) Error() string {
	return dispatcher.ErrExhausted.Error() + ": " + e.err.Error()
}

func (e *exhaustedError) Unwrap() []error { return []error{dispatcher.ErrExhausted, e.err} }

// exhausted reports whether an error is no fault of the receiver but ours.
func exhausted(err error) bool { return errors.Is(err, dispatcher.ErrExhausted) }

// own marks an error of a connection to an address if it is our own exhaustion. datagram
// connects a datagram socket.
func own(err error, to netip.AddrPort, datagram func(netip.AddrPort) error) error {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return err
	}
	// EADDRNOTAVAIL means that no port is left, or that this host has no address of that
	// family at all. UDP has ports of its own: if it finds an address to send from, only
	// the ports are missing.
	noPort := errno == syscall.EADDRNOTAVAIL && to.IsValid() && datagram(to) == nil
	if noPort || slices.Contains(scarce, errno) {
		return &exhaustedError{errno}
	}
	return err
}

// ownDial is own for a connection to a name, whose address the error has.
func ownDial(err error) error {
	var op *net.OpError
	if !errors.As(err, &op) {
		return ownLookup(err)
	}
	to, _ := op.Addr.(*net.TCPAddr)
	return own(err, to.AddrPort(), datagramTo)
}

// ownLookup is own for a lookup: the resolver keeps only the text of a cause.
func ownLookup(err error) error {
	var dns *net.DNSError
	if !errors.As(err, &dns) {
		return err
	}
	for _, errno := range scarce {
		if strings.HasSuffix(dns.Err, errno.Error()) {
			return &exhaustedError{errno}
		}
	}
	return err
}
