package metrics

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hookladder/hookladder/dispatcher"
)

// Source has the figures of the whole queue and of this instance's permits. The Dispatcher
// implements it.
type Source interface {
	Stats(ctx context.Context) (dispatcher.Stats, error)
	// Ping returns an error if the store does not respond.
	Ping(ctx context.Context) error
	// Emptied returns the loss of data that is neither restored nor given up, or nil.
	Emptied() *dispatcher.Emptied
	// Permits returns the permits in use and their total.
	Permits() (used, all int)
	// Exhausted returns how many attempts were not made because this host lacked a
	// resource.
	Exhausted() int64
	// Network reports whether this host's network works, and how many attempts failed
	// because of it.
	Network() (up bool, faults map[dispatcher.EgressFault]int64)
}

// The queue is counted at most once in statsEvery for any number of scrapes, because one
// count may read every lane. The ping is separate. A count that takes longer than
// statsWithin is canceled, so that a scrape (timeout 10 s by default) returns while the
// store hangs.
const (
	statsEvery  = time.Second
	statsWithin = 3 * time.Second
)

// The labels of lanes and held, in the order of the states. Each lane counts under its last
// state that applies.
var (
	states = []dispatcher.EndpointState{
		dispatcher.StateActive, dispatcher.StateLimited, dispatcher.StateOpen, dispatcher.StateFailing, dispatcher.StatePaused, dispatcher.StateDisabled,
	}
	whys = []dispatcher.LaneWhy{
		dispatcher.WhyPaused, dispatcher.WhyBreaker, dispatcher.WhyRetryAfter, dispatcher.WhyRate, dispatcher.WhyOrder, dispatcher.WhyConsumer,
		dispatcher.WhySealed, dispatcher.WhyMissing, dispatcher.WhyEgress,
	}
)

// storeCollector reads the store at each scrape. It omits figures that it can't read, because an
// old value would look healthy.
type storeCollector struct {
	up, durable, used, retention *prometheus.Desc
	emptied                      *prometheus.Desc
	instances, deliveries        *prometheus.Desc
	oldest, inFlight, permits    *prometheus.Desc
	exhausted, lanes, held       *prometheus.Desc
	egressUp, egressFaults       *prometheus.Desc
	oldestHeld                   *prometheus.Desc

	mu     sync.Mutex // guards the fields below; locked during a count, so that one scrape counts for all
	source Source
	at     time.Time // when stats and err were read
	stats  dispatcher.Stats
	err    error // why the queue could not be counted
	down   error // why the store does not respond, or is read-only
}

func newStoreCollector() *storeCollector {
	describe := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(prefix+name, help, labels, nil)
	}
	return &storeCollector{
		up:         describe("store_up", "1 while the store responds and accepts changes. While it does not respond, metrics from the store are left out."),
		durable:    describe("store_durable", "1 while DURABILITY is fulfilled, 0 while it is not; left out if the store does not report it."),
		emptied:    describe("store_emptied", "1 while the store lacks data that it lost, until they are restored or given up."),
		used:       describe("store_used_ratio", "Used share of the memory limit of the fullest master; left out if there is no maxmemory."),
		retention:  describe("retention_seconds", "How long finished deliveries are kept at present, in the partition where that is shortest, before RETENTION_MAX deletes them."),
		instances:  describe("instances", "Live instances, and dead ones that no other has taken over yet."),
		deliveries: describe("deliveries", "Deliveries in the queue.", "status"),
		oldest:     describe("oldest_due_seconds", "Age of the oldest due delivery that may be attempted and is not; 0 if there is none. Deliveries counted in hookladder_held are excluded, so a paused or broken receiver does not raise it."),
		oldestHeld: describe("oldest_held_seconds", "The longest time that a destination with waiting deliveries has been paused, unverified, or without its endpoint or its key, or that a message has waited for the key of its headers; 0 if none is."),
		lanes:      describe("lanes", "Known destinations, each under the last state that applies. limited: by a rate, Retry-After or a fault of ours. open: its breaker. failing: for FAILING_AFTER. disabled: or deleted.", "state"),
		held:       describe("held", "Due deliveries that may not be attempted. egress: our own network failed. sealed: no key decrypts their endpoint, or the headers of their message. missing: their endpoint is not in the store. order: they wait behind another one of their key, due or not. consumer: they wait for a taker of a queue or a pull endpoint.", "why"),
		inFlight:   describe("in_flight", "Permits of this instance in use."),
		permits:    describe("permits", "All permits of this instance: MAX_IN_FLIGHT, or fewer if the file descriptors allow fewer."),
		exhausted:  describe("exhausted_total", "Attempts that were not made because this host had no file descriptor, port or buffer left. Their deliveries wait, and no receiver is blamed."),

		egressUp:     describe("egress_up", "0 while control queries report that our own network is down: the resolver, the route or the proxy."),
		egressFaults: describe("egress_faults_total", "Attempts that failed because of our own network. They are repeated later, and no receiver is blamed.", "why"),
	}
}

func (c *storeCollector) watch(s Source) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.source, c.at = s, time.Time{}
}

// Describe sends the descriptions of the metrics.
func (c *storeCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		c.up, c.durable, c.emptied, c.used, c.retention, c.instances, c.deliveries, c.oldest, c.inFlight, c.permits, c.exhausted, c.lanes, c.held,
		c.egressUp, c.egressFaults, c.oldestHeld,
	} {
		out <- d
	}
}

// Collect reads the metrics.
func (c *storeCollector) Collect(out chan<- prometheus.Metric) {
	source, st, down, err := c.count()
	if source == nil {
		return
	}
	emit := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	used, all := source.Permits()
	emit(c.inFlight, float64(used))
	emit(c.permits, float64(all))
	out <- prometheus.MustNewConstMetric(c.exhausted, prometheus.CounterValue, float64(source.Exhausted()))
	works, faults := source.Network()
	emit(c.egressUp, truth(works))
	for _, why := range dispatcher.EgressFaults() {
		out <- prometheus.MustNewConstMetric(c.egressFaults, prometheus.CounterValue, float64(faults[why]), string(why))
	}
	emit(c.up, truth(down == nil))
	emit(c.emptied, truth(source.Emptied() != nil))
	if err != nil {
		return
	}
	switch st.Store.Durable {
	case dispatcher.Yes:
		emit(c.durable, 1)
	case dispatcher.No:
		emit(c.durable, 0)
	}
	if used, most := st.Store.UsedBytes, st.Store.MaxBytes; used != nil && most != nil && *most > 0 {
		emit(c.used, float64(*used)/float64(*most))
	}
	emit(c.retention, st.Retention.Seconds())
	emit(c.instances, float64(st.Instances))
	for _, status := range dispatcher.Statuses() {
		emit(c.deliveries, float64(st.Counts[status]), string(status))
	}
	if st.Partial { // without some lanes the counts would be too low
		return
	}
	for _, state := range states {
		emit(c.lanes, float64(st.LanesBy[state]), string(state))
	}
	for _, why := range whys {
		emit(c.held, float64(st.Blocked[why]), string(why))
	}
	emit(c.oldest, age(st.Now, st.OldestDue))
	emit(c.oldestHeld, age(st.Now, st.BlockedSince))
}

// age returns the seconds since a time; 0 if there is none, or if it is still to come.
func age(now, since time.Time) float64 {
	if since.IsZero() {
		return 0
	}
	return max(now.Sub(since).Seconds(), 0)
}

func truth(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// count counts the queue, unless another scrape has just done it.
func (c *storeCollector) count() (source Source, st dispatcher.Stats, down, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.source != nil && (c.at.IsZero() || time.Since(c.at) >= statsEvery) {
		ctx, cancel := context.WithTimeout(context.Background(), statsWithin)
		defer cancel()
		c.down = c.source.Ping(ctx)
		if c.err = c.down; c.down == nil || errors.Is(c.down, dispatcher.ErrReadOnly) { // it can still be read
			c.stats, c.err = c.source.Stats(ctx)
		}
		c.at = time.Now()
	}
	return c.source, c.stats, c.down, c.err
}
