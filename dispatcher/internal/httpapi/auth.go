package httpapi

import (
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/callers"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/api"
)

// authorised finds the caller and rejects a call that the operation's row does not allow to it:
// to a key that lacks its scope, or to a link. The response to a missing, a malformed and an
// unknown key is the same. A call that needs no scope is also served without a key.
func (s *server) authorised(w *api.ResponseWriter, r *http.Request, o *api.Operation) (k callers.APIKey, ok bool) {
	w.Call = o.ID
	if c, inside := dispatcher.BrowserOf(r.Context()); inside && c.Linked() {
		w.Who, w.By = c.By(), c.By()
		if !s.admit(w, r, callers.Link(c.View.Tenant)) {
			return callers.APIKey{}, false
		}
		if !o.ForLink(c) {
			w.Refuse(&api.Problem{Kind: api.NotFound}) // a link does not learn which other operations there are
			return callers.APIKey{}, false
		}
		return callers.APIKey{Scope: callers.Read | callers.Bodies, Name: c.By()}, true
	}
	keys := s.o.Keys.Keys()
	if keys.Empty() && !s.strangers { // only local callers are allowed
		w.Who, w.By, w.Caller = dispatcher.Local, dispatcher.Local, callers.Key(dispatcher.Local)
		return callers.APIKey{Scope: callers.Admin, Name: dispatcher.Local}, true
	}
	k, known := callerOf(r, keys)
	w.Who, w.By = k.Name, "key:"+k.Name
	who := callers.Key(k.Owner())
	if !known {
		who = callers.Address(callers.AddressOf(r))
	} else {
		w.Reserved.Own = s.o.Bodies.Share(k.Name, keys.Len())
	}
	if !s.admit(w, r, who) {
		return callers.APIKey{}, false
	}
	switch {
	case o.Scope == 0:
		return k, true
	case !known:
		w.Refuse(&api.Problem{Kind: api.Unauthorized, Detail: "send a known key as Authorization: Bearer <key>"})
		return callers.APIKey{}, false
	case !mayCall(k, r, o.Scope):
		detail := "this key lacks the scope " + o.Scope.String()
		if o.Scope == callers.Consume {
			detail += ", or consume@" + r.PathValue(takenSubject.Name) + " for this one alone"
		}
		w.Refuse(&api.Problem{Kind: api.Forbidden, Detail: detail})
		return callers.APIKey{}, false
	}
	if s.o.Log.Enabled(r.Context(), slog.LevelDebug) {
		s.o.Log.DebugContext(r.Context(), "request allowed", "key", k.Name, "operation", o.ID)
	}
	return k, true
}

// identify records the caller of a request, for all limits per caller.
func (s *server) identify(w *api.ResponseWriter, r *http.Request, who callers.Identity) error {
	w.Caller = who
	return callers.Identify(w, r, who)
}

// admit is identify, but it rejects a request beyond the caller's limits.
func (s *server) admit(w *api.ResponseWriter, r *http.Request, who callers.Identity) bool {
	err := s.identify(w, r, who)
	if err != nil {
		w.Refuse(s.problem(r.Context(), err))
	}
	return err == nil
}

// mayCall reports whether a key may make a call that needs a scope. A key may have the scope
// to take from some queues only.
func mayCall(k callers.APIKey, r *http.Request, want callers.Scope) bool {
	if want == callers.Consume {
		return k.MayTake(r.PathValue(takenSubject.Name))
	}
	return k.Scope.Allows(want)
}

// stillAllowed reports whether the caller's key still has its scope, because keys may be
// removed while a response is written.
func (s *server) stillAllowed(q *api.Request) bool {
	if c, inside := dispatcher.BrowserOf(q.HTTP.Context()); inside && c.Linked() {
		return true
	}
	keys := s.o.Keys.Keys()
	if keys.Empty() {
		return true
	}
	k, known := callerOf(q.HTTP, keys)
	return known && mayCall(k, q.HTTP, q.Operation.Scope) && (!q.Bodies || k.Scope.Allows(callers.Bodies))
}

// callerOf returns the key of a request, or the key with which its browser signed in.
func callerOf(r *http.Request, keys callers.APIKeys) (callers.APIKey, bool) {
	if c, inside := dispatcher.BrowserOf(r.Context()); inside {
		return keys.Owned(c.Key)
	}
	given := r.Header["Authorization"]
	text := ""
	if len(given) == 1 {
		if scheme, rest, ok := strings.Cut(given[0], " "); ok && strings.EqualFold(scheme, "Bearer") {
			text = strings.TrimLeft(rest, " ")
		}
	}
	return keys.Find(text) // even for an empty key, because the duration would reveal it
}

// local returns a problem if a request may not be served while there are no keys. A page in a
// browser on this host could call the API, by a name that resolves to this host or from
// another site.
func local(r *http.Request) *api.Problem {
	if !callers.IsLoopback(r.Host) {
		return &api.Problem{Kind: api.Forbidden, Detail: "without API_KEYS only requests to a loopback host (localhost, 127.0.0.1, ::1) are served"}
	}
	for name := range r.Header {
		if dispatcher.SetByProxies(name) {
			return &api.Problem{Kind: api.Forbidden, Detail: "this came through a proxy (" + name + "), so others than this host may have sent it: set API_KEYS"}
		}
	}
	// A browser sends no Origin if a page only loads something, such as an image.
	for _, site := range r.Header["Sec-Fetch-Site"] {
		if site != "same-origin" && site != "none" {
			return &api.Problem{Kind: api.Forbidden, Detail: "without API_KEYS no requests of other sites are served"}
		}
	}
	for _, origin := range r.Header["Origin"] {
		if origin == "null" && r.Header.Get("Sec-Fetch-Site") == "same-origin" {
			continue // a form of a page that sends no referrer; the console's pages do
		}
		if u, err := url.Parse(origin); err != nil || u.Host != r.Host {
			return &api.Problem{Kind: api.Forbidden, Detail: "without API_KEYS no requests of foreign origins are served"}
		}
	}
	return nil
}

// Local serves only requests of this host, like the API without keys. It is for a handler
// without keys on a loopback address.
func Local(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p := local(r); p != nil {
			p.Write(w)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// rows are the operations by their ids, for what does not depend on a process.
var rows = sync.OnceValue(func() map[string]api.Operation {
	all := map[string]api.Operation{}
	for _, o := range (&server{}).operations() {
		all[o.ID] = o
	}
	return all
})

// May reports whether a person may call an operation from the pages. These offer less to a key
// than the API: reading to the scope read, and everything else to the scope admin. known is
// false if there is no such operation.
func May(c dispatcher.Browser, operation string) (may, known bool) {
	o, known := rows()[operation]
	switch {
	case !known:
		return false, false
	case c.Linked():
		return o.ForLink(c), true
	case o.Scope == callers.Read:
		return c.Read || c.Admin, true
	}
	return c.Admin, true
}
