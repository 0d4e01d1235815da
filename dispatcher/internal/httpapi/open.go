package httpapi

import (
	"log/slog"
	"net/http"
)

// NewOpen makes the handler of an address of its own, open to everybody who
// reaches it: /metrics for a scraper, /healthz and /readyz for an orchestrator.
// Only a key with the scope read is told by /readyz why, or everybody where
// there are no keys and the address is local: a loopback one.
func NewOpen(svc Service, o Options, isLocal bool) http.Handler {
	s := &server{svc: svc, keys: o.keyring(), strangers: !isLocal, bodies: newBodies(o.Bodies), log: o.Log, mux: http.NewServeMux()}
	if s.log == nil {
		s.log = slog.Default()
	}
	for _, op := range s.healthOperations() {
		s.serve(op)
	}
	s.mux.Handle("GET /metrics", o.Metrics)
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header()["X-Content-Type-Options"] = noSniff
		w.Header()["Cache-Control"] = noStore
		s.mux.ServeHTTP(w, r)
	})
	if isLocal {
		return Local(h)
	}
	return h
}
