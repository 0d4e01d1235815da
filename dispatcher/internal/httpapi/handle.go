package httpapi

import (
	"net/http"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/callers"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/api"
)

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
