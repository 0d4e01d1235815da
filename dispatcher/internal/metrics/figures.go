package metrics

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hookladder/hookladder/dispatcher"
)

// callBuckets are for calls of the API and of the store, in seconds.
var callBuckets = []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5}

// Running adds the version of the process.
func (m *Metrics) Running(version string) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: prefix + "build_info", Help: "1, with the version of this instance.", ConstLabels: prometheus.Labels{"version": version},
	}, func() float64 { return 1 }))
}

// Reloads has the result of the last reload of files.
type Reloads struct {
	failed atomic.Bool
	at     atomic.Int64 // Unix seconds of the last success
}

// WatchReloads adds the result of reloads. The start counts as the first one.
func (m *Metrics) WatchReloads() *Reloads {
	r := &Reloads{}
	r.Reloaded(nil)
	m.registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: prefix + "reload_success", Help: "1 if the last SIGHUP could read all files of keys, or none came yet; 0 if the old keys stay in use.",
		}, func() float64 {
			if r.failed.Load() {
				return 0
			}
			return 1
		}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: prefix + "reload_timestamp_seconds", Help: "Unix time at which the files of keys were last read without an error.",
		}, func() float64 { return float64(r.at.Load()) }),
	)
	return r
}

// Reloaded records the result of a reload.
func (r *Reloads) Reloaded(err error) {
	r.failed.Store(err != nil)
	if err == nil {
		r.at.Store(time.Now().Unix())
	}
}

// WatchTraces adds the number of spans that were not sent.
func (m *Metrics) WatchTraces(dropped func() int64) {
	m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: prefix + "traces_dropped_total",
		Help: "Spans that this instance did not send, because the queue was full, or the collector did not accept them; left out if traces are off.",
	}, func() float64 { return float64(dropped()) }))
}

// WatchLog adds the number of log lines that were not written.
func (m *Metrics) WatchLog(dropped func() int64) {
	m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: prefix + "log_dropped_total",
		Help: "Log lines of this instance that were not written, because standard error was closed, or its reader was too slow. Deliveries never wait for it.",
	}, func() float64 { return float64(dropped()) }))
}

// WatchClock adds the number of jumps of the store's clock.
func (m *Metrics) WatchClock(jumps func() int64) {
	m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: prefix + "store_clock_jumps_total",
		Help: "Jumps of Redis' clock by a minute or more against the monotonic clock of this host; also after this host was suspended.",
	}, func() float64 { return float64(jumps()) }))
}

// WatchProgress adds whether this instance is stuck, which alive returns as an error.
func (m *Metrics) WatchProgress(alive func() error) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: prefix + "stuck",
		Help: "1 while work of this instance waits and has not moved for 30 s, though the store may work. It then has no heartbeat, /healthz returns 503, and another instance takes over.",
	}, func() float64 { return truth(alive() != nil) }))
}

// WatchTorn adds the number of torn partitions.
func (m *Metrics) WatchTorn(torn func() int) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: prefix + "store_torn_partitions",
		Help: "Partitions in which an error, mostly a missing right in Redis, ended a script in its middle, as far as this instance knows. Nothing is done there until an instance has repaired them.",
	}, func() float64 { return float64(torn()) }))
}

// StoreCalls measures the round trips to the store.
type StoreCalls struct {
	took  map[string]prometheus.Observer // by kind
	other prometheus.Observer
}

// WatchStoreCalls measures round trips by their kind: the name of a script, or other.
func (m *Metrics) WatchStoreCalls(kinds []string) *StoreCalls {
	vec := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: prefix + "store_seconds", Help: "Duration of round trips to the store, by the script that they run; other: any other script, and commands.", Buckets: callBuckets,
	}, []string{"kind"})
	s := &StoreCalls{took: map[string]prometheus.Observer{}, other: vec.WithLabelValues(statusOther)}
	for _, kind := range kinds {
		s.took[kind] = vec.WithLabelValues(kind)
	}
	m.registry.MustRegister(vec)
	return s
}

// Called measures a round trip.
func (s *StoreCalls) Called(kind string, took time.Duration) {
	o := s.took[kind]
	if o == nil {
		o = s.other
	}
	o.Observe(took.Seconds())
}

// Beside has figures beside the queue.
type Beside struct {
	Endpoints func(context.Context) (int64, error)                         // number of endpoints
	Jobs      func(context.Context) (map[dispatcher.JobState]int64, error) // number of jobs that have not ended
	Unsent    func() int64                                                 // number of notices that were not sent
}

// beside reads the figures at each scrape. It omits a figure that can't be read.
type beside struct {
	endpoints, jobs, unsent *prometheus.Desc
	of                      Beside
}

// WatchBeside adds endpoints, jobs and notices.
func (m *Metrics) WatchBeside(of Beside) {
	describe := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(prefix+name, help, labels, nil)
	}
	m.registry.MustRegister(&beside{
		of:        of,
		endpoints: describe("endpoints", "Registered endpoints."),
		jobs:      describe("jobs", "Jobs that have not ended: running, or waiting because all lanes of their deliveries are full.", "state"),
		unsent:    describe("notices_failed_total", "Notices that this instance did not send, because too many waited, the store was full, or it stopped."),
	})
}

// Describe sends the descriptions of the metrics.
func (b *beside) Describe(out chan<- *prometheus.Desc) {
	out <- b.endpoints
	out <- b.jobs
	out <- b.unsent
}

// Collect reads the metrics.
func (b *beside) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), statsWithin)
	defer cancel()
	out <- prometheus.MustNewConstMetric(b.unsent, prometheus.CounterValue, float64(b.of.Unsent()))
	if n, err := b.of.Endpoints(ctx); err == nil {
		out <- prometheus.MustNewConstMetric(b.endpoints, prometheus.GaugeValue, float64(n))
	}
	if jobs, err := b.of.Jobs(ctx); err == nil {
		for _, state := range dispatcher.JobStates() {
			if !state.Ended() {
				out <- prometheus.MustNewConstMetric(b.jobs, prometheus.GaugeValue, float64(jobs[state]), string(state))
			}
		}
	}
}
