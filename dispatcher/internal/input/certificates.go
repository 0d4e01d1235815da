package input

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"strings"
)

// The types of PEM blocks.
const (
	pemCertificate = "CERTIFICATE"
	pemKey         = "PRIVATE KEY" // the suffix of all its types
)

// LoadRoots reads the certificates of authorities from a PEM file, and adds them to the
// system's roots, because one client calls internal and public servers.
func LoadRoots(path string) (*x509.CertPool, error) {
	system, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("the system's certificates: %w", err)
	}
	certs, err := loadCertificates(path)
	if err != nil {
		return nil, err
	}
	for _, c := range certs {
		system.AddCert(c)
	}
	return system, nil
}

// LoadCertificate reads the client certificate, its intermediate certificates and its
// private key from two PEM files. It is shown to servers that ask for one.
func LoadCertificate(certFile, keyFile string) ([]tls.Certificate, error) {
	if certFile == "" || keyFile == "" {
		return nil, errors.New("a client certificate needs two files: the certificate and its private key")
	}
	certs, err := loadCertificates(certFile)
	if err != nil {
		return nil, err
	}
	key, err := loadKey(keyFile)
	if err != nil {
		return nil, err
	}
	var chain []byte
	for _, c := range certs {
		chain = append(chain, pem.EncodeToMemory(&pem.Block{Type: pemCertificate, Bytes: c.Raw})...)
	}
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		// The likeliest cause is the key of another certificate.
		return nil, fmt.Errorf("%s with the key in %s: %w", certFile, keyFile, err)
	}
	return []tls.Certificate{pair}, nil
}

// loadCertificates reads all certificates of a file, at least one.
func loadCertificates(path string) ([]*x509.Certificate, error) {
	blocks, err := loadPEM(path)
	if err != nil {
		return nil, err
	}
	var certs []*x509.Certificate
	for _, b := range blocks {
		if b.Type != pemCertificate {
			continue
		}
		c, err := x509.ParseCertificate(b.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s: certificate %d: %w", path, len(certs)+1, err)
		}
		certs = append(certs, c)
	}
	if len(certs) == 0 {
		return nil, fmt.Errorf("%s: holds no certificate, but %s", path, kinds(blocks))
	}
	return certs, nil
}

// loadKey reads the private key of a file and returns it as PEM.
func loadKey(path string) ([]byte, error) {
	blocks, err := loadPEM(path)
	if err != nil {
		return nil, err
	}
	for _, b := range blocks {
		switch {
		case !strings.HasSuffix(b.Type, pemKey):
		case strings.Contains(b.Type, "ENCRYPTED") || strings.Contains(b.Headers["Proc-Type"], "ENCRYPTED"):
			return nil, fmt.Errorf("%s: the private key is encrypted: decrypt it first", path)
		default:
			return pem.EncodeToMemory(b), nil
		}
	}
	return nil, fmt.Errorf("%s: holds no private key, but %s", path, kinds(blocks))
}

// loadPEM reads the blocks of a file, at least one.
func loadPEM(path string) ([]*pem.Block, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err // has the path
	}
	var blocks []*pem.Block
	for b, rest := pem.Decode(text); b != nil; b, rest = pem.Decode(rest) {
		blocks = append(blocks, b)
	}
	switch {
	case len(blocks) > 0:
		return blocks, nil
	case len(bytes.TrimSpace(text)) == 0:
		return nil, fmt.Errorf("%s: is empty", path)
	default:
		return nil, fmt.Errorf("%s: holds no PEM block (-----BEGIN …-----)", path)
	}
}

// kinds lists the types of blocks, without their content.
func kinds(blocks []*pem.Block) string {
	var all []string
	for _, b := range blocks {
		all = append(all, fmt.Sprintf("%.40q", b.Type))
	}
	return strings.Join(all[:min(len(all), 3)], ", ")
}
