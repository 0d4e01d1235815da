package app

import (
	"log/slog"
	"net/http"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi"
)

// newMetricsServer serves the metrics, and nothing else, to whoever reaches it.
func newMetricsServer(figures http.Handler, log *slog.Logger) *http.Server {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", figures)
	return httpapi.Server(mux, log)
}

// observers are told the same, one after the other.
type observers []dispatcher.Observer

// Attempted tells of an attempt.
func (all observers) Attempted(a dispatcher.Attempted) {
	for _, o := range all {
		o.Attempted(a)
	}
}

// Published tells of a publish.
func (all observers) Published(p dispatcher.Published) {
	for _, o := range all {
		o.Published(p)
	}
}

// TookOver tells of a takeover.
func (all observers) TookOver(deliveries int) {
	for _, o := range all {
		o.TookOver(deliveries)
	}
}
