package egress

import (
	"context"
	"net"
	"net/netip"
)

// Race is how several addresses of a name are tried.
var Race = race

// Connect connects to an address that was not looked up, as if the guard had
// let it through until then.
func Connect(ctx context.Context, o Options, to netip.AddrPort) (net.Conn, error) {
	return newDialer(o.filled()).connect(ctx, to)
}

// DialFunc opens a connection.
type DialFunc = dialFunc

// NewOver makes a client whose connections to receivers, or to its proxy, are
// made by dial.
func NewOver(o Options, dial DialFunc) *Client {
	o = o.filled()
	d := newDialer(o)
	d.tcp = dial
	if d.proxy != nil {
		d.proxy.dial = dial
	}
	return newClient(o, d)
}

// KeepAtMost bounds the idle connections of a client in all.
func KeepAtMost(c *Client, most int) { c.transport.idle.most = most }

// TakeLongWay has each response of a client parsed by net/http.
func TakeLongWay(c *Client) { c.transport.long = true }

// PlainResponse parses a response in the usual form.
var PlainResponse = plainResponse

// Idle is how many idle connections a client has, and whether it looks after them.
func Idle(c *Client) (conns int, swept bool) {
	p := c.transport.idle
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.size, p.sweeping
}

// MaxDistrusted bounds the targets of which no connection is used again.
const MaxDistrusted = maxDistrusted

// MaxHellos bounds the targets that did not answer a handshake.
const MaxHellos = mostHellos

// Distrusted is how many there are.
func Distrusted(c *Client) int {
	p := c.transport.idle
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.distrusted)
}

// DatagramOver has a client connect its datagram sockets by do.
func DatagramOver(c *Client, do func(netip.AddrPort) error) { c.transport.dialer.uplink.datagram = do }
