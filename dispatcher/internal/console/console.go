// Package console serves pages to people: an operator's console below /console, and what
// a merchant sees of its own below /link.
//
// routes.go is the list of all pages and actions, each with the right that it needs. A
// request becomes a visit (visit.go): session.go finds who looks, and the desk
// (package desk) makes calls of the API for them. Each page has a file of its own, which
// reads through the desk and answers what its template shows; render.go writes that.
//
// The pages call the API inside the process (inside.go), so what they show, refuse and
// change is exactly what the API does. Templates, styles and scripts are in the binary.
// Reading needs no script; a script (assets/js) refreshes the page in place.
package console

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/access"
	"github.com/hookladder/hookladder/dispatcher/archive"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/health"
	"github.com/hookladder/hookladder/dispatcher/internal/callers"
	"github.com/hookladder/hookladder/dispatcher/internal/console/desk"
)

// Options are what the pages rest on.
type Options struct {
	API      http.Handler                                                 // of this process
	Find     func(key string) (access.Caller, bool)                       // the API key with this text
	Owned    func(owner string) (access.Caller, bool)                     // the API key with this owner text
	Keyless  func() bool                                                  // there are no keys: the API serves this host alone
	Sessions Sessions                                                     // where browsers that signed in are kept
	Link     func(ctx context.Context, token string) (access.Link, error) // the link that a token opens
	Shown    Shown                                                        // the pages that answer actions
	Meter    desk.Meter                                                   // counts the changes of links

	Minutes      func(ctx context.Context, since, until time.Time) ([]health.Minute, error)                                    // nil: they are not counted
	Bars         func(ctx context.Context, lanes []dispatcher.Lane, since time.Time) (map[dispatcher.Lane][]health.Bar, error) // of at most 100 lanes; nil: none are
	FiguresSince func(dispatcher.Lane) time.Time                                                                               // when the Bars of a lane began; nil, or zero: that is not known
	Archive      func() archive.Status                                                                                         // nil: there is none

	Now       func() time.Time // by the store's clock
	Settings  []Setting        // as this process has them
	Project   string
	Version   string
	PublicURL *url.URL // how people reach this process; nil: as they did
	Brand     Brand
	Log       *slog.Logger
}

// Setting is one setting of this process, as it may be shown.
type Setting struct{ Name, Value, Source string }

// Brand is what a merchant's pages show of the operator.
type Brand struct {
	Name  string // empty: Hookladder
	Logo  string // an https URL, or data:image/png; empty: none
	Color string // #rrggbb; empty: the console's own
}

// Sessions keep the browsers that signed in. access.ErrNoSession says that there is no
// session with a token; any other error, that it is not known whether there is one.
type Sessions struct {
	Open  func(ctx context.Context, key string) (token string, err error) // of an API key, by its owner text
	Get   func(ctx context.Context, token string) (access.Session, error)
	Close func(ctx context.Context, token string) error
}

// server serves the pages.
type server struct {
	Options
	bases
	mux     *http.ServeMux
	api     *client.Client
	look    *look
	guesses *guesses // wrong keys

	failures callers.LogRate // of pages that could not be shown
	guard    *http.CrossOriginProtection
	secure   bool // people come by https
}

// New makes the handler of everything below /console and /link.
func New(o Options) (http.Handler, error) {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	s := &server{Options: o, bases: basesOf(o.PublicURL), mux: http.NewServeMux(), guesses: newGuesses(), guard: http.NewCrossOriginProtection()}
	if o.PublicURL != nil {
		s.secure = o.PublicURL.Scheme == "https"
		if err := s.guard.AddTrustedOrigin(o.PublicURL.Scheme + "://" + o.PublicURL.Host); err != nil {
			return nil, err
		}
	}
	s.Sessions.Open, s.Sessions.Get = ending(o.Sessions.Open), ending(o.Sessions.Get)
	s.Link, s.Meter.Spend = ending(o.Link), ending(o.Meter.Spend)
	var err error
	if s.api, err = inside(o.API); err != nil {
		return nil, err
	}
	if s.look, err = newLook(s.bases, o.Now, o.Brand); err != nil {
		return nil, err
	}
	s.register()
	return s, nil
}

// policy lets a page load what this process serves, and nothing else. Styles and scripts
// within a page are refused, so text that got into it as HTML could do nothing.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"frame-ancestors 'none'; base-uri 'none'; form-action 'self'"

// policy is the policy of a page. A merchant's shows the operator's logo too.
func (s *server) policy(r *http.Request) string {
	if u, err := url.Parse(s.Brand.Logo); err == nil && u.Scheme == "https" && underBase(r.URL.Path, s.link) {
		return strings.Replace(policy, "img-src 'self'", "img-src 'self' "+u.Scheme+"://"+u.Host, 1)
	}
	return policy
}

// referrers forbids a browser to tell the next page which one it comes from. But then a
// form tells no origin either, and over plain HTTP from another host browsers say nothing
// else by which the page's own form can be told from another site's.
func (s *server) referrers(r *http.Request) string {
	if s.secure || r.TLS != nil || isLoopback(r.Host) || s.opensLink(r.URL.Path) {
		return "no-referrer"
	}
	return "same-origin"
}

// opensLink reports whether a path has the token of a link.
func (s *server) opensLink(path string) bool {
	token, ok := strings.CutPrefix(path, s.link+"/")
	return ok && isToken(token)
}

// opensByHTTP reports whether a request opens a link, from a browser that says nothing of
// where it comes from. The token proves more than that would.
func (s *server) opensByHTTP(r *http.Request) bool {
	return s.opensLink(r.URL.Path) && r.Header.Get("Sec-Fetch-Site") == "" && r.Header.Get("Origin") == "null"
}

// isLoopback reports whether a Host header names this host: browsers take such pages for
// as safe as those of https.
func isLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	a, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return strings.EqualFold(host, "localhost") || err == nil && a.IsLoopback()
}

// ServeHTTP serves a page, a part of one, or an action.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.public != "" && !underBase(r.URL.Path, s.public) { // a proxy took it away, or there was none
		below := *r.URL
		below.Path, below.RawPath = s.public+r.URL.Path, ""
		r = r.WithContext(r.Context())
		r.URL = &below
	}
	h := w.Header()
	h.Set("Content-Security-Policy", s.policy(r))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", s.referrers(r))
	h.Set("X-Robots-Tag", "none")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "private, no-cache")
	if err := s.guard.Check(r); err != nil && !s.opensByHTTP(r) {
		s.refuse(w, r, http.StatusForbidden, "This was sent from another site, so nothing was done.")
		return
	}
	s.mux.ServeHTTP(w, r)
}
