package egress_test

import (
	"context"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/internal/egress"
)

// names is a resolver that knows a few names and no network.
type names map[string][]string

func (n names) LookupNetIP(ctx context.Context, _, host string) ([]netip.Addr, error) {
	host = strings.TrimSuffix(host, ".")
	if host == "slow.example" {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	texts, ok := n[host]
	if !ok {
		return nil, &net.DNSError{Err: "no such host", Name: host, Server: "192.0.2.53:53", IsNotFound: true}
	}
	var found []netip.Addr
	for _, s := range texts {
		found = append(found, netip.MustParseAddr(s))
	}
	return found, nil
}

func known(n names) func(*egress.Options) {
	return func(o *egress.Options) { o.Resolver = n }
}

// counting finds 127.0.0.1 for every name, and counts the questions for IPv4.
type counting struct{ n atomic.Int64 }

func (c *counting) LookupNetIP(_ context.Context, network, _ string) ([]netip.Addr, error) {
	if network == "ip6" {
		return nil, nil
	}
	c.n.Add(1)
	return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
}

// freePort is a port of 127.0.0.1 that refuses connections until the test ends: it
// is taken, so that no other test can listen there.
func freePort(t testing.TB) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	require.NoError(t, err)
	syscall.CloseOnExec(fd)
	t.Cleanup(func() { _ = syscall.Close(fd) })
	require.NoError(t, syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	at, err := syscall.Getsockname(fd)
	require.NoError(t, err)
	return strconv.Itoa(at.(*syscall.SockaddrInet4).Port)
}

func allowed(t testing.TB, nets ...string) func(*egress.Options) {
	return func(o *egress.Options) { o.Guard = egress.NewGuard(mustPrefixes(t, nets...)) }
}
