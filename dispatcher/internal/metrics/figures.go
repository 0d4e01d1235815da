package metrics

import (
	"context"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
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

// statusOther is the label of statuses that a call rarely returns.
const statusOther = "other"

// Requests counts the API's responses and the messages that it refused.
type Requests struct {
	refused prometheus.Counter
	counted map[string]map[int]prometheus.Counter // by call and status
	others  map[string]prometheus.Counter         // by call: all other statuses
	took    map[string]prometheus.Observer        // by call
}

// WatchRequests counts calls of the API, each by the statuses that it may return.
func (m *Metrics) WatchRequests(calls map[string][]int) *Requests {
	vec := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: prefix + "requests_total", Help: "Calls of this instance's API, by their names in /openapi.json (other: no such path) and by status.",
	}, []string{"call", "status"})
	took := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: prefix + "request_seconds", Help: "Duration of calls of this instance's API, by name, until the response ended. Some calls wait as long as their callers ask.", Buckets: callBuckets,
	}, []string{"call"})
	r := &Requests{
		refused: m.accepted[resultRefused], took: map[string]prometheus.Observer{},
		counted: map[string]map[int]prometheus.Counter{}, others: map[string]prometheus.Counter{},
	}
	for call, statuses := range calls {
		r.took[call] = took.WithLabelValues(call)
		r.counted[call], r.others[call] = map[int]prometheus.Counter{}, vec.WithLabelValues(call, statusOther)
		for _, status := range statuses {
			r.counted[call][status] = vec.WithLabelValues(call, strconv.Itoa(status))
		}
	}
	m.registry.MustRegister(vec, took)
	return r
}

// Requested counts a call that took so long.
func (r *Requests) Requested(call string, status int, took time.Duration) {
	if o := r.took[call]; o != nil {
		o.Observe(took.Seconds())
	}
	if c := r.counted[call][status]; c != nil {
		c.Inc()
	} else if c := r.others[call]; c != nil {
		c.Inc()
	}
}

// Refused counts messages that were refused before the engine accepted them.
func (r *Requests) Refused(messages int) { r.refused.Add(float64(messages)) }

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
