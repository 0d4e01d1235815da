package console

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/ladder"
)

// filterNames are the filters of deliveries as the API has them, in the order in which
// they are shown.
var filterNames = []string{"status", "destination", "tenant", "topic", "subject", "subject_like", "dead_reason", "failed", "since", "until"}

// filterWords are these names for people.
var filterWords = map[string]string{"dead_reason": "reason", "failed": "failed before", "subject_like": "subject like"}

// deliveryFilter selects deliveries, as the query of a page's URL does.
type deliveryFilter struct {
	query        url.Values // of what it selects alone
	since, until time.Time
	wrong        string // what is wrong with it; empty: nothing that is known here
}

// filterOf reads a filter. A time may be one of the API, one of a browser's field, which
// is in UTC here, or so long ago.
func filterOf(q url.Values, now time.Time) deliveryFilter {
	f := deliveryFilter{query: url.Values{}}
	for _, name := range filterNames {
		for _, value := range q[name] {
			if value = strings.TrimSpace(value); value != "" && !slices.Contains(f.query[name], value) {
				f.query.Add(name, value)
			}
		}
	}
	for name, at := range map[string]*time.Time{"since": &f.since, "until": &f.until} {
		values := f.query[name]
		if len(values) == 0 {
			continue
		}
		last := values[len(values)-1] // a form adds a newer one
		f.query.Set(name, last)
		var ok bool
		if *at, ok = timeOf(last, now); !ok {
			f.wrong = fmt.Sprintf("%s: %q is no time: write 2026-01-31T15:04, or 24h for what is younger than that.", name, last)
		}
	}
	return f
}

func timeOf(text string, now time.Time) (time.Time, bool) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04", "2006-01-02T15:04:05", "2006-01-02 15:04", "2006-01-02 15:04:05", "2006-01-02"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, true
		}
	}
	ago, err := ladder.ParseDuration(text)
	return now.Add(-ago), err == nil && ago > 0
}

// empty reports whether it selects everything.
func (f deliveryFilter) empty() bool { return len(f.query) == 0 }

// list is the filter for a page of deliveries.
func (f deliveryFilter) list(limit int, cursor string) client.Filter {
	return client.Filter{
		Statuses: f.query["status"], Topics: f.query["topic"], Tenants: f.query["tenant"], Subjects: f.query["subject"], SubjectLike: f.query["subject_like"], Destinations: f.query["destination"],
		Reasons: f.query["dead_reason"], Failed: f.query.Get("failed") == "true", Since: f.since, Until: f.until, Limit: limit, Cursor: cursor,
	}
}

// job is the filter for a job.
func (f deliveryFilter) job() wire.JobRequest {
	return wire.JobRequest{
		Status: f.query["status"], Topic: f.query["topic"], Tenant: f.query["tenant"], Subject: f.query["subject"], Destination: f.query["destination"],
		DeadReason: f.query["dead_reason"], Failed: f.query.Get("failed") == "true", Since: wire.Time{Time: f.since}, Until: wire.Time{Time: f.until},
	}
}

// ofJob is the filter of a job that there is.
func ofJob(j wire.JobFilter) deliveryFilter {
	f := deliveryFilter{query: url.Values{}}
	for name, values := range map[string][]string{
		"status": j.Status, "topic": j.Topic, "tenant": j.Tenant, "subject": j.Subject, "destination": j.Destination, "dead_reason": j.DeadReason,
	} {
		if len(values) > 0 {
			f.query[name] = values
		}
	}
	if j.Failed {
		f.query.Set("failed", "true")
	}
	for name, t := range map[string]wire.Time{"since": j.Since, "until": j.Until} {
		if !t.IsZero() {
			f.query.Set(name, t.Text())
		}
	}
	return f
}

// url is where a page shows it, with other parameters beside it.
func (f deliveryFilter) url(path string, others ...string) string {
	q := url.Values{}
	for name, values := range f.query {
		q[name] = values
	}
	for i := 0; i+1 < len(others); i += 2 {
		if others[i+1] != "" {
			q.Set(others[i], others[i+1])
		}
	}
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}

// without is the filter without one of its values.
func (f deliveryFilter) without(name, value string) deliveryFilter {
	less := deliveryFilter{query: url.Values{}}
	for n, values := range f.query {
		for _, v := range values {
			if n != name || v != value {
				less.query.Add(n, v)
			}
		}
	}
	return less
}

// filterChip is one value of a filter. Removing it leads to URL.
type filterChip struct{ Name, Value, URL string }

// chips are what it selects, but for statuses where these have chips of their own.
func (f deliveryFilter) chips(path string, statuses bool) (list []filterChip) {
	for _, name := range filterNames {
		if name == "status" && !statuses {
			continue
		}
		for _, value := range f.query[name] {
			list = append(list, filterChip{Name: cmp.Or(filterWords[name], name), Value: value, URL: f.without(name, value).url(path)})
		}
	}
	return list
}

// hidden are the fields of a form that keeps the filter.
func (f deliveryFilter) hidden() (list []filterChip) {
	for _, name := range filterNames {
		for _, value := range f.query[name] {
			list = append(list, filterChip{Name: name, Value: value})
		}
	}
	return list
}
