// Package console serves web pages: the operator's console below /console, and the pages of
// a merchant below /link.
//
// routes.go lists all pages and actions with the operation of the API that each needs. A
// request goes through these steps:
//   - session.go or link.go finds the visitor, and visit.go makes a visit of the request.
//   - The page's own file calls the API as the visitor.
//   - render.go writes the page's data with its template.
//
// The pages call the API inside the process (inside, below), so they show, refuse and change
// exactly the same as the API. It knows what each key and each link may call and see, and the
// pages ask it what to offer (visitor.go). Templates, styles and scripts are embedded in the binary.
// Pages work without a script; a script (assets/js) refreshes them in place.
//
// What a page shows is made from the API's responses by functions that know no request: the
// sentences of alerts.go and lanestate.go, the fields of form.go, the bodies of content.go, the
// drawings of draw.go, and the timeline of a delivery.
//
// The documents of this version are served below /docs, and need no key, no store and no other
// host. documents.go makes the pages once, on the first request: HTML of Markdown, and an index
// of their sections.
package console

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/internal/callers"
)

// Options are the dependencies and settings of the pages.
type Options struct {
	API      http.Handler                                                       // of this process
	May      func(c dispatcher.Browser, operation string) (may, known bool)     // who may call which operation of the API
	Find     func(key string) (dispatcher.Browser, bool)                        // returns the owner of an API key
	Owned    func(owner string) (dispatcher.Browser, bool)                      // returns the API key with this owner text
	Keyless  func() bool                                                        // reports that there are no keys, so the API serves this host only
	Sessions Sessions                                                           // the sessions of browsers that signed in
	Link     func(ctx context.Context, token string) (dispatcher.Link, error)   // returns the link of a token
	Shown    Shown                                                              // the stored results of actions
	Signing  func(ctx context.Context, id string) (*dispatcher.Endpoint, error) // returns an endpoint with its secrets, for the check of a signature alone, or dispatcher.ErrNoEndpoint
	Meter    LinkMeter                                                          // counts the changes of links
	Form     ReadForm                                                           // reads the forms of visitors; nil: without a budget

	Minutes      func(ctx context.Context, since, until time.Time) ([]dispatcher.Minute, error)                                    // nil: not counted
	Bars         func(ctx context.Context, lanes []dispatcher.Lane, since time.Time) (map[dispatcher.Lane][]dispatcher.Bar, error) // of at most 100 lanes; nil: none are counted
	FiguresSince func(dispatcher.Lane) time.Time                                                                                   // when the Bars of a lane began; nil or zero: unknown
	Archive      func() archive.Status                                                                                             // nil: no archive

	Lost      func() error     // why the store can't be reached now; nil: it can, or is only slow
	Now       func() time.Time // the store's clock
	Settings  []Setting        // the settings of this process
	Project   string
	Version   string
	PublicURL *url.URL // the public URL of this process; nil: the URL of the request
	Brand     Brand
	Log       *slog.Logger
}

// Setting is one setting of this process in its public form.
type Setting struct{ Name, Value, Source string }

// Brand is the operator's branding of a merchant's pages.
type Brand struct {
	Name  string // empty: Hookladder
	Logo  string // an https URL or data:image/png; empty: none
	Color string // #rrggbb; empty: the default
}

// LinkMeter counts the changes of links, because a link may make only a limited number in an hour.
type LinkMeter struct {
	Spend    func(ctx context.Context, link string) (wait time.Duration, err error) // counts one change; wait > 0: there were too many
	TakeBack func(ctx context.Context, link string) error                           // undoes a counted change
}

// ReadForm parses the form of a request, of at most most bytes. It takes memory from the share of a
// name until release. If there is none it returns ErrNoRoom.
type ReadForm func(w http.ResponseWriter, r *http.Request, share string, most int64) (release func(), err error)

// ErrNoRoom reports that there is no memory for a form now.
var ErrNoRoom = errors.New("no room for the form")

// readPlain is a ReadForm without a budget.
func readPlain(w http.ResponseWriter, r *http.Request, _ string, most int64) (release func(), err error) {
	r.Body = http.MaxBytesReader(w, r.Body, most)
	return func() {}, r.ParseForm()
}

// Sessions stores the sessions of browsers. access.ErrNoSession says that a token has no
// session. Any other error says that this is unknown.
type Sessions struct {
	Open  func(ctx context.Context, key string) (token string, err error) // for the owner text of an API key
	Get   func(ctx context.Context, token string) (dispatcher.Session, error)
	Close func(ctx context.Context, token string) error
}

// server serves the pages.
type server struct {
	Options
	bases
	mux       *http.ServeMux
	api       *client.Client
	resources *resources
	guesses   *guesses // wrong keys

	failures callers.LogRate // of pages that failed
	guard    *http.CrossOriginProtection
	secure   bool // browsers use https
}

// New returns the handler of all paths below /console and /link.
func New(o Options) (http.Handler, error) {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Form == nil {
		o.Form = readPlain
	}
	if o.Lost == nil {
		o.Lost = func() error { return nil }
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
	if s.api, err = inside(o.API, s.Meter); err != nil {
		return nil, err
	}
	if s.resources, err = newResources(s.bases, o.Now, o.Brand); err != nil {
		return nil, err
	}
	s.register()
	return s, nil
}

// policy allows a page to load only this process's files. Inline styles and scripts are
// refused, so HTML that is injected into a page can't run.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"frame-ancestors 'none'; base-uri 'none'; form-action 'self'"

// policy returns the policy of a page. A merchant's page also loads the operator's logo.
func (s *server) policy(r *http.Request) string {
	if u, err := url.Parse(s.Brand.Logo); err == nil && u.Scheme == "https" && underBase(r.URL.Path, s.link) {
		return strings.Replace(policy, "img-src 'self'", "img-src 'self' "+u.Scheme+"://"+u.Host, 1)
	}
	return policy
}

// referrers returns the Referrer-Policy. With no-referrer a browser also sends no Origin
// with a form. Over plain HTTP to another host it sends no other header that proves the
// form is ours, but browsers trust pages of this host like https pages. The page that opens a
// link has a token in its URL. With https it reveals the origin only, so that a browser without
// Sec-Fetch-Site sends that with the form.
func (s *server) referrers(r *http.Request) string {
	if s.secure && s.opensLink(r.URL.Path) {
		return "strict-origin"
	}
	if s.secure || r.TLS != nil || callers.IsLoopback(r.Host) || s.opensLink(r.URL.Path) {
		return "no-referrer"
	}
	return "same-origin"
}

// opensLink reports whether a path has a link's token.
func (s *server) opensLink(path string) bool {
	token, ok := strings.CutPrefix(path, s.link+"/")
	return ok && isToken(token)
}

// opensByHTTP reports whether a request opens a link from a browser that sends no origin.
// The token is a stronger proof than the origin. With https browsers send an origin.
func (s *server) opensByHTTP(r *http.Request) bool {
	return !s.secure && s.opensLink(r.URL.Path) && r.Header.Get("Sec-Fetch-Site") == "" && r.Header.Get("Origin") == "null"
}

// ServeHTTP serves a page, a file or an action.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.public != "" && !underBase(r.URL.Path, s.public) { // a proxy removed the base path, or no proxy was used
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
	h.Set("Cache-Control", "no-store") // pages and bodies have payment data; static files overwrite it
	if s.secure {
		h.Set("Strict-Transport-Security", "max-age=15552000") // 180 days; other hosts of the domain are not ours
	}
	if err := s.guard.Check(r); err != nil && !s.opensByHTTP(r) {
		s.refuse(w, r, http.StatusForbidden, "This was sent from another site, so nothing was done.")
		return
	}
	s.mux.ServeHTTP(w, r)
}

// maxAnswer limits an API response that a page reads.
const maxAnswer = 32 << 20

var errTooLong = errors.New("the answer is too long")

// inside returns a client of this process's API, without a connection. It has no retries,
// because the visitor can reload a page.
func inside(api http.Handler, meter LinkMeter) (*client.Client, error) {
	return client.New("http://localhost", "", client.WithHTTPClient(&http.Client{Transport: insideTransport{api, meter}}),
		client.WithRepeats(client.Repeats{Tries: 1}))
}

// insideTransport passes requests to a handler. It counts the changes of links.
type insideTransport struct {
	api   http.Handler
	meter LinkMeter
}

// RoundTrip serves a request. A change of a link is counted before the call, because calls may be
// concurrent. The count is undone if the API refused the change.
func (t insideTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	c, known := dispatcher.BrowserOf(r.Context())
	if !known || !c.Linked() || r.Method == http.MethodGet {
		return t.serve(r)
	}
	wait, err := t.meter.Spend(r.Context(), c.Name)
	switch {
	case err != nil:
		return nil, err
	case wait > 0:
		return nil, &SpentError{Wait: wait}
	}
	answer, err := t.serve(r)
	if err == nil && answer.StatusCode >= 400 && answer.StatusCode < http.StatusInternalServerError {
		_ = t.meter.TakeBack(context.WithoutCancel(r.Context()), c.Name) // if this fails, the change stays counted
	}
	return answer, err
}

// serve serves a request. It returns when the request's context ends, even if the handler still
// runs.
func (t insideTransport) serve(r *http.Request) (*http.Response, error) {
	served := r.Clone(r.Context())
	served.RequestURI, served.RemoteAddr = served.URL.RequestURI(), "127.0.0.1:0"
	if served.Body == nil {
		served.Body = http.NoBody
	}
	w := &bufferedAnswer{header: http.Header{}, status: http.StatusOK}
	done := make(chan error, 1)
	go func() {
		defer func() {
			if v := recover(); v != nil {
				done <- fmt.Errorf("the call was cut off: %v", v)
			}
		}()
		t.api.ServeHTTP(w, served)
		done <- w.err
	}()
	select {
	case <-r.Context().Done():
		return nil, r.Context().Err()
	case err := <-done:
		if err != nil {
			return nil, err
		}
	}
	return &http.Response{
		Status: fmt.Sprintf("%d %s", w.status, http.StatusText(w.status)), StatusCode: w.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: w.header,
		Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: r,
	}, nil
}

// within runs a call of the store and returns when ctx ends, even if the call still runs.
// So a store that hangs blocks no page.
func within[T any](ctx context.Context, call func() (T, error)) (T, error) {
	type storeAnswer struct {
		value T
		err   error
	}
	done := make(chan storeAnswer, 1)
	go func() {
		value, err := call()
		done <- storeAnswer{value, err}
	}()
	select {
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	case r := <-done:
		return r.value, r.err
	}
}

// ending wraps a call of the store so that it returns when its context ends.
func ending[A, T any](call func(context.Context, A) (T, error)) func(context.Context, A) (T, error) {
	return func(ctx context.Context, a A) (T, error) {
		return within(ctx, func() (T, error) { return call(ctx, a) })
	}
}

// bufferedAnswer is a response in memory.
type bufferedAnswer struct {
	header http.Header
	status int
	begun  bool
	body   bytes.Buffer
	err    error
}

func (w *bufferedAnswer) Header() http.Header { return w.header }

func (w *bufferedAnswer) WriteHeader(status int) {
	if !w.begun {
		w.status, w.begun = status, true
	}
}

func (w *bufferedAnswer) Write(b []byte) (int, error) {
	w.begun = true
	if w.body.Len()+len(b) > maxAnswer {
		w.err = errTooLong
		return 0, errTooLong
	}
	return w.body.Write(b)
}
