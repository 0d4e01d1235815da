package egress_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/egress"
	"github.com/hookladder/hookladder/dispatcher/internal/input"
)

// pemFile writes PEM blocks of one kind to a file.
func pemFile(t testing.TB, name, kind string, ders ...[]byte) string {
	t.Helper()
	var text []byte
	for _, der := range ders {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})...)
	}
	return textFile(t, name, string(text))
}

func textFile(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func keyDER(t testing.TB, c tls.Certificate) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	require.NoError(t, err)
	return der
}

// callTLS calls one of the hostile receiver's names.
func callTLS(t testing.TB, host string, change func(*egress.Options)) dispatcher.Answer {
	t.Helper()
	h, port := newTestHostile(t)
	o := hostileOptions(t)
	change(&o)
	c := egress.New(o)
	defer c.Close()
	defer close(h.over)
	return send(t, c, row{url: "https://" + host + "/ok"}.call(t, port))
}

func TestRootsOfAFileAreTrustedBesidesTheSystems(t *testing.T) {
	ca := authority()
	other := &testCA{key: newKey()}
	other.cert = newTemplate("other authority")
	roots, err := input.LoadRoots(pemFile(t, "ca.pem", "CERTIFICATE", other.issue("x.test", nil).Leaf.Raw, ca.cert.Raw))
	require.NoError(t, err)
	require.Equal(t, 200, callTLS(t, "good.test", func(o *egress.Options) { o.RootCAs = roots }).Status)

	system, err := x509.SystemCertPool()
	require.NoError(t, err)
	system.AddCert(other.issue("x.test", nil).Leaf)
	a := callTLS(t, "good.test", func(o *egress.Options) { o.RootCAs = system })
	require.Equal(t, dispatcher.ClassTLS, a.Class, "the file's are what made the difference")

	none, err := x509.SystemCertPool()
	require.NoError(t, err)
	none.AddCert(ca.cert)
	only, err := input.LoadRoots(pemFile(t, "ca.pem", "CERTIFICATE", ca.cert.Raw))
	require.NoError(t, err)
	require.True(t, none.Equal(only), "the system's and the file's")
}

func TestClientCertificateIsShownToWhoAsks(t *testing.T) {
	ca := authority()
	load := func(c tls.Certificate) func(*egress.Options) {
		certFile := pemFile(t, "client.pem", "CERTIFICATE", c.Leaf.Raw)
		ours, err := input.LoadCertificate(certFile, pemFile(t, "client.key", "PRIVATE KEY", keyDER(t, c)))
		require.NoError(t, err)
		return func(o *egress.Options) { o.Certificates = ours }
	}
	mine := load(ca.client)
	for _, host := range []string{"wants.test", "wants12.test", "asks.test", "good.test"} {
		a := callTLS(t, host, mine)
		require.Equal(t, 200, a.Status, "%s: %v", host, a.Err)
	}
	stranger := &testCA{key: newKey()}
	stranger.cert = newTemplate("stranger")
	for _, host := range []string{"wants.test", "wants12.test"} {
		a := callTLS(t, host, load(stranger.issue("client.test", nil)))
		require.Contains(t, []dispatcher.Class{dispatcher.ClassTLS, dispatcher.ClassReset}, a.Class, "%s: %v", host, a.Err)
		require.Zero(t, a.Status)
	}
}

func TestRootsThatCannotBeLoadedAreNamed(t *testing.T) {
	ca := authority()
	cases := map[string]struct {
		path string
		want string
	}{
		"not there":          {filepath.Join(t.TempDir(), "gone.pem"), "no such file"},
		"a folder":           {t.TempDir(), "is a directory"},
		"empty":              {textFile(t, "empty.pem", " \n"), "is empty"},
		"not PEM":            {textFile(t, "ca.der", string(ca.cert.Raw)), "holds no PEM block"},
		"cut off":            {textFile(t, "cut.pem", "-----BEGIN CERTIFICATE-----\nMIIB\n"), "holds no PEM block"},
		"a key":              {pemFile(t, "key.pem", "PRIVATE KEY", keyDER(t, ca.client)), `holds no certificate, but "PRIVATE KEY"`},
		"a broken one":       {pemFile(t, "bad.pem", "CERTIFICATE", []byte("nonsense")), "certificate 1: x509: malformed certificate"},
		"a second is broken": {pemFile(t, "two.pem", "CERTIFICATE", ca.cert.Raw, ca.cert.Raw[:40]), "certificate 2: x509: malformed certificate"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			roots, err := input.LoadRoots(tc.path)
			require.ErrorContains(t, err, tc.want)
			require.ErrorContains(t, err, tc.path)
			require.Nil(t, roots)
		})
	}
}

func TestCertificateThatCannotBeLoadedIsNamed(t *testing.T) {
	ca := authority()
	cert := pemFile(t, "client.pem", "CERTIFICATE", ca.client.Leaf.Raw)
	key := pemFile(t, "client.key", "PRIVATE KEY", keyDER(t, ca.client))
	other := pemFile(t, "other.key", "PRIVATE KEY", keyDER(t, ca.issue("other.test", nil)))
	sealed := pemFile(t, "sealed.key", "ENCRYPTED PRIVATE KEY", []byte("hunter2"))
	old := textFile(t, "old.key", "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nAAAA\n-----END RSA PRIVATE KEY-----\n")
	broken := pemFile(t, "broken.key", "EC PRIVATE KEY", []byte("hunter2"))
	gone := filepath.Join(t.TempDir(), "gone")
	for name, tc := range map[string]struct {
		cert, key string
		want      []string
	}{
		"without a key":             {cert, "", []string{"needs two files"}},
		"without a certificate":     {"", key, []string{"needs two files"}},
		"certificate not there":     {gone, key, []string{gone, "no such file"}},
		"key not there":             {cert, gone, []string{gone, "no such file"}},
		"the one for the other":     {key, cert, []string{key, `holds no certificate, but "PRIVATE KEY"`}},
		"a certificate for the key": {cert, cert, []string{cert, `holds no private key, but "CERTIFICATE"`}},
		"another's key":             {cert, other, []string{cert, other, "does not match"}},
		"encrypted key":             {cert, sealed, []string{sealed, "encrypted"}},
		"encrypted key of old":      {cert, old, []string{old, "encrypted"}},
		"broken key":                {cert, broken, []string{broken, "parse private key"}},
	} {
		t.Run(name, func(t *testing.T) {
			ours, err := input.LoadCertificate(tc.cert, tc.key)
			for _, want := range tc.want {
				require.ErrorContains(t, err, want)
			}
			require.NotContains(t, err.Error(), "hunter2")
			require.Nil(t, ours)
		})
	}
	all := pemFile(t, "chain.pem", "CERTIFICATE", ca.client.Leaf.Raw, ca.cert.Raw)
	text, err := os.ReadFile(key)
	require.NoError(t, err)
	params := textFile(t, "params.key", strings.Repeat("comment\n", 2)+"-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n"+string(text))
	ours, err := input.LoadCertificate(all, params)
	require.NoError(t, err)
	require.Len(t, ours[0].Certificate, 2, "with what is between it and its root")
}
