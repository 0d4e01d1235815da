package main

import (
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// payload is a JSON text of 1 KiB.
var payload = `{"order":12345678901234567890,"pad":"` + strings.Repeat("x", 1024-39) + `"}`

// freeAddr is a loopback address that nothing listens on.
func freeAddr(t testing.TB) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = ln.Close() }()
	return ln.Addr().String()
}
