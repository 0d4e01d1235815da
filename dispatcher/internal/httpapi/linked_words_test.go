package httpapi_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/internal/httpapi"
)

func TestALinksErrorsHaveNoAddress(t *testing.T) {
	const refused = "its address may not be called"
	for text, want := range map[string]string{
		"127.0.0.1 is loopback; allow it with ALLOW_NETS=127.0.0.1/32":                           refused,
		"10.1.2.3 is private; allow it with LINK_ALLOW_NETS=10.1.2.3/32":                         refused,
		"127.0.0.1 is our own listener, which is never called":                                   refused,
		"machine-7 (127.0.0.1) is loopback; allow it with LINK_ALLOW_NETS=127.0.0.1/32":          refused,
		"64:ff9b::a9fe:101 (169.254.1.1) is link-local; allow it with ALLOW_NETS=169.254.1.1/32": refused,
		"connect to 10.0.0.9:443: connection refused":                                            "connect to its address: connection refused",
		"connect to [fd00::1]:443: no route to host":                                             "connect to its address: no route to host",
		"connect to [fe80::1%eth0]:80: timed out":                                                "connect to its address: timed out",
		"dial ::1: refused":          "dial its address: refused",
		"from ::ffff:10.1.2.3 to it": "from its address to it",
		"x509: certificate is valid for 10.0.0.1, fd00::7, not shop.example": "x509: certificate is valid for its address, its address, not shop.example",
		"status 302 to http://10.0.0.1:8080/a: redirects are not followed":   "status 302 to http://its address/a: redirects are not followed",
		"status 302 to http://[fd00::1]/a: redirects are not followed":       "status 302 to http://its address/a: redirects are not followed",
		"lookup shop.example: no such host":                                  "lookup shop.example: no such host",
		"lookup shop.example on 127.0.0.53:53: server misbehaving":           "lookup shop.example on its address: server misbehaving",
		"timed out waiting for the answer":                                   "timed out waiting for the answer",
		"it expired at 11:00:00, and at 2026-01-31T11:00:00.123Z":            "it expired at 11:00:00, and at 2026-01-31T11:00:00.123Z",
		"std::vector, face: bad":                                             "std::vector, face: bad",
		"proxy http://10.0.0.9:3128: status 403: it does not allow CONNECT":  "it could not be called; ask the operator",
		"": "",
	} {
		require.Equal(t, want, httpapi.Outward(text))
	}
}
