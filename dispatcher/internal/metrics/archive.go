package metrics

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hookladder/hookladder/dispatcher/archive"
)

// archiveCollector reads the archive's figures at each scrape.
type archiveCollector struct {
	up, lag, backlog, dropped, orphans, rows, comparing *prometheus.Desc

	figures func(context.Context) (archive.Figures, error)
}

// WatchArchive adds the metrics of the archive. It is called at most once.
func (m *Metrics) WatchArchive(figures func(context.Context) (archive.Figures, error)) {
	describe := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(prefix+"archive_"+name, help, labels, nil)
	}
	m.registry.MustRegister(&archiveCollector{
		figures: figures,
		up:      describe("up", "1 while PostgreSQL accepts the data that this instance gives it."),
		lag:     describe("lag_seconds", "Age of the oldest change in the store that is not archived; 0 if all are archived."),
		backlog: describe("backlog_bytes", "Bytes that the store keeps only because they are not archived."),
		dropped: describe("dropped_total", "Lines of the log that the store cut before they were archived, because ARCHIVE_BACKLOG was reached."),
		orphans: describe("orphans", "Unfinished deliveries of a store that was emptied, which hookladder restore restores, in the partitions of this instance."),
		rows:    describe("rows_total", "Rows that this instance wrote to the archive.", "table"),

		comparing: describe("comparing", "The share of its deliveries that this instance has not compared with the archive yet; 0 if all are compared."),
	})
}

// Describe sends the descriptions of the metrics.
func (c *archiveCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.up, c.lag, c.backlog, c.dropped, c.orphans, c.rows, c.comparing} {
		out <- d
	}
}

// Collect reads the metrics. It omits the store's figures if the store can't be read.
func (c *archiveCollector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), statsWithin)
	defer cancel()
	f, err := c.figures(ctx)
	tell := func(d *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, kind, value, labels...)
	}
	up := 0.0
	if f.Up {
		up = 1
	}
	tell(c.up, prometheus.GaugeValue, up)
	tell(c.comparing, prometheus.GaugeValue, f.Comparing)
	tell(c.orphans, prometheus.GaugeValue, float64(f.Orphans))
	tell(c.rows, prometheus.CounterValue, float64(f.Messages), "message")
	tell(c.rows, prometheus.CounterValue, float64(f.Events), "event")
	if err != nil {
		return
	}
	tell(c.lag, prometheus.GaugeValue, f.Lag.Seconds())
	tell(c.backlog, prometheus.GaugeValue, float64(f.Backlog))
	tell(c.dropped, prometheus.CounterValue, float64(f.Dropped))
}
