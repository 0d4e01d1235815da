package metrics

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hookladder/hookladder/dispatcher"
)

// Source tells of the whole queue, and of this instance's permits. The
// Dispatcher is one.
type Source interface {
	Stats(ctx context.Context) (dispatcher.Stats, error)
	// Ping reports whether the store answers.
	Ping(ctx context.Context) error
	// Emptied is what the store lost, and was neither restored nor given up; nil: nothing.
	Emptied() *dispatcher.Emptied
	// Permits are those in use, and all there are.
	Permits() (used, all int)
	// Exhausted is how many attempts were not made for want of our own means.
	Exhausted() int64
	// Network reports whether our own network works, and how many attempts it made fail.
	Network() (up bool, faults map[dispatcher.EgressFault]int64)
}

// The queue is counted at most once in statsEvery, however many scrape: one count
// may read every lane. Whether the store answers is asked apart from that. A count
// that takes longer than statsWithin is given up, so that a scrape (10 s by default)
// is answered while the store hangs.
const (
	statsEvery  = time.Second
	statsWithin = 3 * time.Second
)

// The labels of lanes and held, in the order of the states: each lane has the
// last that holds.
var (
	states = []dispatcher.EndpointState{
		dispatcher.StateActive, dispatcher.StateLimited, dispatcher.StateOpen, dispatcher.StateFailing, dispatcher.StatePaused, dispatcher.StateDisabled,
	}
	whys = []dispatcher.LaneWhy{
		dispatcher.WhyPaused, dispatcher.WhyBreaker, dispatcher.WhyRetryAfter, dispatcher.WhyRate, dispatcher.WhyOrder, dispatcher.WhyConsumer,
		dispatcher.WhySealed, dispatcher.WhyMissing, dispatcher.WhyEgress,
	}
)

// storeCollector asks when it is scraped. What it can't find out it leaves out:
// a gauge that stands still would tell that all is well.
type storeCollector struct {
	up, durable, used, retention *prometheus.Desc
	emptied                      *prometheus.Desc
	instances, deliveries        *prometheus.Desc
	oldest, inFlight, permits    *prometheus.Desc
	exhausted, lanes, held       *prometheus.Desc
	egressUp, egressFaults       *prometheus.Desc

	mu     sync.Mutex // guards what follows; held while the queue is counted, so that one does it for all
	source Source
	at     time.Time // of stats and err
	stats  dispatcher.Stats
	err    error // why it could not be counted
	down   error // why the store does not answer, or takes no changes
}

func newStoreCollector() *storeCollector {
	describe := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(prefix+name, help, labels, nil)
	}
	return &storeCollector{
		up:         describe("store_up", "1 while the store answers, and takes changes."),
		durable:    describe("store_durable", "1 while DURABILITY holds, 0 while it does not; left out where the store does not tell."),
		emptied:    describe("store_emptied", "1 while the store lacks data that it lost, until they are restored or given up."),
		used:       describe("store_used_ratio", "Memory in use of what the fullest master may use; left out where there is no limit."),
		retention:  describe("retention_seconds", "For how long finished deliveries are kept whole by now, where they are kept least long."),
		instances:  describe("instances", "Instances that are alive, or not yet found dead."),
		deliveries: describe("deliveries", "Deliveries in the queue.", "status"),
		oldest:     describe("oldest_due_seconds", "For how long the oldest delivery is due that may be attempted and is not; 0: none is."),
		lanes:      describe("lanes", "Destinations that are known, each under the last state that holds.", "state"),
		held:       describe("held", "Deliveries that are due, or behind another, and may not be attempted, by why.", "why"),
		inFlight:   describe("in_flight", "Permits of this instance that are in use."),
		permits:    describe("permits", "Permits of this instance: MAX_IN_FLIGHT, or what the file descriptors allow."),
		exhausted:  describe("exhausted_total", "Attempts that were not made, since this host had no file descriptor, port or buffer left. They wait."),

		egressUp:     describe("egress_up", "1 unless a control found our own network down: the resolver, the route or the proxy."),
		egressFaults: describe("egress_faults_total", "Attempts that our own network made fail. They wait, and no receiver is blamed.", "why"),
	}
}

func (c *storeCollector) watch(s Source) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.source, c.at = s, time.Time{}
}

// Describe tells which metrics there are.
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
	source, st, down, err := c.look()
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
	if st.Partial { // some lanes would stand for all
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

// look counts the queue, unless another scrape just did.
func (c *storeCollector) look() (source Source, st dispatcher.Stats, down, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.source != nil && (c.at.IsZero() || time.Since(c.at) >= statsEvery) {
		ctx, cancel := context.WithTimeout(context.Background(), statsWithin)
		defer cancel()
		c.down = c.source.Ping(ctx)
		if c.err = c.down; c.down == nil || errors.Is(c.down, dispatcher.ErrReadOnly) { // it can be read
			c.stats, c.err = c.source.Stats(ctx)
		}
		c.at = time.Now()
	}
	return c.source, c.stats, c.down, c.err
}
