package metrics

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// statusOther stands for the statuses that a call hardly ever answers.
const statusOther = "other"

// Requests counts what the API answers, and the messages that it refused.
type Requests struct {
	refused prometheus.Counter
	counted map[string]map[int]prometheus.Counter // by call and status
	others  map[string]prometheus.Counter         // by call: of any other status
}

// WatchRequests has the calls of the API counted, each by the statuses that it
// answers.
func (m *Metrics) WatchRequests(calls map[string][]int) *Requests {
	vec := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: prefix + "requests_total", Help: "Calls of this instance's API, by their names and the statuses of the answers.",
	}, []string{"call", "status"})
	r := &Requests{
		refused: m.accepted[resultRefused],
		counted: map[string]map[int]prometheus.Counter{}, others: map[string]prometheus.Counter{},
	}
	for call, statuses := range calls {
		r.counted[call], r.others[call] = map[int]prometheus.Counter{}, vec.WithLabelValues(call, statusOther)
		for _, status := range statuses {
			r.counted[call][status] = vec.WithLabelValues(call, strconv.Itoa(status))
		}
	}
	m.registry.MustRegister(vec)
	return r
}

// Requested counts a call.
func (r *Requests) Requested(call string, status int) {
	if c := r.counted[call][status]; c != nil {
		c.Inc()
	} else if c := r.others[call]; c != nil {
		c.Inc()
	}
}

// Refused counts messages that were refused before the engine saw them.
func (r *Requests) Refused(messages int) { r.refused.Add(float64(messages)) }
