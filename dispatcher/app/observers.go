package app

import (
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/gauge"
	"github.com/hookladder/hookladder/dispatcher/internal/metrics"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/health"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/start"
)

// watched makes a gauge, which observes the engine like the metrics do. Its name is another than
// the engine's, which becomes a new one where others took it for dead.
func (o *Options) watched(store *redisq.Store, figures *metrics.Metrics) *gauge.Gauge {
	g := gauge.New(health.New(store.Conn()), gauge.Options{Instance: start.Instance(), Now: store.Now, Log: o.Log})
	all := observers{figures, g}
	if o.Engine.Observer != nil {
		all = append(all, o.Engine.Observer)
	}
	o.Engine.Observer = all
	return g
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
