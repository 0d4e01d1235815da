package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Outbox has the figures of the relay. Only one instance relays an outbox at a time.
type Outbox interface {
	// Relayed returns the number of rows for each result.
	Relayed() map[string]int64
	// Lag returns the age of the oldest row, and whether the outbox can be read.
	Lag() (oldest time.Duration, up bool)
	// Rejected returns the number of rows that were rejected and not removed yet.
	Rejected() int64
}

// WatchOutbox adds an outbox to the metrics.
func (m *Metrics) WatchOutbox(o Outbox) { m.registry.MustRegister(outbox{o}) }

// outbox reads the figures at each scrape.
type outbox struct{ of Outbox }

var (
	outboxRelayed = prometheus.NewDesc(prefix+"outbox_relayed_total",
		"Rows of the outbox that this instance relayed, by result; waits counts delays of rows.",
		[]string{"result"}, nil)
	outboxLag = prometheus.NewDesc(prefix+"outbox_lag_seconds", "Age of the oldest row of the outbox, even of a delayed one; 0 if it is empty.", nil, nil)
	outboxBad = prometheus.NewDesc(prefix+"outbox_rejected", "Rows in hookladder_rejected, which wait for a person.", nil, nil)
	outboxUp  = prometheus.NewDesc(prefix+"outbox_up", "1 while the outbox can be read.", nil, nil)
)

// Describe sends the descriptions of the metrics.
func (o outbox) Describe(out chan<- *prometheus.Desc) {
	out <- outboxRelayed
	out <- outboxLag
	out <- outboxUp
	out <- outboxBad
}

// Collect reads the metrics. It omits the lag and the rejected rows if the outbox can't be read.
func (o outbox) Collect(out chan<- prometheus.Metric) {
	for result, n := range o.of.Relayed() {
		out <- prometheus.MustNewConstMetric(outboxRelayed, prometheus.CounterValue, float64(n), result)
	}
	oldest, up := o.of.Lag()
	if !up {
		out <- prometheus.MustNewConstMetric(outboxUp, prometheus.GaugeValue, 0)
		return
	}
	out <- prometheus.MustNewConstMetric(outboxUp, prometheus.GaugeValue, 1)
	out <- prometheus.MustNewConstMetric(outboxBad, prometheus.GaugeValue, float64(o.of.Rejected()))
	out <- prometheus.MustNewConstMetric(outboxLag, prometheus.GaugeValue, oldest.Seconds())
}
