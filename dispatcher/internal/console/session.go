package console

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/callers"
)

const (
	// wrongKeys is how many unknown keys an address may try in a minute.
	wrongKeys = 10
	// mostAddresses limits the addresses with their own counter. All others share one.
	mostAddresses = 10_000
)

// cookie returns the name of the session cookie. With https the prefix __Host- makes
// browsers bind it to this host and to https.
func (s *server) cookie() string {
	if s.secure {
		return "__Host-hookladder"
	}
	return "hookladder"
}

func (s *server) setCookie(w http.ResponseWriter, r *http.Request, value string) {
	c := &http.Cookie{ // it ends with the browser; the session ends in the store after it is unused
		Name: s.cookie(), Value: value, Path: "/", // __Host- needs this path, and its binding to the host is worth more
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: s.secure || r.TLS != nil,
	}
	if value == "" {
		c.MaxAge = -1
	}
	http.SetCookie(w, c)
}

// operator returns the visitor of a session cookie. Without a session the visitor is the
// zero value. An error says that the session is unknown.
func (s *server) operator(ctx context.Context, r *http.Request) (v Visitor, err error) {
	if s.Keyless() {
		return Visitor{Key: &dispatcher.Browser{Name: "local", Key: "local", Read: true, Bodies: true, Admin: true}}, nil
	}
	c, err := r.Cookie(s.cookie())
	if err != nil || c.Value == "" {
		return v, nil
	}
	session, err := s.Sessions.Get(ctx, c.Value)
	if errors.Is(err, dispatcher.ErrNoSession) {
		return v, nil
	}
	if err != nil {
		return v, err
	}
	if key, ok := s.Owned(session.Key); ok { // the key as it is now; a removed key gives no rights
		v.Key = &key
	}
	return v, nil
}

// signInForm is the data of the sign-in page.
type signInForm struct {
	To    string // where the browser goes after signing in
	Wrong string // why signing in failed
}

// wrongSignIns are the reasons why signing in failed, by the word in the URL of the
// redirect. They are in the URL because the browser has no session that could store a page.
var wrongSignIns = map[string]struct {
	status int
	text   string
}{
	"key":   {http.StatusUnauthorized, "There is no such key."},
	"scope": {http.StatusForbidden, "This key lacks the scope read, so there is nothing that it may see."},
	"many":  {http.StatusTooManyRequests, "Too many wrong keys from this address. Wait a minute, and try again."},
	"often": {http.StatusTooManyRequests, "Too many people signed in with this key just now. Wait a minute, and try again."},
	"full":  {http.StatusServiceUnavailable, "Redis has no memory left, so nobody new can sign in. Give it more (maxmemory), or delete what is not needed."},
}

// showSignIn serves GET /console/sign-in.
func (s *server) showSignIn(v *visit) (pageAnswer, error) {
	to := s.ownPath(v.r.FormValue("to"))
	if v.Known() {
		return pageAnswer{to: to}, nil
	}
	wrong := wrongSignIns[v.r.FormValue("wrong")]
	return pageAnswer{template: "sign-in", title: "Sign in", status: wrong.status, body: signInForm{To: to, Wrong: wrong.text}}, nil
}

// signIn serves POST /console/sign-in.
func (s *server) signIn(v *visit) (pageAnswer, error) {
	to, key := s.ownPath(v.r.PostFormValue("to")), strings.TrimSpace(v.r.PostFormValue("key"))
	wrong := func(word string) (pageAnswer, error) {
		return pageAnswer{to: s.console + "/sign-in?" + url.Values{"to": {to}, "wrong": {word}}.Encode()}, nil
	}
	caller, ok := s.Find(key)
	switch {
	case !ok && !s.guesses.count(callers.Address(callers.AddressOf(v.r)), time.Now()):
		return wrong("many")
	case !ok:
		return wrong("key")
	case !caller.Read && !caller.Admin:
		return wrong("scope")
	}
	token, err := s.Sessions.Open(v.ctx, caller.Key)
	var many *dispatcher.SignInsError
	switch {
	case errors.As(err, &many):
		v.w.Header().Set("Retry-After", strconv.Itoa(int(many.Wait.Seconds())+1))
		return wrong("often")
	case errors.Is(err, dispatcher.ErrFull):
		return wrong("full")
	case errors.Is(err, dispatcher.ErrNoKey):
		return wrong("key")
	case err != nil:
		return pageAnswer{}, err
	}
	s.setCookie(v.w, v.r, token)
	return pageAnswer{to: to}, nil
}

// signOut serves POST /console/sign-out: it ends the session on all instances.
func (s *server) signOut(v *visit) (pageAnswer, error) {
	if c, err := v.r.Cookie(s.cookie()); err == nil && c.Value != "" {
		if err := s.Sessions.Close(v.ctx, c.Value); err != nil && !errors.Is(err, dispatcher.ErrNoSession) {
			return pageAnswer{}, err
		}
	}
	s.setCookie(v.w, v.r, "")
	v.w.Header().Set("Clear-Site-Data", `"cache"`)
	return pageAnswer{to: s.console + "/sign-in"}, nil
}

// maxTo is the longest path to which a sign-in leads, so that its form fits into maxOpenForm.
const maxTo = 1 << 10

// ownPath returns a path of the console from a parameter, or the first page for any other
// text, so that it can't redirect to another site.
func (s *server) ownPath(to string) string {
	u, err := url.Parse(to)
	if err != nil || len(to) > maxTo || u.Host != "" || u.Scheme != "" || u.Path != path.Clean(u.Path) && u.Path != path.Clean(u.Path)+"/" {
		return s.console + "/"
	}
	if strings.HasPrefix(to, s.console+"/") && !strings.ContainsAny(to, "\\\r\n\t") && !strings.HasPrefix(to, s.console+"/sign-") {
		return to
	}
	return s.console + "/"
}

// guesses counts the wrong keys of each address in the present minute. A valid key is never
// refused because of them.
type guesses struct {
	mu    sync.Mutex
	since time.Time
	of    map[callers.Identity]int
}

func newGuesses() *guesses { return &guesses{of: map[callers.Identity]int{}} }

// count counts a wrong key of an address, and reports whether more are allowed.
func (g *guesses) count(from callers.Identity, now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now.Sub(g.since) >= time.Minute {
		g.since = now
		clear(g.of)
	}
	if _, ok := g.of[from]; !ok && len(g.of) >= mostAddresses {
		from = callers.Identity{}
	}
	g.of[from]++
	return g.of[from] <= wrongKeys
}
