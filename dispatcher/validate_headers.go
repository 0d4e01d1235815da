package dispatcher

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/textproto"
	"slices"
	"strings"

	"github.com/hookladder/hookladder/dispatcher/internal/input"
)

// ownHeaders are the names that no message may set, in lower case: headers that frame a request,
// hop-by-hop headers, and headers that Hookladder sets.
var ownHeaders = map[string]string{
	"host":                "the URL names the host",
	"content-length":      "the body has it",
	"transfer-encoding":   "it frames the request",
	"connection":          "it belongs to one hop",
	"keep-alive":          "it belongs to one hop",
	"te":                  "it belongs to one hop",
	"trailer":             "it frames the request",
	"upgrade":             "it belongs to one hop",
	"http2-settings":      "it belongs to one hop",
	"expect":              "no request waits for 100",
	"accept-encoding":     "it is always identity",
	"cookie":              "no session is kept",
	"content-type":        "use content_type",
	"user-agent":          "it is ours",
	"traceparent":         "the endpoint's trace sends it",
	"tracestate":          "no state of a trace is sent",
	"baggage":             "no state of a trace is sent",
	"x-signature":         "it is ours",
	"stripe-signature":    "it is ours",
	"x-hub-signature-256": "it is ours",
}

// forgedHeaders are names that describe another request than this one, in lower case. Receivers
// trust them because a proxy before them sets or removes them. With forgedPrefixes they are the
// only list of such names. TestHeadersThatForgeTheWayAreRefused has the documents that list them.
var forgedHeaders = map[string]string{
	"forwarded":     "it is for proxies",
	"forwarded-for": "it is for proxies",
	"x-forwarded":   "it is for proxies",
	"via":           "it is for proxies",
	"cdn-loop":      "it is for proxies",
	"x-azure-fdid":  "it is for proxies",
	"proxy":         "CGI makes the setting HTTP_PROXY of it",

	"x-original-url":         "the URL says it",
	"x-rewrite-url":          "the URL says it",
	"x-http-method":          "it is always POST",
	"x-http-method-override": "it is always POST",
	"x-method-override":      "it is always POST",

	"appengine-user-ip":   "proxies name the client in it",
	"cf-connecting-ip":    "proxies name the client in it",
	"cf-connecting-ipv6":  "proxies name the client in it",
	"cf-pseudo-ipv4":      "proxies name the client in it",
	"client-ip":           "proxies name the client in it",
	"fastly-client-ip":    "proxies name the client in it",
	"fly-client-ip":       "proxies name the client in it",
	"true-client-ip":      "proxies name the client in it",
	"x-azure-clientip":    "proxies name the client in it",
	"x-azure-socketip":    "proxies name the client in it",
	"x-client-ip":         "proxies name the client in it",
	"x-cluster-client-ip": "proxies name the client in it",
	"x-proxyuser-ip":      "proxies name the client in it",
	"x-real-ip":           "proxies name the client in it",
	"x-remote-user":       "proxies name the user in it",

	"x-original-forwarded-for": "proxies name the client in it",
}

// forgedPrefixes are prefixes of such names. A receiver behind Envoy trusts x-envoy-* because Envoy
// removes it from external requests; cf-access-* and x-goog-* name the user that a proxy signed in.
var forgedPrefixes = []string{"cf-access-", "proxy-", "x-envoy-", "x-forwarded-", "x-goog-authenticated-user-", "x-goog-iap-"}

// ownPrefixes are prefixes of our own names. Some libraries read svix-* before webhook-*.
var ownPrefixes = []string{"webhook-", "hookladder-", "svix-"}

// reservedPrefixes are both.
var reservedPrefixes = slices.Concat(ownPrefixes, forgedPrefixes)

// proxied has the names of forgedHeaders as http.Header writes them, and proxiedPrefixes the
// prefixes.
var proxied, proxiedPrefixes = func() (names map[string]bool, prefixes []string) {
	names = map[string]bool{}
	for name := range forgedHeaders {
		names[textproto.CanonicalMIMEHeaderKey(name)] = true
	}
	for _, p := range forgedPrefixes {
		prefixes = append(prefixes, textproto.CanonicalMIMEHeaderKey(p))
	}
	return names, prefixes
}()

// SetByProxies reports whether proxies set a header, as http.Header writes its name. A request
// that has one was probably sent by another host than the one that it comes from.
func SetByProxies(name string) bool {
	return proxied[name] || slices.ContainsFunc(proxiedPrefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}

// HeaderPrefix is the prefix of the headers that describe an attempt. The zero value is
// DefaultHeaderPrefix.
type HeaderPrefix string

// DefaultHeaderPrefix is always reserved.
const DefaultHeaderPrefix HeaderPrefix = "hookladder-"

// headerEndings follow the prefix in the names of our headers.
var headerEndings = []string{"topic", "attempt", "tenant", "resend"}

// foreignPrefixes are prefixes with a meaning for other software.
var foreignPrefixes = []string{"webhook-", "svix-", "proxy-", "content-", "sec-"}

// ParseHeaderPrefix parses a prefix: 2 to 32 of a-z, 0-9 and -, with - at its end.
func ParseHeaderPrefix(text string) (HeaderPrefix, error) {
	if len(text) < 2 || len(text) > 32 || strings.Trim(text, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" || !strings.HasSuffix(text, "-") {
		return "", errors.New("must be 2 to 32 of a-z, 0-9 and -, with - at its end")
	}
	for _, p := range foreignPrefixes {
		if strings.HasPrefix(text, p) {
			return "", fmt.Errorf("must not begin with %s: such headers mean something else", p)
		}
	}
	return HeaderPrefix(text), nil
}

// CallbackHeaders are the names of the headers that describe an attempt, as http.Header writes
// them.
type CallbackHeaders struct{ Topic, Attempt, Tenant, Resend string }

// Headers returns the names that begin with the prefix.
func (p HeaderPrefix) Headers() CallbackHeaders {
	name := func(ending int) string {
		return textproto.CanonicalMIMEHeaderKey(string(cmp.Or(p, DefaultHeaderPrefix)) + headerEndings[ending])
	}
	return CallbackHeaders{Topic: name(0), Attempt: name(1), Tenant: name(2), Resend: name(3)}
}

// CheckName returns an error if a message or an endpoint may not set a header of this name.
// Hookladder's own headers begin with the prefix.
func (p HeaderPrefix) CheckName(name string) error {
	if err := CheckHeaderName(name); err != nil {
		return err
	}
	if ending, ok := strings.CutPrefix(asRead(name), string(cmp.Or(p, DefaultHeaderPrefix))); ok && slices.Contains(headerEndings, ending) {
		return errors.New("can't be set: it is ours, by HEADER_PREFIX")
	}
	return nil
}

// CheckHeaderName returns an error if a message or an endpoint may not set a header of this name.
func CheckHeaderName(name string) error {
	if !isToken(name) {
		return fmt.Errorf("is not a header's name: %s", input.Clip(name))
	}
	lower := asRead(name)
	if why := cmp.Or(ownHeaders[lower], forgedHeaders[lower]); why != "" {
		return fmt.Errorf("can't be set: %s", why)
	}
	for _, p := range reservedPrefixes {
		if strings.HasPrefix(lower, p) {
			return fmt.Errorf("can't be set: names that begin with %s are reserved", p)
		}
	}
	return nil
}

// ReservedHeaders returns the names that no message and no endpoint may set, in order. A name
// that ends with * covers all names with this prefix.
func ReservedHeaders() []string {
	names := slices.Concat(slices.Collect(maps.Keys(ownHeaders)), slices.Collect(maps.Keys(forgedHeaders)))
	for _, p := range reservedPrefixes {
		names = append(names, p+"*")
	}
	slices.Sort(names)
	return names
}

// asRead returns the name as CGI, WSGI and similar interfaces read it. They treat webhook_id,
// webhook.id and webhook-id as one name.
func asRead(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case 'A' <= r && r <= 'Z':
			return r + 'a' - 'A'
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9':
			return r
		}
		return '-'
	}, name)
}

// CheckHeaderValue returns an error if a header may not have this value. A value with a control
// character would fail when it is sent. A value with space around it would be sent without the
// space.
func CheckHeaderValue(value string) error {
	for i := range len(value) {
		if value[i] < ' ' || value[i] == 0x7f {
			return fmt.Errorf("must not hold control characters")
		}
	}
	if value != strings.Trim(value, " ") {
		return fmt.Errorf("must not begin or end with a space")
	}
	return nil
}

// CheckUserAgent returns an error if calls may not use this name.
func CheckUserAgent(text string) error {
	if len(text) < 1 || len(text) > 256 || CheckHeaderValue(text) != nil || strings.ContainsFunc(text, func(r rune) bool { return r > '~' }) {
		return errors.New("must be 1 to 256 printable ASCII characters")
	}
	return nil
}

// headers checks all headers of a message.
func (f *faults) headers(hs []Header, prefix HeaderPrefix) {
	if len(hs) == 0 {
		return
	}
	if len(hs) > MaxHeaders {
		f.add("$.headers", fmt.Sprintf("has %d headers, at most %d are taken", len(hs), MaxHeaders))
		return // otherwise each of a thousand would be one error
	}
	size := 0
	for i, h := range hs {
		size += len(h.Name) + len(h.Value)
		if err := prefix.CheckName(h.Name); err != nil {
			f.add(headerPath(h.Name), err.Error())
			continue
		}
		f.check(headerPath(h.Name), CheckHeaderValue(h.Value))
		for _, before := range hs[:i] {
			if strings.EqualFold(before.Name, h.Name) {
				f.add(headerPath(h.Name), "is there twice: upper and lower case are one name")
				break
			}
		}
	}
	if size > maxHeaderBytes {
		f.add("$.headers", fmt.Sprintf("has %d bytes, at most %d are taken", size, maxHeaderBytes))
	}
}

// headerPath returns the path of a header in the message.
func headerPath(name string) string {
	if !isToken(name) {
		return "$.headers"
	}
	return "$.headers" + input.Member(name)
}

// isToken reports whether s is a token of RFC 9110, as a header's name must be.
func isToken(s string) bool {
	for i := range len(s) {
		if c := s[i]; c > 0x7f || !input.IsWordByte(c) && !strings.ContainsRune("!#$%&'*+.^`|~", rune(c)) {
			return false
		}
	}
	return s != ""
}
