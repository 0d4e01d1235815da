package app

import "github.com/hookladder/hookladder/dispatcher"

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
