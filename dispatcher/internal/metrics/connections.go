package metrics

import "github.com/prometheus/client_golang/prometheus"

// Connections counts the connections of the API.
type Connections interface {
	Open() int64
	// Refused counts connections that were refused, idle ones that were closed for
	// a new one, and failures of the system to accept.
	Refused() (full, idle, failed int64)
}

// WatchConnections adds the connections of the API to the metrics.
func (m *Metrics) WatchConnections(c Connections) {
	m.registry.MustRegister(connections{c})
}

// connections reads the counts at each scrape.
type connections struct{ of Connections }

var (
	connectionsOpen    = prometheus.NewDesc(prefix+"connections", "Open connections to the API.", nil, nil)
	connectionsRefused = prometheus.NewDesc(prefix+"connections_refused_total",
		"Connections to the API that were closed for lack of room: an idle one or one without a key for a new one (idle), a new one (full), or by the system (error).",
		[]string{"why"}, nil)
)

// Describe sends the descriptions of the metrics.
func (c connections) Describe(out chan<- *prometheus.Desc) {
	out <- connectionsOpen
	out <- connectionsRefused
}

// Collect reads the metrics.
func (c connections) Collect(out chan<- prometheus.Metric) {
	out <- prometheus.MustNewConstMetric(connectionsOpen, prometheus.GaugeValue, float64(c.of.Open()))
	full, idle, failed := c.of.Refused()
	for why, n := range map[string]int64{"full": full, "idle": idle, "error": failed} {
		out <- prometheus.MustNewConstMetric(connectionsRefused, prometheus.CounterValue, float64(n), why)
	}
}
