package input

import (
	"errors"
	"net/url"
	"slices"
	"strings"
)

// encode is the way out of a mistyped URL.
const encode = "percent-encode / ? # @ in its user and password, as %2F %3F %23 %40"

var (
	errNoURL    = errors.New("it is not a URL")
	errUnclear  = errors.New("it is not a URL: " + encode)
	errAt       = errors.New("it has an @ behind the end of its host: " + encode)
	errFragment = errors.New("it has a #, which no such URL has: " + encode)
)

// ParseURL parses a URL with one of the schemes. Its errors have no part of the text, because net/url
// quotes the part that it does not understand, and that may be the password.
func ParseURL(text string, schemes ...string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err == nil && u.Opaque != "" && slices.Contains(schemes, u.Scheme) {
		err = errNoURL
	}
	switch {
	case err != nil && strings.Contains(text, "@"):
		return nil, errUnclear
	case err != nil:
		return nil, errNoURL
	case strayAt(text):
		return nil, errAt
	case strings.Contains(text, "#"):
		return nil, errFragment
	}
	if slices.Contains(schemes, u.Scheme) {
		return u, nil
	}
	return nil, errors.New("it must begin with " + strings.Join(schemes, ":// or ") + "://")
}

// strayAt reports whether an @ is behind the end of the host. Then a / ? or # before it is likely a
// part of the password, and what looks like a host, a port or a path is another part of it.
func strayAt(text string) bool {
	_, rest, _ := strings.Cut(text, "//")
	end := strings.IndexAny(rest, "/?#")
	return end >= 0 && strings.Contains(rest[end:], "@")
}

// Hidden is printed instead of a URL that can't be printed in part.
const Hidden = "(set, not a URL)"

// URLText returns a URL for people, without its user, password and query, because a query may have a
// token. It returns Hidden if it is not sure which part is which.
func URLText(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Scheme == "" || u.Opaque != "" || u.Host == "" && u.Path == "" || strayAt(text) || strings.ContainsAny(text, "#\\") {
		return Hidden
	}
	safe := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}
	if u.User != nil {
		safe.User = url.User("...")
	}
	return safe.String()
}

// Cause returns the cause of an error of a call without the URL of the call. It also removes the
// URL of a proxy that package http could not read in the environment.
func Cause(err error) error {
	var at *url.Error
	if errors.As(err, &at) {
		err = at.Err
	}
	if err != nil && strings.Contains(err.Error(), "invalid proxy address") {
		return errors.New("HTTP_PROXY or HTTPS_PROXY is not the URL of a proxy")
	}
	return err
}
