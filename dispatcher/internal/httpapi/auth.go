package httpapi

import (
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// localCaller stands for callers of this host while there are no keys.
const localCaller = "local"

// authorised finds the key of a caller who may do what needs a scope, and refuses
// any other. A missing, a malformed and an unknown key get one and the same
// answer. A stranger is served what needs no scope, with a key that has none.
func (s *server) authorised(w *responseWriter, r *http.Request, want scope, operation string) (k key, ok bool) {
	w.call = operation
	keys := s.keys.keys()
	if keys.Empty() && !s.strangers { // local has seen to it
		w.who = localCaller
		return key{scope: scopeAdmin, name: localCaller}, true
	}
	k, known := s.caller(r, keys)
	w.who = k.name
	switch {
	case want == 0:
		return k, true
	case !known:
		w.refuse(&problem{kind: unauthorized, detail: "send a known key as Authorization: Bearer <key>"})
		return key{}, false
	case !k.scope.allows(want):
		w.refuse(&problem{kind: forbidden, detail: "this key lacks the scope " + want.String()})
		return key{}, false
	}
	if s.log.Enabled(r.Context(), slog.LevelDebug) {
		s.log.DebugContext(r.Context(), "request allowed", "key", k.name, "operation", operation)
	}
	return k, true
}

// caller finds the key that a request carries.
func (s *server) caller(r *http.Request, keys Keys) (key, bool) {
	given := r.Header["Authorization"]
	text := ""
	if len(given) == 1 {
		if scheme, rest, ok := strings.Cut(given[0], " "); ok && strings.EqualFold(scheme, "Bearer") {
			text = strings.TrimLeft(rest, " ")
		}
	}
	k, ok := keys.find(text) // also where there is none, so that it takes as long
	if ok {
		guestOf(r.Context()).trust(s.bodies.share(k.name, len(keys.keys)))
	}
	return k, ok
}

// local says why a request may not be served while there are no keys: a page
// in a browser on this host can call it under a name of its own, or as a
// stranger to it.
func local(r *http.Request) *problem {
	if !isLoopback(r.Host) {
		return &problem{kind: forbidden, detail: "without API_KEYS only requests to a loopback host (localhost, 127.0.0.1, ::1) are served"}
	}
	// A browser names no origin where a page only loads something, as an image.
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

// Local serves only requests of this host, as the API does without keys: for
// what is open, on a loopback address, to everybody there.
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
