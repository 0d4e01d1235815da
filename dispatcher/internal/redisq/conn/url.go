package conn

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/hookladder/hookladder/dispatcher/internal/trust"
)

// redisURL is a parsed REDIS_URL.
type redisURL struct {
	url   *url.URL
	query url.Values
	roots *x509.CertPool // trusted in addition to the system's; nil: none
}

func readURL(text, caFile string) (*redisURL, error) {
	parsed, err := url.Parse(text)
	if err != nil {
		return nil, withoutURL(err)
	}
	u := &redisURL{url: parsed, query: parsed.Query()}
	if caFile != "" {
		if parsed.Scheme != "rediss" {
			return nil, errors.New("REDIS_CA_FILE needs a REDIS_URL that begins with rediss://")
		}
		if u.roots, err = trust.LoadRoots(caFile); err != nil {
			return nil, fmt.Errorf("REDIS_CA_FILE: %w", err)
		}
	}
	return u, nil
}

// text returns the URL without some of its parameters.
func (u *redisURL) text(without ...string) string {
	left := *u.url
	query := left.Query()
	for _, name := range without {
		query.Del(name)
	}
	left.RawQuery = query.Encode()
	return left.String()
}

// where returns the addresses.
func (u *redisURL) where() string {
	if u.url.Scheme == "unix" {
		return u.url.Path
	}
	host, port := u.url.Hostname(), u.url.Port()
	if port == "" {
		port = "6379"
	}
	if host == "" {
		host = "localhost"
	}
	return strings.Join(slices.Concat([]string{net.JoinHostPort(host, port)}, u.query["addr"]), ", ")
}

// secure sets the certificates that TLS trusts. A nil config means no TLS.
func secure(c *tls.Config, u *redisURL) {
	if c == nil {
		return
	}
	c.MinVersion = tls.VersionTLS12
	c.RootCAs = u.roots
	c.InsecureSkipVerify = c.InsecureSkipVerify || u.query.Get("skip_verify") == "true" // go-redis reads it for one kind of client only
}

// withoutURL removes the URL from an error, because it may contain a password.
func withoutURL(err error) error {
	var parse *url.Error
	if errors.As(err, &parse) {
		err = parse.Err
	}
	return fmt.Errorf("bad REDIS_URL: %w", err)
}
