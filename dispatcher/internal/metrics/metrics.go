// Package metrics serves the metrics of one instance and of the queue to Prometheus.
// Package app makes one Metrics. As a dispatcher.Observer it counts events on the hot path;
// the rest is read from its sources at each scrape.
//
// Labels are closed sets. All series exist from the start, because rate() misses the first
// event of a new series.
package metrics

import (
	"errors"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/hookladder/hookladder/dispatcher"
)

// prefix begins the names of all metrics.
const prefix = "hookladder_"

// Results of a publish, the labels of accepted_total.
const (
	resultAccepted    = "accepted"
	resultDuplicate   = "duplicate"
	resultConflict    = "conflict"
	resultLaneFull    = "lane_full"
	resultUnmatched   = "unmatched"   // no endpoint matched; the message was not stored
	resultStoreFull   = "store_full"  // no memory left
	resultUnavailable = "unavailable" // the store could not be reached
	resultRefused     = "refused"     // an invalid field, an unknown endpoint, or too large
)

var (
	results = []string{
		resultAccepted, resultDuplicate, resultConflict, resultLaneFull,
		resultUnmatched, resultStoreFull, resultUnavailable, resultRefused,
	}
	// failures are the verdicts of failed attempts.
	failures = []dispatcher.Verdict{dispatcher.Retry, dispatcher.Dead}
)

// Upper bounds of the histograms in seconds. An attempt takes up to a minute, and a
// handler up to an hour. The promise for lateness is 10 ms, and a delivery that waits
// for a permit, a breaker or a pause may be late by hours.
var (
	attemptBuckets  = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 15, 30, 60, 600, 3600}
	latenessBuckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 5, 15, 60, 300, 1800, 3600}
)

// deliveryBuckets covers a whole ladder, which is 25 hours by default.
var deliveryBuckets = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 5, 15, 60, 300, 1800, 3600, 21600, 86400, 172800}

// Metrics counts the events of an instance. It is a dispatcher.Observer and the handler of
// GET /metrics.
type Metrics struct {
	store   *storeCollector
	handler http.Handler

	registry *prometheus.Registry

	// Resolved once, because looking up a counter hashes its labels each time.
	attempts  map[dispatcher.Class]*[dispatcher.Back + 1]prometheus.Counter
	dead      map[dispatcher.DeadReason]prometheus.Counter
	accepted  map[string]prometheus.Counter
	took      prometheus.Histogram
	late      prometheus.Histogram
	whole     prometheus.Histogram
	unmatched prometheus.Counter
	takeovers prometheus.Counter
}

var (
	_ dispatcher.Observer = (*Metrics)(nil)
	_ http.Handler        = (*Metrics)(nil)
)

// New makes the metrics of one instance, with its own registry.
func New() *Metrics {
	attempts := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: prefix + "attempts_total", Help: "Attempts of this instance, by outcome and by the class of the failure.",
	}, []string{"outcome", "class"})
	dead := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: prefix + "dead_total", Help: "Dead deliveries by reason. Each is counted once, by the instance whose call ended it; ends in /v1/stats counts them in the store.",
	}, []string{"reason"})
	accepted := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: prefix + "accepted_total", Help: "Messages published to this instance, by result.",
	}, []string{"result"})
	m := &Metrics{
		store:    newStoreCollector(),
		attempts: map[dispatcher.Class]*[dispatcher.Back + 1]prometheus.Counter{},
		dead:     map[dispatcher.DeadReason]prometheus.Counter{},
		accepted: map[string]prometheus.Counter{},
		took: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: prefix + "attempt_seconds", Help: "Duration of attempts, until the response was judged.", Buckets: attemptBuckets,
		}),
		late: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: prefix + "lateness_seconds", Help: "How long after its due time each attempt began, or after its acceptance if that was later. Waits for a permit, a pause, a breaker or a rate count.", Buckets: latenessBuckets,
		}),
		whole: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: prefix + "delivery_seconds", Help: "How long after its acceptance each delivery was delivered, or after its deliver_at if that was later. Waits of the ladder and pauses count. Deliveries that a person sent again do not.", Buckets: deliveryBuckets,
		}),
		unmatched: prometheus.NewCounter(prometheus.CounterOpts{
			Name: prefix + "unmatched_total", Help: "Messages that matched no endpoint.",
		}),
		takeovers: prometheus.NewCounter(prometheus.CounterOpts{
			Name: prefix + "takeovers_total", Help: "Dead instances that this one took over.",
		}),
	}
	m.resolve(attempts, dead, accepted)
	registry := prometheus.NewRegistry()
	registry.MustRegister(attempts, dead, accepted, m.took, m.late, m.whole, m.unmatched, m.takeovers, m.store,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.registry = registry
	m.handler = promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	return m
}

// resolve creates all series.
func (m *Metrics) resolve(attempts, dead, accepted *prometheus.CounterVec) {
	m.attempts[dispatcher.ClassNone] = &[dispatcher.Back + 1]prometheus.Counter{
		dispatcher.Delivered: attempts.WithLabelValues(dispatcher.Delivered.String(), "none"),
	}
	for _, class := range dispatcher.Classes() {
		if class == dispatcher.ClassEgress { // egress_faults_total counts these by their reason
			continue
		}
		m.attempts[class] = &[dispatcher.Back + 1]prometheus.Counter{}
		for _, verdict := range failures {
			m.attempts[class][verdict] = attempts.WithLabelValues(verdict.String(), string(class))
		}
	}
	for _, reason := range dispatcher.DeadReasons() {
		m.dead[reason] = dead.WithLabelValues(string(reason))
	}
	for _, result := range results {
		m.accepted[result] = accepted.WithLabelValues(result)
	}
}

// Watch adds the metrics of the whole queue.
func (m *Metrics) Watch(source Source) { m.store.watch(source) }

// ServeHTTP serves the metrics as text.
func (m *Metrics) ServeHTTP(w http.ResponseWriter, r *http.Request) { m.handler.ServeHTTP(w, r) }

// Attempted counts an attempt.
func (m *Metrics) Attempted(a dispatcher.Attempted) {
	if a.Attempt.Number == 0 {
		return // it ended without an attempt
	}
	if of := m.attempts[a.Attempt.Class]; of != nil && int(a.Attempt.Verdict) < len(of) && of[a.Attempt.Verdict] != nil {
		of[a.Attempt.Verdict].Inc()
	}
	if !a.Taken { // a taker attempts at any time and takes as long as it needs
		m.took.Observe(a.Attempt.Duration.Seconds())
		m.late.Observe(a.Late.Seconds())
	}
	if a.Since > 0 {
		m.whole.Observe(a.Since.Seconds())
	}
}

// Died counts a dead delivery.
func (m *Metrics) Died(d dispatcher.Death) {
	if c := m.dead[d.Reason]; c != nil {
		c.Inc()
	}
}

// Published counts one message of a publish.
func (m *Metrics) Published(p dispatcher.Published) {
	result := resultOf(p)
	if c := m.accepted[result]; c != nil {
		c.Inc()
	}
	if result == resultUnmatched {
		m.unmatched.Inc()
	}
}

func resultOf(p dispatcher.Published) string {
	if p.Err != nil {
		return resultOfError(p.Err)
	}
	switch p.Result {
	case dispatcher.Duplicate:
		return resultDuplicate
	case dispatcher.Conflict:
		return resultConflict
	case dispatcher.LaneFull:
		return resultLaneFull
	}
	if p.Unmatched() {
		return resultUnmatched
	}
	return resultAccepted
}

func resultOfError(err error) string {
	switch {
	case errors.Is(err, dispatcher.ErrFull):
		return resultStoreFull
	case errors.Is(err, dispatcher.ErrNoEndpoint), errors.Is(err, dispatcher.ErrTenant), errors.Is(err, dispatcher.ErrFanOut):
		return resultRefused
	case errors.Is(err, dispatcher.ErrUnmatched):
		return resultUnmatched
	}
	return resultUnavailable // or the caller canceled, or the instance is stopping
}

// TookOver counts a dead instance whose deliveries this one put back.
func (m *Metrics) TookOver(int) {
	m.takeovers.Inc()
}
