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
// ENOMEM its memory for sockets. EADDRNOTAVAIL is judged by noPort.
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

// own marks an error of a connection to an address if it is our own exhaustion.
func own(err error, to netip.AddrPort) error {
	var errno syscall.Errno
	if errors.As(err, &errno) && (slices.Contains(scarce, errno) || errno == syscall.EADDRNOTAVAIL && noPort(to)) {
		return &exhaustedError{errno}
	}
	return err
}

// noPort reports whether EADDRNOTAVAIL means that no port is left for another
// connection to an address. A host without IPv6 answers the same for each IPv6
// address, and that never passes. UDP has ports of its own: where it finds an
// address of ours to speak from, only the ports are missing. It sends nothing.
func noPort(to netip.AddrPort) bool {
	if !to.IsValid() {
		return false
	}
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to))
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}

// ownDial is own for a connection to a name, whose address the error has.
func ownDial(err error) error {
	var op *net.OpError
	if !errors.As(err, &op) {
		return ownLookup(err)
	}
	to, _ := op.Addr.(*net.TCPAddr)
	return own(err, to.AddrPort())
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
