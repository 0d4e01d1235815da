package kit

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// Loopback is the address of a port on this host.
func Loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// given are the ports that this process has used. A server that was stopped
// finds its own port free again. As long as this process lives it has the UDP port of
// that number too, so that no other one gives the port to a server meanwhile.
var given sync.Map

// FreePort is a port of 127.0.0.1 without a listener. It is below the ports that
// systems give to connections, so that a server can be stopped and started again
// on its port.
func FreePort() (port int, err error) {
	for range 50 {
		port = 10_000 + rand.IntN(20_000)
		if _, taken := given.LoadOrStore(port, true); taken {
			continue
		}
		var reserved net.PacketConn
		if reserved, err = net.ListenPacket("udp", Loopback(port)); err != nil {
			continue
		}
		var l net.Listener
		if l, err = net.Listen("tcp", Loopback(port)); err == nil {
			given.Store(port, reserved)
			return port, l.Close()
		}
		_ = reserved.Close() // a server of somebody else has it
	}
	return 0, fmt.Errorf("find a free port: %w", err)
}
