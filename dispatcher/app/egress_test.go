package app_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher/app"
)

// mustPEM writes one block into a file of its own.
func mustPEM(t testing.TB, kind string, der []byte) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "file.pem")
	require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	return file
}

// mustClientCertificate makes a certificate that a receiver may ask for.
func mustClientCertificate(t testing.TB) (cert *x509.Certificate, certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	cert, err = x509.ParseCertificate(der)
	require.NoError(t, err)
	return cert, mustPEM(t, "CERTIFICATE", der), mustPEM(t, "PRIVATE KEY", private)
}

func TestAReceiverWithItsOwnAuthorityIsCalledWithOurCertificate(t *testing.T) {
	ours, certFile, keyFile := mustClientCertificate(t)
	shown := make(chan *x509.Certificate, 1)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		shown <- r.TLS.PeerCertificates[0]
	}))
	server.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	server.StartTLS()
	t.Cleanup(server.Close)

	o := newTestOptions(redistest.Start(t).URL())
	o.CAFile, o.CertFile, o.KeyFile = mustPEM(t, "CERTIFICATE", server.Certificate().Raw), certFile, keyFile
	p := start(t, o)
	_, err := p.client().Publish(t.Context(), message("one", server.URL))
	require.NoError(t, err)
	select {
	case got := <-shown:
		require.Equal(t, ours.Raw, got.Raw)
	case <-time.After(patience):
		require.FailNow(t, "nothing is delivered")
	}
	require.NoError(t, p.end())
}

func TestFilesThatCantBeUsedStopTheStart(t *testing.T) {
	_, certFile, keyFile := mustClientCertificate(t)
	for want, files := range map[string][3]string{
		"EGRESS_CA_FILE: ":                       {keyFile, "", ""},
		"EGRESS_CERT_FILE, EGRESS_KEY_FILE: ":    {"", certFile, ""},
		"EGRESS_CERT_FILE, EGRESS_KEY_FILE: a c": {"", "", keyFile},
	} {
		o := newTestOptions(redistest.Start(t).URL())
		o.CAFile, o.CertFile, o.KeyFile = files[0], files[1], files[2]
		ctx, stop := context.WithTimeout(t.Context(), patience)
		require.ErrorContains(t, app.Run(ctx, o), want)
		stop()
	}
}

func TestCallsGoThroughTheProxy(t *testing.T) {
	r := newTestReceiver(t)
	asked := make(chan string, 1)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		asked <- q.Method + " " + q.Host
		tunnel(w, q.Host)
	}))
	t.Cleanup(proxy.Close)

	o := newTestOptions(redistest.Start(t).URL())
	var err error
	o.Proxy, err = url.Parse(proxy.URL)
	require.NoError(t, err)
	p := start(t, o)
	r.answer <- struct{}{}
	_, err = p.client().Publish(t.Context(), message("one", r.URL))
	require.NoError(t, err)
	require.Equal(t, "one", r.await(t))
	require.Len(t, asked, 1)
	require.Equal(t, "CONNECT "+r.Listener.Addr().String(), <-asked)
	require.NoError(t, p.end())
}

// tunnel connects a client of a proxy with where it wants to go.
func tunnel(w http.ResponseWriter, to string) {
	far, err := net.Dial("tcp", to)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer far.Close() //nolint:errcheck // the test is over
	near, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer near.Close() //nolint:errcheck // the test is over
	_, _ = io.WriteString(near, "HTTP/1.1 200 OK\r\n\r\n")
	go func() { _, _ = io.Copy(far, near) }()
	_, _ = io.Copy(near, far)
}
