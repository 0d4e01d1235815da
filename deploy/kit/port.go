package kit

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// Loopback returns the address of a port on this host.
func Loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// given has the ports that this process has used, so that a server can restart on its
// own port. This process also keeps the UDP port of the same number open until it
// exits. Other processes therefore do not choose that port for a server.
var given sync.Map

// PortsEnd is above each port of FreePort. It is below the range that systems use for
// connections, so that a server can restart on its port, and below the port in the stored
// data of earlier versions that tests read.
const PortsEnd = 27_000

// FreePort returns a port of 127.0.0.1 without a listener, below PortsEnd.
func FreePort() (port int, err error) {
	for range 50 {
		port = 10_000 + rand.IntN(PortsEnd-10_000)
		if _, taken := given.LoadOrStore(port, true); taken {
			continue
		}
		var reserved net.PacketConn
		if reserved, err = net.ListenPacket("udp", Loopback(port)); err != nil {
			continue
		}
		// A listener here would tell, too, but a program that starts at this moment has it open until it
		// runs, and then the server that takes this port may not have it.
		conn, dialed := net.DialTimeout("tcp", Loopback(port), time.Second)
		if errors.Is(dialed, syscall.ECONNREFUSED) {
			given.Store(port, reserved)
			return port, nil
		}
		if err = dialed; err == nil {
			err = fmt.Errorf("port %d has a server of another process", port)
			_ = conn.Close()
		}
		_ = reserved.Close()
	}
	return 0, fmt.Errorf("find a free port: %w", err)
}
