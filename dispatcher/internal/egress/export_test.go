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
func Connect(ctx context.Context, g *Guard, to netip.AddrPort) (net.Conn, error) {
	return newDialer(g, nil, nil).connect(ctx, to)
}
