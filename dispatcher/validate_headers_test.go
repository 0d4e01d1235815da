package dispatcher_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

// forgingHeaders are the lists of others: the headers that proxies set or remove, and those
// that receivers' libraries believe. A list is as its document has it, unless a remark
// says which kind of name is left out.
var forgingHeaders = map[string][]string{
	// All that Envoy removes or replaces in a request of a stranger.
	"https://www.envoyproxy.io/docs/envoy/latest/configuration/http/http_conn_man/header_sanitizing": {
		"x-envoy-decorator-operation", "x-envoy-downstream-service-cluster", "x-envoy-downstream-service-node",
		"x-envoy-expected-rq-timeout-ms", "x-envoy-external-address", "x-envoy-force-trace", "x-envoy-internal", "x-envoy-ip-tags",
		"x-envoy-max-retries", "x-envoy-retry-grpc-on", "x-envoy-retry-on", "x-envoy-upstream-alt-stat-name",
		"x-envoy-upstream-rq-per-try-timeout-ms", "x-envoy-upstream-rq-timeout-alt-response", "x-envoy-upstream-rq-timeout-ms",
		"x-envoy-upstream-stream-duration-ms", "x-forwarded-client-cert", "x-forwarded-for", "x-forwarded-proto", "x-request-id", "referer",
	},
	// What a widely used library looks for, until it has the client's address.
	"https://github.com/pbojinov/request-ip": {
		"X-Client-IP", "X-Forwarded-For", "CF-Connecting-IP", "Fastly-Client-Ip", "True-Client-Ip", "X-Real-IP", "X-Cluster-Client-IP",
		"X-Forwarded", "Forwarded-For", "Forwarded", "appengine-user-ip", "Cf-Pseudo-IPv4",
	},
	// Its headers that name the client or the way.
	"https://developers.cloudflare.com/fundamentals/reference/http-headers/": {
		"CF-Connecting-IP", "CF-Connecting-IPv6", "CF-Pseudo-IPv4", "True-Client-IP", "X-Forwarded-For", "X-Forwarded-Proto",
	},
	"https://www.fastly.com/documentation/reference/http/http-headers/Fastly-Client-IP": {"Fastly-Client-IP"},
	// Headers that name the client, and the user whom the proxy signed in.
	"https://fly.io/docs/networking/request-headers/":                                              {"Fly-Client-IP", "X-Forwarded-For", "Via"},
	"https://learn.microsoft.com/en-us/azure/frontdoor/front-door-http-headers-protocol":           {"X-Azure-ClientIP", "X-Azure-SocketIP", "X-Azure-FDID", "Via"},
	"https://kubernetes.github.io/ingress-nginx/user-guide/nginx-configuration/configmap/":         {"X-Original-Forwarded-For"},
	"https://www.rfc-editor.org/rfc/rfc8586":                                                       {"CDN-Loop"},
	"https://developers.cloudflare.com/cloudflare-one/access-controls/applications/http-apps/":     {"Cf-Access-Jwt-Assertion", "Cf-Access-Authenticated-User-Email"},
	"https://cloud.google.com/iap/docs/identity-howto":                                             {"X-Goog-IAP-JWT-Assertion", "X-Goog-Authenticated-User-Email", "X-Goog-Authenticated-User-ID"},
	"https://kubernetes.io/docs/reference/access-authn-authz/authentication/#authenticating-proxy": {"X-Remote-User"},
	// The registered ones for proxies.
	"https://www.rfc-editor.org/rfc/rfc7239": {"Forwarded"},
	"https://www.rfc-editor.org/rfc/rfc9110": {"Via", "Proxy-Authorization", "Proxy-Authenticate", "Proxy-Authentication-Info"},
	// CGI turns it into HTTP_PROXY, which many libraries obey.
	"https://httpoxy.org/": {"Proxy"},
	// The example of a proxy that names the client in another header.
	"https://www.yiiframework.com/doc/guide/2.0/en/runtime-requests": {"X-ProxyUser-Ip"},
	// Names of the client that attackers try, and the lists above do not have.
	"https://gist.github.com/SeanPesce/867c408736d891ee39b498fa92e36876": {"Client-IP", "Proxy-Client-IP"},
	// Frameworks take these for the URL and the method.
	"https://github.com/advisories/GHSA-8wgj-6wx8-h5hq":   {"X-Original-URL", "X-Rewrite-URL"},
	"https://github.com/expressjs/method-override#readme": {"X-HTTP-Method", "X-HTTP-Method-Override", "X-Method-Override"},
}

// allowedHeaders are in one of the lists, though a message may have them: they name
// neither a client nor a way.
var allowedHeaders = []string{"x-request-id", "referer"}

func TestHeadersThatForgeTheWayAreRefused(t *testing.T) {
	names := []string{"client_ip", "X_Real_IP", "PROXY", "true.client.ip"} // CGI reads them as the names with dashes
	for _, list := range forgingHeaders {
		names = append(names, list...)
	}
	for _, name := range names {
		own := []dispatcher.Header{{Name: name, Value: "1.2.3.4"}}
		message := validMessage()
		message.Headers = own
		endpoint := newTestEndpoint(func(e *dispatcher.Endpoint) { e.Headers = own })
		if slices.Contains(allowedHeaders, name) {
			require.Empty(t, message.Validate(validateLimits()), name)
			require.Empty(t, endpoint.Validate(validateLimits()), name)
			continue
		}
		for of, found := range map[string][]dispatcher.FieldError{"message": message.Validate(validateLimits()), "endpoint": endpoint.Validate(validateLimits())} {
			require.Len(t, found, 1, "%s of a %s", name, of)
			require.Contains(t, found[0].Detail, "can't be set", "%s of a %s", name, of)
		}
	}
}
