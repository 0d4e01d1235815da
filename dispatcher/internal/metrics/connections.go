package metrics

import "github.com/prometheus/client_golang/prometheus"

// Connections tells of those that the API accepts.
type Connections interface {
	Open() int64
	// Refused counts those closed since all were taken, strangers that made
	// room, and the times the system gave none.
	Refused() (full, strangers, failed int64)
}

// WatchConnections has the connections of the API served too.
func (m *Metrics) WatchConnections(c Connections) {
	m.registry.MustRegister(connections{c})
}

// connections asks when it is scraped.
type connections struct{ of Connections }

var (
	connectionsOpen    = prometheus.NewDesc(prefix+"connections", "Connections to the API that are open.", nil, nil)
	connectionsRefused = prometheus.NewDesc(prefix+"connections_refused_total",
		"Connections to the API that were closed for want of room: full, since all were taken by callers with a key; stranger, since one without made room; error, since the system gave none.",
		[]string{"why"}, nil)
)

// Describe tells which metrics there are.
func (c connections) Describe(out chan<- *prometheus.Desc) {
	out <- connectionsOpen
	out <- connectionsRefused
}

// Collect tells how things are.
func (c connections) Collect(out chan<- prometheus.Metric) {
	out <- prometheus.MustNewConstMetric(connectionsOpen, prometheus.GaugeValue, float64(c.of.Open()))
	full, strangers, failed := c.of.Refused()
	for why, n := range map[string]int64{"full": full, "stranger": strangers, "error": failed} {
		out <- prometheus.MustNewConstMetric(connectionsRefused, prometheus.CounterValue, float64(n), why)
	}
}
