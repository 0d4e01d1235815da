package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Outbox tells of the outbox from which this instance relays, if no other one does.
type Outbox interface {
	// Relayed counts rows by what became of them.
	Relayed() map[string]int64
	// Lag is the age of the oldest row, and whether the outbox can be read.
	Lag() (oldest time.Duration, up bool)
}

// WatchOutbox adds an outbox to the metrics.
func (m *Metrics) WatchOutbox(o Outbox) { m.registry.MustRegister(outbox{o}) }

// outbox reads the figures at each scrape.
type outbox struct{ of Outbox }

var (
	outboxRelayed = prometheus.NewDesc(prefix+"outbox_relayed_total",
		"Rows of the outbox that this instance relayed, by what became of them: accepted, duplicate, rejected, unmatched; waits, each time that one could not be accepted yet.",
		[]string{"result"}, nil)
	outboxLag = prometheus.NewDesc(prefix+"outbox_lag_seconds", "Age of the oldest row of the outbox, also of one that waits; 0: it is empty.", nil, nil)
	outboxUp  = prometheus.NewDesc(prefix+"outbox_up", "1 while the outbox can be read.", nil, nil)
)

// Describe describes the metrics.
func (o outbox) Describe(out chan<- *prometheus.Desc) {
	out <- outboxRelayed
	out <- outboxLag
	out <- outboxUp
}

// Collect reads the metrics. The lag of an outbox that can't be read is left out.
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
	out <- prometheus.MustNewConstMetric(outboxLag, prometheus.GaugeValue, oldest.Seconds())
}
