package httpapi

import (
	"net/http"
	"sync"

	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/api"
)

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
