// Package queueprom has the Prometheus metrics of the queues of a Go program. It is a package of its
// own, so that a program without it links no Prometheus.
//
//	q, err := queue.Open(ctx, url, options)
//	...
//	q.Handle("mail", send)
//	err = queueprom.Register(prometheus.DefaultRegisterer, q)
//	...
//	err = q.Run(ctx)
package queueprom

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/queue"
)

// Outcomes of a call of a handler, the values of the label outcome.
const (
	succeeded = "ok"
	failed    = "error"
	panicked  = "panic"
	skipped   = "skipped" // it returned queue.SkipRetry
	snoozed   = "snoozed" // it returned queue.Snooze
)

// scrapeWithin bounds the reading of Redis for one scrape. Prometheus gives up after 10 s by default.
const scrapeWithin = 5 * time.Second

// Register adds the metrics of a queue to reg. Call it before Run, and once for each reg.
//
//   - hookladder_queue_handled_total{queue,outcome}: calls of handlers in this program, by their
//     outcome: ok, error, panic, skipped or snoozed.
//   - hookladder_queue_handler_seconds{queue}: their durations.
//   - hookladder_queue_waiting{queue}, hookladder_queue_in_flight{queue}, hookladder_queue_dead{queue}
//     and hookladder_queue_paused{queue}: counts of all programs, read from Redis at each scrape.
//
// The last ones are of the queues that have a handler in this program, and of at most 256 names.
// Without a response of Redis they are missing in that scrape, and hookladder_queue_up is 0.
func Register(reg prometheus.Registerer, q *queue.Queue, names ...string) error {
	if err := check(reg, q, names); err != nil {
		return fmt.Errorf("register the metrics of a queue: %w", err)
	}
	m := &metrics{
		queue: q, names: names,
		handled: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hookladder_queue_handled_total", Help: "Calls of handlers in this program, by queue and outcome.",
		}, []string{"queue", "outcome"}),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "hookladder_queue_handler_seconds", Help: "Durations of calls of handlers in this program.",
			Buckets: []float64{.001, .005, .025, .1, .5, 1, 5, 15, 60, 300, 1800},
		}, []string{"queue"}),
	}
	if err := reg.Register(m); err != nil {
		return fmt.Errorf("register the metrics of a queue: %w", err)
	}
	q.Use(m.count)
	return nil
}

// namesMost is that of Queue.Stats.
const namesMost = 256

// check returns an error for arguments with which no scrape would work.
func check(reg prometheus.Registerer, q *queue.Queue, names []string) error {
	if reg == nil {
		return errors.New("the registerer is nil")
	}
	ended, end := context.WithCancel(context.Background())
	end()
	if _, err := q.Stats(ended); !errors.Is(err, context.Canceled) { // it asks Redis nothing
		return err
	}
	if len(names) > namesMost {
		return fmt.Errorf("%w: %d names, at most %d are taken", queue.ErrInvalid, len(names), namesMost)
	}
	for _, name := range names {
		if !dispatcher.ValidQueue(name) {
			return fmt.Errorf("%w: %q is no name of a queue", queue.ErrInvalid, name)
		}
	}
	return nil
}

// The counts that are read from Redis.
var (
	up       = describe("up", "1 if Redis could be read at this scrape.")
	waiting  = describe("waiting", "Deliveries that wait, in all programs.", "queue")
	inFlight = describe("in_flight", "Deliveries that are handled now, in all programs.", "queue")
	dead     = describe("dead", "Dead deliveries that are kept.", "queue")
	paused   = describe("paused", "1 if the queue is paused.", "queue")
)

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("hookladder_queue_"+name, help, labels, nil)
}

// metrics is a collector of all metrics of one queue.Queue.
type metrics struct {
	queue   *queue.Queue
	names   []string
	handled *prometheus.CounterVec
	took    *prometheus.HistogramVec
}

// count is a middleware that counts the calls of a handler.
func (m *metrics) count(next queue.HandlerFunc) queue.HandlerFunc {
	return func(ctx context.Context, d queue.Delivery) (err error) {
		began, outcome := time.Now(), panicked // also if the handler ends its goroutine
		defer func() {
			m.took.WithLabelValues(d.Queue).Observe(time.Since(began).Seconds())
			m.handled.WithLabelValues(d.Queue, outcome).Inc()
		}()
		err = next(ctx, d)
		outcome = outcomeOf(err)
		return err
	}
}

func outcomeOf(err error) string {
	var wait *queue.SnoozeError
	switch {
	case err == nil:
		return succeeded
	case errors.Is(err, queue.ErrSkipRetry):
		return skipped
	case errors.As(err, &wait):
		return snoozed
	}
	return failed
}

// Describe describes the metrics.
func (m *metrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{up, waiting, inFlight, dead, paused} {
		to <- d
	}
	m.handled.Describe(to)
	m.took.Describe(to)
}

// Collect reads the counts from Redis and sends all metrics.
func (m *metrics) Collect(to chan<- prometheus.Metric) {
	m.handled.Collect(to)
	m.took.Collect(to)
	gauge := func(of *prometheus.Desc, value int, labels ...string) {
		to <- prometheus.MustNewConstMetric(of, prometheus.GaugeValue, float64(value), labels...)
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapeWithin)
	defer cancel()
	stats, err := m.queue.Stats(ctx)
	if err == nil && len(m.names) > 0 {
		var named []queue.Stats
		named, err = m.queue.Stats(ctx, m.names...)
		stats = append(stats, named...)
	}
	if err != nil {
		gauge(up, 0)
		return
	}
	gauge(up, 1)
	seen := map[string]bool{}
	for _, s := range stats {
		if seen[s.Queue] {
			continue
		}
		seen[s.Queue] = true
		gauge(waiting, s.Waiting, s.Queue)
		gauge(inFlight, s.InFlight, s.Queue)
		gauge(dead, s.Dead, s.Queue)
		held := 0
		if s.Paused {
			held = 1
		}
		gauge(paused, held, s.Queue)
	}
}
