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

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher/internal/input"
)

// redisURL is a parsed REDIS_URL.
type redisURL struct {
	url   *url.URL
	query url.Values
	roots *x509.CertPool // trusted in addition to the system's; nil: none
}

func readURL(text, caFile string) (*redisURL, error) {
	parsed, err := input.ParseURL(text, "redis", "rediss", "unix")
	if err != nil {
		return nil, fmt.Errorf("bad REDIS_URL: %w", err)
	}
	u := &redisURL{url: parsed, query: parsed.Query()}
	if _, err := u.options(append(slices.Clip(ofOneKind), "skip_verify")...); err != nil {
		return nil, err
	}
	if caFile != "" {
		if parsed.Scheme != "rediss" {
			return nil, errors.New("REDIS_CA_FILE needs a REDIS_URL that begins with rediss://")
		}
		if u.roots, err = input.LoadRoots(caFile); err != nil {
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

// options returns what go-redis reads from the URL, except the parameters in without. Its errors do
// not quote go-redis, which repeats what it does not understand.
func (u *redisURL) options(without ...string) (*redis.Options, error) {
	if path := strings.Trim(u.url.Path, "/"); u.url.Scheme != "unix" && strings.Trim(path, "0123456789") != "" {
		return nil, errors.New("bad REDIS_URL: what is behind its host is not the number of a database: percent-encode / ? # @ in its user and password, as %2F %3F %23 %40")
	}
	o, err := redis.ParseURL(u.text(without...))
	if err != nil {
		return nil, errParameter
	}
	return o, nil
}

// errParameter is the error of a URL whose parts are in their places.
var errParameter = fmt.Errorf("%w: bad REDIS_URL: it has a parameter that go-redis does not know in this mode, or a wrong value of one", ErrSettings)

// CheckURL returns an error if a URL can't be used in any mode. The error has no part of the URL.
func CheckURL(text string) error {
	_, err := readURL(text, "")
	return err
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
