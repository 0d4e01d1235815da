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
		up:         describe("store_up", "1 while the store responds and accepts writes."),
		durable:    describe("store_durable", "1 while DURABILITY holds, 0 while it does not; absent if the store does not report it."),
		emptied:    describe("store_emptied", "1 while the store lacks data that it lost, until they are restored or given up."),
		used:       describe("store_used_ratio", "Used share of the memory limit of the fullest master; absent without a limit."),
		retention:  describe("retention_seconds", "How long finished deliveries are kept complete, in the partition where they are kept the shortest time."),
		instances:  describe("instances", "Instances that are alive or not yet detected as dead."),
		deliveries: describe("deliveries", "Deliveries in the queue.", "status"),
		oldest:     describe("oldest_due_seconds", "How long the oldest delivery is overdue that could be attempted; 0 if there is none."),
		lanes:      describe("lanes", "Known destinations, each under its last state that applies.", "state"),
		held:       describe("held", "Deliveries that are due or wait for another, but may not be attempted now, by reason.", "why"),
		inFlight:   describe("in_flight", "Permits of this instance that are in use."),
		permits:    describe("permits", "Permits of this instance: MAX_IN_FLIGHT, or what the file descriptors allow."),
		exhausted:  describe("exhausted_total", "Attempts that were not made, because this host had no file descriptor, port or buffer left. They are retried later."),

		egressUp:     describe("egress_up", "0 while a probe finds this host's network down: the resolver, the route or the proxy."),
		egressFaults: describe("egress_faults_total", "Attempts that failed because of this host's network. They are retried later and don't count as failures of the receiver.", "why"),
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
		c.egressUp, c.egressFaults,
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
	tell := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	used, all := source.Permits()
	tell(c.inFlight, float64(used))
	tell(c.permits, float64(all))
	out <- prometheus.MustNewConstMetric(c.exhausted, prometheus.CounterValue, float64(source.Exhausted()))
	works, faults := source.Network()
	if works {
		tell(c.egressUp, 1)
	} else {
		tell(c.egressUp, 0)
	}
	for _, why := range dispatcher.EgressFaults {
		out <- prometheus.MustNewConstMetric(c.egressFaults, prometheus.CounterValue, float64(faults[why]), string(why))
	}
	if down != nil {
		tell(c.up, 0)
	} else {
		tell(c.up, 1)
	}
	tell(c.emptied, float64(emptied(source)))
	if err != nil {
		return
	}
	switch st.Store.Durable {
	case dispatcher.Yes:
		tell(c.durable, 1)
	case dispatcher.No:
		tell(c.durable, 0)
	}
	if used, most := st.Store.UsedBytes, st.Store.MaxBytes; used != nil && most != nil && *most > 0 {
		tell(c.used, float64(*used)/float64(*most))
	}
	tell(c.retention, st.Retention.Seconds())
	tell(c.instances, float64(st.Instances))
	for _, status := range dispatcher.Statuses {
		tell(c.deliveries, float64(st.Counts[status]), string(status))
	}
	if st.Partial { // without some lanes the counts would be too low
		return
	}
	for _, state := range states {
		tell(c.lanes, float64(st.LanesBy[state]), string(state))
	}
	for _, why := range whys {
		tell(c.held, float64(st.Held[why]), string(why))
	}
	oldest := 0.0
	if !st.OldestDue.IsZero() {
		oldest = max(st.Now.Sub(st.OldestDue).Seconds(), 0)
	}
	tell(c.oldest, oldest)
}

func emptied(s Source) int {
	if s.Emptied() != nil {
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
