// Package httpapi serves the HTTP API: it checks the caller's key and the request, calls a
// part of the process, and writes the response. Package api has its requests and responses.
//
// Each noun has a file: messages.go (publish.go beside it), lists.go, jobs.go, takers.go,
// endpoints.go, lanes.go, links.go. It has the rows of the noun's operations, their handlers,
// and the interface of the part that they call. Options names the value behind each of these
// interfaces.
//
// The method operations joins the rows to the list of all operations, and handle serves each:
// it checks the caller (auth.go), the name in the path, and the parameters of the query. A row
// says which keys and which links of merchants may call the operation. linked.go narrows the
// calls of links to their own data. The document at /openapi.json (openapi.go), the rights of
// pages (May), the audit (audit.go) and the metrics are made from the same list. The
// calls about the process itself are in stats.go.
//
// A list is a row whose query ends with api.OfPage, and a handler that makes a filter of the
// parameters. An operation that changes something has a word in the audit.
package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/callers"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/api"
	"github.com/hookladder/hookladder/dispatcher/trace"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// Options are the parts of the process that the handlers call, and the settings of the API.
type Options struct {
	Publisher    Publisher
	Messages     Messages
	MessageLanes MessageLanes
	Lists        Lists
	Dead         Dead
	Attempts     dispatcher.Log
	Followers    Followers
	Jobs         Jobs
	Endpoints    Endpoints
	Tester       Tester
	Lanes        Lanes
	Takers       Takers
	Links        Links
	Audit        dispatcher.Audit
	Stats        Stats
	Ticks        Ticks
	Readiness    Readiness

	Keys    *callers.KeyRing  // nil, or without keys: only requests of this host are served
	Policy  dispatcher.Policy // the rules for messages; MaxBody is required
	Version string
	Forgets bool         // the store keeps its data in memory, and each response has a header that says so
	Bodies  *api.Bodies  // the budget for requests in memory; nil: one of 64 MiB
	Waiting int          // maximum number of connections that wait for events; 0: 1000
	Metrics http.Handler // serves GET /metrics; nil: there is no such path
	Counter Counter      // counts responses; nil: they are not counted
	Tracer  trace.Tracer // nil: nothing is traced
	LinksTo *url.URL     // the URL of the pages of links; nil: there are no links
	NoLinks string       // the reason why there are none
	Log     *slog.Logger // nil: slog.Default()
}

// mostWaiting is for tests, and servers that do not count their connections.
const mostWaiting = 1000

// server serves the API.
type server struct {
	o         Options // with their defaults
	strangers bool    // callers from anywhere are allowed; without keys they have no scope either
	single    int64   // maximum size of the request of one message
	mux       *http.ServeMux
	refusals  refusals
	fastPath  map[string]http.HandlerFunc // by path: the most frequent POSTs, which need no mux
	waiting   *callers.Shares
	allowed   func(*api.Request) bool // stillAllowed
	queues    queueSet
}

// New returns the handler of the API.
func New(o Options) (http.Handler, error) {
	if o.Policy.MaxBody <= 0 {
		return nil, errors.New("serve api: no limit for bodies")
	}
	if o.Policy.Passed == nil {
		o.Policy.Passed = &dispatcher.Passed{}
	}
	if o.Bodies == nil {
		o.Bodies = NewBodies(api.BodyBytes, o.Policy.MaxBody)
	}
	s := newServer(o)
	s.single = SingleBytes(o.Policy.MaxBody, o.Bodies.Most())
	s.register(o.Version)
	s.routeProfiles()
	s.mux.HandleFunc("/", s.noRoute)
	return s, nil
}

// NewBodies returns a budget for requests. One key may use half of it, which is enough for at
// least the largest message.
func NewBodies(most int64, maxBody int) *api.Bodies {
	return api.NewBodies(max(most, 2*(PlainBytes(maxBody)+api.FirstBody)))
}

func newServer(o Options) *server {
	if o.Keys == nil {
		o.Keys = callers.NewKeyRing(callers.APIKeys{})
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	s := &server{o: o, mux: http.NewServeMux(), fastPath: map[string]http.HandlerFunc{}, waiting: callers.NewWaiting(cmp.Or(o.Waiting, mostWaiting))}
	s.allowed = s.stillAllowed
	return s
}

// operations returns all operations: the rows of each noun, and of the process.
func (s *server) operations() []api.Operation {
	return slices.Concat(
		s.messageOperations(),
		s.listOperations(), s.attemptOperations(),
		s.jobOperations(),
		s.takerOperations(),
		s.endpointOperations(), s.holdOperations(), s.secretOperations(),
		s.laneOperations(),
		s.linkOperations(),
		s.auditOperations(),
		s.metricsOperations(), s.healthOperations(), s.plainOperations(),
	)
}

// NewOpen returns the handler of a separate address that all callers can reach: /metrics for a
// scraper, /healthz and /readyz for an orchestrator. /readyz returns its reason only to a key
// with the scope read. If there are no keys and the address is local (a loopback one), every
// caller gets it.
func NewOpen(o Options, isLocal bool) http.Handler {
	o.Bodies = api.NewBodies(0) // no operation here has a body
	s := newServer(o)
	s.strangers = !isLocal
	for _, op := range s.healthOperations() {
		s.handle(op)
	}
	s.mux.Handle("GET /metrics", o.Metrics)
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mux.ServeHTTP(s.begin(w), r)
	})
	if isLocal {
		return Local(h)
	}
	return h
}

// Starting returns the handler of both ports until the store is there. GET /healthz reports that the
// process is alive, and everything else gets a 503, so that callers go to another instance.
func Starting() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h["X-Content-Type-Options"], h["Cache-Control"] = noSniff, noStore
		if r.URL.Path == "/healthz" && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
			if alive, err := api.JSON(http.StatusOK, wire.Health{Status: "ok"}); err == nil {
				alive.Write(w)
			}
			return
		}
		(&api.Problem{Kind: api.Starting, Detail: "it waits for its store: ask again in a moment, or ask another instance"}).Write(w)
	})
}

// Values of headers. They are shared, and never changed.
var (
	noSniff = []string{"nosniff"}
	noStore = []string{"no-store"} // responses contain payment data
	forgets = []string{wire.InMemory}
)

// ServeHTTP serves a request. If a handler panics, it returns a problem.
func (s *server) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w := s.begin(rw)
	w.Began = time.Now()
	defer w.Reserved.End()
	defer s.logCall(w, r)
	defer s.recover(w, r)
	if s.o.Keys.Keys().Empty() {
		if p := local(r); p != nil {
			w.Refuse(p)
			return
		}
		if err := s.identify(w, r, callers.Key(dispatcher.Local)); err != nil {
			w.Refuse(s.problem(r.Context(), err))
			return
		}
	}
	if h := s.fastPath[r.URL.Path]; h != nil && r.Method == http.MethodPost && r.URL.RawPath == "" {
		h(w, r)
		return
	}
	if unclean(r.URL.EscapedPath()) { // the mux would redirect the caller
		s.noRoute(w, r)
		return
	}
	s.mux.ServeHTTP(w, r)
}

// begin wraps a writer, and sets the headers of every response.
func (s *server) begin(w http.ResponseWriter) *api.ResponseWriter {
	h := w.Header()
	h["X-Content-Type-Options"] = noSniff
	h["Cache-Control"] = noStore
	if s.o.Forgets {
		h[wire.HeaderStore] = forgets
	}
	return &api.ResponseWriter{ResponseWriter: w, Call: callOther, Reserved: api.Reservation{From: s.o.Bodies}}
}

// unclean checks a path in its sent form, like the mux, because it may contain an escaped URL.
func unclean(escaped string) bool {
	path := escaped + "/"
	return strings.Contains(escaped, "//") || strings.Contains(path, "/./") || strings.Contains(path, "/../")
}

// recover returns a problem after a panic. If a response was begun, it closes the connection,
// because half a response must not look complete.
func (s *server) recover(w *api.ResponseWriter, r *http.Request) {
	v := recover()
	if v == nil {
		return
	}
	if v == http.ErrAbortHandler {
		panic(v)
	}
	s.o.Log.ErrorContext(r.Context(), "request panicked",
		"method", r.Method, "route", r.Pattern, "err", fmt.Sprint(v), "stack", string(debug.Stack()))
	if w.Begun {
		panic(http.ErrAbortHandler)
	}
	p, _ := api.ProblemFor(errPanic)
	p.Write(w)
}

var errPanic = errors.New("panic")

// noRoute responds to requests without an operation: another method of a path, or an unknown
// path.
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
		(&api.Problem{Kind: api.NotFound, Detail: "no such path; GET /openapi.json lists them"}).Write(w)
		return
	}
	if slices.Contains(allow, "GET") {
		allow = append(allow, "HEAD")
	}
	methods := strings.Join(allow, ", ")
	detail := "the methods of this path are " + methods
	if r.Method == http.MethodGet && r.URL.Path == "/v1/messages" {
		detail += "; GET /v1/deliveries lists the published messages"
	}
	(&api.Problem{Kind: api.BadMethod, Detail: detail, Allow: methods}).Write(w)
}

// problem converts an error to a problem, and logs an unknown error.
func (s *server) problem(ctx context.Context, err error) *api.Problem {
	return api.LoggedProblem(ctx, s.o.Log, err)
}

// handle routes to an operation. It checks the key and the request, and writes the response of
// the operation, or a problem.
func (s *server) handle(o api.Operation) {
	pattern := o.Method + " " + o.Path
	h := func(rw http.ResponseWriter, r *http.Request) {
		w := rw.(*api.ResponseWriter)
		r.Pattern = pattern
		k, ok := s.authorised(w, r, &o)
		if !ok {
			return
		}
		ctx := r.Context()
		if o.Audit != "" { // changes are stored with their caller
			ctx = dispatcher.WithCaller(ctx, w.By)
		}
		q := &api.Request{HTTP: r, Writer: w, Operation: &o, Owner: k.Owner(), Reads: k.Scope.Allows(callers.Read), Bodies: k.Scope.Allows(callers.Bodies), Audit: s.o.Audit, Waiting: s.waiting, Allowed: s.allowed}
		if !o.FastPath { // because a fast call has no other limit per caller
			ctx = callers.With(ctx, w.Caller)
		}
		c, _ := dispatcher.BrowserOf(ctx)
		q.View = c.View
		var answer *api.Response
		err := q.Check()
		if err == nil && q.Linked() {
			err = s.narrow(ctx, q)
		}
		if err == nil {
			s.recordNamed(ctx, q)
			answer, err = o.Do(ctx, q)
			q.RecordResult(ctx, answer, err)
		}
		switch {
		case err != nil:
			p := s.problem(ctx, err).ForMethod(r.Method)
			if q.Linked() {
				p = outwardProblem(p)
			}
			w.Refuse(p)
		case answer != nil:
			answer.Write(w)
		}
	}
	s.mux.HandleFunc(pattern, h)
	if o.FastPath {
		s.fastPath[o.Path] = h
	}
}

// register routes to all operations, and to the document that describes them. The document is
// built on its first request, because it costs more than the rest of a start.
func (s *server) register(version string) {
	all := s.operations()
	for _, o := range all {
		s.handle(o)
	}
	written := sync.OnceValues(func() ([]byte, error) { return describeAPI(all, version) })
	s.mux.HandleFunc("GET /openapi.json", func(rw http.ResponseWriter, r *http.Request) {
		w := rw.(*api.ResponseWriter)
		w.Call = callDocument
		text, err := written()
		if err != nil {
			w.Refuse(s.problem(r.Context(), err).ForMethod(r.Method))
			return
		}
		w.Header().Set("Content-Type", api.MediaJSON)
		_, _ = w.Write(text) // it fails if the caller is gone
	})
}
