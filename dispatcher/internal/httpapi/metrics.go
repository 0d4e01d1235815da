package httpapi

import (
	"bytes"
	"context"
	"net/http"
)

const mediaText = "text/plain"

// metricsOperations are none where nobody counts.
func (s *server) metricsOperations() []operation {
	if s.figures == nil {
		return nil
	}
	return []operation{{
		id: "metrics", method: "GET", path: "/metrics", scope: scopeRead,
		summary: "Tell Prometheus what was done and what is in the queue", serve: s.metrics,
		answers: map[int]any{200: ""}, produces: mediaText,
	}}
}

// metrics serves GET /metrics.
func (s *server) metrics(ctx context.Context, c *request) (*response, error) {
	r := c.r.Clone(ctx)
	r.Header.Del("Accept-Encoding") // the reply is written by us, and not compressed
	page := written{header: http.Header{}, status: http.StatusOK}
	s.figures.ServeHTTP(&page, r)
	return &response{status: page.status, contentType: page.header.Get("Content-Type"), body: page.body.Bytes()}, nil
}

// written is an answer that a handler wrote, to be answered as ours.
type written struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header is the answer's.
func (w *written) Header() http.Header { return w.header }

// WriteHeader sets the status.
func (w *written) WriteHeader(status int) { w.status = status }

// Write adds to the body.
func (w *written) Write(b []byte) (int, error) { return w.body.Write(b) }
