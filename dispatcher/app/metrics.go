package app

import (
	"net/http"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/apikey"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/guests"
)

// newMetricsServer serves metrics and health without a key. On a loopback address it
// refuses pages in a browser of this host.
func newMetricsServer(s service, figures http.Handler, keyring *apikey.Ring, o Options) *http.Server {
	open := httpapi.Options{Keys: keyring, Metrics: figures, Log: o.Log}
	return guests.Server(httpapi.NewOpen(s, open, loopback(o.MetricsListen)), o.Log)
}

// observers calls several observers, one after the other.
type observers []dispatcher.Observer

// Attempted reports an attempt.
func (all observers) Attempted(a dispatcher.Attempted) {
	for _, o := range all {
		o.Attempted(a)
	}
}

// Published reports a publish.
func (all observers) Published(p dispatcher.Published) {
	for _, o := range all {
		o.Published(p)
	}
}

// Died reports a death.
func (all observers) Died(d dispatcher.Death) {
	for _, o := range all {
		o.Died(d)
	}
}

// TookOver reports a takeover.
func (all observers) TookOver(deliveries int) {
	for _, o := range all {
		o.TookOver(deliveries)
	}
}
