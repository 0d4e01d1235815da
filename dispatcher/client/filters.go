package client

import (
	"net/url"
	"reflect"
	"strconv"
	"time"
)

// The tags of a filter's fields describe the parameters of the API: query is the name of the
// parameter, doc a sentence, and words a list of dispatcher.WordLists. From them the API has
// its parameters and their documents, the commands their flags with the help, and the console
// the filters of its pages.

// Filter selects deliveries. An empty field matches everything, and a field with several
// values matches any of them.
type Filter struct {
	Statuses     []string  `query:"status" words:"status" doc:"A status."`
	Destinations []string  `query:"destination" doc:"A lane, an endpoint's id or uid, q_<name> for a queue, or a URL (its deliveries without a tenant, or those of the tenant that is named too)."` // lanes, endpoints' ids or UIDs, or URLs
	Tenants      []string  `query:"tenant" doc:"A tenant."`
	Topics       []string  `query:"topic" doc:"A topic, or a pattern such as payment.*."` // or patterns, such as payment.*
	Subjects     []string  `query:"subject" doc:"The caller's own reference, such as an order number, exactly."`
	SubjectLike  []string  `query:"subject_like" doc:"A subject as people write it: 8713, #8713 and ORDER 8713 find order_8713. Its last number of three or more digits counts, else its last part with a digit, else all of it. Prefixes do not match."` // not allowed in jobs
	SubjectEnds  []string  `query:"subject_ends" doc:"The last four or more digits of an order number: 4711 finds order_104711. Only messages that the store keeps are found, of each three last digits the newest 4,096 in a partition."`                // not allowed in jobs
	Reasons      []string  `query:"dead_reason" words:"reason" doc:"The reason of a dead delivery."`
	Failed       bool      `query:"failed" doc:"Only unfinished deliveries with a failed attempt."`
	Since        time.Time `query:"since" doc:"Accepted, ended, or due, by the order of the list, at this time or later."`
	Until        time.Time `query:"until" doc:"Accepted, ended, or due, by the order of the list, before this time."`
	Order        string    `query:"order" words:"order" doc:"The order of the list; since and until are of its time. accepted: the newest accepted first, whatever their states, for a list with tenant, destination or a subject, which has it by default. ended: only deliveries that have ended, newest first; the default if only such statuses are named. due: only waiting deliveries, by their next attempt, the earliest first. Other lists have deliveries that ended, newest first, then those in flight, ready ones, and waiting ones, by their next attempt; without a status they end with the deliveries that moved while they were read, and can show one twice."`
	Limit        int       `query:"limit"`  // 0: the API's default
	Cursor       string    `query:"cursor"` // NextCursor of the page before
}

// AttemptFilter selects attempts. An empty field matches everything, and a field with
// several values matches any of them.
type AttemptFilter struct {
	Destinations []string  `query:"destination" doc:"A lane, an endpoint's id or uid, q_<name> for a queue, or a URL (its deliveries without a tenant, or those of the tenant that is named too)."` // lanes, endpoints' ids or UIDs, or URLs
	Tenants      []string  `query:"tenant" doc:"A tenant. Found as long as the message is kept."`
	Topics       []string  `query:"topic" doc:"A topic, or a pattern such as payment.*. Found as long as the message is kept."` // or patterns, such as payment.*
	Subjects     []string  `query:"subject" doc:"The caller's own reference, such as an order number. Found as long as the message is kept."`
	Messages     []string  `query:"message" doc:"The id of a message."`
	Outcomes     []string  `query:"outcome" words:"event" doc:"An outcome."`
	StatusCodes  []int     `query:"status_code" doc:"The status of the receiver's response."`
	Jobs         []string  `query:"job" doc:"The id of a job: attempts of deliveries that it sent, as long as they are its own."`
	Since        time.Time `query:"since" doc:"Began at this time or later."`
	Until        time.Time `query:"until" doc:"Began before this time."`
	Limit        int       `query:"limit"`  // 0: the API's default
	Cursor       string    `query:"cursor"` // NextCursor of the page before
}

// EndedFilter selects the finished deliveries of an endpoint.
type EndedFilter struct {
	Statuses []string  `query:"status" words:"end-status" doc:"A status."` // none: all
	Since    time.Time `query:"since" doc:"Ended at this time or later."`
	Until    time.Time `query:"until" doc:"Ended before this time."`
	Limit    int       `query:"limit"`  // 0: the API's default
	Cursor   string    `query:"cursor"` // NextCursor or ResumeCursor of a page before
}

// DeadFilter selects groups of dead deliveries. An empty field matches everything, and a
// field with several values matches any of them.
type DeadFilter struct {
	Tenants      []string `query:"tenant" doc:"A tenant. The tenant of an endpoint that was deleted is not known: name its lane."`
	Destinations []string `query:"destination" doc:"A lane, an endpoint's id or uid, q_<name> for a queue, or a URL (its deliveries without a tenant, or those of the tenant that is named too)."` // lanes, endpoints' ids or UIDs, or URLs
	Reasons      []string `query:"dead_reason" words:"reason" doc:"The reason of the deaths."`
	Limit        int      `query:"limit"`  // 0: the API's default
	Cursor       string   `query:"cursor"` // NextCursor of the page before
}

// EndpointFilter selects endpoints.
type EndpointFilter struct {
	Tenants []string `query:"tenant" form:"tenant-or-none" doc:"A tenant; empty: the endpoints without a tenant."` // none: all
	States  []string `query:"state" words:"state" doc:"A state. With it or like, a page may be short, or empty, while next_cursor continues."`
	Like    string   `query:"like" doc:"A part of the uid, the tenant, or the host of the URL, in upper or lower case."`
	Limit   int      `query:"limit"`  // 0: the API's default
	Cursor  string   `query:"cursor"` // NextCursor of the page before
}

// AuditFilter selects entries of the audit log. An empty field matches everything, and a
// field with several values matches any of them.
type AuditFilter struct {
	By      []string  `query:"by" doc:"The caller: key:<name>, link:<id>, system or local."`
	What    []string  `query:"what" words:"audit" doc:"A kind of change, such as endpoint.delete."`
	Targets []string  `query:"target" doc:"What was changed: the id of an endpoint, a message, a job or a link, a lane, scheme, host and port of a URL, or * for all lanes."`
	Tenants []string  `query:"tenant" doc:"A tenant."`
	Since   time.Time `query:"since" doc:"At this time or later."`
	Until   time.Time `query:"until" doc:"Before this time."`
	Limit   int       `query:"limit"`  // 0: the API's default
	Cursor  string    `query:"cursor"` // NextCursor of the page before
}

// listQuery returns the query of a list: the fields of its filter that are not empty.
func listQuery(filter any) url.Values {
	q, v := url.Values{}, reflect.ValueOf(filter)
	for i := range v.NumField() {
		name := v.Type().Field(i).Tag.Get("query")
		if v.Field(i).IsZero() {
			continue
		}
		switch value := v.Field(i).Interface().(type) {
		case []string:
			q[name] = value
		case []int:
			for _, n := range value {
				q.Add(name, strconv.Itoa(n))
			}
		case time.Time:
			q.Set(name, value.UTC().Format(time.RFC3339Nano))
		case string:
			q.Set(name, value)
		case bool:
			q.Set(name, "true")
		case int:
			q.Set(name, strconv.Itoa(value))
		}
	}
	return q
}
