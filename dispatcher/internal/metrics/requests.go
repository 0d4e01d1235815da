package metrics

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

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
