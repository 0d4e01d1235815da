package dispatcher

import (
	"fmt"
	"net/url"
	"strings"
)

// redirectShown is the most of a redirect's target that is shown: enough to see
// http become https, or a path that moved.
const redirectShown = 200

// redirectFault says whither an answer leads, for a URL that was registered wrong.
func redirectFault(status int, location string) string {
	to := redirectTarget(location)
	if to != "" {
		to = " to " + to
	}
	return fmt.Sprintf("status %d%s: redirects are not followed", status, to)
}

// redirectTarget is a Location without what may open something: user, query and
// fragment. All of it is a stranger's, and is shown to people: it is printable
// ASCII, and no longer than redirectShown.
func redirectTarget(location string) string {
	u, err := url.Parse(location)
	if err != nil || u.Opaque != "" {
		return ""
	}
	bare := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}
	var b strings.Builder
	for _, c := range []byte(bare.String()) {
		if b.Len() >= redirectShown {
			return b.String()[:redirectShown] + "..."
		}
		if c <= ' ' || c > '~' {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// logged is what went wrong with an attempt as a log may have it: the target of a
// redirect is often the receiver's own URL, and its path may be a secret.
func logged(a Attempt) string {
	if a.Class == ClassStatus && a.Status >= 300 && a.Status <= 399 {
		return redirectFault(a.Status, "")
	}
	return a.Error
}
