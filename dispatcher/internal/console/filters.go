package console

import (
	"cmp"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/ladder"
)

// filterNames are the API's filters of deliveries, in the order of the page.
var filterNames = paramsOf(client.Filter{}, "order", "limit", "cursor")

// paramsOf returns the names of a filter's parameters, from its tags in the client, without some.
func paramsOf(filter any, without ...string) (names []string) {
	t := reflect.TypeOf(filter)
	for i := range t.NumField() {
		if name := t.Field(i).Tag.Get("query"); !slices.Contains(without, name) {
			names = append(names, name)
		}
	}
	return names
}

// fill sets the fields of a filter to the values of a query, but for its times. tag names the
// tag of a field with the name of its parameter: query or json.
func fill(filter any, tag string, q url.Values) {
	v := reflect.ValueOf(filter).Elem()
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get(tag), ",")
		values := q[name]
		if len(values) == 0 {
			continue
		}
		switch to := v.Field(i).Addr().Interface().(type) {
		case *[]string:
			*to = values
		case *[]int:
			for _, text := range values {
				*to = append(*to, whole(text)) // the API rejects an invalid number
			}
		case *string:
			*to = values[0]
		case *bool:
			*to = values[0] == "true"
		}
	}
}

// filterWords are their names for people.
var filterWords = map[string]string{"dead_reason": "reason", "failed": "failed before", "subject_like": "subject like", "subject_ends": "number ends with"}

// deliveryFilter is a filter of deliveries, from the query of a page's URL.
type deliveryFilter struct {
	query        url.Values // the filter's own parameters
	since, until time.Time
	wrong        string // the error of the filter; empty: none known here
}

// filterOf parses a filter. A time may be in the API's format, in the format of a browser's
// field (in UTC), or a duration before now.
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
			f.wrong = fmt.Sprintf("%s: %q is not a time: write 2026-01-31T15:04, or 24h for the last 24 hours.", name, last)
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

// empty reports whether the filter selects everything.
func (f deliveryFilter) empty() bool { return len(f.query) == 0 }

// list returns the filter for a page of deliveries.
func (f deliveryFilter) list(limit int, cursor string) (c client.Filter) {
	fill(&c, "query", f.query)
	c.Since, c.Until, c.Limit, c.Cursor = f.since, f.until, limit, cursor
	return c
}

// job returns the filter for a job.
func (f deliveryFilter) job() (r wire.JobRequest) {
	fill(&r, "json", f.query)
	r.Since, r.Until = wire.Time{Time: f.since}, wire.Time{Time: f.until}
	return r
}

// ofJob returns the filter of an existing job.
func ofJob(j wire.JobFilter) deliveryFilter {
	f := deliveryFilter{query: url.Values{}}
	v := reflect.ValueOf(j)
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if v.Field(i).IsZero() {
			continue
		}
		switch value := v.Field(i).Interface().(type) {
		case []string:
			f.query[name] = value
		case bool:
			f.query.Set(name, "true")
		case wire.Time:
			f.query.Set(name, value.Text())
		}
	}
	return f
}

// url returns the URL of a page with this filter and other parameters.
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

// without returns the filter without one of its values.
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

// filterChip is one value of a filter. URL removes it.
type filterChip struct{ Name, Value, URL string }

// chips returns the values of the filter. Statuses are left out if the page has its own
// chips for them.
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

// hidden returns the hidden fields of a form that keep the filter.
func (f deliveryFilter) hidden() (list []filterChip) {
	for _, name := range filterNames {
		for _, value := range f.query[name] {
			list = append(list, filterChip{Name: name, Value: value})
		}
	}
	return list
}
