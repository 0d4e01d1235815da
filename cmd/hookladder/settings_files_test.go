package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// mustCertificate writes a certificate and its key, each into a file of its own.
func mustCertificate(t testing.TB) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	certFile, keyFile = filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	mustWrite(t, certFile, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})))
	mustWrite(t, keyFile, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})))
	return certFile, keyFile
}

func TestAFileOfCertificatesThatCantBeUsedIsRefusedByName(t *testing.T) {
	cert, key := mustCertificate(t)
	_, other := mustCertificate(t)
	for want, environ := range map[string]map[string]string{
		`^EGRESS_CA_FILE="/none": must be a file of PEM certificates \(open /none: no such file`: {"EGRESS_CA_FILE": "/none"},
		`^EGRESS_CA_FILE=.*holds no certificate`:                                                 {"EGRESS_CA_FILE": key},
		`^EGRESS_CERT_FILE=.*\(EGRESS_KEY_FILE is not set`:                                       {"EGRESS_CERT_FILE": cert},
		`^EGRESS_KEY_FILE=.*\(EGRESS_CERT_FILE is not set`:                                       {"EGRESS_KEY_FILE": key},
		`^EGRESS_CERT_FILE=.*holds no private key`:                                               {"EGRESS_CERT_FILE": cert, "EGRESS_KEY_FILE": cert},
		`^EGRESS_CERT_FILE=.*does not match`:                                                     {"EGRESS_CERT_FILE": cert, "EGRESS_KEY_FILE": other},
	} {
		_, _, err := readSettings(sources{environ: environ})
		require.Error(t, err, want)
		require.Regexp(t, want, err.Error())
		require.NotContains(t, err.Error(), "\n", "one mistake is one line")
	}
	mustRead(t, map[string]string{"EGRESS_CA_FILE": cert, "EGRESS_CERT_FILE": cert, "EGRESS_KEY_FILE": key})
}
