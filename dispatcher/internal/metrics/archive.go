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
		up:      describe("up", "1 while PostgreSQL accepts this instance's data."),
		lag:     describe("lag_seconds", "Age of the oldest change in the store that is not archived; 0 if all are archived."),
		backlog: describe("backlog_bytes", "Memory in the store that is used only for changes that are not archived."),
		dropped: describe("dropped_total", "Changes that the store dropped before they were archived, because ARCHIVE_BACKLOG was reached."),
		orphans: describe("orphans", "Unfinished deliveries that only the archive has, because the store was emptied, in this instance's partitions; hookladder restore restores them."),
		rows:    describe("rows_total", "Rows that this instance wrote to the archive.", "table"),

		comparing: describe("comparing", "Share of deliveries that this instance still has to compare with the archive, after the first start, a restore or a cut; 0: none."),
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
	emit := func(d *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, kind, value, labels...)
	}
	up := 0.0
	if f.Up {
		up = 1
	}
	emit(c.up, prometheus.GaugeValue, up)
	emit(c.comparing, prometheus.GaugeValue, f.Comparing)
	emit(c.orphans, prometheus.GaugeValue, float64(f.Orphans))
	emit(c.rows, prometheus.CounterValue, float64(f.Messages), "message")
	emit(c.rows, prometheus.CounterValue, float64(f.Events), "event")
	if err != nil {
		return
	}
	emit(c.lag, prometheus.GaugeValue, f.Lag.Seconds())
	emit(c.backlog, prometheus.GaugeValue, float64(f.Backlog))
	emit(c.dropped, prometheus.CounterValue, float64(f.Dropped))
}
