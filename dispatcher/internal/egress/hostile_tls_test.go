package egress_test

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"math/big"
	"net"
	"sync"
	"time"
)

// testCA is an authority of the tests' own, and the client's certificate by it.
type testCA struct {
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
	pool   *x509.CertPool
	client tls.Certificate
}

// authority is made once: keys take time.
var authority = sync.OnceValue(func() *testCA {
	ca := &testCA{key: newKey(), pool: x509.NewCertPool()}
	of := newTemplate("hostile authority")
	of.IsCA, of.BasicConstraintsValid = true, true
	of.KeyUsage = x509.KeyUsageCertSign
	ca.cert = sign(of, of, ca.key, ca.key)
	ca.pool.AddCert(ca.cert)
	ca.client = ca.issue("client.test", nil)
	return ca
})

func newKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	return key
}

func newTemplate(name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: name},
		// Bubbles of synctest live in 2000.
		NotBefore: time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC),
		NotAfter:  time.Date(2190, 1, 1, 0, 0, 0, 0, time.UTC),
	}
}

func sign(of, parent *x509.Certificate, key, parentKey *ecdsa.PrivateKey) *x509.Certificate {
	der, err := x509.CreateCertificate(rand.Reader, of, parent, &key.PublicKey, parentKey)
	if err != nil {
		panic(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		panic(err)
	}
	return cert
}

// issue makes a certificate for a name and addresses, changed before it is signed.
func (ca *testCA) issue(name string, change func(*x509.Certificate), addrs ...net.IP) tls.Certificate {
	of := newTemplate(name)
	of.DNSNames, of.IPAddresses = []string{name}, addrs
	if change != nil {
		change(of)
	}
	key := newKey()
	cert := sign(of, ca.cert, key, ca.key)
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key, Leaf: cert}
}

// hostileTLS is what the receiver does in a handshake for one name.
type hostileTLS struct {
	config  *tls.Config
	instead func(*peer) // nil: shakes hands
}

// handshakes has them by name.
var handshakes = sync.OnceValue(func() map[string]hostileTLS {
	ca := authority()
	with := func(c tls.Certificate, change func(*tls.Config)) hostileTLS {
		config := &tls.Config{Certificates: []tls.Certificate{c}, MinVersion: tls.VersionTLS10}
		if change != nil {
			change(config)
		}
		return hostileTLS{config: config}
	}
	named := func(name string, change func(*tls.Config)) hostileTLS { return with(ca.issue(name, nil), change) }
	dated := func(name string, from, to int) hostileTLS {
		return with(ca.issue(name, func(c *x509.Certificate) {
			c.NotBefore = time.Date(from, 1, 1, 0, 0, 0, 0, time.UTC)
			c.NotAfter = time.Date(to, 1, 1, 0, 0, 0, 0, time.UTC)
		}), nil)
	}
	says := func(text string) hostileTLS {
		return hostileTLS{instead: func(p *peer) { _, _ = io.WriteString(p, text) }}
	}
	self := &testCA{key: newKey()}
	self.cert = newTemplate("self.test")
	return map[string]hostileTLS{
		"good.test":    named("good.test", nil),
		"expired.test": dated("expired.test", 1990, 1999),
		"future.test":  dated("future.test", 2150, 2190),
		"wrong.test":   named("other.test", nil),
		"self.test":    with(self.issue("self.test", nil), nil),
		"tls10.test":   named("tls10.test", func(c *tls.Config) { c.MaxVersion = tls.VersionTLS10 }),
		"tls11.test":   named("tls11.test", func(c *tls.Config) { c.MaxVersion = tls.VersionTLS11 }),
		"tls12.test":   named("tls12.test", func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }),
		"h2.test":      named("h2.test", func(c *tls.Config) { c.NextProtos = []string{"h2c", "h3"} }),
		"asks.test":    named("asks.test", func(c *tls.Config) { c.ClientAuth = tls.RequestClientCert }),
		"wants.test":   named("wants.test", wanting(ca.pool, tls.VersionTLS13)),
		"wants12.test": named("wants12.test", wanting(ca.pool, tls.VersionTLS12)),
		"plain.test":   says("HTTP/1.1 400 Bad Request\r\n\r\n"),
		"mail.test":    says("220 mail.example ESMTP\r\n"),
		"garbage.test": says("\x16\x03\x03\xff\xff\x00"),
		"refuses.test": says("\x15\x03\x03\x00\x02\x02\x28"), // alert: handshake failure
		"closes.test":  {instead: func(*peer) {}},
		"resets.test":  {instead: func(p *peer) { p.tear() }},
		"hangs.test":   {instead: func(p *peer) { p.hang() }},
		"drips.test": {instead: func(p *peer) {
			tick := time.NewTicker(10 * time.Millisecond)
			defer tick.Stop()
			_, err := io.WriteString(p, "\x16\x03\x03\x40\x00")
			for ; err == nil; <-tick.C {
				_, err = io.WriteString(p, "\x02")
			}
		}},
		"floods.test": {instead: func(p *peer) { // ends with no message, as none is allowed to be so long
			_, err := io.WriteString(p, "\x16\x03\x03\x40\x00\x02\xff\xff\xff")
			for err == nil {
				_, err = io.WriteString(p, long[:0x4000])
			}
		}},
	}
})

// wanting makes a server ask for a certificate of the pool.
func wanting(pool *x509.CertPool, most uint16) func(*tls.Config) {
	return func(c *tls.Config) {
		c.MaxVersion = most
		c.ClientAuth = tls.RequireAndVerifyClientCert
		c.ClientCAs = pool
	}
}

var errInstead = errors.New("something else is done instead of a handshake")

// shake does the handshake for the name that is asked for, and reports whether
// a request may come next.
func (p *peer) shake() bool {
	conn := tls.Server(&peeked{p.Conn, p.read}, &tls.Config{
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			how := handshakes()[hello.ServerName]
			if how.config == nil {
				if how.instead != nil {
					how.instead(p)
				}
				_ = p.Close() // before an alert can say more
				return nil, errInstead
			}
			return how.config, nil
		},
	})
	if conn.Handshake() != nil {
		return false
	}
	p.Conn, p.read = conn, bufio.NewReader(conn)
	return true
}

// peeked reads what was read ahead first.
type peeked struct {
	net.Conn
	read *bufio.Reader
}

func (p *peeked) Read(b []byte) (int, error) { return p.read.Read(b) }
