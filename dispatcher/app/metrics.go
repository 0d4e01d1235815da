package app

import (
	"net/http"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi"
)

// newMetricsServer serves the metrics, and how the process is, to everybody who
// reaches it: on a loopback address that is no page in a browser of this host.
func newMetricsServer(engine *dispatcher.Dispatcher, figures http.Handler, keyring *httpapi.Keyring, o Options) *http.Server {
	open := httpapi.Options{Keyring: keyring, Metrics: figures, Log: o.Log}
	return httpapi.Server(httpapi.NewOpen(engine, open, loopback(o.MetricsListen)), o.Log)
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

// Died tells of a death.
func (all observers) Died(d dispatcher.Death) {
	for _, o := range all {
		o.Died(d)
	}
}

// TookOver tells of a takeover.
func (all observers) TookOver(deliveries int) {
	for _, o := range all {
		o.TookOver(deliveries)
	}
}
