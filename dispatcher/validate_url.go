package dispatcher

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"github.com/hookladder/hookladder/dispatcher/internal/input"
)

const (
	maxURL   = 2048
	maxHost  = 253 // of a name in the DNS
	maxLabel = 63  // of one of its labels
)

var (
	errUnsigned = errors.New("a bare URL needs a secret to sign with: set SIGNING_SECRET")
	errPlain    = errors.New("must be https (HTTPS_ONLY)")
)

// ParseURL parses the URL of a destination. It accepts less than url.Parse: only URLs that every
// client, proxy and log reads in the same way. So no other host than the checked one is called.
func ParseURL(raw string) (*url.URL, error) {
	if len(raw) > maxURL {
		return nil, fmt.Errorf("has %d bytes, at most %d are taken", len(raw), maxURL)
	}
	if err := checkURLText(raw); err != nil {
		return nil, err
	}
	u, err := url.Parse(raw)
	if err != nil {
		// url.Parse returns the URL in its error, and it may contain a token.
		return nil, errors.New("is not a URL")
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("must be absolute and begin with http:// or https://")
	case u.Opaque != "" || u.Host == "":
		return nil, errors.New("has no host")
	case u.User != nil:
		return nil, errors.New("must not hold a user or password; use headers")
	}
	if err := checkPort(u); err != nil {
		return nil, err
	}
	if err := checkHost(u); err != nil {
		return nil, err
	}
	return u, nil
}

// checkURLText refuses characters that parsers read in different ways.
func checkURLText(raw string) error {
	foreign := false
	for i := range len(raw) {
		switch c := raw[i]; {
		case c < ' ' || c == 0x7f:
			return errors.New("must not hold control characters")
		case c == ' ' || c == '\\':
			return errors.New("must not hold spaces or backslashes")
		case c == '#':
			return errors.New("must not have a fragment: it would never be sent")
		case c > 0x7f:
			foreign = true
		}
	}
	host := authority(raw)
	for i := range len(host) {
		if host[i] > 0x7f {
			return errors.New("must have an ASCII host: write the name in punycode, as xn--…")
		}
	}
	switch {
	case strings.Contains(host, "%"):
		return errors.New("must not have a percent sign in its host")
	case foreign:
		return errors.New("must be ASCII: percent-encode the rest")
	}
	return nil
}

// authority returns the part of a URL with user, host and port.
func authority(raw string) string {
	_, rest, ok := strings.Cut(raw, "//")
	if !ok {
		return ""
	}
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		rest = rest[:i]
	}
	return rest
}

// checkPort accepts 1 to 65535 without leading zeros, or no port. A port in two forms would have
// two lanes.
func checkPort(u *url.URL) error {
	port := u.Port()
	if port == "" {
		if strings.HasSuffix(u.Host, ":") {
			return errors.New("has an empty port")
		}
		return nil
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 || port[0] == '0' {
		return errors.New("must have a port of 1 to 65535")
	}
	return nil
}

// checkHost accepts a name or an address in its usual form.
func checkHost(u *url.URL) error {
	host := u.Hostname()
	if strings.HasPrefix(u.Host, "[") {
		return checkIPv6(host)
	}
	if host == "" {
		return errors.New("has no host")
	}
	host, complete := strings.CutSuffix(host, ".") // RFC 3986, section 3.2.2: the name is complete
	if len(host) > maxHost {
		return fmt.Errorf("has a host of %d bytes, at most %d are taken", len(host), maxHost)
	}
	last := ""
	for rest, more := host, true; more; {
		last, rest, more = strings.Cut(rest, ".")
		switch {
		case last == "":
			return errors.New("has an empty label in its host: a dot too many")
		case len(last) > maxLabel:
			return fmt.Errorf("has a label of %d bytes in its host, at most %d are taken", len(last), maxLabel)
		case !input.IsWord(last):
			return errors.New("has a host with other characters than letters, digits, dots and dashes")
		}
	}
	// Some resolvers read 127.1, 0x7f.1 and 2130706433 as addresses, others as names. A valid
	// name never ends with a number.
	if numeric(last) {
		if _, err := netip.ParseAddr(host); err != nil || complete {
			return errors.New("has a host that looks like an address but is none: write four decimal numbers")
		}
	}
	return nil
}

// checkIPv6 accepts only the form of RFC 5952, in any case, because an address in two forms
// would have two lanes.
func checkIPv6(host string) error {
	a, err := netip.ParseAddr(host)
	switch {
	case err != nil: // url.Parse accepts only an IPv6 address here
		return errors.New("is not a URL")
	case a.Is4In6():
		return fmt.Errorf("is an IPv4-mapped IPv6 address: write %s", a.Unmap())
	case !strings.EqualFold(a.String(), host):
		return fmt.Errorf("has an IPv6 address in an unusual form: write [%s]", a)
	default:
		return nil
	}
}

// numeric reports whether a label is a decimal or hexadecimal number.
func numeric(label string) bool {
	if strings.Trim(label, "0123456789") == "" {
		return true
	}
	hex, ok := strings.CutPrefix(strings.ToLower(label), "0x")
	return ok && strings.Trim(hex, "0123456789abcdef") == ""
}

// mostPassed limits the memory of the cache. A full cache is cleared at once, which costs one
// more parse of each URL.
const mostPassed = 10_000

// Passed caches URLs that passed all limits of one Policy, which must not change. Most messages
// go to known URLs, and the check of a URL and its host is the most expensive part of the
// validation.
type Passed struct {
	mu    sync.RWMutex // guards known
	known map[string]struct{}
}

func (p *Passed) has(raw string) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	_, ok := p.known[raw]
	return ok
}

// Clear forgets all URLs, because CheckURL may judge some of them differently now.
func (p *Passed) Clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known = nil
}

// add caches a URL.
func (p *Passed) add(raw string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known == nil || len(p.known) >= mostPassed {
		p.known = map[string]struct{}{}
	}
	p.known[raw] = struct{}{}
}
