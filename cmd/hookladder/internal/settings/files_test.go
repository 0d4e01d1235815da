package settings

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
)

func TestAFileOfCertificatesThatCantBeUsedIsRefusedByName(t *testing.T) {
	cert, key := kit.MustCertificate(t.TempDir())
	_, other := kit.MustCertificate(t.TempDir())
	for want, environ := range map[string]map[string]string{
		`^EGRESS_CA_FILE="/none": must be a file of PEM certificates \(open /none: no such file`: {"EGRESS_CA_FILE": "/none"},
		`^EGRESS_CA_FILE=.*holds no certificate`:                                                 {"EGRESS_CA_FILE": key},
		`^EGRESS_CERT_FILE=.*: EGRESS_KEY_FILE is not set`:                                       {"EGRESS_CERT_FILE": cert},
		`^EGRESS_KEY_FILE=.*: EGRESS_CERT_FILE is not set`:                                       {"EGRESS_KEY_FILE": key},
		`^EGRESS_CERT_FILE=.*holds no private key`:                                               {"EGRESS_CERT_FILE": cert, "EGRESS_KEY_FILE": cert},
		`^EGRESS_CERT_FILE=.*does not match`:                                                     {"EGRESS_CERT_FILE": cert, "EGRESS_KEY_FILE": other},
	} {
		_, _, err := Read(Sources{Environ: environ})
		require.Error(t, err, want)
		require.Regexp(t, want, err.Error())
		require.NotContains(t, err.Error(), "\n", "one mistake is one line")
	}
	mustRead(t, map[string]string{"EGRESS_CA_FILE": cert, "EGRESS_CERT_FILE": cert, "EGRESS_KEY_FILE": key})
}
