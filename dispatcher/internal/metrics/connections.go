package metrics

import "github.com/prometheus/client_golang/prometheus"

// Connections counts the connections of the API.
type Connections interface {
	Open() int64
	// Refused counts new connections that were closed, strangers that were closed for
	// a new one, and failures of the system to accept.
	Refused() (full, strangers, failed int64)
}

// WatchConnections adds the connections of the API to the metrics.
func (m *Metrics) WatchConnections(c Connections) {
	m.registry.MustRegister(connections{c})
}

// connections reads the counts at each scrape.
type connections struct{ of Connections }

var (
	connectionsOpen    = prometheus.NewDesc(prefix+"connections", "Connections to the API that are open.", nil, nil)
	connectionsRefused = prometheus.NewDesc(prefix+"connections_refused_total",
		"Connections to the API that were closed for want of room: full, since all were taken by callers with a key; stranger, since one without made room; error, since the system gave none.",
		[]string{"why"}, nil)
)

// Describe describes the metrics.
func (c connections) Describe(out chan<- *prometheus.Desc) {
	out <- connectionsOpen
	out <- connectionsRefused
}

// Collect reads the metrics.
func (c connections) Collect(out chan<- prometheus.Metric) {
	out <- prometheus.MustNewConstMetric(connectionsOpen, prometheus.GaugeValue, float64(c.of.Open()))
	full, strangers, failed := c.of.Refused()
	for why, n := range map[string]int64{"full": full, "stranger": strangers, "error": failed} {
		out <- prometheus.MustNewConstMetric(connectionsRefused, prometheus.CounterValue, float64(n), why)
	}
}
