package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// Options say who may call the API and what may be published.
type Options struct {
	Keys    Keys              // none: only requests of this host are served
	Keyring *Keyring          // in place of Keys, where these may change; nil: they don't
	Policy  dispatcher.Policy // MaxBody is needed
	Version string
	Bodies  int64        // bytes of requests that are held at once; 0: 64 MiB
	Metrics http.Handler // what GET /metrics answers; nil: there is no such path
	Counter Counter      // is told of every answer; nil: nobody is
	Log     *slog.Logger // nil: slog.Default()
}

// keyring holds the keys of the options.
func (o Options) keyring() *Keyring {
	if o.Keyring != nil {
		return o.Keyring
	}
	return NewKeyring(o.Keys)
}

// server serves the API.
type server struct {
	svc       Service
	keys      *Keyring
	strangers bool // may call from anywhere: where there are no keys, they have no scope either
	limits    dispatcher.Policy
	bodies    *bodies
	single    int64        // most bytes of the request of one message
	figures   http.Handler // nil: nobody counts
	log       *slog.Logger
	mux       *http.ServeMux
	counter   Counter // nil: nobody counts
	refusals  refusals
	fastPath  map[string]http.HandlerFunc // by path: what is POSTed most, and needs no mux
}

// New makes the handler of the API.
func New(svc Service, o Options) (http.Handler, error) {
	if o.Policy.MaxBody <= 0 {
		return nil, errors.New("serve api: no limit for bodies")
	}
	o.Policy.Passed = &dispatcher.Passed{}
	// One key may hold half of the budget, which has room for the largest message at least.
	budget := max(cmp.Or(max(o.Bodies, 0), bodyBytes), 2*(plainBytes(o.Policy.MaxBody)+firstBody))
	s := &server{
		svc: svc, keys: o.keyring(), limits: o.Policy, single: singleBytes(o.Policy.MaxBody, budget), bodies: newBodies(budget),
		figures: o.Metrics, counter: o.Counter, log: o.Log, mux: http.NewServeMux(), fastPath: map[string]http.HandlerFunc{},
	}
	if s.log == nil {
		s.log = slog.Default()
	}
	if err := s.register(o.Version); err != nil {
		return nil, fmt.Errorf("serve api: %w", err)
	}
	s.profile()
	s.mux.HandleFunc("/", s.noRoute)
	return s, nil
}

// answerWithin bounds reading, waiting for the store, and an answer of a few
// MiB.
const answerWithin = time.Minute

// Server makes an HTTP server that nobody can hold up by being slow. What it
// has to say goes to log.
func Server(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,  // a header is one packet or two
		ReadTimeout:       30 * time.Second, // the 4 MiB of a batch at 140 KiB/s
		WriteTimeout:      answerWithin,
		IdleTimeout:       2 * time.Minute, // longer than the usual pools of clients keep theirs
		MaxHeaderBytes:    8 << 10,         // a key, an id and what proxies add; net/http adds 4 KiB
		ConnContext:       withGuest,
		ErrorLog:          newServerLog(log),
	}
}

// Headers that every answer has. They are shared: nobody changes them.
var (
	noSniff = []string{"nosniff"}
	noStore = []string{"no-store"} // answers hold payment data
)

// serve routes to an operation.
func (s *server) serve(o operation) {
	pattern := o.method + " " + o.path
	h := func(w http.ResponseWriter, r *http.Request) {
		calledAs(w, o.id)
		has, who, refused := s.authorise(r, o.scope, o.id)
		callerIs(w, who)
		if refused != nil {
			refusedWith(w, refused)
			refused.write(w)
			return
		}
		ctx := r.Context()
		if o.scope == scopeAdmin { // what is done is kept with who asked for it
			ctx = dispatcher.WithCaller(ctx, who)
		}
		c := &request{r: r, w: w, reads: has.allows(scopeRead)}
		var answer *response
		var err error
		if o.body == nil && o.method != http.MethodGet {
			err = c.noBody()
		}
		if err == nil {
			answer, err = o.serve(ctx, c)
		}
		if err != nil {
			p := s.problem(ctx, err).of(r.Method)
			refusedWith(w, p)
			answer = p.response()
		}
		answer.write(w)
	}
	s.mux.HandleFunc(pattern, h)
	if o.fastPath {
		s.fastPath[o.path] = func(w http.ResponseWriter, r *http.Request) {
			r.Pattern = pattern // as the mux would
			h(w, r)
		}
	}
}

// profile routes to the profiles.
func (s *server) profile() {
	p := &profiles{}
	h := func(w http.ResponseWriter, r *http.Request) {
		calledAs(w, callProfile)
		_, who, refused := s.authorise(r, scopeAdmin, callProfile)
		callerIs(w, who)
		if refused != nil {
			refusedWith(w, refused)
			refused.write(w)
			return
		}
		p.ServeHTTP(w, r)
	}
	s.mux.HandleFunc(strings.TrimSuffix(profilesPath, "/"), func(w http.ResponseWriter, _ *http.Request) { // the mux would send the caller on
		(&problem{kind: notFound, detail: "no such path; the profiles are at " + profilesPath}).write(w)
	})
	s.mux.HandleFunc("GET "+profilesPath, h)
	s.mux.HandleFunc("POST "+profilesPath+"symbol", h) // addresses may be too many for a URL
}

// ServeHTTP serves a request, and answers with a problem where a handler
// panics.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a := &responseWriter{ResponseWriter: w, call: callOther, held: held{from: s.bodies}}
	defer a.held.end()
	defer s.tell(a, r)
	defer s.recover(a, r)
	h := w.Header()
	h["X-Content-Type-Options"] = noSniff
	h["Cache-Control"] = noStore
	if s.keys.keys().Empty() {
		if p := local(r); p != nil {
			refusedWith(a, p)
			p.write(a)
			return
		}
		guestOf(r.Context()).trust(nil)
	}
	if h := s.fastPath[r.URL.Path]; h != nil && r.Method == http.MethodPost && r.URL.RawPath == "" {
		h(a, r)
		return
	}
	if unclean(r.URL.EscapedPath()) { // the mux would send the caller elsewhere
		s.noRoute(a, r)
		return
	}
	s.mux.ServeHTTP(a, r)
}

// unclean looks at a path as it was sent, as the mux does: a URL may stand
// escaped in one.
func unclean(escaped string) bool {
	path := escaped + "/"
	return strings.Contains(escaped, "//") || strings.Contains(path, "/./") || strings.Contains(path, "/../")
}

// responseWriter remembers whether an answer was begun, and what is told of it at its end.
type responseWriter struct {
	http.ResponseWriter
	begun  bool
	status int  // 0: none was written
	held   held // of the budget for bodies

	call    string   // one of Calls
	who     string   // name of its key; empty: it had none that is known
	refusal *problem // why it, or a message of it, was refused; nil: it was not
	handed  bool     // the engine saw its messages, and counts them
	refused int      // messages that it did not see
}

// WriteHeader begins the answer.
func (a *responseWriter) WriteHeader(status int) {
	a.begun, a.status = true, status
	a.ResponseWriter.WriteHeader(status)
}

// Write goes on with the answer.
func (a *responseWriter) Write(b []byte) (int, error) {
	a.begun = true
	return a.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (a *responseWriter) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// recover makes an answer of a panic, or cuts the connection where one was
// begun: half an answer must not pass for a whole one.
func (s *server) recover(a *responseWriter, r *http.Request) {
	v := recover()
	if v == nil {
		return
	}
	if v == http.ErrAbortHandler {
		panic(v)
	}
	s.log.ErrorContext(r.Context(), "request panicked",
		"method", r.Method, "route", r.Pattern, "err", fmt.Sprint(v), "stack", string(debug.Stack()))
	if a.begun {
		panic(http.ErrAbortHandler)
	}
	p, _ := asProblem(errPanic)
	p.write(a)
}

var errPanic = errors.New("panic")

// noRoute answers what no operation serves: another method's path, or none.
func (s *server) noRoute(w http.ResponseWriter, r *http.Request) {
	var allow []string
	if !unclean(r.URL.EscapedPath()) {
		for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
			other := &http.Request{Method: method, URL: r.URL, Host: r.Host}
			if _, pattern := s.mux.Handler(other); pattern != "/" && pattern != "" {
				allow = append(allow, method)
			}
		}
	}
	if len(allow) == 0 {
		(&problem{kind: notFound, detail: "no such path; GET /openapi.json lists them"}).write(w)
		return
	}
	if slices.Contains(allow, "GET") {
		allow = append(allow, "HEAD")
	}
	methods := strings.Join(allow, ", ")
	(&problem{kind: badMethod, detail: "served are " + methods, allow: methods}).write(w)
}

// problem finds what an error means to the caller, and logs one that nobody
// foresaw.
func (s *server) problem(ctx context.Context, err error) *problem {
	p, known := asProblem(err)
	if !known {
		s.log.ErrorContext(ctx, "request failed", "err", err)
	}
	return p
}
