package httpapi

import (
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/apikey"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/guests"
)

// localCaller is the name of every caller while there are no keys.
const localCaller = "local"

// authorised finds the caller's key and refuses a call that needs a scope which
// the key lacks. The answer to a missing, a malformed and an unknown key is the
// same. A call that needs no scope is served without a key too.
func (s *server) authorised(w *responseWriter, r *http.Request, want apikey.Scope, operation string) (k apikey.Key, ok bool) {
	w.call = operation
	keys := s.keys.Keys()
	if keys.Empty() && !s.strangers { // only local callers get here
		w.who = localCaller
		return apikey.Key{Scope: apikey.Admin, Name: localCaller}, true
	}
	k, known := callerOf(r, keys)
	w.who = k.Name
	if known {
		guests.Of(r.Context()).Trust()
		w.held.own = s.bodies.share(k.Name, keys.Len())
	}
	switch {
	case want == 0:
		return k, true
	case !known:
		w.refuse(&problem{kind: unauthorized, detail: "send a known key as Authorization: Bearer <key>"})
		return apikey.Key{}, false
	case !k.Scope.Allows(want):
		w.refuse(&problem{kind: forbidden, detail: "this key lacks the scope " + want.String()})
		return apikey.Key{}, false
	}
	if s.log.Enabled(r.Context(), slog.LevelDebug) {
		s.log.DebugContext(r.Context(), "request allowed", "key", k.Name, "operation", operation)
	}
	return k, true
}

// stillAllowed reports whether the caller's key still has its scope: keys may be taken
// away while an answer lasts.
func (s *server) stillAllowed(q *request) bool {
	keys := s.keys.Keys()
	if keys.Empty() {
		return true
	}
	k, known := callerOf(q.r, keys)
	return known && k.Scope.Allows(q.of.scope) && (!q.bodies || k.Scope.Allows(apikey.Bodies))
}

// callerOf finds the key that a request carries.
func callerOf(r *http.Request, keys apikey.Keys) (apikey.Key, bool) {
	given := r.Header["Authorization"]
	text := ""
	if len(given) == 1 {
		if scheme, rest, ok := strings.Cut(given[0], " "); ok && strings.EqualFold(scheme, "Bearer") {
			text = strings.TrimLeft(rest, " ")
		}
	}
	return keys.Find(text) // even an empty one, so that the time tells nothing
}

// local says why a request may not be served while there are no keys. A page in a
// browser on this host could call the API, by a name that leads here or from
// another site.
func local(r *http.Request) *problem {
	if !isLoopback(r.Host) {
		return &problem{kind: forbidden, detail: "without API_KEYS only requests to a loopback host (localhost, 127.0.0.1, ::1) are served"}
	}
	// A browser sends no Origin for what a page only loads, such as an image.
	for _, site := range r.Header["Sec-Fetch-Site"] {
		if site != "same-origin" && site != "none" {
			return &problem{kind: forbidden, detail: "without API_KEYS no requests of other sites are served"}
		}
	}
	for _, origin := range r.Header["Origin"] {
		if u, err := url.Parse(origin); err != nil || u.Host != r.Host {
			return &problem{kind: forbidden, detail: "without API_KEYS no requests of foreign origins are served"}
		}
	}
	return nil
}

// Local serves only requests of this host, as the API does without keys. It is for
// a handler without keys on a loopback address.
func Local(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p := local(r); p != nil {
			p.write(w)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// isLoopback reports whether a Host header names this host and nothing else.
func isLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	} else {
		host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}
